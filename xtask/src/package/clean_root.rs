//! A clean root: the least of Debian that `apt` works in, made by `mmdebstrap`, and commands in it.
//!
//! Each command has its own namespaces of mounts and processes: what it mounts, and what it leaves running, is gone with
//! it. `/dev` is a fresh tmpfs with the usual nodes and `/dev/userfaultfd`, which is root's alone, or as the udev rule of
//! the packages makes it.
//!
//! The root is unpacked anew each time from `target/package/clean-root.tar`, which is made once.

use super::command;
use anyhow::{Context, Result, bail};
use coldpress_harness::{cleanup, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The release of Debian that it is of: the oldest one whose glibc the packages are built for.
const SUITE: &str = "bookworm";

/// The user in it who may do nothing special, and is in the group `users`.
pub const USER: &str = "joe";

/// The user that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Root.
    Root,
    /// [`USER`], where the device is root's.
    User,
    /// [`USER`], where the udev rule is in force.
    UserWithRule,
}

/// Mode and group that the udev rule gives the device.
pub struct Rule {
    mode: String,
    group: String,
}

impl Rule {
    /// Reads the rule's file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let rule = text
            .lines()
            .find(|line| line.starts_with("KERNEL==\"userfaultfd\""));
        let rule =
            rule.with_context(|| format!("{} has no rule for the device", path.display()))?;
        let value = |key: &str| {
            let part = rule.split(", ").find_map(|part| part.strip_prefix(key));
            let value = part.and_then(|part| part.strip_prefix("=\"")?.strip_suffix('"'));
            value
                .map(str::to_owned)
                .with_context(|| format!("the rule has no {key}"))
        };
        Ok(Self {
            mode: value("MODE")?,
            group: value("GROUP")?,
        })
    }
}

/// The root, removed when it is dropped.
pub struct CleanRoot {
    path: PathBuf,
    rule: Rule,
    /// Directories of this machine, and where they are seen in it.
    seen: Vec<(PathBuf, &'static str)>,
    _removed: cleanup::Guard,
}

/// What a command needs around it: `$1` the root, `$2` mode and `$3` group of the device, `$4` the user, `$5` the script;
/// then directories of this machine and where they are seen in the root, read-only, in pairs.
const AROUND: &str = r#"
set -e
root=$1 mode=$2 group=$3 user=$4 script=$5
shift 5
while [ $# -gt 0 ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
    shift 2
done
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=0755 dev "$root/dev"
for node in null zero full random urandom tty; do cp -a "/dev/$node" "$root/dev/"; done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm"
cp -a /dev/userfaultfd "$root/dev/"
chroot "$root" chown "root:$group" /dev/userfaultfd
chmod "$mode" "$root/dev/userfaultfd"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
    chroot "$root" runuser --login "$user" --whitelist-environment=LC_ALL,DEBIAN_FRONTEND --command "set -e
$script"
"#;

impl CleanRoot {
    /// Unpacks it.
    pub fn make(rule: Rule) -> Result<Self> {
        let directory = workspace::target_dir()?.join("package");
        let tar = directory.join("clean-root.tar");
        if !tar.exists() {
            bootstrap(&tar)?;
        }
        let path = directory.join("clean-root");
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        let (path, removed) = cleanup::acquire(
            format!("directory {}", path.display()),
            || {
                fs::create_dir(&path)?;
                Ok(path.clone())
            },
            |path| Ok(fs::remove_dir_all(path)?),
        )?;
        let mut unpack = Command::new("tar");
        unpack.arg("-C").arg(&path).arg("-xpf").arg(&tar);
        command::text(&mut unpack)?;
        // For what is installed later in it, as this machine has it.
        let _ = fs::copy("/etc/resolv.conf", path.join("etc/resolv.conf"));
        let root = Self {
            path,
            rule,
            seen: Vec::new(),
            _removed: removed,
        };
        let made = root.run(
            Who::Root,
            &format!("useradd --create-home --groups users {USER}"),
        )?;
        if !made.status.success() {
            bail!("the clean root takes no user: {}", command::said(&made));
        }
        Ok(root)
    }

    /// Copies a file into its directory `/packages`, for everybody to read.
    pub fn bring(&self, file: &Path) -> Result<()> {
        let directory = self.path.join("packages");
        fs::create_dir_all(&directory)?;
        let name = file.file_name().context("a file has a name")?;
        fs::copy(file, directory.join(name))?;
        Ok(())
    }

    /// Lets what runs in it from now on see a directory of this machine as `place`, and not write there.
    pub fn show(&mut self, directory: PathBuf, place: &'static str) {
        self.seen.push((directory, place));
    }

    /// Runs a script in it.
    pub fn run(&self, who: Who, script: &str) -> Result<Output> {
        let (mode, group) = match who {
            Who::UserWithRule => (self.rule.mode.as_str(), self.rule.group.as_str()),
            _ => ("0600", "root"),
        };
        let user = match who {
            Who::Root => "root",
            _ => USER,
        };
        // Where this task is killed, its namespaces end with it.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "unshare"])
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--propagation",
                "private",
            ])
            .args(["--", "sh", "-c", AROUND, "sh"])
            .arg(&self.path)
            .args([mode, group, user, script]);
        for (directory, place) in &self.seen {
            command.arg(directory).arg(place);
        }
        command::finished(&mut command)
    }
}

/// Makes the least of Debian that `apt` works in, out of the archive that this machine uses.
fn bootstrap(tar: &Path) -> Result<()> {
    eprintln!("making a clean root of Debian {SUITE}: {}", tar.display());
    let fresh = tar.with_extension("new.tar");
    let mut bootstrap = Command::new("mmdebstrap");
    bootstrap
        .args(["--variant=apt", "--mode=root", SUITE])
        .arg(&fresh);
    let sources = Path::new("/etc/apt/sources.list.d/debian.sources");
    if sources.exists() {
        bootstrap.arg(sources);
    }
    let made = command::text(&mut bootstrap);
    made.context(
        "no clean root could be made; it needs root and an archive of Debian that apt-get reaches",
    )?;
    fs::rename(&fresh, tar)?;
    Ok(())
}
