//! A command in a terminal of its own: keys are sent to it, and what it draws is put on a screen (`vt100`), since only what
//! changes is drawn.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn some(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a size")
}

/// The command and the terminal's other end.
pub struct InTerminal {
    child: Child,
    master: File,
    /// Kept open, so that the modes can be read when the command has ended.
    terminal: OwnedFd,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl InTerminal {
    /// Starts a command as the leader of a session whose terminal this is.
    pub fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        let (mut master, mut terminal) = (0, 0);
        let size = libc::winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: both numbers are filled in, the size is valid, and the descriptors are nobody else's.
        let (master, terminal) = unsafe {
            let none = std::ptr::null_mut();
            let opened = libc::openpty(&mut master, &mut terminal, none, none.cast(), &size);
            assert_eq!(opened, 0, "openpty");
            libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
            (File::from_raw_fd(master), OwnedFd::from_raw_fd(terminal))
        };
        let stream = || terminal.try_clone().unwrap();
        command.stdin(stream()).stdout(stream()).stderr(stream());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        // SAFETY: the calls are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(some(rows), some(columns), 0)));
        let (mut reader, onto) = (master.try_clone().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                onto.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self {
            child,
            master,
            terminal,
            screen,
        }
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// What stands on the screen.
    pub fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until this stands on the screen.
    pub fn until_shown(&self, text: &str) {
        self.until(text, |screen| screen.contents().contains(text));
    }

    /// Waits until the screen of before is there again, with its cursor.
    pub fn until_restored(&self) {
        let restored = |screen: &vt100::Screen| !screen.alternate_screen() && !screen.hide_cursor();
        self.until("screen of before", restored);
    }

    /// Waits until this is so.
    pub fn until(&self, what: &str, condition: impl Fn(&vt100::Screen) -> bool) {
        let start = Instant::now();
        while !condition(self.screen.lock().unwrap().screen()) {
            let shown = self.shown();
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "no {what}:\n{shown}"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether lines are edited and keys echoed, as a shell leaves it to a program.
    pub fn is_cooked(&self) -> bool {
        // SAFETY: zeros are a valid structure, which the call fills in.
        let modes = unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.terminal.as_raw_fd(), &mut modes), 0);
            modes
        };
        modes.c_lflag & (libc::ICANON | libc::ECHO) == libc::ICANON | libc::ECHO
    }

    /// Gives the terminal another size, as a window that is dragged does.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = libc::winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        self.screen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(some(rows), some(columns));
        // SAFETY: a valid structure, and an open descriptor.
        unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size) };
    }

    /// Sends a signal to the command.
    pub fn signal(&self, number: i32) {
        // SAFETY: a child of ours that has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), number) };
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{:?}",
                self.shown()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The signal that ended it.
    pub fn ended_by(&mut self) -> Option<i32> {
        self.ended().signal()
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
