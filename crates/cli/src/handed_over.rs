//! What a service manager says to the process that it has started by number, and which is meant for the program.
//!
//! systemd hands sockets over with `LISTEN_PID`, and wants to be woken by `WATCHDOG_PID`: a program that finds another
//! number there takes no notice. It would find ours, so those that name us name the program instead. What names another
//! process is meant for neither.

use std::ffi::CString;

/// Variables that hold the number of the process that they are meant for.
const NUMBERS: [&str; 3] = ["LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"];
/// The same by another number, of which the program cannot be told in time: without it the first one counts.
const OTHER_NUMBER: &str = "LISTEN_PIDFDID";

/// The entries that stay, and the names of those that are to hold the program's number.
pub fn split(environment: &[CString], own_pid: u32) -> (Vec<&CString>, Vec<&'static str>) {
    let own = own_pid.to_string();
    let value_of = |entry: &CString, name: &str| {
        let value = entry.as_bytes().strip_prefix(name.as_bytes());
        value.and_then(|rest| rest.strip_prefix(b"=").map(<[u8]>::to_vec))
    };
    let mut handed = Vec::new();
    let mut kept = Vec::new();
    for entry in environment {
        let named = NUMBERS
            .into_iter()
            .find(|name| value_of(entry, name).is_some_and(|value| value == own.as_bytes()));
        match named {
            Some(name) => handed.push(name),
            None => kept.push(entry),
        }
    }
    if handed.contains(&NUMBERS[0]) {
        kept.retain(|entry| value_of(entry, OTHER_NUMBER).is_none());
    }
    (kept, handed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_us_is_to_name_the_program() {
        let environment = [
            c"LISTEN_PID=42".to_owned(),
            c"LISTEN_FDS=1".to_owned(),
            c"LISTEN_PIDFDID=7".to_owned(),
            c"WATCHDOG_PID=43".to_owned(),
            c"LISTEN_PIDS=42".to_owned(),
        ];
        let (kept, handed) = split(&environment, 42);
        assert_eq!(handed, ["LISTEN_PID"]);
        assert_eq!(kept, [&environment[1], &environment[3], &environment[4]]);
        let (kept, handed) = split(&environment, 41);
        assert_eq!((kept.len(), handed.len()), (5, 0));
    }
}
