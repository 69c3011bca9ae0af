//! The first line of scripts: which program the kernel, and then `env`, would start for them.
//!
//! The kernel looks at the first 256 bytes: an interpreter's path, and all the rest of the line
//! as one single argument. `env` is looked through because half of all scripts start with it: it
//! replaces itself with the program it finds in PATH, and the pager follows that.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Bytes of a file that the kernel looks at.
pub const LOOK_BYTES: usize = 256;

/// A script's first line.
#[derive(Debug, PartialEq, Eq)]
pub struct FirstLine {
    /// Interpreter as written.
    pub interpreter: PathBuf,
    /// The rest of the line, which the kernel hands over as one argument.
    pub argument: Option<OsString>,
}

/// What `env` would do with the argument of a first line.
#[derive(Debug, PartialEq, Eq)]
pub enum Env {
    /// It starts this program, looked up in PATH.
    Program(OsString),
    /// It clears the environment first, and LD_PRELOAD with it.
    Clears,
    /// It cannot be foreseen (no program named, or an option unknown here).
    Unclear,
}

/// Parses the first bytes of a file, or `None` where it is not a script or names no interpreter.
pub fn first_line(start: &[u8]) -> Option<FirstLine> {
    let start = &start[..start.len().min(LOOK_BYTES)];
    let line = start.strip_prefix(b"#!")?;
    let end = line
        .iter()
        .position(|&b| b == b'\n' || b == 0)
        .unwrap_or(line.len());
    let line = trim(&line[..end]);
    let blank = line.iter().position(|&b| is_blank(b)).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(blank);
    if interpreter.is_empty() {
        return None;
    }
    let rest = trim(rest);
    Some(FirstLine {
        interpreter: PathBuf::from(OsStr::from_bytes(interpreter)),
        argument: (!rest.is_empty()).then(|| OsStr::from_bytes(rest).to_owned()),
    })
}

/// Foresees `env ARGUMENT SCRIPT`, for the argument of a first line.
pub fn through_env(argument: Option<&OsStr>) -> Env {
    let Some(argument) = argument else {
        return Env::Unclear; // `env SCRIPT` would start the script itself again, for ever
    };
    let bytes = argument.as_bytes();
    let split = bytes
        .strip_prefix(b"--split-string=")
        .or_else(|| bytes.strip_prefix(b"-S"))
        .or_else(|| bytes.strip_prefix(b"-vS"));
    let words: Vec<&[u8]> = match split {
        Some(words) => words
            .split(|&b| is_blank(b))
            .filter(|word| !word.is_empty())
            .collect(),
        None => vec![bytes],
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word {
            b"-" | b"-i" | b"--ignore-environment" => return Env::Clears,
            b"--" | b"-v" | b"--debug" => {}
            b"-u" | b"-C" => {
                words.next();
            }
            _ if word.starts_with(b"--unset=") || word.starts_with(b"--chdir=") => {}
            _ if word.starts_with(b"-") || word.contains(&b'"') || word.contains(&b'\'') => {
                return Env::Unclear;
            }
            _ if word.contains(&b'=') => {}
            _ => return Env::Program(OsStr::from_bytes(word).to_owned()),
        }
    }
    Env::Unclear
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Option<(String, Option<String>)> {
        first_line(text.as_bytes()).map(|line| {
            let argument = line.argument.map(|a| a.into_string().unwrap());
            (line.interpreter.to_str().unwrap().to_owned(), argument)
        })
    }

    #[test]
    fn first_lines_are_split_as_the_kernel_splits_them() {
        assert_eq!(line("#!/bin/sh\necho"), Some(("/bin/sh".into(), None)));
        assert_eq!(
            line("#! /bin/sh -e -x \n"),
            Some(("/bin/sh".into(), Some("-e -x".into())))
        );
        assert_eq!(line("#!/bin/sh"), Some(("/bin/sh".into(), None)));
        assert_eq!(
            line("#!\t/a\tb\0c\n"),
            Some(("/a".into(), Some("b".into())))
        );
        assert_eq!(line("#!/bin/sh\r\n"), Some(("/bin/sh\r".into(), None)));
        for text in ["", "#", "#!", "#!  \n", "echo", " #!/bin/sh"] {
            assert_eq!(line(text), None, "{text:?}");
        }
        let long = format!("#!/{}\n", "x".repeat(400));
        assert_eq!(line(&long).unwrap().0.len(), LOOK_BYTES - 2);
    }

    #[test]
    fn env_is_looked_through() {
        let through = |text: &str| through_env(Some(OsStr::new(text)));
        let program = |name: &str| Env::Program(name.into());
        assert_eq!(through("python3"), program("python3"));
        assert_eq!(
            through("python3 -u"),
            program("python3 -u"),
            "one argument, as the kernel does it"
        );
        assert_eq!(through("-S python3 -u"), program("python3"));
        assert_eq!(through("-S  A=b C=d python3"), program("python3"));
        assert_eq!(through("-S -u A -C /tmp -- perl -w"), program("perl"));
        assert_eq!(through("-vS node --x"), program("node"));
        assert_eq!(through("--split-string=ruby -w"), program("ruby"));
        assert_eq!(through("-S -i python3"), Env::Clears);
        assert_eq!(through("-i"), Env::Clears);
        assert_eq!(through("-S \"a b\""), Env::Unclear);
        assert_eq!(through("--what"), Env::Unclear);
        assert_eq!(through_env(None), Env::Unclear);
    }
}
