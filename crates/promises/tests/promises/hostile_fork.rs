//! Children that can have no pager: they have all content, in their parent's protections, and go on without.
//! Story: they ended with status 125 after `setuid`, in a `chroot`, under Landlock, where the process was not dumpable or
//! no thread could be made, and by SIGSEGV if libc's `clone` made them, no descriptor was free, or the
//! first thread had ended.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;

const PROGRAM: &str = "hostile_fork";
const ARGUMENTS: [&str; 2] = ["71", "24"];

fn natively(place: &Workplace, how: &str) -> bool {
    let mut command = Command::new(place.compile(PROGRAM));
    command.args(ARGUMENTS).arg(how);
    let outcome = process::run(place, command, std::time::Duration::from_secs(60));
    outcome.verdict().is_some()
}

fn as_root(how: &str) {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new(PROGRAM);
    if natively(&place, how) {
        let program = place.compile(PROGRAM);
        let arguments = ARGUMENTS.into_iter().chain([how]);
        Managed::new(&place)
            .budget("12M")
            .survive(&program, arguments);
    }
}

fn as_nobody(how: &str) {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new(PROGRAM);
    let program = place.compile(PROGRAM);
    let arguments = ARGUMENTS.into_iter().chain([how]);
    match Managed::new(&place).budget("12M").as_nobody().with_device() {
        Ok(managed) => drop(managed.survive(&program, arguments)),
        Err(e) => skip::skipped(&format!("/dev/userfaultfd: {e}")),
    }
}

macro_rules! children {
    ($($name:ident: $how:literal by $($user:ident)+;)*) => {
        $(
            #[test]
            fn $name() {
                $($user($how);)+
            }
        )*
    };
}

children! {
    after_setuid: "setuid" by as_root;
    after_seteuid: "seteuid" by as_root;
    after_seteuid_and_back: "seteuid_back" by as_root;
    after_setresuid: "setresuid" by as_root;
    without_capabilities: "capabilities" by as_root;
    without_new_privileges: "no_new_privileges" by as_root as_nobody;
    in_a_chroot: "chroot" by as_root;
    in_a_chroot_as_another_user: "chroot_setuid" by as_root;
    under_landlock: "landlock" by as_root as_nobody;
    that_are_not_dumpable: "dumpable" by as_root as_nobody;
    without_a_free_descriptor: "files" by as_root as_nobody;
    without_a_further_thread: "threads" by as_nobody;
    under_a_filter: "filter" by as_root as_nobody;
    under_a_filter_that_hides_the_mappings: "filter_and_no_maps" by as_root as_nobody;
    under_a_filter_that_refuses_threads: "filter_threads" by as_root as_nobody;
    whose_first_thread_has_ended: "main_left" by as_root as_nobody;
    by_clone: "clone" by as_root as_nobody;
    by_clone_as_another_user: "clone_user" by as_root;
    by_system_call: "raw_fork" by as_root as_nobody;
    by_the_system_call_clone: "raw_clone" by as_root as_nobody;
    by_the_system_call_clone3: "raw_clone3" by as_root as_nobody;
}

/// Story: the hooks of a fork were the preload library's, and were gone when it had been finalized; destructors of other
/// libraries run after that. Their children got SIGSEGV in what was away.
#[test]
fn in_the_destructor_of_a_library() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("fork-in-destructor");
    let program = place.compile("fork_in_destructor");
    let library = place.compile_library("fork_in_destructor");
    let arguments = ["74", library.to_str().expect("a name")];
    let native = Command::new(&program).args(arguments).output().unwrap();
    assert!(native.status.success(), "natively: {native:?}");
    let managed = || Managed::new(&place).budget("8M");
    managed().survive(&program, arguments);
    managed().chaos().survive(&program, arguments);
}
