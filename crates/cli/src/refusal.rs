//! Refusals: what was refused, why, and the commands that mend it (law L5).

use std::fmt;

/// Coldpress itself failed or refused: bad usage, missing kernel feature, unsuitable program.
pub const EXIT_REFUSED: u8 = 125;
/// The program was found and cannot be executed.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The program, or the interpreter of a script, was not found.
pub const EXIT_NOT_FOUND: u8 = 127;

/// Why the command ends without having done what it was asked to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    code: u8,
    what: String,
    mends: Vec<String>,
    reader_is_gone: bool,
}

impl Refusal {
    /// Coldpress refuses (exit status 125). `what` says what is refused and why, in one sentence.
    pub fn new(what: impl Into<String>) -> Self {
        Self::with_code(EXIT_REFUSED, what)
    }

    /// The program cannot be executed (exit status 126).
    pub fn not_executable(what: impl Into<String>) -> Self {
        Self::with_code(EXIT_NOT_EXECUTABLE, what)
    }

    /// The program does not exist (exit status 127).
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::with_code(EXIT_NOT_FOUND, what)
    }

    fn with_code(code: u8, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            mends: Vec::new(),
            reader_is_gone: false,
        }
    }

    /// Nobody reads standard output any more: the command ends as by SIGPIPE, without a word.
    pub fn reader_is_gone() -> Self {
        let mut refusal = Self::new("nobody reads standard output");
        refusal.reader_is_gone = true;
        refusal
    }

    /// Whether it is [`reader_is_gone`](Self::reader_is_gone).
    pub fn is_quiet(&self) -> bool {
        self.reader_is_gone
    }

    /// With the name of the option or key that is to blame before it.
    pub fn of(mut self, option: &str) -> Self {
        self.what = format!("{option}: {}", self.what);
        self
    }

    /// Adds one line that tells how to mend it.
    pub fn mend(mut self, line: impl Into<String>) -> Self {
        self.mends.push(line.into());
        self
    }

    /// The same in one line, for those who know what they typed.
    pub fn in_one_line(mut self) -> Self {
        self.mends.clear();
        self
    }

    /// Exit status that belongs to the refusal.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for line in &self.mends {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_prints_its_mends_below_itself() {
        let refusal = Refusal::not_found("x: not found").mend("install x");
        assert_eq!(refusal.code(), 127);
        assert_eq!(refusal.to_string(), "x: not found\n  install x");
    }
}
