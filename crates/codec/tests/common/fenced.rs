//! Memory with a fence at either end: an access beyond it ends the test program.

/// Bytes that end, or begin, exactly at memory that nobody may touch.
///
/// Under Miri it is an allocation of the exact size, which Miri watches.
pub struct Fenced {
    #[cfg(not(miri))]
    mapping: std::mem::ManuallyDrop<Mapping>,
    #[cfg(miri)]
    memory: Vec<u8>,
}

/// Which end lies at the fence.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum At {
    Front,
    Back,
}

pub const ENDS: [At; 2] = [At::Front, At::Back];

#[cfg(not(miri))]
const KERNEL_PAGE: usize = 4096;

/// A mapping with its fences.
#[cfg(not(miri))]
struct Mapping {
    base: *mut u8,
    pages: usize,
}

#[cfg(not(miri))]
thread_local! {
    /// Mappings that are not in use: making and removing them took most of the tests' time, as threads take turns at
    /// changing their address space.
    static UNUSED: std::cell::RefCell<Vec<Mapping>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(not(miri))]
impl Mapping {
    /// Room for `pages` pages of the kernel, with anything in it.
    fn get(pages: usize) -> Self {
        UNUSED.with_borrow_mut(|unused| {
            let known = unused.iter().position(|mapping| mapping.pages == pages);
            known.map_or_else(|| Self::new(pages), |known| unused.swap_remove(known))
        })
    }

    fn new(pages: usize) -> Self {
        // SAFETY: fresh mappings, touched by nobody else.
        unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                (pages + 2) * KERNEL_PAGE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            let base = base.cast::<u8>();
            let mapping = Self { base, pages };
            let open = libc::mprotect(
                mapping.room().cast(),
                mapping.bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
            );
            assert_eq!(open, 0);
            mapping
        }
    }

    /// The first byte between the fences.
    fn room(&self) -> *mut u8 {
        self.base.wrapping_add(KERNEL_PAGE)
    }

    /// Bytes between the fences.
    fn bytes(&self) -> usize {
        self.pages * KERNEL_PAGE
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours, and not borrowed any more.
        unsafe { libc::munmap(self.base.cast(), (self.pages + 2) * KERNEL_PAGE) };
    }
}

#[cfg(not(miri))]
impl Fenced {
    /// Room for `bytes`, rounded up to pages of the kernel, with anything in it.
    pub fn new(bytes: usize) -> Self {
        let mapping = Mapping::get(bytes.div_ceil(KERNEL_PAGE).max(1));
        Self {
            mapping: std::mem::ManuallyDrop::new(mapping),
        }
    }

    /// `len` of the bytes, at one of the fences. What lies at the other end is left as it is.
    pub fn bytes(&mut self, len: usize, at: At) -> &mut [u8] {
        let all = self.mapping.bytes();
        assert!(len <= all);
        let skipped = match at {
            At::Front => 0,
            At::Back => all - len,
        };
        // SAFETY: inside the pages that were opened, and borrowed from `self`.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.room().add(skipped), len) }
    }

    fn fill_with_zeros(&mut self) {
        let (room, bytes) = (self.mapping.room(), self.mapping.bytes());
        // SAFETY: private anonymous memory, all of it ours: it reads zeros from now on.
        let done = unsafe { libc::madvise(room.cast(), bytes, libc::MADV_DONTNEED) };
        assert_eq!(done, 0);
    }
}

#[cfg(not(miri))]
impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        let mapping = unsafe { std::mem::ManuallyDrop::take(&mut self.mapping) };
        // Where the thread ends, there is nothing to keep it in: it is unmapped.
        let _ = UNUSED.try_with(|unused| unused.borrow_mut().push(mapping));
    }
}

#[cfg(miri)]
impl Fenced {
    pub fn new(_bytes: usize) -> Self {
        Self { memory: Vec::new() }
    }

    pub fn bytes(&mut self, len: usize, _at: At) -> &mut [u8] {
        self.memory = Vec::with_capacity(len);
        self.memory.resize(len, 0);
        &mut self.memory
    }
}

/// A value of zeros between fences. Of its memory, only what is touched is made: a fresh one of 64 MiB costs little.
///
/// Under Miri it is an allocation like others.
pub struct Zeros<T> {
    #[cfg(not(miri))]
    memory: Fenced,
    #[cfg(not(miri))]
    of: std::marker::PhantomData<T>,
    #[cfg(miri)]
    memory: Box<T>,
}

#[cfg(not(miri))]
impl<T: coldpress_arena::Zeroable> Zeros<T> {
    pub fn new() -> Self {
        assert!(align_of::<T>() <= KERNEL_PAGE);
        let mut memory = Fenced::new(size_of::<T>());
        memory.fill_with_zeros();
        Self {
            memory,
            of: std::marker::PhantomData,
        }
    }

    pub fn get(&mut self) -> &mut T {
        let bytes = self.memory.bytes(size_of::<T>(), At::Front);
        // SAFETY: zeros are valid (`Zeroable`), the memory is aligned to a page, and borrowed from `self`.
        unsafe { &mut *bytes.as_mut_ptr().cast::<T>() }
    }
}

#[cfg(miri)]
impl<T: coldpress_arena::Zeroable> Zeros<T> {
    pub fn new() -> Self {
        Self {
            memory: super::zeroed(),
        }
    }

    pub fn get(&mut self) -> &mut T {
        &mut self.memory
    }
}
