//! Keys, out of the bytes that the terminal sends.

use super::terminal;
use std::io;
use std::time::Duration;
use termion::event::{Event, Key, parse_event};

/// The keys that come within a time; none where a signal came instead. An error: the terminal has gone.
pub fn keys(time: Duration) -> io::Result<Vec<Key>> {
    let mut one = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    let time = libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    let mask = terminal::waiting_mask();
    // SAFETY: one valid entry, a valid time and a valid set.
    match unsafe { libc::ppoll(&mut one, 1, &time, &mask) } {
        0 => return Ok(Vec::new()),
        1.. => {}
        _ => return interrupted(io::Error::last_os_error()),
    }
    let mut bytes = [0u8; 256];
    // SAFETY: the buffer is as long as told.
    let count = unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
    match usize::try_from(count) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(parse(&bytes[..count])),
        Err(_) => interrupted(io::Error::last_os_error()),
    }
}

fn interrupted(error: io::Error) -> io::Result<Vec<Key>> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(Vec::new()),
        _ => Err(error),
    }
}

/// What cannot be understood is no key. An escape by itself is the key of that name.
fn parse(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes.iter().map(|byte| Ok(*byte));
    while let Some(Ok(byte)) = rest.next() {
        let is_last = rest.len() == 0;
        match parse_event(byte, &mut rest) {
            _ if byte == 0x1b && is_last => keys.push(Key::Esc),
            Ok(Event::Key(key)) => keys.push(key),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys() {
        for (bytes, keys) in [
            (&b"q"[..], vec![Key::Char('q')]),
            (b"\x1b", vec![Key::Esc]),
            (b"\x1b[A\x1b[B", vec![Key::Up, Key::Down]),
            (b"\x1b[5~", vec![Key::PageUp]),
            (b"64M\r", "64M\n".chars().map(Key::Char).collect()),
            (b"\x03\x1a", vec![Key::Ctrl('c'), Key::Ctrl('z')]),
            (b"\x7f", vec![Key::Backspace]),
            (b"\xff\xfe", vec![]),
            (b"\x1b[", vec![]),
            ("é".as_bytes(), vec![Key::Char('é')]),
        ] {
            assert_eq!(parse(bytes), keys, "{bytes:?}");
        }
    }
}
