//! Moving memory that the kernel holds as several mappings, mapping by mapping.
//!
//! To the program it is one mapping; that it was split, and cannot be joined again, is the
//! pager's doing (parts that were registered at different times may have different bookkeeping
//! inside the kernel). `mremap` refuses such a range, so each piece is moved by a call of its
//! own, onto a place reserved for the whole.

use coldpress_linux::maps;
use coldpress_linux::sys;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::ffi::c_int;
use linux_raw_sys::general as nr;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};

const MAYMOVE: c_int = 1;
const FIXED: c_int = 2;
const DONTUNMAP: c_int = 4;
const EFAULT: isize = -14;

/// Most pieces of one range.
const PIECES: usize = 128;

/// The mappings that cover a range without a gap. They lie on the program's stack, which may be small, and are known by
/// their sizes alone: none can be of 16 TiB.
struct Pieces {
    start: usize,
    pages: [u32; PIECES],
    len: usize,
}

impl Pieces {
    /// Those of a range. `None`: there is a gap, or too many.
    fn of(range: AddressRange) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let maps = rustix::fs::open(maps::PATH, flags, Mode::empty()).ok()?;
        let mut found = Self {
            start: range.start,
            pages: [0; PIECES],
            len: 0,
        };
        let (mut at, mut whole) = (range.start, true);
        let mut buffer = [0u8; maps::BUFFER_BYTES];
        maps::for_each_line(maps.as_fd(), &mut buffer, |line| {
            let Some(mapping) = maps::parse(line) else {
                return;
            };
            let piece = mapping.range.intersect(range);
            if piece.is_empty() {
                return;
            }
            let pages = u32::try_from(piece.len() / PAGE_SIZE);
            match (pages, found.pages.get_mut(found.len)) {
                (Ok(pages), Some(place)) if whole && piece.start == at => {
                    *place = pages;
                    found.len += 1;
                }
                _ => whole = false,
            }
            at = piece.end;
        })
        .ok()?;
        (whole && at == range.end).then_some(found)
    }

    fn iter(&self) -> impl Iterator<Item = AddressRange> + '_ {
        let pages = self.pages.iter().take(self.len);
        pages.scan(self.start, |at, &pages| {
            let piece = AddressRange::new(*at, pages as usize * PAGE_SIZE);
            *at = piece.end;
            Some(piece)
        })
    }
}

unsafe fn remap(from: usize, len: usize, new_len: usize, flags: c_int, to: usize) -> isize {
    let args = [from, len, new_len, flags as usize, to, 0];
    // SAFETY: the caller answers for the effect.
    unsafe { sys::syscall(nr::__NR_mremap, args) }
}

/// What `mremap` would do, if `range` were one mapping. Called where the kernel has answered
/// EFAULT.
///
/// # Safety
/// As `mremap`.
pub(crate) unsafe fn mremap(
    range: AddressRange,
    new_len: usize,
    flags: c_int,
    new: usize,
) -> isize {
    let Some(found) = Pieces::of(range) else {
        return EFAULT;
    };
    if found.len == 1 {
        // Joined meanwhile.
        // SAFETY: the program's own call.
        return unsafe { remap(range.start, range.len(), new_len, flags, new) };
    }
    let new_len = new_len.next_multiple_of(PAGE_SIZE);
    let growth = new_len.saturating_sub(range.len());
    if flags & (FIXED | DONTUNMAP) == 0
        && let Some(last) = found.iter().last()
    {
        // SAFETY: growing the last piece where it lies moves nothing.
        let grown = unsafe { remap(last.start, last.len(), last.len() + growth, 0, 0) };
        if grown >= 0 {
            return range.start as isize;
        }
        if flags & MAYMOVE == 0 {
            return grown;
        }
    }
    let place = reserve(new_len, (flags & FIXED != 0).then_some(new));
    if place < 0 {
        return place;
    }
    let moving = Moving {
        range,
        new_len,
        place: place as usize,
        flags,
    };
    for piece in found.iter() {
        // SAFETY: as the program asked, onto the place just reserved.
        let moved = unsafe { moving.carry(piece) };
        if moved < 0 {
            return moved;
        }
    }
    if new_len < range.len() && flags & DONTUNMAP == 0 {
        let rest = [range.start + new_len, range.len() - new_len, 0, 0, 0, 0];
        // SAFETY: the program has given this part up.
        unsafe { sys::syscall(nr::__NR_munmap, rest) };
    }
    place
}

/// A place for the whole: where the program wants it, or where the kernel has room. Its address, or the error.
fn reserve(len: usize, fixed: Option<usize>) -> isize {
    let how = fixed.map_or(0, |_| nr::MAP_FIXED);
    let how = how | nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE;
    let args = [
        fixed.unwrap_or(0),
        len,
        nr::PROT_NONE as usize,
        how as usize,
        usize::MAX,
        0,
    ];
    // SAFETY: what is mapped at a fixed place the program has given up by its own call.
    unsafe { sys::syscall(nr::__NR_mmap, args) }
}

/// A range on its way to a place.
struct Moving {
    range: AddressRange,
    new_len: usize,
    place: usize,
    flags: c_int,
}

impl Moving {
    /// Moves one piece of the range; the last one grows. 0 or more, or the error.
    ///
    /// # Safety
    /// As `mremap`; the place is reserved.
    unsafe fn carry(&self, piece: AddressRange) -> isize {
        let len = self.range.len();
        let offset = piece.start - self.range.start;
        let wanted = len.min(self.new_len).saturating_sub(offset);
        let wanted = wanted.min(piece.len());
        if wanted == 0 {
            return 0;
        }
        let growth = match piece.end == self.range.end {
            true => self.new_len.saturating_sub(len),
            false => 0,
        };
        let how = MAYMOVE | FIXED | (self.flags & DONTUNMAP);
        let to = self.place + offset;
        // SAFETY: as the caller promises.
        unsafe { remap(piece.start, wanted, wanted + growth, how, to) }
    }
}
