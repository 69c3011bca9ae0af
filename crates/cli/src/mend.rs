//! What is missing for the full tier, in words, with the exact commands that mend it.

use crate::host::{DEVICE, Host, Node, OLDEST_KERNEL};
use crate::own_name;
use crate::userfaultfd::FEATURES;
use std::io;

/// Something the full tier lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is missing and why it matters.
    pub what: String,
    /// Ways to mend it: for whom, and the exact command (either may be empty).
    pub mends: Vec<(String, String)>,
}

/// What no setting mends: the wrong processor, kernel or C library.
pub fn unsupported(host: &Host) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut lacks = |what: String, for_whom: &str| {
        missing.push(Missing {
            what,
            mends: vec![(for_whom.to_owned(), String::new())],
        });
    };
    if host.machine != "x86_64" {
        let what = format!(
            "this machine is {}; Coldpress supports x86_64 only",
            host.machine
        );
        lacks(what, "use an x86_64 machine");
    }
    if !host.kernel_is_new_enough() {
        let (major, minor) = OLDEST_KERNEL;
        lacks(
            format!(
                "this kernel is Linux {}; UFFDIO_MOVE, by which pages are taken out of a running program without loss and pinned pages are told apart, came with {major}.{minor}",
                host.kernel
            ),
            "boot Linux 6.8 or newer",
        );
    }
    if host.glibc.is_none() {
        lacks(
            "coldpress is not built for glibc; the pager needs it".to_owned(),
            "use a build for x86_64-unknown-linux-gnu",
        );
    }
    missing
}

/// The features that the pager needs and that are not in `present`.
pub fn features(present: u64) -> Option<Missing> {
    let absent: Vec<String> = FEATURES
        .iter()
        .filter(|feature| feature.required && present & feature.bit == 0)
        .map(|feature| format!("UFFD_FEATURE_{}", feature.name))
        .collect();
    (!absent.is_empty()).then(|| Missing {
        what: format!("the kernel's userfaultfd lacks {}", absent.join(", ")),
        mends: vec![(
            "boot Linux 6.8 or newer, built with CONFIG_USERFAULTFD=y".to_owned(),
            String::new(),
        )],
    })
}

/// Neither the system call nor the device gives a userfaultfd that sees kernel faults.
pub fn access<A, B>(host: &Host, call: &io::Result<A>, user_only: &io::Result<B>) -> Missing {
    let errno = |error: &io::Error| error.raw_os_error();
    let what = match (call, user_only) {
        (_, Ok(_)) => "this user may handle page faults of the program itself, but not those that the kernel takes for it: \
             a read, recv or wait4 into a compressed page would fail with EFAULT, and some lose their data by that"
            .to_owned(),
        (_, Err(error)) if errno(error) == Some(libc::ENOSYS) && host.seccomp == 0 => {
            "this kernel is built without userfaultfd (CONFIG_USERFAULTFD)".to_owned()
        }
        (_, Err(error)) if host.seccomp != 0 => {
            format!("a seccomp filter refuses the userfaultfd system call ({error}), as the default profiles of Docker, Podman and containerd do")
        }
        (_, Err(error)) => format!("the userfaultfd system call is refused ({error}), probably by a security module"),
    };
    let mends = match user_only {
        Err(error) if errno(error) == Some(libc::ENOSYS) && host.seccomp == 0 => {
            vec![mend("boot a kernel built with CONFIG_USERFAULTFD=y", "")]
        }
        // A filter that refuses the system call does so whatever the sysctl says.
        Err(_) => container_mends(host, SystemCall::Refused),
        Ok(_) if host.container.is_some() => container_mends(host, SystemCall::Allowed),
        Ok(_) => user_mends(host),
    };
    Missing { what, mends }
}

fn mend(for_whom: &str, command: impl Into<String>) -> (String, String) {
    (for_whom.to_owned(), command.into())
}

/// What becomes of the system call in a container, whoever makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SystemCall {
    Allowed,
    Refused,
}

fn container_mends(host: &Host, system_call: SystemCall) -> Vec<(String, String)> {
    let mut mends = vec![mend(
        "for a container (podman takes the same option)",
        format!("docker run --device {DEVICE} IMAGE …"),
    )];
    if host.node != Node::Absent {
        mends.push(mend(
            "in the container, as root: the device is closed to this user",
            format!("chmod 0666 {DEVICE}"),
        ));
        mends.push(one_command());
    }
    let on_the_host = |(for_whom, command)| (format!("on the host, {for_whom}"), command);
    if system_call == SystemCall::Allowed {
        mends.extend(sysctl_mends(host).into_iter().map(on_the_host));
        mends.push(on_the_host(udev_rule()));
    }
    mends
}

fn user_mends(host: &Host) -> Vec<(String, String)> {
    let mut mends = sysctl_mends(host);
    mends.push(udev_rule());
    mends.push(mend(
        "to become a member of the group (then log in again)",
        "sudo usermod -aG users \"$USER\"",
    ));
    mends.push(one_command());
    mends
}

fn sysctl_mends(host: &Host) -> Vec<(String, String)> {
    if host.sysctl.is_none() {
        return Vec::new();
    }
    vec![
        mend(
            "for every user, until the next boot",
            "sudo sysctl -w vm.unprivileged_userfaultfd=1",
        ),
        mend(
            "for every user, for good",
            "echo 'vm.unprivileged_userfaultfd = 1' | sudo tee /etc/sysctl.d/60-coldpress.conf && sudo sysctl --system",
        ),
    ]
}

fn udev_rule() -> (String, String) {
    mend(
        "for the group users, for good",
        format!(
            "echo 'KERNEL==\"userfaultfd\", MODE=\"0660\", GROUP=\"users\"' | sudo tee /etc/udev/rules.d/60-userfaultfd.rules \
             && sudo udevadm control --reload && sudo udevadm trigger --action=change {DEVICE}"
        ),
    )
}

fn one_command() -> (String, String) {
    // SAFETY: the calls take nothing and cannot fail.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    mend(
        "for one command, which runs as you",
        format!(
            "sudo sh -c 'exec 9<{DEVICE}; exec setpriv --reuid={user} --regid={group} --init-groups {} run …'",
            own_name::get()
        ),
    )
}

/// Why file capabilities, which seem the obvious way, are none.
pub const NO_SETCAP: &str = "setcap does not help: the program would not inherit the capability, and a program with file \
capabilities ignores LD_PRELOAD.";

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host {
            kernel: "6.8.0".into(),
            machine: "x86_64".into(),
            glibc: Some("2.36".into()),
            sysctl: Some("0".into()),
            node: Node::Closed { mode: 0o600 },
            user: "1000 (joe)".into(),
            root: false,
            ptrace: false,
            ambient_ptrace: false,
            seccomp: 0,
            container: None,
            memory_pressure_error: None,
            pagemap_scan_error: None,
        }
    }

    fn commands(missing: &Missing) -> String {
        missing
            .mends
            .iter()
            .map(|(_, command)| command.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn error(number: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(number))
    }

    #[test]
    fn an_ordinary_user_is_told_the_sysctl_the_rule_and_the_inherited_descriptor() {
        let missing = access(&host(), &error(libc::EPERM), &Ok(()));
        assert!(missing.what.contains("EFAULT"));
        let commands = commands(&missing);
        for word in [
            "sysctl -w vm.unprivileged_userfaultfd=1",
            "60-userfaultfd.rules",
            "udevadm",
            "exec 9<",
        ] {
            assert!(commands.contains(word), "{commands}");
        }
        assert!(!commands.contains("docker"));
    }

    #[test]
    fn a_container_is_told_the_device() {
        let filtered = Host {
            seccomp: 2,
            container: Some("/.dockerenv".into()),
            node: Node::Absent,
            ..host()
        };
        let missing = access(&filtered, &error(libc::EPERM), &error(libc::EPERM));
        assert!(missing.what.contains("seccomp"));
        assert!(commands(&missing).starts_with("docker run --device /dev/userfaultfd"));
    }

    #[test]
    fn a_kernel_without_userfaultfd_is_named() {
        let missing = access(&host(), &error(libc::ENOSYS), &error(libc::ENOSYS));
        assert!(missing.what.contains("CONFIG_USERFAULTFD"));
        assert_eq!(commands(&missing), "");
    }

    #[test]
    fn unsupported_machines_are_named() {
        assert_eq!(unsupported(&host()), []);
        let old = Host {
            kernel: "6.1.0-13-amd64".into(),
            machine: "aarch64".into(),
            glibc: None,
            ..host()
        };
        assert_eq!(unsupported(&old).len(), 3);
        assert_eq!(features(u64::MAX), None);
        assert!(features(0).unwrap().what.contains("UFFD_FEATURE_MOVE"));
    }
}
