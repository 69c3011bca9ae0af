//! A file that is there whole or not at all.
//!
//! It is written beside its place, as FILE.partial, and renamed when it is complete. On failure,
//! and when SIGINT, SIGTERM or SIGHUP ends the command, FILE.partial is removed.

use crate::on_signal;
use crate::refusal::Refusal;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file being written.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    target: PathBuf,
    partial: PathBuf,
}

fn refusal(target: &Path, error: &io::Error) -> Refusal {
    Refusal::new(format!("cannot write {}: {error}", target.display()))
}

/// Whether `target` could be written, to be known before the work is done.
pub fn check(target: &Path) -> Result<(), Refusal> {
    OutputFile::create(target).map(drop)
}

/// Writes a whole file.
pub fn write(target: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    let mut file = OutputFile::create(target)?;
    file.append(bytes)?;
    file.finish()
}

impl OutputFile {
    /// Begins `target`; it does not appear before [`finish`](Self::finish). One at a time.
    pub fn create(target: &Path) -> Result<Self, Refusal> {
        let failed = |error: &io::Error| refusal(target, error);
        if target.is_dir() {
            return Err(failed(&io::Error::from_raw_os_error(libc::EISDIR)));
        }
        let Some(name) = target.file_name() else {
            return Err(failed(&io::ErrorKind::InvalidInput.into()));
        };
        let mut name = name.to_owned();
        name.push(".partial");
        let partial = target.with_file_name(name);
        let path =
            CString::new(partial.as_os_str().as_bytes()).map_err(|error| failed(&error.into()))?;
        // Before it is there, so that no signal finds it unknown.
        on_signal::remove_file(Some(path));
        let file = File::create(&partial).map_err(|error| {
            on_signal::remove_file(None);
            failed(&error)
        })?;
        Ok(Self {
            file,
            target: target.to_owned(),
            partial,
        })
    }

    /// Writes more.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| refusal(&self.target, &error))
    }

    /// Gives the file its name.
    pub fn finish(self) -> Result<(), Refusal> {
        let renamed = fs::rename(&self.partial, &self.target);
        renamed.map_err(|error| refusal(&self.target, &error))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // After `finish` there is nothing of that name any more.
        let _ = fs::remove_file(&self.partial);
        on_signal::remove_file(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_appears_when_it_is_whole() {
        let directory =
            std::env::temp_dir().join(format!("coldpress-output-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let target = directory.join("x");
        let mut file = OutputFile::create(&target).unwrap();
        file.append(b"half").unwrap();
        assert!(!target.exists() && directory.join("x.partial").exists());
        drop(file);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        write(&target, b"whole").unwrap();
        check(&target).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        for bad in [
            directory.clone(),
            directory.join("no/x"),
            PathBuf::from(".."),
        ] {
            let refusal = check(&bad).unwrap_err().to_string();
            assert!(refusal.starts_with("cannot write"), "{refusal}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
