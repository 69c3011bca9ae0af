//! Preconditions: what this machine cannot show is said on standard error, never passed over.

/// Says that a test proves nothing here. With `COLDPRESS_FORBID_SKIPS=1` that is a failure.
///
/// # Panics
/// When skips are forbidden.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    eprintln!("SKIPPED: {test}: {why}");
    assert!(
        std::env::var_os("COLDPRESS_FORBID_SKIPS").is_none_or(|v| v != "1"),
        "{test} was skipped ({why}) and COLDPRESS_FORBID_SKIPS=1"
    );
}

/// Runs a program with other privileges.
pub(crate) const SETPRIV: &str = "/usr/bin/setpriv";

/// Whether this process is root.
pub fn is_root() -> bool {
    // SAFETY: geteuid only returns a number.
    unsafe { libc::geteuid() == 0 }
}

/// Whether the test is run by root; says so loudly where it is not.
pub fn root_or_skip() -> bool {
    if !is_root() {
        skipped("needs root");
    }
    is_root()
}

/// Whether `program` exists; says so loudly where it does not.
pub fn installed_or_skip(program: &str, package: &str) -> bool {
    let found = std::path::Path::new(program).exists();
    if !found {
        skipped(&format!("{program} is missing (apt-get install {package})"));
    }
    found
}

/// Whether ordinary users are kept from userfaultfd here, as is the default: the refusal tests
/// need it so; says so loudly where it is not.
pub fn restricted_or_skip() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    let restricted = setting.is_ok_and(|s| s.trim() == "0");
    if !restricted {
        skipped("vm.unprivileged_userfaultfd is not 0: nobody has the full tier here");
    }
    restricted
}

/// Whether programs can be run without the right to lock memory
/// ([`Managed::without_locking`](crate::Managed::without_locking)); says so if not.
pub fn unlocking_or_skip() -> bool {
    installed_or_skip(SETPRIV, "util-linux")
}
