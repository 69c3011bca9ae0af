//! How much memory this process may use: the smallest cgroup limit on its path, or all RAM.
//!
//! Both cgroup versions bound a process by the limits of every group on the path from its own up
//! to the root. `/proc/self/cgroup` names the own group, `/proc/self/mountinfo` says where the
//! hierarchy is mounted and which group is the root of that mount (in a container usually the
//! container's own).

use crate::process;
use crate::refusal::Refusal;
use coldpress_interface::config::handed;
use coldpress_interface::control::largest_budget;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A mounted cgroup hierarchy that accounts memory.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    /// Group that stands at the mount point.
    root: String,
    mount_point: PathBuf,
    /// `memory.limit_in_bytes` (version 1) or `memory.max` (version 2).
    limit_file: &'static str,
}

/// Bytes this process may use: the least of MemTotal and all cgroup limits on its path.
pub fn usable_bytes() -> Result<u64, Refusal> {
    usable_bytes_of(std::process::id())
}

/// The memory group whose limit bounds a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// Its limit.
    bytes: u64,
    /// Its directory.
    directory: PathBuf,
}

/// The memory groups of this process: its own, which may be given a limit later, and those around it that have one.
#[derive(Debug)]
pub struct Groups(Vec<Group>);

impl Groups {
    /// Those that it is in now.
    pub fn now() -> Self {
        Self(groups_of(std::process::id()).unwrap_or_default())
    }

    /// As [`MEMORY_GROUPS`](handed::MEMORY_GROUPS) says it: the process's own and, of the others, those with the least
    /// limits.
    pub fn for_the_pager(&self) -> Option<OsString> {
        for_the_pager(self.0.clone())
    }

    /// How many of their processes the kernel has killed since they were made, as far as it tells.
    pub fn killed(&self) -> u64 {
        let files = |group: &Group| {
            ["memory.oom_control", "memory.events.local"].map(|name| group.directory.join(name))
        };
        let files = self.0.iter().flat_map(files);
        let texts = files.filter_map(|file| process::read(file).ok());
        texts.filter_map(|text| parse_oom_kill(&text)).sum()
    }
}

/// The process's own group in each hierarchy that accounts memory, and those around it that have a limit. Without a limit
/// a root is left out: it may be every process of the machine. (In a cgroup namespace a container's group is a root.)
fn watched_groups(
    mountinfo: &str,
    cgroup: &str,
    read: impl Fn(&Path) -> Option<String>,
) -> Vec<Group> {
    let hierarchies = mountinfo.lines().filter_map(parse_mount);
    let watched = hierarchies.filter_map(|hierarchy| {
        let own = group_in(cgroup, &hierarchy)?;
        let is_root = hierarchy.root == "/" && own.as_os_str().is_empty();
        let limited = limited_on_path(&hierarchy, &own, &read);
        let directory = hierarchy.mount_point.join(own);
        let is_limited = limited.iter().any(|group| group.directory == directory);
        let unlimited = (!is_limited && !is_root).then_some(Group {
            bytes: NO_LIMIT,
            directory,
        });
        Some(unlimited.into_iter().chain(limited))
    });
    watched.flatten().collect()
}

fn for_the_pager(mut groups: Vec<Group>) -> Option<OsString> {
    while groups.len() > handed::MOST_GROUPS {
        let most = (1..groups.len()).max_by_key(|&at| groups[at].bytes);
        groups.remove(most.expect("there are some"));
    }
    let mut text = OsString::new();
    for Group { bytes, directory } in groups {
        if !text.is_empty() {
            text.push(char::from(handed::NEXT_GROUP).to_string());
        }
        text.push(format!("{bytes} {} ", largest_budget(bytes)));
        text.push(directory);
    }
    (!text.is_empty()).then_some(text)
}

/// Bytes of memory that the machine has.
pub fn machine_bytes() -> Result<u64, Refusal> {
    const MEMINFO: &str = "/proc/meminfo";
    let unknown = "cannot tell how much memory there is";
    let text = process::read(MEMINFO)
        .map_err(|error| Refusal::new(format!("{unknown}: {MEMINFO}: {error}")))?;
    parse_mem_total(&text)
        .ok_or_else(|| Refusal::new(format!("{unknown}: {MEMINFO} has no MemTotal")))
}

/// Bytes that process `pid` may use, in the same way.
pub fn usable_bytes_of(pid: u32) -> Result<u64, Refusal> {
    let total = machine_bytes()?;
    Ok(group_bytes_of(pid).map_or(total, |limit| limit.min(total)))
}

/// Least limit of the memory groups that this process is in; `None` where there is none.
pub fn group_bytes() -> Option<u64> {
    group_bytes_of(std::process::id())
}

/// Least limit of the memory groups that process `pid` is in, as far as it can be seen from here.
pub fn group_bytes_of(pid: u32) -> Option<u64> {
    group_of(pid).map(|group| group.bytes)
}

fn group_of(pid: u32) -> Option<Group> {
    least(groups_of(pid)?)
}

fn least(groups: Vec<Group>) -> Option<Group> {
    let limited = groups.into_iter().filter(|group| group.bytes < NO_LIMIT);
    limited.min_by_key(|group| group.bytes)
}

/// The groups of process `pid`, as [`watched_groups`] has them.
fn groups_of(pid: u32) -> Option<Vec<Group>> {
    let mounts = process::read("/proc/self/mountinfo").ok()?;
    let groups = process::read(format!("/proc/{pid}/cgroup")).ok()?;
    let read = |path: &Path| process::read(path).ok();
    Some(watched_groups(&mounts, &groups, read))
}

/// The figure `oom_kill` of version 1's `memory.oom_control`, and of version 2's `memory.events.local`.
fn parse_oom_kill(text: &str) -> Option<u64> {
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

/// Directory of the memory group below which this process may make another, and whether it is of version 2. With
/// version 1 that is the process's own; with version 2, where a group with processes can have no such
/// groups below it, the mount's root.
pub fn group_directory() -> Option<(PathBuf, bool)> {
    let mounts = process::read("/proc/self/mountinfo").ok()?;
    let groups = process::read("/proc/self/cgroup").ok()?;
    parent_of_groups(&mounts, &groups)
}

fn parent_of_groups(mountinfo: &str, cgroup: &str) -> Option<(PathBuf, bool)> {
    let all = || mountinfo.lines().filter_map(parse_mount);
    let unified = |hierarchy: &Hierarchy| hierarchy.limit_file == "memory.max";
    if let Some(first) = all().find(|hierarchy| !unified(hierarchy)) {
        let group = group_in(cgroup, &first)?;
        return Some((first.mount_point.join(group), false));
    }
    all()
        .find(unified)
        .map(|hierarchy| (hierarchy.mount_point, true))
}

/// Bytes of `MemTotal` in the text of `/proc/meminfo`.
fn parse_mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// The hierarchy described by one line of mountinfo, if it accounts memory.
fn parse_mount(line: &str) -> Option<Hierarchy> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, mount_point) = (mount.next()?, mount.next()?);
    let mut filesystem = filesystem.split(' ');
    let (kind, options) = (filesystem.next()?, filesystem.nth(1)?);
    let limit_file = match kind {
        "cgroup2" => "memory.max",
        "cgroup" if options.split(',').any(|option| option == "memory") => "memory.limit_in_bytes",
        _ => return None,
    };
    Some(Hierarchy {
        root: unescape(root),
        mount_point: PathBuf::from(unescape(mount_point)),
        limit_file,
    })
}

/// Undoes the octal escapes (`\040`) that mountinfo uses for blanks and backslashes.
fn unescape(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&piece[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(piece);
            }
        }
    }
    plain
}

/// Path of the process's group below the mount point of `hierarchy`, from the text of
/// `/proc/self/cgroup`.
fn group_in(cgroup: &str, hierarchy: &Hierarchy) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let ours = match hierarchy.limit_file {
            "memory.max" => controllers.is_empty(),
            _ => controllers
                .split(',')
                .any(|controller| controller == "memory"),
        };
        ours.then_some(path)
    })?;
    // A group outside the mounted part shows nothing of its own; the mount's root is the nearest
    // group that bounds it.
    let below = Path::new(path)
        .strip_prefix(&hierarchy.root)
        .unwrap_or(Path::new(""));
    let climbs = below.components().any(|part| part.as_os_str() == "..");
    Some(if climbs {
        PathBuf::new()
    } else {
        below.to_owned()
    })
}

/// What version 1 says where there is no limit: the largest number of whole pages.
const NO_LIMIT: u64 = 0x7FFF_FFFF_FFFF_F000;

fn limited_on_path(
    hierarchy: &Hierarchy,
    group: &Path,
    read: &impl Fn(&Path) -> Option<String>,
) -> Vec<Group> {
    let limited = group.ancestors().filter_map(|ancestor| {
        let directory = hierarchy.mount_point.join(ancestor);
        let limit = read(&directory.join(hierarchy.limit_file))?;
        let bytes = limit.trim().parse::<u64>().ok()?; // "max" is no limit
        (bytes < NO_LIMIT).then_some(Group { bytes, directory })
    });
    limited.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const V1_GROUPS: &str = "9:name=systemd:/\n4:cpu,memory:/outer/inner\n0::/\n";
    const V2_MOUNTS: &str =
        "29 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    fn group(mounts: &str, groups: &str, files: &[(&str, &str)]) -> Option<Group> {
        least(watched(mounts, groups, files))
    }

    fn watched(mounts: &str, groups: &str, files: &[(&str, &str)]) -> Vec<Group> {
        watched_groups(mounts, groups, |path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        })
    }

    fn limit(mounts: &str, groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        group(mounts, groups, files).map(|group| group.bytes)
    }

    #[test]
    fn the_kernel_tells_how_many_it_has_killed() {
        let version_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let version_2 = "low 0\nhigh 0\nmax 5\noom 2\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(
            [version_1, version_2].map(parse_oom_kill),
            [Some(3), Some(2)]
        );
        assert_eq!(parse_oom_kill("oom_kill_disable 0\n"), None);
    }

    #[test]
    fn version_1_takes_the_least_limit_on_the_path() {
        let files = [
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "/sys/fs/cgroup/memory/outer/memory.limit_in_bytes",
                "1000000\n",
            ),
            (
                "/sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes",
                "2000000\n",
            ),
            ("/sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n"),
        ];
        let least = group(V1_MOUNTS, V1_GROUPS, &files).unwrap();
        assert_eq!(least.bytes, 1_000_000);
        assert_eq!(
            least.directory,
            Path::new("/sys/fs/cgroup/memory/outer"),
            "which it is"
        );
        assert_eq!(limit(V1_MOUNTS, V1_GROUPS, &files[..1]), None);
    }

    #[test]
    fn the_own_group_is_watched_unless_it_is_all_of_the_machine() {
        let told = |groups, files: &[(&str, &str)]| {
            let told = for_the_pager(watched(V1_MOUNTS, groups, files));
            told.map(|told| told.into_string().unwrap())
        };
        let inner = "4:memory:/outer/inner\n";
        let own = " /sys/fs/cgroup/memory/outer/inner";
        assert!(told(inner, &[]).unwrap().ends_with(own));
        let outer = [(
            "/sys/fs/cgroup/memory/outer/memory.limit_in_bytes",
            "1000000\n",
        )];
        let both = told(inner, &outer).unwrap();
        let (first, second) = both.split_once('\n').unwrap();
        assert!(first.ends_with(own), "{both}");
        assert_eq!(second, "1000000 937500 /sys/fs/cgroup/memory/outer");
        assert_eq!(told("4:memory:/\n0::/\n", &[]), None);
    }

    /// Story: in a cgroup namespace a container's own group was taken for that of all processes, and was not watched.
    #[test]
    fn a_root_that_has_a_limit_is_a_containers_and_watched() {
        let files = [("/sys/fs/cgroup/memory.max", "4096000\n")];
        let told = for_the_pager(watched(V2_MOUNTS, "0::/\n", &files));
        assert_eq!(told.unwrap(), "4096000 3840000 /sys/fs/cgroup/");
        let none = [("/sys/fs/cgroup/memory.max", "max\n")];
        assert_eq!(for_the_pager(watched(V2_MOUNTS, "0::/\n", &none)), None);
    }

    #[test]
    fn of_many_groups_the_own_and_those_with_the_least_limits_are_watched() {
        let group = |&bytes: &u64| Group {
            bytes,
            directory: PathBuf::from("/g"),
        };
        let many: Vec<Group> = [90, 50, 100, 10, 70, 30, 80].iter().map(group).collect();
        let told = for_the_pager(many).unwrap().into_string().unwrap();
        let limits = told.lines().map(|line| line.split(' ').next().unwrap());
        assert!(limits.eq(["90", "50", "10", "30"]), "{told}");
    }

    #[test]
    fn version_2_ignores_max() {
        let files = [
            ("/sys/fs/cgroup/a.slice/memory.max", "max\n"),
            ("/sys/fs/cgroup/a.slice/b.scope/memory.max", "4096000\n"),
        ];
        assert_eq!(
            limit(V2_MOUNTS, "0::/a.slice/b.scope\n", &files),
            Some(4_096_000)
        );
        assert_eq!(limit(V2_MOUNTS, "0::/a.slice\n", &files), None);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount_point() {
        let mounts = "1 2 0:3 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let files = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "77\n")];
        assert_eq!(limit(mounts, "4:memory:/docker/abc\n", &files), Some(77));
        assert_eq!(limit(mounts, "4:memory:/elsewhere\n", &files), Some(77));
        assert_eq!(
            limit(mounts, "4:memory:/docker/abc/../x\n", &files),
            Some(77)
        );
    }

    #[test]
    fn groups_are_made_below_ones_own_or_below_the_root_of_version_2() {
        let own = "/sys/fs/cgroup/memory/outer/inner";
        assert_eq!(
            parent_of_groups(V1_MOUNTS, V1_GROUPS),
            Some((own.into(), false))
        );
        assert_eq!(
            parent_of_groups(V2_MOUNTS, "0::/a.slice/b.scope\n"),
            Some(("/sys/fs/cgroup".into(), true))
        );
        assert_eq!(parent_of_groups("", V1_GROUPS), None);
    }

    #[test]
    fn damaged_text_gives_no_limit() {
        assert_eq!(limit("", "", &[]), None);
        assert_eq!(limit("garbage - \n- -\n1 2\n", "::\nx\n", &[]), None);
        assert_eq!(parse_mem_total("MemTotal: many kB\n"), None);
        assert_eq!(
            parse_mem_total("MemFree: 1 kB\nMemTotal:       8000 kB\n"),
            Some(8_192_000)
        );
        assert_eq!(unescape(r"/a\040b\134c\x"), r"/a b\c\x");
    }

    #[test]
    fn a_budget_leaves_the_group_some_room() {
        assert_eq!(largest_budget(64 << 20), 60 << 20);
        assert_eq!(largest_budget(16 << 30), (16 << 30) - (64 << 20));
        assert_eq!(largest_budget(0), 0);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(usable_bytes().unwrap() > 1 << 20);
    }
}
