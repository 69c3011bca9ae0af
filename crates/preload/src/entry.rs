//! Constructor and destructor.
//!
//! The pager starts in the process that `coldpress run` made, and again when that process
//! replaces itself (`exec`, as wrapper scripts do). In any other process that inherits the
//! environment it waits until the program is worth a pager, and where one cannot start the program goes on
//! without. With `--no-follow` the library only removes itself from the environment there.

use crate::{environment, libc_files};
use coldpress_interface::config as names;
use coldpress_runtime::config::{Config, variable};
use coldpress_runtime::{decisions, dormant, fork, message, pager, run_file, start, sys, trace};
use core::ffi::{c_char, c_int, c_void};

type Constructor = extern "C" fn(c_int, *const *const c_char, *mut *mut c_char);

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: Constructor = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

unsafe extern "C" {
    fn __register_atfork(
        prepare: extern "C" fn(),
        parent: extern "C" fn(),
        child: extern "C" fn(),
        object: *mut c_void,
    ) -> c_int;
    static mut __dso_handle: u8;
}

extern "C" fn constructor(_: c_int, _: *const *const c_char, environment: *mut *mut c_char) {
    // SAFETY: libc hands constructors the environment block it got from the kernel.
    let config = unsafe { Config::from_environment(environment.cast_const().cast()) };
    let Some(config) = config else { return };
    let is_root = config.root_pid == sys::process_id();
    if !is_root && !config.follow {
        // SAFETY: as above; no other thread runs yet.
        unsafe { environment::leave(environment) };
        return;
    }
    // SAFETY: as above.
    unsafe { run_file::open(variable(environment.cast_const().cast(), names::RUN_FILE)) };
    if let Some(variable) = config.unknown_name {
        if !is_root {
            return;
        }
        message::say(format_args!(
            "{variable} names nothing that the pager's library has: the command and the library \
             are of different versions"
        ));
        sys::exit_process(125);
    }
    let pager = pager();
    // SAFETY: as above.
    unsafe {
        pager.configure(config);
        decisions::configure(variable(
            environment.cast_const().cast(),
            names::TRACE_DECISIONS,
        ));
        if is_root {
            trace::configure(variable(
                environment.cast_const().cast(),
                names::TRACE_LOCKS,
            ));
        }
    }
    pager.set_touch_before_fork(libc_files::touch);
    let started = match is_root {
        true => start::start(),
        false => start::start_dormant(),
    };
    match started {
        Err(error) if is_root => {
            message::say(format_args!("{}", error.explain()));
            sys::exit_process(125);
        }
        Err(_) => return,
        Ok(()) => {}
    }
    // This library is initialised first (build.rs), so these are registered before any other's:
    // they run last before the fork and first after it.
    // SAFETY: functions that live as long as the process; the handle is this library's.
    unsafe { __register_atfork(prepare, parent, child, (&raw mut __dso_handle).cast()) };
}

extern "C" fn destructor() {
    pager().publish_finally();
}

pub(crate) extern "C" fn prepare() {
    dormant::before_fork();
    fork::prepare();
}

pub(crate) extern "C" fn parent() {
    fork::parent();
    dormant::after_fork_in_parent();
}

pub(crate) extern "C" fn child() {
    fork::child();
    dormant::after_fork_in_child();
}
