//! What a tier counts.

/// What a tier holds, and what it has done, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Records held now (zram: `bd_count`).
    pub records: u64,
    /// Their bytes on the device, tags included.
    pub live_bytes: u64,
    /// Records read (zram: `bd_reads`).
    pub reads: u64,
    /// Records taken (zram: `bd_writes`).
    pub writes: u64,
    /// Bytes written to the device, with those that cleaning moved.
    pub written_bytes: u64,
    /// Segments that were cleaned.
    pub cleaned_segments: u64,
    /// Records that cleaning moved.
    pub moved_records: u64,
    /// Reads whose bytes were not those that were written: rotten, torn, of another record, or of an older one.
    pub damaged_reads: u64,
    /// Records that a second read brought back, after a damaged or a failed one.
    pub reread_records: u64,
    /// Records that were given up because a cleaning could not read them.
    pub lost_records: u64,
    /// Reads that the device refused.
    pub read_errors: u64,
    /// Reads that returned fewer bytes than asked for.
    pub short_reads: u64,
    /// Writes that the device refused, but for want of space.
    pub write_errors: u64,
    /// Writes that the device refused for want of space.
    pub no_space_errors: u64,
    /// Writes that took fewer bytes than given.
    pub short_writes: u64,
    /// Ranges that could not be discarded.
    pub discard_errors: u64,
    /// Syncs that failed.
    pub sync_errors: u64,
    /// Records refused because the tier was full.
    pub refused_full: u64,
    /// Records refused because the budget of the day was spent.
    pub refused_budget: u64,
}
