//! The tier: how far userfaultfd works for a program that this user starts.
//!
//! | tier | meaning |
//! |---|---|
//! | full | the pager sees the faults of the program and of the kernel working for it |
//! | user-mode-only | it sees only the program's own: a system call that touches a compressed page fails with EFAULT, after some have already consumed their data |
//! | none | no userfaultfd at all, or a kernel, processor or C library that Coldpress does not support |
//!
//! `run` needs the full tier. It is had through the system call (root, CAP_SYS_PTRACE, or the
//! sysctl) or through an open descriptor of `/dev/userfaultfd`, which the program inherits. The
//! tier is never guessed from those: the probe takes the pager's path once ([`userfaultfd::prove`]).

use crate::host::{Host, Node};
use crate::mend::{self, Missing};
use crate::userfaultfd::{self, Source};
use std::fs;
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// How far userfaultfd works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Faults from user and kernel mode.
    Full,
    /// Faults from user mode alone.
    UserModeOnly,
    /// Nothing that Coldpress could use.
    None,
}

impl Tier {
    /// Name as printed and as it stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Full => "full",
            Tier::UserModeOnly => "user-mode-only",
            Tier::None => "none",
        }
    }
}

/// The way by which the full tier is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The system call.
    SystemCall,
    /// A descriptor of `/dev/userfaultfd`, to be inherited by the program.
    Device {
        /// The descriptor's number. It stays open until this process ends.
        descriptor: RawFd,
        /// Whether we inherited it ourselves (otherwise we opened the node).
        inherited: bool,
    },
}

/// The outcome of the probe.
#[derive(Debug)]
pub struct Assessment {
    /// What was found out about the machine.
    pub host: Host,
    /// The tier reached.
    pub tier: Tier,
    /// How, for the full tier.
    pub access: Option<Access>,
    /// Features of the kernel's userfaultfd, where one could be created at all.
    pub features: Option<u64>,
    /// What the full tier lacks; empty if it is there.
    pub missing: Vec<Missing>,
}

impl Assessment {
    /// Probes this machine for a program that this process would start.
    pub fn take() -> Self {
        let host = Host::look();
        let mut missing = mend::unsupported(&host);
        let call = userfaultfd::create(Source::SystemCall);
        let user_only = userfaultfd::create(Source::UserModeOnly);
        let access = find_access(&host, &call);
        let source = match access {
            Some(access) => Some(source(access)),
            None => user_only.is_ok().then_some(Source::UserModeOnly),
        };
        let features = source.and_then(|source| {
            let uffd = userfaultfd::create(source).ok()?;
            userfaultfd::features(&uffd).ok()
        });
        if let Some(features) = features {
            missing.extend(mend::features(features));
        }
        if access.is_none() {
            missing.push(mend::access(&host, &call, &user_only));
        } else if missing.is_empty()
            && let Some(source) = source
            && let Err(error) = userfaultfd::prove(source)
        {
            missing.push(Missing {
                what: format!("userfaultfd can be created but does not work: {error}"),
                mends: vec![(
                    "see the kernel's messages".to_owned(),
                    "sudo dmesg | tail".to_owned(),
                )],
            });
        }
        let supported = mend::unsupported(&host).is_empty() && features.is_some();
        let tier = match access {
            Some(_) if missing.is_empty() => Tier::Full,
            None if supported && missing.len() == 1 => Tier::UserModeOnly,
            _ => Tier::None,
        };
        let access = access.filter(|_| tier == Tier::Full);
        Self {
            host,
            tier,
            access,
            features,
            missing,
        }
    }
}

/// The source of userfaultfds behind an access.
fn source(access: Access) -> Source {
    match access {
        Access::SystemCall => Source::SystemCall,
        Access::Device { descriptor, .. } => Source::Device(descriptor),
    }
}

/// A way to a userfaultfd that sees kernel faults and that a started program can go, too.
fn find_access<T>(host: &Host, call: &io::Result<T>) -> Option<Access> {
    // A capability that came from coldpress's own file is lost when the program is executed.
    let kept = host.root || host.ambient_ptrace || host.sysctl.as_deref() == Some("1");
    if call.is_ok() && kept {
        return Some(Access::SystemCall);
    }
    let opened = match host.node {
        Node::Openable { .. } => fs::File::open(crate::host::DEVICE).ok(),
        _ => None,
    };
    if let Some(file) = opened {
        let descriptor = file.into_raw_fd();
        if userfaultfd::create(Source::Device(descriptor)).is_ok() {
            let inherited = false;
            return Some(Access::Device {
                descriptor,
                inherited,
            });
        }
        // SAFETY: we opened the descriptor above and nobody else knows it.
        unsafe { libc::close(descriptor) };
    }
    inherited_descriptor().map(|descriptor| Access::Device {
        descriptor,
        inherited: true,
    })
}

/// A descriptor of `/dev/userfaultfd` that a program which has the system call shall inherit all the same: what it
/// becomes may have dropped the right to that (`setpriv`, `gosu`). Only one that we were given ourselves: whoever opened
/// it wants it in the hands of those.
pub fn handed_down() -> Option<RawFd> {
    inherited_descriptor()
}

/// A descriptor of `/dev/userfaultfd` that we were started with: the one named in the
/// environment, or any that the list of open files shows.
fn inherited_descriptor() -> Option<RawFd> {
    let named = std::env::var(coldpress_interface::config::DEVICE_FD).ok();
    let named = named
        .and_then(|text| text.parse::<RawFd>().ok())
        .filter(|fd| *fd >= 0);
    let works =
        |fd: &RawFd| is_misc_device(*fd) && userfaultfd::create(Source::Device(*fd)).is_ok();
    if let Some(fd) = named.filter(works) {
        return Some(fd);
    }
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // The name is checked before the ioctl: another driver could take its number for something else.
    let mut open: Vec<RawFd> = entries
        .flatten()
        .filter(|entry| {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            target
                .as_os_str()
                .as_bytes()
                .starts_with(crate::host::DEVICE.as_bytes())
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    open.sort_unstable();
    open.into_iter().find(works)
}

/// Whether the descriptor is a character device of the "misc" major number, as userfaultfd is.
fn is_misc_device(fd: RawFd) -> bool {
    fs::metadata(format!("/proc/self/fd/{fd}")).is_ok_and(|metadata| {
        metadata.file_type().is_char_device() && libc::major(metadata.rdev()) == 10
    })
}
