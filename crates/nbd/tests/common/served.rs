//! A server that runs while a test does.

use coldpress_nbd::Memory;
use coldpress_nbd::{Export, Exports, Handle, Limits, Listen, Server, ServerCounts};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take before a test calls it a hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Exports by name, which change while they are served.
#[derive(Default)]
pub struct Disks(Mutex<BTreeMap<String, Arc<dyn Export>>>);

impl Disks {
    pub fn add(&self, name: &str, export: impl Export + 'static) {
        self.0.lock().unwrap().insert(name.into(), Arc::new(export));
    }
}

impl Exports for Disks {
    fn find(&self, name: &str) -> Option<Arc<dyn Export>> {
        self.0.lock().unwrap().get(name).cloned()
    }

    fn names(&self) -> Vec<(String, String)> {
        let disks = self.0.lock().unwrap();
        disks
            .iter()
            .map(|(name, disk)| (name.clone(), disk.description()))
            .collect()
    }
}

/// A server on a Unix socket and a port.
pub struct Served {
    pub disks: Arc<Disks>,
    pub handle: Handle,
    pub socket: PathBuf,
    pub address: SocketAddr,
    serving: Option<JoinHandle<()>>,
    /// Holds the socket, and what else a test puts there.
    pub directory: tempfile::TempDir,
}

impl Served {
    /// Serves `export` as the default.
    pub fn new(export: impl Export + 'static) -> Self {
        Self::with(export, Limits::default())
    }

    /// Serves an empty disk of memory.
    pub fn memory(size_bytes: u64) -> Self {
        Self::new(Memory::new(size_bytes))
    }

    pub fn with(export: impl Export + 'static, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let disks = Arc::new(Disks::default());
        disks.add("", export);
        let listens = [
            Listen::Unix(socket.clone()),
            Listen::Tcp("127.0.0.1:0".parse().unwrap()),
        ];
        let server =
            Server::bind(&listens, Arc::clone(&disks) as Arc<dyn Exports>, limits).unwrap();
        let Some(Listen::Tcp(address)) = server.listening().pop() else {
            panic!("no address")
        };
        let handle = server.handle();
        let serving = std::thread::spawn(move || server.serve().unwrap());
        Self {
            disks,
            handle,
            socket,
            address,
            serving: Some(serving),
            directory,
        }
    }

    /// The address of an export on the Unix socket.
    pub fn uri(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.socket.display())
    }

    /// The address of an export on the port.
    pub fn tcp_uri(&self, name: &str) -> String {
        format!("nbd://{}/{name}", self.address)
    }

    /// A file for the test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn counts(&self) -> ServerCounts {
        self.handle.counts()
    }

    /// Waits until the figures are so.
    pub fn wait_until(&self, what: &str, so: impl Fn(&ServerCounts) -> bool) {
        let begin = Instant::now();
        while !so(&self.counts()) {
            assert!(
                begin.elapsed() < PATIENCE,
                "never {what}: {:?}",
                self.counts()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it and waits for its end; a hang is a failure.
    pub fn stop(&mut self) {
        let Some(serving) = self.serving.take() else {
            return;
        };
        self.handle.stop();
        let begin = Instant::now();
        while !serving.is_finished() {
            assert!(
                begin.elapsed() < PATIENCE,
                "it does not stop: {:?}",
                self.counts()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        serving.join().unwrap();
        assert!(!self.socket.exists(), "the socket is still there");
        let counts = self.counts();
        assert_eq!(
            (counts.whole.connections_now, counts.handshakes_now),
            (0, 0)
        );
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}
