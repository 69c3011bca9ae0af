//! Which symbols the main program leaves to others: what its own tables in memory say.

use crate::libc_symbols;
use core::ffi::{CStr, c_char};
use core::mem::size_of;
use linux_raw_sys::auxvec::{AT_PHDR, AT_PHNUM};
use linux_raw_sys::elf::{
    DT_GNU_HASH, DT_HASH, DT_NULL, DT_STRTAB, DT_SYMTAB, Elf_Dyn, Elf_Phdr, Elf_Sym, PT_DYNAMIC,
    PT_PHDR,
};

/// The part of the main program's table of dynamic symbols that holds those it refers to and does not define.
pub(crate) struct Referred {
    symbols: *const Elf_Sym,
    count: usize,
    names: *const c_char,
}

impl Referred {
    /// `None`: the program has no such table, or none that is known here.
    pub(crate) fn of_main_program() -> Option<Self> {
        let headers = libc_symbols::auxiliary_value(AT_PHDR.into());
        let count = libc_symbols::auxiliary_value(AT_PHNUM.into());
        if headers == 0 {
            return None;
        }
        // SAFETY: the kernel says where the headers lie; they are mapped for the life of the process.
        let list =
            unsafe { core::slice::from_raw_parts(headers as *const Elf_Phdr, count as usize) };
        let of_kind = |kind| list.iter().find(|header| header.p_type == kind);
        let base = (headers as usize).wrapping_sub(of_kind(PT_PHDR)?.p_vaddr);
        // SAFETY: a mapped program's own table.
        unsafe {
            Self::of_dynamic(
                (base + of_kind(PT_DYNAMIC)?.p_vaddr) as *const Elf_Dyn,
                base,
            )
        }
    }

    /// # Safety
    /// The dynamic section of a program that is mapped at `base`.
    unsafe fn of_dynamic(dynamic: *const Elf_Dyn, base: usize) -> Option<Self> {
        let value_of = |tag| {
            let mut at = dynamic;
            loop {
                // SAFETY: the section ends with DT_NULL; all its values are words.
                let (found, value) = unsafe { ((*at).d_tag, (*at).d_un.d_ptr) };
                if found == tag {
                    // glibc has added the base already, where it can write to the section.
                    return Some(if value < base { base + value } else { value });
                }
                if found == DT_NULL {
                    return None;
                }
                // SAFETY: as above.
                at = unsafe { at.add(1) };
            }
        };
        // The second word of either: the first symbol that is defined, or how many symbols there are.
        let hash = value_of(DT_GNU_HASH).or_else(|| value_of(DT_HASH))?;
        // SAFETY: both begin with more words than that.
        let count = unsafe { *((hash + size_of::<u32>()) as *const u32) };
        Some(Self {
            symbols: value_of(DT_SYMTAB)? as *const Elf_Sym,
            count: count as usize,
            names: value_of(DT_STRTAB)? as *const c_char,
        })
    }

    /// Whether the program refers to `name` and leaves it to others to define it.
    pub(crate) fn has(&self, name: &CStr) -> bool {
        (0..self.count).any(|at| {
            // SAFETY: symbols of the table, whose names are C strings in the table of names.
            unsafe {
                let symbol = &*self.symbols.add(at);
                symbol.st_shndx == 0
                    && CStr::from_ptr(self.names.add(symbol.st_name as usize)) == name
            }
        })
    }
}
