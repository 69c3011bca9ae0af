//! What the user's names lead to, and what is left of it.

use super::*;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, symlink};

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("coldpress-output-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_file_appears_when_it_is_whole() {
    let directory = Directory::new("whole");
    let target = directory.path("x");
    let mut file = OutputFile::create(&target).unwrap();
    file.append(b"half").unwrap();
    assert!(!target.exists() && directory.path("x.partial").exists());
    drop(file);
    assert_eq!(directory.names(), 0);
    write(&target, b"whole").unwrap();
    check(&target).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"whole");
    assert_eq!(directory.names(), 1);
    for bad in [
        directory.0.clone(),
        directory.path("no/x"),
        directory.path("x/"),
        PathBuf::from(".."),
    ] {
        let refusal = check(&bad).unwrap_err().to_string();
        assert!(refusal.starts_with("cannot write"), "{refusal}");
    }
}

#[test]
fn links_stay_links_and_what_they_lead_to_is_written() {
    let directory = Directory::new("links");
    let (target, link, outer) = (
        directory.path("x"),
        directory.path("link"),
        directory.path("outer"),
    );
    symlink("x", &link).unwrap();
    symlink(&link, &outer).unwrap();
    for (content, at) in [(b"new", &outer), (b"old", &link), (b"any", &target)] {
        check(at).unwrap();
        write(at, content).unwrap();
        assert_eq!(fs::read(&target).unwrap(), content);
        assert_eq!(directory.names(), 3);
    }
    assert!(link.is_symlink() && outer.is_symlink() && !target.is_symlink());
    let circle = directory.path("circle");
    symlink("circle", &circle).unwrap();
    assert!(check(&circle).is_err());
}

#[test]
fn mode_other_names_and_attributes_are_kept() {
    let directory = Directory::new("kept");
    let (target, second) = (directory.path("x"), directory.path("y"));
    fs::write(&target, "old and longer").unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
    write(&target, b"new").unwrap();
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o640);
    fs::hard_link(&target, &second).unwrap();
    write(&target, b"again").unwrap();
    assert_eq!(fs::read(&second).unwrap(), b"again");
    // Somebody's file of that name is not written into.
    fs::write(directory.path("z.partial"), "kept").unwrap();
    write(&directory.path("z"), b"made").unwrap();
    assert_eq!(fs::read(directory.path("z.partial")).unwrap(), b"kept");
    write(&directory.path(&"n".repeat(255)), b"a long name").unwrap();
    assert_eq!(directory.names(), 5);
}

#[test]
fn what_is_no_regular_file_is_written_into() {
    let directory = Directory::new("special");
    check(Path::new("/dev/null")).unwrap();
    write(Path::new("/dev/null"), b"gone").unwrap();
    assert!(
        fs::symlink_metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    let error = write(Path::new("/dev/full"), b"much")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot write /dev/full: No space left"),
        "{error}"
    );
    let fifo = directory.path("fifo");
    let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
    // SAFETY: a terminated path.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    check(&fifo).unwrap();
    let error = write_within(&fifo, b"x", Duration::from_millis(30)).unwrap_err();
    assert!(
        error.to_string().ends_with("nobody reads from it"),
        "{error}"
    );
    let mut reader = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&fifo)
        .unwrap();
    write_within(&fifo, b"said", Duration::from_secs(9)).unwrap();
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(said, "said");
    let socket = directory.path("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    write(&socket, b"heard").unwrap();
    let mut heard = String::new();
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut heard)
        .unwrap();
    assert_eq!(heard, "heard");
    assert_eq!(directory.names(), 2);
}

#[test]
fn own_descriptors_are_written_where_they_stand() {
    let directory = Directory::new("descriptors");
    let target = directory.path("x");
    let mut file = File::create(&target).unwrap();
    io::Write::write_all(&mut file, b"before ").unwrap();
    for name in ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"] {
        let name = Path::new(name).join(file.as_raw_fd().to_string());
        check(&name).unwrap();
        write(&name, b"x").unwrap();
    }
    assert_eq!(fs::read(&target).unwrap(), b"before xxx");
    let read_only = File::open(&target).unwrap();
    assert!(check(&Path::new("/dev/fd").join(read_only.as_raw_fd().to_string())).is_err());
    assert!(check(Path::new("/dev/fd/98765")).is_err());
    assert_eq!(directory.names(), 1);
}
