//! Which path this processor has.
//!
//! The crate has no standard library, whose feature detection it could ask; so it asks the
//! processor itself, once. (AMD64 Architecture Programmer's Manual, volume 3, appendix E; Intel
//! SDM, volume 2, CPUID.) A vector path is only there if the operating system keeps its
//! registers, which XCR0 tells.

/// A way to run press: they differ in speed only.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Simd {
    /// Without vector instructions of the processor.
    Portable,
    /// AVX2 with BMI1, BMI2, LZCNT and POPCNT (x86-64-v3).
    Avx2,
    /// AVX-512 F, BW, DQ, VL, VBMI, VBMI2 and BITALG (Ice Lake, Zen 4 and later).
    Avx512,
}

impl Simd {
    /// All paths, the slowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The fastest path that is available.
    pub fn best() -> Self {
        available()
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        self as u8 <= available() as u8
    }

    /// The path itself where it is available, else the portable one.
    pub fn or_portable(self) -> Self {
        if self.is_available() {
            self
        } else {
            Self::Portable
        }
    }

    /// The name by which options and tables call the path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// The best path there is.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
fn available() -> Simd {
    Simd::Portable
}

/// The best path there is; asked once.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
fn available() -> Simd {
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
    /// 0: not asked yet; else the path's number and 1.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            let found = cpu::ask();
            KNOWN.store(found as u8 + 1, Relaxed);
            found
        }
        known => Simd::ALL[known as usize - 1],
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod cpu {
    use super::Simd;
    use core::arch::x86_64::{__cpuid, __cpuid_count, __get_cpuid_max, _xgetbv};

    /// Leaf 1, ECX: FMA, POPCNT, OSXSAVE, AVX.
    const LEAF1_ECX: u32 = 1 << 12 | 1 << 23 | 1 << 27 | 1 << 28;
    /// Leaf 7, EBX: BMI1, AVX2, BMI2.
    const AVX2_EBX: u32 = 1 << 3 | 1 << 5 | 1 << 8;
    /// Leaf 7, EBX: AVX-512 F, DQ, BW, VL.
    const AVX512_EBX: u32 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31;
    /// Leaf 7, ECX: AVX-512 VBMI, VBMI2, BITALG.
    const AVX512_ECX: u32 = 1 << 1 | 1 << 6 | 1 << 12;
    /// XCR0: SSE and AVX state.
    const XCR0_AVX: u64 = 0b110;
    /// XCR0: mask registers and both halves of the wide ones as well.
    const XCR0_AVX512: u64 = 0b1110_0110;

    #[target_feature(enable = "xsave")]
    fn xcr0() -> u64 {
        // SAFETY: XCR0 always exists where OSXSAVE is set, which the caller has checked.
        unsafe { _xgetbv(0) }
    }

    pub(super) fn ask() -> Simd {
        let (max, _) = __get_cpuid_max(0);
        if max < 7 || __cpuid(1).ecx & LEAF1_ECX != LEAF1_ECX {
            return Simd::Portable;
        }
        let lzcnt = __cpuid(0x8000_0001).ecx & 1 << 5 != 0;
        // SAFETY: OSXSAVE is set.
        let kept = unsafe { xcr0() };
        let seven = __cpuid_count(7, 0);
        if !lzcnt || kept & XCR0_AVX != XCR0_AVX || seven.ebx & AVX2_EBX != AVX2_EBX {
            Simd::Portable
        } else if kept & XCR0_AVX512 == XCR0_AVX512
            && seven.ebx & AVX512_EBX == AVX512_EBX
            && seven.ecx & AVX512_ECX == AVX512_ECX
        {
            Simd::Avx512
        } else {
            Simd::Avx2
        }
    }
}
