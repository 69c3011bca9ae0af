//! Sizes of everything: as asked for, else those of the seed, as far as the machine bears them.

use super::arguments::CacheArguments;
use super::kind::Kind;
use crate::memory_limit::usable_bytes;
use crate::refusal::Refusal;
use crate::size::format_bytes;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;
/// The seed's cache.
const SEED_CAPACITY_BYTES: u64 = 4096 * MIB;
/// With a limit of 9/8 of it, this much of the machine's memory is asked for at most: half.
const SHARE_OF_MACHINE: (u64, u64) = (4, 9);
/// Of `--quick`.
const QUICK_CAPACITY_BYTES: u64 = 64 * MIB;
/// Below this the kernel's own steps (it takes 128 KiB and more at a time) are what is measured.
const LEAST_CAPACITY_BYTES: u64 = 16 * MIB;
const LEAST_SET_BYTES: u64 = MIB;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    pub capacity_bytes: u64,
    pub hot_bytes: u64,
    pub cold_bytes: u64,
    pub limit_bytes: u64,
    pub compressed_bytes: u64,
    pub reclaim_bytes: Vec<u64>,
    pub rounds: u64,
    pub kinds: Vec<Kind>,
    pub files: Vec<PathBuf>,
    pub directory: PathBuf,
}

impl Plan {
    /// What `arguments` ask for.
    pub fn new(arguments: &CacheArguments) -> Result<Plan, Refusal> {
        let capacity_bytes = match arguments.capacity {
            Some(bytes) => bytes,
            None if arguments.quick => QUICK_CAPACITY_BYTES,
            None => fitting_capacity(usable_bytes()?),
        };
        let quarter = capacity_bytes / 4;
        let hot_bytes = arguments.hot.unwrap_or(capacity_bytes / 16);
        let limit_bytes = arguments.limit.unwrap_or(capacity_bytes / 8 * 9);
        let reclaim_bytes = match arguments.reclaim.as_slice() {
            [] if arguments.quick => vec![3 * quarter],
            [] => vec![quarter, 2 * quarter, 3 * quarter],
            sizes => sizes.to_vec(),
        };
        let most = reclaim_bytes.iter().copied().max().unwrap_or(0);
        let left = limit_bytes.saturating_sub(most);
        let compressed_bytes = arguments.compressed.unwrap_or_else(|| {
            let other = hot_bytes.saturating_add(capacity_bytes / 16);
            left.saturating_sub(other).max(MIB)
        });
        let kinds = match arguments.kinds.as_slice() {
            [] => Kind::ALL.to_vec(),
            kinds => kinds.to_vec(),
        };
        Ok(Plan {
            capacity_bytes,
            hot_bytes,
            cold_bytes: arguments.cold.unwrap_or(capacity_bytes / 8 * 7),
            limit_bytes,
            compressed_bytes,
            reclaim_bytes,
            rounds: arguments
                .rounds
                .unwrap_or(if arguments.quick { 1 } else { 3 }),
            kinds,
            files: arguments.files.clone(),
            directory: arguments.directory.clone(),
        })
    }

    /// Refuses what cannot be measured.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.capacity_bytes < LEAST_CAPACITY_BYTES {
            return Err(Refusal::new(format!(
                "a cache of {} is too small to be measured: the kernel's own steps would be what is seen",
                format_bytes(self.capacity_bytes)
            ))
            .mend("Give it more, for example: --capacity 64M"));
        }
        if self.hot_bytes.min(self.cold_bytes) < LEAST_SET_BYTES {
            return Err(
                Refusal::new("a set of less than 1.0 MiB is too small to be measured")
                    .mend("Make it larger, for example: --hot 4M --cold 56M"),
            );
        }
        for &reclaim in &self.reclaim_bytes {
            if reclaim.saturating_add(self.hot_bytes) >= self.limit_bytes {
                return Err(Refusal::new(format!(
                    "of a limit of {}, taking {} leaves no room for a hot set of {}",
                    format_bytes(self.limit_bytes),
                    format_bytes(reclaim),
                    format_bytes(self.hot_bytes)
                ))
                .mend("Take less (--reclaim), or raise --limit"));
            }
        }
        let usable = usable_bytes()?;
        if self.limit_bytes > usable {
            return Err(Refusal::new(format!(
                "a limit of {} is more than the {} that this process may use",
                format_bytes(self.limit_bytes),
                format_bytes(usable)
            ))
            .mend("Measure a smaller cache, for example: --capacity 1G"));
        }
        match self.kinds.contains(&Kind::Disk) {
            true => self.check_directory(),
            false => Ok(()),
        }
    }

    /// The kind disk needs a disk, and room on it.
    fn check_directory(&self) -> Result<(), Refusal> {
        let shown = self.directory.display();
        let refuse = |why: String| {
            Refusal::new(format!("the kind disk cannot use {shown}: {why}")).mend(
                "Name a directory on a disk (--directory DIRECTORY), or leave disk out of --kinds",
            )
        };
        let path = CString::new(self.directory.as_os_str().as_bytes())
            .map_err(|error| refuse(error.to_string()))?;
        // SAFETY: zeros are a valid `statfs`, which the call fills; the path is a C string.
        let (outcome, file_system) = unsafe {
            let mut file_system: libc::statfs = std::mem::zeroed();
            (libc::statfs(path.as_ptr(), &mut file_system), file_system)
        };
        if outcome != 0 {
            return Err(refuse(std::io::Error::last_os_error().to_string()));
        }
        if file_system.f_type == libc::TMPFS_MAGIC {
            return Err(refuse("it is memory (tmpfs)".to_owned()));
        }
        let free = file_system
            .f_bavail
            .saturating_mul(file_system.f_bsize as u64);
        if free < self.capacity_bytes {
            return Err(refuse(format!(
                "{} are free, {} are needed",
                format_bytes(free),
                format_bytes(self.capacity_bytes)
            )));
        }
        Ok(())
    }
}

/// The seed's cache, or what half of the machine bears, in whole 64 MiB.
fn fitting_capacity(usable_bytes: u64) -> u64 {
    let (part, of) = SHARE_OF_MACHINE;
    let fitting = usable_bytes / of * part / (64 * MIB) * (64 * MIB);
    fitting.clamp(64 * MIB, SEED_CAPACITY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: CacheArguments,
    }

    fn plan(line: &str) -> Plan {
        let words = std::iter::once("x").chain(line.split_whitespace());
        Plan::new(&Line::parse_from(words).arguments).unwrap()
    }

    #[test]
    fn the_seeds_proportions_follow_from_the_capacity() {
        let plan = plan("--capacity 4G");
        assert_eq!(
            (plan.hot_bytes, plan.cold_bytes, plan.limit_bytes),
            (256 * MIB, 3584 * MIB, 4608 * MIB)
        );
        assert_eq!(plan.reclaim_bytes, [1024 * MIB, 2048 * MIB, 3072 * MIB]);
        // 1.5 GiB are left, less 256 MiB each for the hot set and for tables.
        assert_eq!(plan.compressed_bytes, 1024 * MIB);
        assert!(plan.kinds == Kind::ALL && plan.rounds == 3);
    }

    #[test]
    fn the_capacity_fits_the_machine() {
        assert_eq!(fitting_capacity(24 << 30), SEED_CAPACITY_BYTES);
        assert_eq!(fitting_capacity(9 << 30), SEED_CAPACITY_BYTES);
        let small = fitting_capacity(4 << 30);
        assert!(small / 8 * 9 <= 2 << 30 && small >= 1700 * MIB, "{small}");
        assert_eq!(fitting_capacity(0), 64 * MIB);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_the_option_that_mends_it() {
        for (line, mend) in [
            ("--capacity 1M", "--capacity"),
            ("--quick --hot 100K", "--hot"),
            ("--quick --reclaim 70M", "--reclaim"),
            ("--capacity 64M --limit 1000T --kinds stub", "--capacity"),
            ("--quick --kinds disk --directory /dev/shm", "--directory"),
            ("--quick --kinds disk --directory /nowhere", "--directory"),
        ] {
            let refusal = plan(line).check().unwrap_err();
            assert_eq!(refusal.code(), 125);
            assert!(refusal.to_string().contains(mend), "{line}: {refusal}");
        }
        plan("--quick --kinds lazyfree").check().unwrap();
    }
}
