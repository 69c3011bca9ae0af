//! Configuration from the environment block of the program.

use coldpress_interface::config as names;

/// What `coldpress run` asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Budget in bytes.
    pub budget_bytes: u64,
    /// Age for eager compression in milliseconds; 0: none.
    pub cold_after_ms: u64,
    /// Open `/dev/userfaultfd`, if inherited.
    pub device: Option<i32>,
    /// Process that `run` started.
    pub root_pid: u32,
    /// Evict without regard to the budget.
    pub chaos: bool,
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

impl Config {
    /// Reads the variables. `None`: this process was not started by `coldpress run`.
    ///
    /// # Safety
    /// As [`variable`].
    pub unsafe fn from_environment(environment: *const *const core::ffi::c_char) -> Option<Self> {
        // SAFETY: as the caller promises.
        let get = |name| unsafe { variable(environment, name) }.and_then(number);
        Some(Self {
            budget_bytes: get(names::BUDGET_BYTES)?,
            root_pid: get(names::ROOT_PID)? as u32,
            cold_after_ms: get(names::COLD_AFTER_MS).unwrap_or(0),
            device: get(names::DEVICE_FD).map(|fd| fd as i32),
            chaos: get(names::CHAOS).unwrap_or(0) != 0,
            stall_first_fault_ms: get(names::STALL_FIRST_FAULT_MS).unwrap_or(0),
        })
    }
}
