//! Where the control sockets of disks are: in the directories of run files, which only their owner can enter.

use crate::own_name;
use crate::refusal::Refusal;
use crate::statistics_dir;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

const PREFIX: &str = "disk-";
const SUFFIX: &str = ".sock";

/// Where the control socket of a disk of this name is to be.
pub fn own(name: &str) -> Result<PathBuf, Refusal> {
    let directory = statistics_dir::prepare()?;
    Ok(directory.join(format!("{PREFIX}{name}{SUFFIX}")))
}

/// A disk that is served.
pub struct Served {
    pub name: String,
    pub path: PathBuf,
}

/// All disks that are served and that this user can ask. What a disk left behind that was killed is none.
pub fn all() -> Vec<Served> {
    let mut found = Vec::new();
    for directory in statistics_dir::all() {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        found.extend(entries.filter_map(|entry| served(&entry.path())));
    }
    found.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
    found
}

fn served(path: &Path) -> Option<Served> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    UnixStream::connect(path).ok()?;
    Some(Served {
        name: name.to_owned(),
        path: path.to_owned(),
    })
}

/// The disk of this name, or the only one.
pub fn find(name: Option<&str>) -> Result<Served, Refusal> {
    let mut found = all();
    found.retain(|disk| name.is_none_or(|name| name == disk.name));
    match (found.len(), name) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(name)) => Err(
            Refusal::new(format!("no disk of yours called {name} is served"))
                .mend(format!("{} disk status", own_name::get())),
        ),
        (0, None) => Err(Refusal::new("no disk of yours is served").mend(format!(
            "{} disk serve --size 1G --socket PATH",
            own_name::get()
        ))),
        (_, Some(name)) => Err(Refusal::new(format!(
            "several users serve a disk called {name}: ask as one of them"
        ))),
        (_, None) => {
            let names: Vec<&str> = found.iter().map(|disk| &*disk.name).collect();
            Err(
                Refusal::new(format!("several disks are served: {}", names.join(", ")))
                    .mend(format!("name one: --disk {}", names[0])),
            )
        }
    }
}
