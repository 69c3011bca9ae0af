//! How long the kernel's reclaim of a cgroup takes: the tracepoints at its begin and end.
//!
//! Under a memory limit the kernel reclaims in the thread that wants memory, and zram compresses
//! there too. The events `vmscan:mm_vmscan_memcg_reclaim_begin` and `_end` say when, in a trace
//! instance of our own that follows one run, all its processes and threads. The time is that of the clock: what else ran
//! meanwhile is in it. tracefs is mounted for as long as this lives, where it is not.

use anyhow::{Context, Result, bail};
use coldpress_harness::cleanup::{self, Guard};
use std::collections::HashMap;
use std::ffi::CString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

const EVENTS: [&str; 2] = [
    "mm_vmscan_memcg_reclaim_begin",
    "mm_vmscan_memcg_reclaim_end",
];

/// tracefs and an instance in it.
pub struct Tracing {
    instance: PathBuf,
    // In this order: the instance before the mount.
    _instance: Guard,
    _mount: Option<Guard>,
}

impl Tracing {
    /// An instance that traces nothing yet.
    pub fn new(dir: &Path) -> Result<Tracing> {
        let usual = PathBuf::from("/sys/kernel/tracing");
        let (root, mount) = match usual.join("instances").exists() {
            true => (usual, None),
            false => {
                let (root, guard) = mounted(dir)?;
                (root, Some(guard))
            }
        };
        let path = root.join(format!("instances/coldpress-bench-{}", std::process::id()));
        let (instance, guard) = cleanup::acquire(
            format!("trace instance {}", path.display()),
            || {
                std::fs::create_dir(&path)
                    .with_context(|| format!("cannot create {}", path.display()))?;
                Ok(path.clone())
            },
            |path| Ok(std::fs::remove_dir(path)?),
        )?;
        let tracing = Tracing {
            instance,
            _instance: guard,
            _mount: mount,
        };
        tracing.write("options/event-fork", "1")?;
        tracing.write("trace_clock", "mono")?;
        for event in EVENTS {
            tracing.write(&format!("events/vmscan/{event}/enable"), "1")?;
        }
        Ok(tracing)
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.instance.join(file);
        std::fs::write(&path, value)
            .with_context(|| format!("cannot write {value} to {}", path.display()))
    }

    /// Follows what this thread starts from now on: a process that is followed only once it runs
    /// may have threads already.
    pub fn follow(&self) -> Result<Following> {
        // SAFETY: gettid takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        self.write("set_event_pid", &thread.to_string())?;
        let file = std::fs::File::options()
            .read(true)
            .custom_nonblocking()
            .open(self.instance.join("trace_pipe"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || follow(file, &stopped));
        Ok(Following { stop, thread })
    }
}

/// `open` with `O_NONBLOCK`.
trait NonBlocking {
    fn custom_nonblocking(&mut self) -> &mut Self;
}

impl NonBlocking for std::fs::OpenOptions {
    fn custom_nonblocking(&mut self) -> &mut Self {
        std::os::unix::fs::OpenOptionsExt::custom_flags(self, libc::O_NONBLOCK)
    }
}

fn mounted(dir: &Path) -> Result<(PathBuf, Guard)> {
    let target = dir.join("tracing");
    std::fs::create_dir_all(&target)?;
    let c = |text: &str| CString::new(text).expect("no zero in it");
    let path = c(&target.to_string_lossy());
    cleanup::acquire(
        format!("tracefs at {}", target.display()),
        || {
            let kind = c("tracefs");
            // SAFETY: the strings end in zero and live until after the call.
            let result = unsafe {
                libc::mount(
                    kind.as_ptr(),
                    path.as_ptr(),
                    kind.as_ptr(),
                    0,
                    std::ptr::null(),
                )
            };
            match result {
                0 => Ok(target.clone()),
                _ => bail!("cannot mount tracefs: {}", std::io::Error::last_os_error()),
            }
        },
        |target| {
            let path = CString::new(target.to_string_lossy().as_bytes())?;
            // SAFETY: as above.
            match unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } {
                0 => Ok(()),
                _ => bail!("cannot unmount: {}", std::io::Error::last_os_error()),
            }
        },
    )
}

/// A process whose reclaim is followed.
pub struct Following {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Following {
    /// Time spent in reclaim, in seconds.
    pub fn finish(self) -> f64 {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or(0.0)
    }
}

fn follow(mut pipe: std::fs::File, stop: &AtomicBool) -> f64 {
    let mut sums = Sums::default();
    let mut rest = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let stopping = stop.load(Relaxed);
        match pipe.read(&mut buffer) {
            Ok(length @ 1..) => {
                rest.extend_from_slice(&buffer[..length]);
                let whole = rest
                    .iter()
                    .rposition(|&byte| byte == b'\n')
                    .map_or(0, |at| at + 1);
                let lines = rest.drain(..whole).collect::<Vec<_>>();
                String::from_utf8_lossy(&lines)
                    .lines()
                    .for_each(|line| sums.add(line));
            }
            _ if stopping => return sums.seconds,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Sums the times between begin and end, thread by thread.
#[derive(Default)]
struct Sums {
    begun: HashMap<String, f64>,
    seconds: f64,
}

impl Sums {
    /// A line as `redis-server-123 [001] ..... 12.345678: mm_vmscan_memcg_reclaim_begin: …`.
    fn add(&mut self, line: &str) {
        let Some((head, rest)) = line.split_once(" [") else {
            return;
        };
        let thread = head.rsplit('-').next().unwrap_or("").trim().to_owned();
        let mut words = rest.split_whitespace().skip(1);
        let Some(time) = words.find_map(|word| word.strip_suffix(':')?.parse::<f64>().ok()) else {
            return;
        };
        match words.next().and_then(|event| event.strip_suffix(':')) {
            Some(event) if event == EVENTS[0] => {
                self.begun.insert(thread, time);
            }
            Some(event) if event == EVENTS[1] => {
                if let Some(begin) = self.begun.remove(&thread) {
                    self.seconds += time - begin;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_thread_by_thread() {
        let mut sums = Sums::default();
        for line in [
            "# tracer: nop",
            "    redis-server-123     [001] .....    10.000100: mm_vmscan_memcg_reclaim_begin: order=0 gfp_flags=X",
            "      C2 Compiler-9      [000] .....    10.000150: mm_vmscan_memcg_reclaim_begin: order=0 gfp_flags=X",
            "    redis-server-123     [001] .....    10.000200: mm_vmscan_memcg_reclaim_end: nr_reclaimed=32",
            "      C2 Compiler-9      [000] .....    10.000450: mm_vmscan_memcg_reclaim_end: nr_reclaimed=32",
            "      C2 Compiler-9      [000] .....    10.000950: mm_vmscan_memcg_reclaim_end: nr_reclaimed=32",
        ] {
            sums.add(line);
        }
        assert!((sums.seconds - 0.0004).abs() < 1e-9, "{}", sums.seconds);
    }
}
