//! Serves a disk in plain memory on a Unix socket, until standard input ends.
//!
//! ```text
//! cargo run -p coldpress-nbd --example memory_disk -- /tmp/disk.socket 1073741824
//! nbdinfo nbd+unix:///?socket=/tmp/disk.socket
//! ```

use coldpress_nbd::{Export, Exports, Limits, Listen, Memory, Server};
use std::error::Error;
use std::io::Read;
use std::sync::Arc;

/// One export, without a name.
struct Disk(Arc<Memory>);

impl Exports for Disk {
    fn find(&self, name: &str) -> Option<Arc<dyn Export>> {
        name.is_empty()
            .then(|| Arc::clone(&self.0) as Arc<dyn Export>)
    }

    fn names(&self) -> Vec<(String, String)> {
        vec![(String::new(), self.0.description())]
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: memory_disk SOCKET [BYTES]")?;
    let bytes = arguments
        .next()
        .map_or(Ok(1 << 30), |bytes| bytes.to_string_lossy().parse())?;
    let disk = Disk(Arc::new(Memory::new(bytes)));
    let server = Server::bind(
        &[Listen::Unix(path.into())],
        Arc::new(disk),
        Limits::default(),
    )?;
    let handle = server.handle();
    std::thread::spawn(move || {
        // Reading ends with the input, or fails: the end either way.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        handle.stop();
    });
    for place in server.listening() {
        eprintln!("serving {bytes} bytes on {place}; end standard input to stop");
    }
    Ok(server.serve()?)
}
