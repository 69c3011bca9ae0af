//! Training: a dictionary from pages of the disk, by libzstd's fast cover algorithm.
//!
//! It picks the segments of the samples whose eight-byte strings occur most often, and lays the statistics of zstd's
//! entropy codes before them. libzstd allocates for it, some 12 MiB, beside 16 MiB of samples. The thread that
//! recompresses waits for it, a second or a few, and no other does.

use coldpress_codec::PAGE_SIZE;
use std::ffi::c_uint;
use zstd_sys::{
    ZDICT_fastCover_params_t, ZDICT_isError, ZDICT_params_t, ZDICT_trainFromBuffer_fastCover,
};

/// Pages that a dictionary is made from.
pub(crate) const TRAINING_PAGES: usize = 4096;

/// It is not made from fewer.
pub(crate) const LEAST_SAMPLE: usize = 1024;

/// Bytes of a segment that is taken into the dictionary, at most.
const SEGMENT_BYTES: c_uint = 512;

/// Bytes of the strings that are counted, bits of the table of counts, and how roughly it is counted (1: not).
const STRING_BYTES: c_uint = 8;
const COUNTS_BITS: c_uint = 20;
const ACCELERATION: c_uint = 1;

/// The number that the dictionary has for libzstd. Stored pages do not hold it; zero would mean "by chance".
const NUMBER_FOR_LIBZSTD: c_uint = 1;

/// Writes a dictionary for pages like `samples`, whole pages one behind the other, and says how long it is. `None`: they
/// have too little in common, or there is no memory.
pub(crate) fn train(samples: &[u8], level: i32, into: &mut [u8]) -> Option<usize> {
    let pages = samples.len() / PAGE_SIZE;
    let sizes = vec![PAGE_SIZE; pages];
    let parameters = ZDICT_fastCover_params_t {
        k: SEGMENT_BYTES,
        d: STRING_BYTES,
        f: COUNTS_BITS,
        steps: 0,
        nbThreads: 0,
        splitPoint: 0.0,
        accel: ACCELERATION,
        shrinkDict: 0,
        shrinkDictMaxRegression: 0,
        zParams: ZDICT_params_t {
            compressionLevel: level,
            notificationLevel: 0,
            dictID: NUMBER_FOR_LIBZSTD,
        },
    };
    // SAFETY: the lengths are those of the buffers, and `sizes` adds up to no more than `samples` has.
    let length = unsafe {
        let (to, room) = (into.as_mut_ptr().cast(), into.len());
        let (from, sizes) = (samples.as_ptr().cast(), sizes.as_ptr());
        ZDICT_trainFromBuffer_fastCover(to, room, from, sizes, pages as c_uint, parameters)
    };
    // SAFETY: compares.
    let is_error = unsafe { ZDICT_isError(length) != 0 };
    (!is_error).then_some(length)
}
