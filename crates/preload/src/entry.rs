//! Constructor and destructor.
//!
//! The pager starts in the process that `coldpress run` made, and again when that process
//! replaces itself (`exec`, as wrapper scripts do). What it becomes then may have no right to a pager (`setpriv`,
//! `gosu`, the entry points of containers drop theirs first): it goes on without, and that is said. In any other
//! process that inherits the environment it waits until the program is worth a pager, and where one cannot start the
//! program goes on without. With `--no-follow` the library only removes itself from the environment there.

use crate::the_pager::pager;
use crate::{environment, libc_files, libc_symbols, sanitizers, wrapped};
use coldpress_interface::config::{TRACE_FAULTS, TRACE_LOCKS, handed as names};
use coldpress_linux::filter;
use coldpress_linux::sys;
use coldpress_pager::life::start::{self, StartError};
use coldpress_pager::machine::memory_group;
use coldpress_pager::machine::message;
use coldpress_pager::machine::run_file;
use coldpress_pager::machine::{fault_trace, lock_trace};
use coldpress_pager::settings::config::{Config, variable};
use core::ffi::{c_char, c_int};
use core::fmt::Write;

type Constructor = extern "C" fn(c_int, *const *const c_char, *mut *mut c_char);

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: Constructor = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

extern "C" fn constructor(_: c_int, _: *const *const c_char, environment: *mut *mut c_char) {
    if !libc_symbols::is_glibc() {
        // SAFETY: no thread of the program runs yet, and the block is the C library's.
        unsafe { leave_alone(libc_symbols::environment()) };
        return;
    }
    // SAFETY: libc hands constructors the environment block it got from the kernel.
    if unsafe { variable(environment.cast_const().cast(), names::TRIAL) }.is_some() {
        answer_trial();
    }
    // SAFETY: as above.
    let config = unsafe { Config::from_environment(environment.cast_const().cast()) };
    let Some(config) = config else { return };
    // SAFETY: as above; no other thread runs yet.
    unsafe { environment::remove(environment, names::FIRST_PROGRAM) };
    let is_root = config.root_pid == sys::process_id();
    if !is_root && !config.follow {
        // SAFETY: as above; no other thread runs yet.
        unsafe { environment::leave(environment) };
        return;
    }
    // SAFETY: as above.
    unsafe { run_file::open(variable(environment.cast_const().cast(), names::RUN_FILE)) };
    // SAFETY: as above.
    if let Some(why) = unsafe { sanitizers::forbids_a_pager(environment.cast_const().cast()) } {
        if is_root {
            start::say_unmanaged_because(why);
            if !config.follow {
                // SAFETY: as above.
                unsafe { environment::leave(environment) };
            }
        }
        return;
    }
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
    // SAFETY: as above.
    if unsafe { start_pager(environment, config, is_root) } {
        wrapped::look_all_up();
        // This library is initialised first (build.rs), so these are registered before any
        // other's: they run last before the fork and first after it.
        libc_symbols::register_fork_hooks(prepare, parent, child);
    }
}

/// Configures the pager and starts it, at once in the first process. Whether the program has one.
///
/// # Safety
/// `environment` is an environment block that nothing else uses now, and no other thread runs yet.
unsafe fn start_pager(environment: *mut *mut c_char, config: Config, is_root: bool) -> bool {
    let pager = pager();
    let block = environment.cast_const().cast();
    // SAFETY: as the caller promises.
    unsafe {
        pager.configure(config);
        memory_group::configure(variable(block, names::MEMORY_GROUPS));
        pager
            .decisions
            .configure(variable(block, names::TRACE_DECISIONS));
        if is_root {
            lock_trace::configure(variable(block, TRACE_LOCKS));
            fault_trace::configure(variable(block, TRACE_FAULTS));
        }
    }
    let started = match is_root {
        true => pager.start(),
        false => pager.start_dormant(),
    };
    match started {
        Ok(()) => return true,
        // Nothing of what the person asked for has happened yet. (A traced program is to run as it does natively.)
        Err(error) if is_root && config.first && error != StartError::Traced => {
            message::say(format_args!("{}", error.explain()));
            sys::exit_process(125);
        }
        Err(error) if is_root => {
            start::say_unmanaged(error);
            if !config.follow {
                // SAFETY: as the caller promises; the pager has no thread.
                unsafe { environment::leave(environment) };
            }
        }
        Err(_) => {}
    }
    false
}

/// In a program of another C library, which gives its constructors no arguments: it runs as if the library were not
/// there. With `--follow` the library stays in the environment, for programs of glibc that it may start.
///
/// # Safety
/// `environment` is null, or an environment block that nothing else uses now.
unsafe fn leave_alone(environment: *mut *mut c_char) {
    if environment.is_null() {
        return;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let config = Config::from_environment(environment.cast_const().cast());
        if config.is_some_and(|config| !config.follow) {
            environment::leave(environment);
        }
    }
}

/// `coldpress run` tries in a process of its own whether the library can be loaded: no pager, no program.
fn answer_trial() -> ! {
    let mut text = coldpress_linux::text::Text::<64>::new();
    if let Some(number) = filter::refused_by_an_inherited_filter() {
        let _ = writeln!(text, "{} {number}", names::TRIAL_FORBIDDEN);
        message::answer(text.as_bytes());
        sys::exit_process(1)
    }
    let _ = writeln!(
        text,
        "{} {}",
        names::TRIAL_ANSWER,
        env!("CARGO_PKG_VERSION")
    );
    message::answer(text.as_bytes());
    sys::exit_process(0)
}

extern "C" fn destructor() {
    pager().publish_finally();
}

/// Before libc's `fork`, which takes the lock of the list of files next.
extern "C" fn prepare() {
    libc_files::hold();
    prepare_with(libc_files::touch);
}

extern "C" fn parent() {
    parent_plain();
    libc_files::let_go();
}

extern "C" fn child() {
    libc_files::let_go_in_child();
    child_plain();
}

/// Before a call that only copies the process.
pub(crate) fn prepare_plain() {
    prepare_with(|| ());
}

fn prepare_with(touch: impl FnOnce()) {
    pager().dormant.before_fork();
    pager().fork_prepare(touch);
}

/// After it, in the parent.
pub(crate) fn parent_plain() {
    pager().fork_parent();
    pager().dormant.after_fork_in_parent();
}

/// After it, in the child.
pub(crate) fn child_plain() {
    pager().fork_child();
    pager().after_fork_in_child();
}
