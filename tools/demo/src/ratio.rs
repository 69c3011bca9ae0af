//! What LZ4 alone makes of the pages of a running process.
//!
//! Up to 64 MiB of its present private anonymous pages, spread evenly over all of them, are
//! read through `/proc/PID/mem`; each page that is not zero is compressed alone with liblz4 at
//! acceleration 1. A page that does not fit into 70 % of its size counts as 4096 bytes. This is
//! what any LZ4 page compressor could reach at best: without packing losses, without metadata.
//!
//! liblz4 is called directly and not through `coldpress-codec`, so that nothing of ours (the
//! same-filled test, for one) is in the figure that we are compared with.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGE: usize = 4096;
/// 70 % of a page, the default target of RFC-0219.
const LIMIT: usize = PAGE * 7 / 10;
/// Most pages looked at: 64 MiB.
const MOST_PAGES: u64 = (64 << 20) / PAGE as u64;

/// What the sampled pages were and what became of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ratio {
    /// Present anonymous pages of the process.
    pub present: u64,
    /// Pages sampled.
    pub sampled: u64,
    /// Of those, zero throughout.
    pub zero: u64,
    /// Of those, not compressible to 70 %.
    pub incompressible: u64,
    /// Bytes that the non-zero pages take, incompressible ones whole.
    pub bytes: u64,
}

impl Ratio {
    /// Size of the non-zero pages over what they compress to.
    pub fn ratio(&self) -> f64 {
        let pages = self.sampled - self.zero;
        (pages * PAGE as u64) as f64 / self.bytes.max(1) as f64
    }

    fn add(&mut self, page: &[u8; PAGE], compressor: &mut Compressor) {
        self.sampled += 1;
        if page.iter().all(|&byte| byte == 0) {
            self.zero += 1;
            return;
        }
        match compressor.compress(page) {
            Some(length) => self.bytes += length as u64,
            None => {
                self.incompressible += 1;
                self.bytes += PAGE as u64;
            }
        }
    }
}

/// Samples process `pid`.
pub fn measure(pid: u32) -> Result<Ratio> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))
        .with_context(|| format!("cannot read the memory of process {pid}"))?;
    let mut present = Vec::new();
    for (start, end) in maps.lines().filter_map(anonymous) {
        present_pages(&pagemap, start, end, &mut present)?;
    }
    let mut ratio = Ratio {
        present: present.len() as u64,
        ..Ratio::default()
    };
    let mut compressor = Compressor::new();
    let mut page = [0; PAGE];
    let wanted = MOST_PAGES.min(ratio.present);
    for number in 0..wanted {
        let address = present[(number * ratio.present / wanted) as usize];
        // A page that was unmapped since cannot be read: leave it out.
        if memory.read_exact_at(&mut page, address).is_ok() {
            ratio.add(&page, &mut compressor);
        }
    }
    Ok(ratio)
}

/// Range of a line of `/proc/PID/maps` if it is private, writable and anonymous.
fn anonymous(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let inode = fields.nth(2)?;
    let name = fields.next().unwrap_or("");
    let ordinary = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
    if !permissions.starts_with("rw") || !permissions.ends_with('p') || inode != "0" || !ordinary {
        return None;
    }
    Some((
        u64::from_str_radix(start, 16).ok()?,
        u64::from_str_radix(end, 16).ok()?,
    ))
}

/// Adds the addresses of the present pages in `start..end`. Reading an absent page would make
/// the process hold one.
fn present_pages(pagemap: &File, start: u64, end: u64, out: &mut Vec<u64>) -> Result<()> {
    const PRESENT: u64 = 1 << 63;
    let mut buffer = vec![0; 64 << 10];
    let mut address = start;
    while address < end {
        let entries = ((end - address) / PAGE as u64).min(buffer.len() as u64 / 8) as usize;
        let part = &mut buffer[..entries * 8];
        pagemap.read_exact_at(part, address / PAGE as u64 * 8)?;
        for entry in part.chunks_exact(8) {
            let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
            if entry & PRESENT != 0 {
                out.push(address);
            }
            address += PAGE as u64;
        }
    }
    Ok(())
}

/// liblz4 at acceleration 1 into a bounded buffer.
struct Compressor {
    output: [u8; LIMIT],
}

unsafe extern "C" {
    /// Declared here because lz4-sys does not: the call of liblz4 with acceleration.
    fn LZ4_compress_fast(
        source: *const libc::c_char,
        destination: *mut libc::c_char,
        source_bytes: libc::c_int,
        destination_bytes: libc::c_int,
        acceleration: libc::c_int,
    ) -> libc::c_int;
}

// Makes cargo link liblz4, which the declaration above needs.
use lz4_sys as _;

impl Compressor {
    fn new() -> Compressor {
        Compressor { output: [0; LIMIT] }
    }

    fn compress(&mut self, page: &[u8; PAGE]) -> Option<usize> {
        // SAFETY: liblz4 reads PAGE bytes of `page` and writes at most LIMIT bytes of
        // `output`; both are as long as said.
        let length = unsafe {
            LZ4_compress_fast(
                page.as_ptr().cast(),
                self.output.as_mut_ptr().cast(),
                PAGE as libc::c_int,
                LIMIT as libc::c_int,
                1,
            )
        };
        (length > 0).then_some(length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_anonymous_memory_is_taken() {
        assert_eq!(
            anonymous("1000-3000 rw-p 00000000 00:00 0 "),
            Some((0x1000, 0x3000))
        );
        assert_eq!(
            anonymous("1000-3000 rw-p 00000000 00:00 0  [heap]"),
            Some((0x1000, 0x3000))
        );
        for other in [
            "1000-3000 rw-p 00000000 00:00 0  [stack]",
            "1000-3000 r--p 00000000 00:00 0 ",
            "1000-3000 rw-s 00000000 00:01 77 /memfd:x",
            "1000-3000 rw-p 00000000 fe:00 77 /usr/lib/x.so",
            "nonsense",
        ] {
            assert_eq!(anonymous(other), None, "{other}");
        }
    }

    #[test]
    fn pages_are_counted_by_what_they_are() {
        let mut ratio = Ratio::default();
        let mut compressor = Compressor::new();
        ratio.add(&[0; PAGE], &mut compressor);
        ratio.add(&[7; PAGE], &mut compressor);
        let mut noise = [0; PAGE];
        let mut state = 1u64;
        for byte in &mut noise {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        ratio.add(&noise, &mut compressor);
        assert_eq!((ratio.sampled, ratio.zero, ratio.incompressible), (3, 1, 1));
        assert!((4097..4200).contains(&ratio.bytes), "{}", ratio.bytes);
    }

    #[test]
    fn our_own_pages_can_be_measured() {
        let filled = vec![5u8; 1 << 20];
        let ratio = measure(std::process::id()).unwrap();
        assert!(ratio.sampled > 200 && ratio.ratio() > 1.0, "{ratio:?}");
        assert_eq!(filled[77], 5);
    }
}
