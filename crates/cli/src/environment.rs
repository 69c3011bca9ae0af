//! The environment of the program: the caller's own, with what the pager is to be told. What another
//! `coldpress run` around this one has told its pager is left out.
//!
//! One value is not known before `fork`: the child's process id. Its entry is a buffer of fixed
//! size that the child fills in with [`RootPid::write`], which is async-signal-safe: it takes no
//! lock and allocates nothing.

use crate::preload_library;
use coldpress_codec::CodecKind;
use coldpress_interface::config::handed;
use coldpress_interface::triggers::Triggers;
use coldpress_storage::StorageKind;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

const LD_PRELOAD: &str = "LD_PRELOAD";

/// What the pager is to be told.
#[derive(Debug)]
pub struct Settings<'a> {
    /// Budget in bytes.
    pub budget_bytes: u64,
    /// The budget that was asked for: it is in force where the memory group allows it.
    pub asked_budget_bytes: u64,
    /// The memory groups that the program is in, as [`handed::MEMORY_GROUPS`] says it.
    pub memory_groups: Option<OsString>,
    /// Age from which pages are compressed eagerly; 0: none.
    pub cold_after_ms: u64,
    /// What may make the pager compress.
    pub triggers: Triggers,
    /// How pages are compressed.
    pub codec: CodecKind,
    /// How compressed pages are kept.
    pub storage: StorageKind,
    /// Milliseconds after which what is compressed is stored anew, denser; 0: never. `None`: as the pager
    /// chooses.
    pub recode_after_ms: Option<u64>,
    /// Values of the engine's tunables, as `name=value` with blanks between them.
    pub tunables: &'a str,
    /// Pages are evicted at random: the seed.
    pub chaos: Option<u64>,
    /// Milliseconds between two rounds of that; 0: as few as can be.
    pub chaos_rest_ms: u64,
    /// Children that no hook sees are filled.
    pub raw_clones: bool,
    /// Whether programs that the program starts are managed too.
    pub follow: bool,
    /// Where a trace of decisions goes.
    pub trace: Option<&'a Path>,
    /// The run file.
    pub run_file: &'a Path,
    /// Descriptor of `/dev/userfaultfd`, if the system call cannot be used.
    pub device: Option<RawFd>,
    /// Where pages are written back to, as [`handed::WRITE_BACK`] says it.
    pub write_back: Option<String>,
    /// The pager's library.
    pub library: &'a Path,
}

impl Settings<'_> {
    /// The whole environment, without the entry for the child's process id ([`RootPid`]).
    pub fn environment(&self) -> Vec<CString> {
        self.environment_over(env::vars_os())
    }

    fn environment_over(
        &self,
        inherited: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<CString> {
        let mut preloaded = None;
        let mut entries = Vec::new();
        for (name, value) in inherited {
            if name == LD_PRELOAD {
                preloaded = Some(value);
            } else if !name.as_bytes().starts_with(handed::PREFIX.as_bytes()) {
                entries.push(entry(&name, &value));
            }
        }
        let mut set = |name: &str, value: &OsStr| entries.push(entry(OsStr::new(name), value));
        let number = |number: u64| OsString::from(number.to_string());
        set(handed::BUDGET_BYTES, &number(self.budget_bytes));
        if self.asked_budget_bytes != self.budget_bytes {
            set(handed::ASKED_BUDGET_BYTES, &number(self.asked_budget_bytes));
        }
        if let Some(groups) = &self.memory_groups {
            set(handed::MEMORY_GROUPS, groups);
        }
        if self.cold_after_ms > 0 {
            set(handed::COLD_AFTER_MS, &number(self.cold_after_ms));
        }
        if let Some(seed) = self.chaos {
            set(handed::CHAOS, &number(seed));
            if self.chaos_rest_ms > 0 {
                set(handed::CHAOS_REST_MS, &number(self.chaos_rest_ms));
            }
        }
        if self.raw_clones {
            set(handed::RAW_CLONES, OsStr::new("1"));
        }
        if let Some(age_ms) = self.recode_after_ms {
            set(handed::RECODE_AFTER_MS, &number(age_ms));
        }
        if !self.tunables.is_empty() {
            set(handed::TUNABLES, self.tunables.as_ref());
        }
        set(handed::FIRST_PROGRAM, OsStr::new("1"));
        if self.follow {
            set(handed::FOLLOW, OsStr::new("1"));
        }
        if let Some(file) = self.trace {
            set(handed::TRACE_DECISIONS, file.as_os_str());
        }
        set(handed::TRIGGER, self.triggers.to_string().as_ref());
        set(handed::CODEC, self.codec.to_string().as_ref());
        set(handed::STORAGE, self.storage.name().as_ref());
        set(handed::RUN_FILE, self.run_file.as_os_str());
        if let Some(descriptor) = self.device {
            set(handed::DEVICE_FD, &OsString::from(descriptor.to_string()));
        }
        if let Some(file) = &self.write_back {
            set(handed::WRITE_BACK, file.as_ref());
        }
        set(handed::PRELOAD_PATH, self.library.as_os_str());
        set(
            LD_PRELOAD,
            &preload_library::prepend(self.library, preloaded.as_deref()),
        );
        entries.into_iter().flatten().collect()
    }
}

/// `NAME=value`, or `None` where it holds a zero byte, which no environment can.
fn entry(name: &OsStr, value: &OsStr) -> Option<CString> {
    let mut text = name.to_owned();
    text.push("=");
    text.push(value);
    CString::new(text.into_vec()).ok()
}

/// The entry `_COLDPRESS_ROOT_PID=`, completed by the child itself.
#[derive(Debug)]
pub struct RootPid {
    bytes: Vec<u8>,
    digits_at: usize,
}

/// Digits of the largest process id, and the terminating zero.
const DIGITS: usize = 11;

impl RootPid {
    /// The entry with room for the number.
    pub fn new() -> Self {
        Self::named(handed::ROOT_PID)
    }

    /// The same, of another variable that tells the program its own number.
    pub fn named(name: &str) -> Self {
        let mut bytes = format!("{name}=").into_bytes();
        let digits_at = bytes.len();
        bytes.resize(digits_at + DIGITS, 0);
        Self { bytes, digits_at }
    }

    /// Writes the process id, in decimal and terminated. Async-signal-safe.
    pub fn write(&mut self, pid: u32) {
        let room = &mut self.bytes[self.digits_at..];
        let (mut rest, mut length) = (pid / 10, 1);
        while rest > 0 {
            rest /= 10;
            length += 1;
        }
        rest = pid;
        for place in room[..length].iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        room[length..].fill(0);
    }

    /// The terminated entry. It stays at this address as long as the value lives.
    pub fn as_ptr(&self) -> *const libc::c_char {
        self.bytes.as_ptr().cast()
    }
}

/// A program argument as a terminated string.
pub fn argument(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn the_process_id_is_written_in_place() {
        let mut entry = RootPid::new();
        let address = entry.as_ptr();
        for pid in [1, 10, 4_194_304, u32::MAX, 7] {
            entry.write(pid);
            // SAFETY: the entry ends with at least one zero byte.
            let text = unsafe { CStr::from_ptr(entry.as_ptr()) };
            assert_eq!(text.to_str().unwrap(), format!("_COLDPRESS_ROOT_PID={pid}"));
            assert_eq!(entry.as_ptr(), address);
        }
    }

    #[test]
    fn inherited_settings_are_replaced_and_the_rest_is_kept() {
        let inherited = [
            ("HOME", "/h"),
            ("LD_PRELOAD", "a.so"),
            ("_COLDPRESS_BUDGET_BYTES", "1"),
            ("_COLDPRESS_ROOT_PID", "1"),
            ("_COLDPRESS_COLD_AFTER_MS", "1"),
            ("_COLDPRESS_DEVICE_FD", "1"),
            ("_COLDPRESS_WRITE_BACK", "1"),
            ("_COLDPRESS_CHAOS", "2"),
            ("_COLDPRESS_CHAOS_REST_MS", "9"),
            ("_COLDPRESS_RECODE_AFTER_MS", "1"),
            ("_COLDPRESS_RAW_CLONES", "2"),
            ("_COLDPRESS_FOLLOW", "1"),
            ("_COLDPRESS_TRACE_DECISIONS", "/x"),
            ("_COLDPRESS_OF_A_LATER_VERSION", "/x"),
            ("COLDPRESS_BUDGET", "1G"),
            ("COLDPRESS_CODEC", "lzo"),
        ];
        let inherited = inherited
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        let settings = Settings {
            budget_bytes: 64 << 20,
            asked_budget_bytes: 65 << 20,
            memory_groups: Some("256 240 /g".into()),
            cold_after_ms: 0,
            triggers: Triggers::ALL,
            recode_after_ms: Some(0),
            tunables: "",
            chaos: Some(1),
            chaos_rest_ms: 5,
            raw_clones: true,
            follow: false,
            trace: None,
            codec: CodecKind::Zstd { level: -7 },
            storage: StorageKind::SizeClass,
            run_file: Path::new("/s/1.run"),
            device: Some(9),
            write_back: Some("900 64 7 4096 none".to_owned()),
            library: Path::new("/l.so"),
        };
        let mut entries: Vec<String> = settings
            .environment_over(inherited)
            .into_iter()
            .map(|e| e.into_string().unwrap())
            .collect();
        entries.sort();
        let expected = [
            "COLDPRESS_BUDGET=1G",
            "COLDPRESS_CODEC=lzo",
            "HOME=/h",
            "LD_PRELOAD=/l.so:a.so",
            "_COLDPRESS_ASKED_BUDGET_BYTES=68157440",
            "_COLDPRESS_BUDGET_BYTES=67108864",
            "_COLDPRESS_CHAOS=1",
            "_COLDPRESS_CHAOS_REST_MS=5",
            "_COLDPRESS_CODEC=zstd:-7",
            "_COLDPRESS_DEVICE_FD=9",
            "_COLDPRESS_FIRST_PROGRAM=1",
            "_COLDPRESS_MEMORY_GROUPS=256 240 /g",
            "_COLDPRESS_PRELOAD_PATH=/l.so",
            "_COLDPRESS_RAW_CLONES=1",
            "_COLDPRESS_RECODE_AFTER_MS=0",
            "_COLDPRESS_RUN_FILE=/s/1.run",
            "_COLDPRESS_STORAGE=size-class",
            "_COLDPRESS_TRIGGER=eager,pressure,critical",
            "_COLDPRESS_WRITE_BACK=900 64 7 4096 none",
        ];
        assert_eq!(entries, expected);
        let follows = Settings {
            follow: true,
            trace: Some(Path::new("/t")),
            ..settings
        };
        let entries = follows.environment_over(std::iter::empty());
        assert!(entries.contains(&c"_COLDPRESS_FOLLOW=1".into()));
        assert!(entries.contains(&c"_COLDPRESS_TRACE_DECISIONS=/t".into()));
    }
}
