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
    _removed: cleanup::Guard,
}

/// What a command needs around it: `$1` the root, `$2` mode and `$3` group of the device, `$4` the user, `$5` the script.
const AROUND: &str = r#"
set -e
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=0755 dev "$1/dev"
for node in null zero full random urandom tty; do cp -a "/dev/$node" "$1/dev/"; done
ln -s /proc/self/fd "$1/dev/fd"
mkdir -m 1777 "$1/dev/shm"
cp -a /dev/userfaultfd "$1/dev/"
chroot "$1" chown "root:$3" /dev/userfaultfd
chmod "$2" "$1/dev/userfaultfd"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
    chroot "$1" runuser --login "$4" --whitelist-environment=LC_ALL,DEBIAN_FRONTEND --command "set -e
$5"
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
