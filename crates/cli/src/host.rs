//! Facts of this machine and process that decide the tier, as found and without judgement.

use crate::process;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The device node from which userfaultfds can be had without privilege.
pub const DEVICE: &str = "/dev/userfaultfd";
/// Oldest kernel with `UFFDIO_MOVE`.
pub const OLDEST_KERNEL: (u32, u32) = (6, 8);

const CAP_SYS_PTRACE: u32 = 19;
/// Where the kernel tells how long processes wait for memory.
pub const PRESSURE: &str = "/proc/pressure/memory";
const SYSCTL: &str = "/proc/sys/vm/unprivileged_userfaultfd";

/// The state of [`DEVICE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// There is no such node.
    Absent,
    /// It exists, with these permission bits, and this user may not open it.
    Closed {
        /// Permission bits.
        mode: u32,
    },
    /// This user may open it.
    Openable {
        /// Permission bits.
        mode: u32,
    },
}

/// What decides the tier.
#[derive(Clone, Debug)]
pub struct Host {
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Machine, as `uname -m` prints it.
    pub machine: String,
    /// Version of glibc, or `None` with another C library.
    pub glibc: Option<String>,
    /// Text of the sysctl `vm.unprivileged_userfaultfd`; `None` where the kernel has none.
    pub sysctl: Option<String>,
    /// State of the device node.
    pub node: Node,
    /// The effective user, by number and name.
    pub user: String,
    /// Whether that is root.
    pub root: bool,
    /// Whether CAP_SYS_PTRACE is effective in this process.
    pub ptrace: bool,
    /// Whether a started program will have CAP_SYS_PTRACE (it is in the ambient set).
    pub ambient_ptrace: bool,
    /// Seccomp mode of this process: 0 off, 1 strict, 2 filtered.
    pub seccomp: u32,
    /// Why this looks like a container, or `None`.
    pub container: Option<String>,
    /// Why the kernel does not tell how long processes wait for memory, or `None` where it does.
    pub memory_pressure_error: Option<String>,
    /// Why `PAGEMAP_SCAN` does not work, or `None` where it does.
    pub pagemap_scan_error: Option<String>,
}

impl Host {
    /// Looks at this machine and process.
    pub fn look() -> Self {
        let (kernel, machine) = uname();
        let status = process::read("/proc/self/status").unwrap_or_default();
        // SAFETY: the call takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        let root = user == 0;
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self {
            kernel,
            machine,
            glibc: glibc_version(),
            sysctl: fs::read_to_string(SYSCTL)
                .ok()
                .map(|text| text.trim().to_owned()),
            node: node(),
            user: user_name(&passwd, user),
            root,
            ptrace: has_capability(&status, "CapEff", CAP_SYS_PTRACE),
            ambient_ptrace: has_capability(&status, "CapAmb", CAP_SYS_PTRACE),
            seccomp: status_field(&status, "Seccomp")
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            container: container(
                |path| Path::new(path).exists(),
                |path| process::read(path).ok(),
                std::env::var("container").ok(),
            ),
            memory_pressure_error: fs::read_to_string(PRESSURE)
                .err()
                .map(|error| error.to_string()),
            pagemap_scan_error: crate::userfaultfd::pagemap_scan()
                .err()
                .map(|error| error.to_string()),
        }
    }

    /// Whether the kernel's version is new enough (unreadable versions are not).
    pub fn kernel_is_new_enough(&self) -> bool {
        parse_release(&self.kernel).is_some_and(|version| version >= OLDEST_KERNEL)
    }
}

fn uname() -> (String, String) {
    // SAFETY: `utsname` is plain bytes; zeros are a valid value.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` has room for the answer.
    unsafe { libc::uname(&mut names) };
    let text = |field: &[libc::c_char]| {
        let bytes = field
            .iter()
            .map(|&c| c.cast_unsigned())
            .take_while(|&b| b != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    };
    (text(&names.release), text(&names.machine))
}

/// Major and minor number in a kernel release such as `6.18.44-fc-v657`.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(target_env = "gnu")]
fn glibc_version() -> Option<String> {
    // SAFETY: glibc returns a pointer to a terminated constant string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(version.to_string_lossy().into_owned())
}

#[cfg(not(target_env = "gnu"))]
fn glibc_version() -> Option<String> {
    None
}

fn node() -> Node {
    let Ok(metadata) = fs::metadata(DEVICE) else {
        return Node::Absent;
    };
    let mode = metadata.mode() & 0o7777;
    if metadata.file_type().is_char_device() && may_read(Path::new(DEVICE)) {
        Node::Openable { mode }
    } else {
        Node::Closed { mode }
    }
}

/// The value of `name` in the text of `/proc/self/status`.
fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let rest = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(rest.trim())
}

fn has_capability(status: &str, set: &str, number: u32) -> bool {
    status_field(status, set)
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .is_some_and(|bits| bits & 1 << number != 0)
}

/// `1000 (joe)`, or the number alone where nobody has a name for it.
fn user_name(passwd: &str, user: u32) -> String {
    let number = user.to_string();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then_some(name)
    });
    name.map_or(number.clone(), |name| format!("{number} ({name})"))
}

/// The first sign of a container. `variable`: what its manager calls itself in the environment.
fn container(
    exists: impl Fn(&str) -> bool,
    read: impl Fn(&str) -> Option<String>,
    variable: Option<String>,
) -> Option<String> {
    let files = ["/.dockerenv", "/run/.containerenv"];
    if let Some(file) = files.into_iter().find(|path| exists(path)) {
        return Some(file.to_owned());
    }
    const MANAGER: &str = "/run/systemd/container";
    if let Some(manager) = read(MANAGER) {
        return Some(format!("{}, by {MANAGER}", manager.trim()));
    }
    if let Some(manager) = variable.filter(|manager| !manager.is_empty()) {
        return Some(format!("{manager}, by the variable container"));
    }
    // Seen from inside a namespace of its own the path is `/`; then one of the others is there.
    let groups = read("/proc/self/cgroup")?;
    let managers = [
        "docker",
        "kubepods",
        "libpod",
        "lxc",
        "containerd",
        "machine.slice",
    ];
    let manager = managers
        .into_iter()
        .find(|manager| groups.contains(manager))?;
    Some(format!("{manager}, by /proc/self/cgroup"))
}

/// Whether this process may open `path` for reading, by its effective identity.
fn may_read(path: &Path) -> bool {
    let Ok(text) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the path is terminated; the call changes nothing.
    unsafe { libc::faccessat(libc::AT_FDCWD, text.as_ptr(), libc::R_OK, libc::AT_EACCESS) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(parse_release("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(parse_release("6.8-rc1"), Some((6, 8)));
        assert_eq!(parse_release("nonsense"), None);
        assert!((6, 18) >= OLDEST_KERNEL && (6, 7) < OLDEST_KERNEL && (10, 0) >= OLDEST_KERNEL);
    }

    #[test]
    fn capabilities_are_read_from_the_status_text() {
        let status = "Name:\tx\nCapEff:\t0000000000080000\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert!(has_capability(status, "CapEff", CAP_SYS_PTRACE));
        assert!(!has_capability(status, "CapEff", 18));
        assert!(!has_capability(status, "CapAmb", CAP_SYS_PTRACE));
        assert_eq!(status_field(status, "Seccomp"), Some("2"));
        assert!(!has_capability("CapEff:\tzz", "CapEff", 0));
    }

    #[test]
    fn containers_are_known_by_their_signs() {
        let look = |present: &str, text: Option<(&str, &str)>, variable: Option<&str>| {
            container(
                |path| path == present,
                |path| {
                    text.filter(|(name, _)| *name == path)
                        .map(|(_, text)| text.to_owned())
                },
                variable.map(str::to_owned),
            )
        };
        assert_eq!(look("", None, None), None);
        assert_eq!(look("/.dockerenv", None, None).unwrap(), "/.dockerenv");
        let nspawn = Some(("/run/systemd/container", "systemd-nspawn\n"));
        assert_eq!(
            look("", nspawn, None).unwrap(),
            "systemd-nspawn, by /run/systemd/container"
        );
        assert!(look("", None, Some("lxc")).unwrap().starts_with("lxc"));
        assert_eq!(look("", None, Some("")), None);
        let pod = Some(("/proc/self/cgroup", "0::/kubepods.slice/pod1\n"));
        assert!(look("", pod, None).unwrap().starts_with("kubepods"));
        let plain = Some(("/proc/self/cgroup", "0::/user.slice/user-1000.slice\n"));
        assert_eq!(look("", plain, None), None);
    }

    #[test]
    fn users_are_told_by_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\njoe:x:1000:1000::/home/joe:/bin/sh\n";
        assert_eq!(user_name(passwd, 1000), "1000 (joe)");
        assert_eq!(user_name(passwd, 100), "100");
        assert_eq!(user_name("", 0), "0");
    }

    #[test]
    fn this_machine_is_described() {
        let host = Host::look();
        assert!(!host.kernel.is_empty() && !host.machine.is_empty());
        assert!(host.glibc.is_some());
    }
}
