//! The kernel really takes pages: a cache in a memory group (cgroup v1) whose limit leaves no room
//! for it. Needs root.
//!
//! The test runs itself again as a child, which enters the group, so that no other test is limited.

use coldpress_cache::{Backing, Cache, Options, PAGE_BYTES, Stats};
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: usize = 1 << 20;
const LIMIT: usize = 96 * MIB;
const CACHE: usize = 64 * MIB;
const HOT: u64 = (6 * MIB / PAGE_BYTES) as u64;
const ENTRIES: u64 = (CACHE / PAGE_BYTES) as u64;
/// What the child takes beside the cache: the limit less this is well below the cache.
const GREED: usize = 64 * MIB;

fn skipped(why: &str) {
    println!("SKIPPED: {why}");
    assert!(
        std::env::var_os("COLDPRESS_FORBID_SKIPS").is_none_or(|v| v != "1"),
        "skipped ({why}) and COLDPRESS_FORBID_SKIPS=1"
    );
}

struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let hierarchy = mounts.lines().find_map(|line| {
            let fields: Vec<_> = line.split(' ').collect();
            (fields[2] == "cgroup" && fields[3].split(',').any(|o| o == "memory"))
                .then(|| fields[1].to_owned())
        });
        let Some(hierarchy) = hierarchy else {
            skipped("no memory groups of cgroup v1");
            return None;
        };
        let name = format!("coldpress-cache-{name}-{}", std::process::id());
        let path = Path::new(&hierarchy).join(name);
        if let Err(e) = std::fs::create_dir(&path) {
            skipped(&format!("{}: {e}", path.display()));
            return None;
        }
        let group = Group(path);
        std::fs::write(group.0.join("memory.limit_in_bytes"), LIMIT.to_string()).unwrap();
        // Another test may have added swap: then the kernel could take the greedy memory instead.
        std::fs::write(group.0.join("memory.swappiness"), "0").unwrap();
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The child is gone, but the group may be busy a moment longer.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Runs a test of this file again in `group`.
fn run_child(test: &str, group: &Group) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("kernel_reclaim::{test}")])
        .args(["--nocapture", "--test-threads=1"])
        .env("COLDPRESS_CACHE_GROUP", &group.0)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    assert!(text.contains("running 1 test\n"), "there is no {test}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    text
}

fn enter_group() -> bool {
    let Some(group) = std::env::var_os("COLDPRESS_CACHE_GROUP") else {
        return false;
    };
    let processes = Path::new(&group).join("cgroup.procs");
    std::fs::write(processes, std::process::id().to_string()).unwrap();
    true
}

fn word(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn fill(cache: &Cache) {
    for key in 0..ENTRIES {
        let bytes = word(key).to_ne_bytes().repeat(PAGE_BYTES / 8);
        cache.insert(key, &bytes).unwrap();
    }
}

/// Hits among `keys`; each must be of the right bytes.
fn hits(cache: &Cache, keys: std::ops::Range<u64>) -> u64 {
    let whole = |key: &u64| {
        let bytes = word(*key).to_ne_bytes().repeat(PAGE_BYTES / 8);
        cache
            .with(*key, |page| assert!(page[..] == bytes))
            .is_some()
    };
    keys.filter(whole).count() as u64
}

/// Takes memory as a program does that needs it.
fn be_greedy(bytes: usize) {
    let memory = vec![1u8; bytes];
    assert!(std::hint::black_box(&memory).iter().all(|&byte| byte == 1));
}

fn report(what: &str, stats: &Stats) {
    println!(
        "{what}: resident {} MiB, LazyFree {} MiB, kept {}, resets {}, reused {}, evicted {}",
        stats.resident_bytes >> 20,
        stats.lazyfree_bytes >> 20,
        stats.kept,
        stats.resets,
        stats.reused,
        stats.evicted
    );
}

#[test]
fn pages_go_one_by_one_when_memory_is_short_and_hot_ones_stay() {
    if !enter_group() {
        if let Some(group) = Group::new("pages") {
            run_child(
                "pages_go_one_by_one_when_memory_is_short_and_hot_ones_stay",
                &group,
            );
        }
        return;
    }
    let cache = Cache::new(Options::new(CACHE, Backing::LazyFree)).unwrap();
    fill(&cache);
    // All, but for a few where the machine itself is short of free pages: they are the first it takes.
    for _ in 0..8 {
        assert!(hits(&cache, 0..HOT) >= HOT / 100 * 98);
    }
    assert!(hits(&cache, HOT..ENTRIES) >= (ENTRIES - HOT) / 100 * 98);
    report("full", &cache.stats());
    be_greedy(GREED);
    let hot = hits(&cache, 0..HOT);
    let cold = hits(&cache, HOT..ENTRIES);
    let stats = cache.stats();
    report("after", &stats);
    let (hot, cold) = (
        hot as f64 / HOT as f64,
        cold as f64 / (ENTRIES - HOT) as f64,
    );
    // What memory there was while greed was greatest, less the hot set.
    let room = (LIMIT - GREED) as f64 - HOT as f64 * PAGE_BYTES as f64;
    let bound = room / ((ENTRIES - HOT) * PAGE_BYTES as u64) as f64;
    println!("hot {hot:.3}, cold {cold:.3} of at most {bound:.3}");
    assert!(stats.resets > 0, "the kernel took nothing");
    assert!(hot >= 0.9, "{hot}");
    assert!(cold > 0.0 && cold < 0.7, "{cold}");
    // And it goes on: what was lost is filled again.
    for key in 0..ENTRIES {
        if cache.with(key, |_| ()).is_none() {
            cache.insert(key, &[1]).unwrap();
        }
    }
}

#[test]
fn a_cache_larger_than_memory_evicts_only_what_the_kernel_took() {
    if !enter_group() {
        if let Some(group) = Group::new("overcommit") {
            run_child(
                "a_cache_larger_than_memory_evicts_only_what_the_kernel_took",
                &group,
            );
        }
        return;
    }
    let cache = Cache::new(Options {
        overcommit: true,
        ..Options::new(4 * LIMIT, Backing::LazyFree)
    })
    .unwrap();
    for key in 0..20 * ENTRIES {
        let bytes = word(key).to_ne_bytes().repeat(PAGE_BYTES / 8);
        cache.insert(key, &bytes).unwrap();
    }
    let stats = cache.stats();
    report("overcommitted", &stats);
    assert!(stats.reused > 0);
    assert_eq!(stats.evicted, 0);
    assert!(stats.resident_bytes < LIMIT as u64);
    let found = hits(&cache, 0..20 * ENTRIES);
    println!("{} MiB found", found >> 8);
    assert!(found > ENTRIES / 2, "{found}");
}
