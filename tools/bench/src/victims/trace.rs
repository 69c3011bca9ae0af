//! A trace: which pages a program touched, one after the other.
//!
//! ```text
//!  coldpress-touches 1
//!  name redis
//!  pages 93184
//!  touches 2000000
//!  (empty line, then for each touch the distance from the page before: zigzag, seven bits a byte, lowest first)
//! ```
//!
//! Pages are numbered by their place: 64 numbers are one leaf of the address space, 256 KiB, and leaves follow each
//! other by their addresses; those that were never touched are left out. No content is in a trace, and no address.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::Path;

/// Pages of a leaf.
pub const LEAF_PAGES: u64 = 64;
/// Pages that a trace may have: 64 GiB.
const MOST_PAGES: u64 = 1 << 24;
const FIRST_LINE: &str = "coldpress-touches 1";

/// Which pages were touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What was traced.
    pub name: String,
    /// Page numbers are below this; a multiple of 64.
    pub pages: usize,
    /// Page numbers in the order of the touches.
    pub touches: Vec<u32>,
}

impl Trace {
    /// From page numbers of the address space.
    pub fn from_addresses(name: &str, touched: impl Iterator<Item = u64> + Clone) -> Self {
        let mut leaves: BTreeMap<u64, u32> =
            touched.clone().map(|page| (page / LEAF_PAGES, 0)).collect();
        for (number, leaf) in leaves.values_mut().enumerate() {
            *leaf = number as u32;
        }
        let number = |page: u64| {
            leaves[&(page / LEAF_PAGES)] * LEAF_PAGES as u32 + (page % LEAF_PAGES) as u32
        };
        Self {
            name: name.to_owned(),
            pages: leaves.len() * LEAF_PAGES as usize,
            touches: touched.map(number).collect(),
        }
    }

    /// How many different pages were touched.
    pub fn touched_pages(&self) -> usize {
        let mut seen = vec![false; self.pages];
        for &page in &self.touches {
            seen[page as usize] = true;
        }
        seen.iter().filter(|&&seen| seen).count()
    }

    /// What a file holds.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = format!(
            "{FIRST_LINE}\nname {}\npages {}\ntouches {}\n\n",
            self.name,
            self.pages,
            self.touches.len()
        );
        let mut bytes = head.into_bytes();
        let mut before = 0;
        for &page in &self.touches {
            let distance = i64::from(page) - before;
            before = page.into();
            let mut rest = ((distance << 1) ^ (distance >> 63)) as u64;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let mut line = || -> Result<&str> {
            let end = rest.iter().position(|&byte| byte == b'\n');
            let end = end.context("its head is cut off")?;
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            std::str::from_utf8(line).context("its head is no text")
        };
        ensure!(
            line()? == FIRST_LINE,
            "its first line is not {FIRST_LINE:?}"
        );
        let mut field = |name: &str| -> Result<String> {
            let line = line()?;
            let value = line.strip_prefix(name).and_then(|v| v.strip_prefix(' '));
            Ok(value.with_context(|| format!("no {name:?}"))?.to_owned())
        };
        let name = field("name")?;
        let pages: u64 = field("pages")?.parse().context("pages")?;
        let touches: usize = field("touches")?.parse().context("touches")?;
        ensure!(line()?.is_empty(), "its head does not end");
        ensure!(
            pages <= MOST_PAGES && pages.is_multiple_of(LEAF_PAGES) && touches <= rest.len(),
            "it cannot have {pages} pages and {touches} touches"
        );
        let touches = decode(rest, touches, pages)?;
        Ok(Self {
            name,
            pages: pages as usize,
            touches,
        })
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let what = || format!("{} is no trace of touches", path.display());
        Self::from_bytes(&bytes).with_context(what)
    }

    /// Writes a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.to_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

fn decode(bytes: &[u8], count: usize, pages: u64) -> Result<Vec<u32>> {
    let mut touches = Vec::with_capacity(count);
    let mut page = 0i64;
    let mut bytes = bytes.iter();
    while touches.len() < count {
        let (mut word, mut shift) = (0u64, 0);
        loop {
            let &byte = bytes.next().context("touches are missing")?;
            word |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            ensure!(shift < 35, "a distance is too long");
        }
        page += (word >> 1) as i64 ^ -((word & 1) as i64);
        if !(0..pages as i64).contains(&page) {
            bail!("touch {} is of page {page} of {pages}", touches.len());
        }
        touches.push(page as u32);
    }
    ensure!(bytes.next().is_none(), "there is more than it tells of");
    Ok(touches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let pages = [5u64, 6, 1 << 30, 5, (1 << 30) + 64, 7, 1 << 20];
        let trace = Trace::from_addresses("some program", pages.into_iter());
        assert_eq!(trace.touches, [5, 6, 128, 5, 192, 7, 64]);
        assert_eq!((trace.pages, trace.touched_pages()), (256, 6));
        let bytes = trace.to_bytes();
        assert_eq!(Trace::from_bytes(&bytes).unwrap(), trace);
        for end in 0..bytes.len() {
            assert!(Trace::from_bytes(&bytes[..end]).is_err(), "{end} bytes");
        }
        let more = [&bytes[..], &[0]].concat();
        assert!(Trace::from_bytes(&more).is_err());
    }
}
