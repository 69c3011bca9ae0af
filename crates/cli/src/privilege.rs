//! Whether the kernel would start a program in secure mode (`AT_SECURE`).
//!
//! In secure mode the dynamic loader ignores `LD_PRELOAD`, so the pager would not start and the
//! program would run unmanaged. The kernel turns it on when the program's effective user or group
//! differs from the caller's real one after the setuid and setgid bits are applied, and for file
//! capabilities unless the real user is root (`cap_bprm_creds_from_file`).

use crate::process;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What makes the kernel choose secure mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secure {
    /// The setuid bit changes the user.
    SetUid,
    /// The setgid bit changes the group.
    SetGid,
    /// The file carries capabilities.
    FileCapabilities,
    /// `coldpress` itself runs with an effective user or group that is not its real one.
    Caller,
}

impl Secure {
    /// The reason as it follows "because" in a message.
    pub fn reason(self) -> &'static str {
        match self {
            Secure::SetUid => "it is setuid (it runs as another user)",
            Secure::SetGid => "it is setgid (it runs as another group)",
            Secure::FileCapabilities => "it carries file capabilities",
            Secure::Caller => "coldpress was itself started setuid or setgid",
        }
    }
}

/// Identity and restrictions under which a program would be started.
#[derive(Clone, Copy, Debug)]
struct Caller {
    real_user: u32,
    effective_user: u32,
    real_group: u32,
    effective_group: u32,
    no_new_privileges: bool,
}

/// What of a file decides over secure mode.
#[derive(Clone, Copy, Debug)]
struct FileRights {
    mode: u32,
    user: u32,
    group: u32,
    capabilities: bool,
    /// The file system is mounted nosuid.
    nosuid: bool,
}

/// Why the program at `path` would be started in secure mode, or `None`.
pub fn secure_mode(path: &Path, metadata: &Metadata) -> Option<Secure> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: these calls take no pointers and cannot fail.
    let (real_user, effective_user, real_group, effective_group) = unsafe {
        (
            libc::getuid(),
            libc::geteuid(),
            libc::getgid(),
            libc::getegid(),
        )
    };
    // SAFETY: both strings are terminated; a length of 0 asks only for the attribute's size.
    let capabilities = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    } > 0;
    let mut mount = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is terminated and `mount` has room for the answer; all zeros are a valid
    // value of the structure should the call fail.
    let mount = unsafe {
        libc::statvfs(path.as_ptr(), mount.as_mut_ptr());
        mount.assume_init()
    };
    let status = process::read("/proc/self/status").unwrap_or_default();
    let caller = Caller {
        real_user,
        effective_user,
        real_group,
        effective_group,
        no_new_privileges: status.lines().any(|line| line == "NoNewPrivs:\t1"),
    };
    let file = FileRights {
        mode: metadata.mode(),
        user: metadata.uid(),
        group: metadata.gid(),
        capabilities,
        nosuid: mount.f_flag & libc::ST_NOSUID != 0,
    };
    decide(caller, file)
}

fn decide(caller: Caller, file: FileRights) -> Option<Secure> {
    let honoured = !file.nosuid && !caller.no_new_privileges;
    let set_user = honoured && file.mode & libc::S_ISUID != 0;
    // Without group execution the setgid bit means mandatory locking.
    let group_bits = libc::S_ISGID | libc::S_IXGRP;
    let set_group = honoured && file.mode & group_bits == group_bits;
    let user = if set_user {
        file.user
    } else {
        caller.effective_user
    };
    let group = if set_group {
        file.group
    } else {
        caller.effective_group
    };
    if user != caller.real_user {
        return Some(if set_user {
            Secure::SetUid
        } else {
            Secure::Caller
        });
    }
    if group != caller.real_group {
        return Some(if set_group {
            Secure::SetGid
        } else {
            Secure::Caller
        });
    }
    (file.capabilities && !file.nosuid && caller.real_user != 0).then_some(Secure::FileCapabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Caller = Caller {
        real_user: 1000,
        effective_user: 1000,
        real_group: 100,
        effective_group: 100,
        no_new_privileges: false,
    };
    const ROOT: Caller = Caller {
        real_user: 0,
        effective_user: 0,
        real_group: 0,
        effective_group: 0,
        no_new_privileges: false,
    };
    const PLAIN: FileRights = FileRights {
        mode: 0o755,
        user: 0,
        group: 0,
        capabilities: false,
        nosuid: false,
    };

    const SETUID: FileRights = FileRights {
        mode: 0o4755,
        ..PLAIN
    };
    const SETGID: FileRights = FileRights {
        mode: 0o2755,
        ..PLAIN
    };
    const CAPABLE: FileRights = FileRights {
        capabilities: true,
        ..PLAIN
    };
    const CONFINED: Caller = Caller {
        no_new_privileges: true,
        ..USER
    };

    #[test]
    fn the_kernels_rules() {
        assert_eq!(decide(USER, PLAIN), None);
        assert_eq!(decide(USER, SETUID), Some(Secure::SetUid));
        assert_eq!(decide(USER, SETGID), Some(Secure::SetGid));
        assert_eq!(decide(USER, CAPABLE), Some(Secure::FileCapabilities));
        // Nothing changes hands: not secure.
        assert_eq!(decide(ROOT, SETUID), None);
        assert_eq!(decide(ROOT, SETGID), None);
        assert_eq!(decide(ROOT, CAPABLE), None);
        assert_eq!(
            decide(
                USER,
                FileRights {
                    user: 1000,
                    ..SETUID
                }
            ),
            None
        );
        assert_eq!(
            decide(
                ROOT,
                FileRights {
                    user: 1234,
                    ..SETUID
                }
            ),
            Some(Secure::SetUid)
        );
        // The bits are not honoured.
        assert_eq!(
            decide(
                USER,
                FileRights {
                    nosuid: true,
                    ..SETUID
                }
            ),
            None
        );
        assert_eq!(
            decide(
                USER,
                FileRights {
                    nosuid: true,
                    ..CAPABLE
                }
            ),
            None
        );
        assert_eq!(decide(CONFINED, SETUID), None);
        assert_eq!(decide(CONFINED, CAPABLE), Some(Secure::FileCapabilities));
        // setgid without group execution is mandatory locking.
        assert_eq!(
            decide(
                USER,
                FileRights {
                    mode: 0o2745,
                    ..PLAIN
                }
            ),
            None
        );
        let raised = Caller {
            effective_user: 0,
            ..USER
        };
        assert_eq!(decide(raised, PLAIN), Some(Secure::Caller));
    }
}
