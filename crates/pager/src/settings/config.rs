//! Configuration from the environment block of the program.

use coldpress_codec::CodecKind;
use coldpress_engine::{Trigger, Tunables};
use coldpress_interface::config::STALL_FIRST_FAULT_MS;
use coldpress_interface::config::handed as names;
use coldpress_interface::triggers::Triggers;
use coldpress_storage::StorageKind;

/// Most handlers.
pub const MAX_HANDLERS: usize = 64;

/// Where pages are written back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBackFile {
    /// A descriptor that the program has inherited.
    pub descriptor: i32,
    /// Which file it must stand for: device and inode.
    pub identity: (u64, u64),
    /// Bytes that may be used of it.
    pub bytes: u64,
    /// Bytes that may be written in a day.
    pub daily_bytes: Option<u64>,
}

impl WriteBackFile {
    /// Reads descriptor, device, inode, size and limit, with blanks between them; no limit: `none`.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let mut number = || words.next()?.parse::<u64>().ok();
        let file = Self {
            descriptor: i32::try_from(number()?).ok()?,
            identity: (number()?, number()?),
            bytes: number()?,
            daily_bytes: None,
        };
        let daily_bytes = match words.next()? {
            "none" => None,
            limit => Some(limit.parse().ok()?),
        };
        Some(Self {
            daily_bytes,
            ..file
        })
    }
}

/// What `coldpress run` asked for. Of budget, cold age and triggers [`Pager::config`](crate::Pager::config) tells
/// what is in force now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Budget in bytes; `u64::MAX`: none.
    pub budget_bytes: u64,
    /// The budget that was asked for: more than `budget_bytes` where the limit of the memory group was in its way.
    pub asked_budget_bytes: u64,
    /// Age for eager compression in milliseconds; 0: none.
    pub cold_after_ms: u64,
    /// What may make the pager compress.
    pub triggers: Triggers,
    /// How pages are compressed.
    pub codec: CodecKind,
    /// How compressed pages are kept.
    pub storage: StorageKind,
    /// Milliseconds after which what is still compressed is stored anew, denser; 0: never. `None`: the pager
    /// chooses.
    pub recode_after_ms: Option<u64>,
    /// What the engine works by.
    pub tunables: Tunables,
    /// A variable that names a codec, a storage or a trigger which this library does not have: the
    /// program must not go on.
    pub unknown_name: Option<&'static str>,
    /// Open `/dev/userfaultfd`, if inherited.
    pub device: Option<i32>,
    /// Where pages are written back to.
    pub write_back: Option<WriteBackFile>,
    /// Process that `run` started.
    pub root_pid: u32,
    /// Whether this is the program that `run` was asked for, and not one that it has become since.
    pub first: bool,
    /// Whether programs that it starts are managed too.
    pub follow: bool,
    /// Whether it asks to be told of every fork, and fills children that no hook sees.
    pub raw_clones: bool,
    /// Evict at random, without regard to heat or budget: the seed.
    pub chaos: Option<u64>,
    /// Nanoseconds between two rounds of that, at least.
    pub chaos_rest_ns: u64,
    /// Delay of the first fault, in milliseconds (the watchdog's test).
    pub stall_first_fault_ms: u64,
}

/// A variable's value in an environment block.
///
/// # Safety
/// `environment` is a block as the kernel hands it to a program: pointers to C strings, ended
/// by a null pointer.
pub unsafe fn variable<'a>(
    environment: *const *const core::ffi::c_char,
    name: &str,
) -> Option<&'a [u8]> {
    let mut at = environment;
    // SAFETY: as the caller promises.
    unsafe {
        while !(*at).is_null() {
            let text = core::ffi::CStr::from_ptr(*at).to_bytes();
            let value = text.strip_prefix(name.as_bytes());
            if let Some(value) = value.and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// What the engine works by in a Linux program where nobody says otherwise. There are no accessed bits: a page
/// that comes back soon is what tells that it is hot. A thread that goes through memory in even steps waits ten times longer, a tenth as often.
pub const TUNABLES: Tunables = Tunables {
    second_chances: 15,
    read_ahead_first: true,
    ..Tunables::DEFAULT
};

/// Those, with what a list of `name=value` sets. `None`: it says what cannot be.
fn tuned(base: Tunables, list: &str) -> Option<Tunables> {
    let mut tunables = base;
    for line in list.split_ascii_whitespace() {
        tunables.set(line).ok()?;
    }
    tunables.check().is_ok().then_some(tunables)
}

impl Config {
    /// Whether this trigger may take pages.
    pub fn allows(&self, trigger: Trigger) -> bool {
        self.triggers.has(match trigger {
            Trigger::Eager => Triggers::EAGER,
            Trigger::Pressure => Triggers::PRESSURE,
            Trigger::Critical => Triggers::CRITICAL,
        })
    }

    /// Reads the variables. `None`: this process was not started by `coldpress run`.
    ///
    /// # Safety
    /// As [`variable`].
    pub unsafe fn from_environment(environment: *const *const core::ffi::c_char) -> Option<Self> {
        // SAFETY: as the caller promises.
        let text = |name| unsafe { variable(environment, name) };
        let get = |name| text(name).and_then(number);
        let name = |name| text(name).map(|value| core::str::from_utf8(value).unwrap_or(""));
        let codec = name(names::CODEC).map(|name| CodecKind::from_name(name).ok());
        let storage = name(names::STORAGE).map(StorageKind::from_name);
        let triggers = name(names::TRIGGER).map(|list| Triggers::from_text(list).ok());
        let chaos = get(names::CHAOS).filter(|&seed| seed != 0);
        let base = Tunables {
            second_chances: if chaos.is_some() {
                0
            } else {
                TUNABLES.second_chances
            },
            ..TUNABLES
        };
        let tunables = tuned(base, name(names::TUNABLES).unwrap_or(""));
        let unknown_name = match (codec, storage, triggers) {
            (Some(None), ..) => Some(names::CODEC),
            (_, Some(None), _) => Some(names::STORAGE),
            (.., Some(None)) => Some(names::TRIGGER),
            _ if tunables.is_none() => Some(names::TUNABLES),
            _ => None,
        };
        let budget_bytes = get(names::BUDGET_BYTES)?;
        Some(Self {
            budget_bytes,
            asked_budget_bytes: get(names::ASKED_BUDGET_BYTES).unwrap_or(budget_bytes),
            root_pid: get(names::ROOT_PID)? as u32,
            first: get(names::FIRST_PROGRAM) == Some(1),
            follow: get(names::FOLLOW) == Some(1),
            raw_clones: get(names::RAW_CLONES) == Some(1),
            cold_after_ms: get(names::COLD_AFTER_MS).unwrap_or(0),
            triggers: triggers.flatten().unwrap_or(Triggers::ALL),
            codec: codec.flatten().unwrap_or_else(CodecKind::best),
            storage: storage.flatten().unwrap_or_default(),
            recode_after_ms: get(names::RECODE_AFTER_MS),
            tunables: tunables.unwrap_or(base),
            unknown_name,
            device: get(names::DEVICE_FD).map(|fd| fd as i32),
            write_back: name(names::WRITE_BACK).and_then(WriteBackFile::parse),
            chaos,
            chaos_rest_ns: get(names::CHAOS_REST_MS)
                .unwrap_or(0)
                .saturating_mul(1_000_000),
            stall_first_fault_ms: get(STALL_FIRST_FAULT_MS).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_to_write_back_to_is_read_or_refused() {
        let file = WriteBackFile {
            descriptor: 900,
            identity: (64, 7),
            bytes: 1 << 30,
            daily_bytes: Some(5),
        };
        assert_eq!(WriteBackFile::parse("900 64 7 1073741824 5"), Some(file));
        let unlimited = WriteBackFile {
            daily_bytes: None,
            ..file
        };
        let text = "900 64 7 1073741824 none";
        assert_eq!(WriteBackFile::parse(text), Some(unlimited));
        for wrong in [
            "",
            "900 64 7 1073741824",
            "900 64 7 x none",
            "-1 64 7 1 none",
        ] {
            assert_eq!(WriteBackFile::parse(wrong), None, "{wrong}");
        }
    }
}
