//! What the names of figures in OpenMetrics cannot be made from their keys alone: see [`names`](super::names).

use coldpress_engine::metrics::figure::Kind;

/// Keys that have names of their own.
pub const RENAMED: &[(&str, &str)] = &[
    ("stored_content_bytes", "original_bytes"),
    ("payload_bytes", "compressed_bytes"),
    ("storage_bytes", "memory_used_bytes"),
    ("refused", "refused_pages"),
    ("refused_by_host", "refused_by_host_pages"),
    ("recoded", "recoded_pages"),
    ("read_ahead", "read_ahead_pages"),
    ("harvested", "harvested_pages"),
    ("accessed", "accessed_pages"),
    ("picked", "picked_pages"),
    ("switched_off", "switched_off_batches"),
    // Of an older pager, which has no `compaction_frames_freed`.
    ("compaction_frames", "compaction_frames_freed"),
];

/// Families of several figures: name, label, meaning, and each figure's key with its value of the label.
pub type Labelled = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// The families.
pub const LABELLED: &[Labelled] = &[
    (
        "compressions",
        "trigger",
        "Compressions that were kept, by what triggered them.",
        &[
            ("eager_compressions", "eager"),
            ("pressure_compressions", "pressure"),
            ("critical_compressions", "critical"),
        ],
    ),
    (
        "kept_by_origin",
        "origin",
        "Pages that were kept compressed or as markers, by where they came from.",
        &[
            ("kept_anonymous", "anonymous"),
            ("kept_zero_fork", "zero_fork"),
            ("kept_pager_backed", "pager_backed"),
        ],
    ),
    (
        "kept_by_form",
        "form",
        "Pages that were kept compressed or as markers, by how they were kept.",
        &[
            ("kept_zero", "zero"),
            ("kept_same_filled", "same_filled"),
            ("kept_stored", "stored"),
        ],
    ),
    (
        "faults_by_answer",
        "answer",
        "Faults, by what they were answered with.",
        &[
            ("faults_decompressed", "decompressed"),
            ("faults_copied", "copied"),
            ("faults_same_filled", "same_filled"),
            ("faults_zero", "zero"),
            ("faults_no_frame", "no_frame"),
            ("faults_present", "present"),
        ],
    ),
    (
        "decompressions_by_residency",
        "seconds",
        "Pages decompressed, by how many seconds they had been compressed.",
        &[
            ("decompressed_within_1s", "0-1"),
            ("decompressed_within_2s", "1-2"),
            ("decompressed_within_4s", "2-4"),
            ("decompressed_within_8s", "4-8"),
            ("decompressed_within_16s", "8-16"),
            ("decompressed_within_32s", "16-32"),
            ("decompressed_within_64s", "32-64"),
            ("decompressed_within_128s", "64-128"),
            ("decompressed_later", "128-"),
        ],
    ),
    (
        "generations_opened",
        "cause",
        "Generations opened, by what for.",
        &[
            ("aged_by_time", "time"),
            ("aged_by_active_ratio", "active_ratio"),
            ("aged_by_hand", "hand"),
        ],
    ),
    (
        "compression_percentile_seconds",
        "percentile",
        "How long compressions take: so many per cent of all took at most so long.",
        &[
            ("compression_p50_ns", "50"),
            ("compression_p90_ns", "90"),
            ("compression_p99_ns", "99"),
            ("compression_p999_ns", "99.9"),
        ],
    ),
    (
        "decompression_percentile_seconds",
        "percentile",
        "How long decompressions take: so many per cent of all took at most so long.",
        &[
            ("decompression_p50_ns", "50"),
            ("decompression_p90_ns", "90"),
            ("decompression_p99_ns", "99"),
            ("decompression_p999_ns", "99.9"),
        ],
    ),
    (
        "cold_age_changes",
        "direction",
        "How often the pager changed the cold age: longer, since too many pages came back, or shorter, since hardly any did.",
        &[
            ("cold_age_longer", "longer"),
            ("cold_age_shorter", "shorter"),
        ],
    ),
];

/// What the statistics page has and the engine has not, and whether it only grows.
pub const PAGE: &[(&str, Kind)] = &[
    ("cold_after_ms", Kind::Gauge),
    ("total_bytes", Kind::Gauge),
    ("peak_total_bytes", Kind::Gauge),
    ("committed_bytes", Kind::Gauge),
    ("content_bytes", Kind::Gauge),
    ("peak_content_bytes", Kind::Gauge),
    ("stored_content_bytes", Kind::Gauge),
    ("same_filled_bytes", Kind::Gauge),
    ("overhead_bytes", Kind::Gauge),
    ("faults", Kind::Counter),
    ("events", Kind::Counter),
    ("forks", Kind::Counter),
    ("fork_child_mode", Kind::Gauge),
    ("compaction_frames", Kind::Counter),
    ("pager_user_time_ns", Kind::Counter),
    ("pager_system_time_ns", Kind::Counter),
    ("stalled_faults", Kind::Counter),
    ("stalled_thread", Kind::Gauge),
    ("stalled_address", Kind::Gauge),
    ("least_evictions_of_a_page", Kind::Gauge),
    ("tracked_pages", Kind::Gauge),
    ("registered_pages", Kind::Gauge),
    ("budget_misses", Kind::Counter),
    ("measurements", Kind::Counter),
    ("longest_measurement_gap_ns", Kind::Gauge),
    ("peak_saved_bytes", Kind::Gauge),
    ("control_answered", Kind::Gauge),
    ("control_refusal", Kind::Gauge),
    ("cold_age_is_chosen", Kind::Gauge),
    ("cold_age_longer", Kind::Counter),
    ("cold_age_shorter", Kind::Counter),
    ("recode_sample_pages", Kind::Gauge),
    ("recoded_pages", Kind::Counter),
    ("recode_time_ns", Kind::Counter),
    ("trace_error", Kind::Gauge),
    ("managed_ns", Kind::Counter),
    ("average_total_bytes", Kind::Gauge),
    ("average_content_bytes", Kind::Gauge),
    ("inherited_total_bytes", Kind::Gauge),
    ("inherited_content_bytes", Kind::Gauge),
    ("budgeted_ns", Kind::Counter),
    ("above_budget_ns", Kind::Counter),
    ("most_above_budget_bytes", Kind::Gauge),
    ("fault_wait_ns", Kind::Counter),
    ("longest_fault_wait_ns", Kind::Gauge),
    ("program_cpu_ns", Kind::Counter),
    ("pager_cpu_ns", Kind::Counter),
    ("idle_frames_bytes", Kind::Gauge),
    ("zero_bytes", Kind::Gauge),
    ("program_user_ns", Kind::Counter),
    ("pager_ready_ns", Kind::Counter),
    ("pager_switches", Kind::Counter),
    ("pager_left", Kind::Gauge),
    ("handlers_called", Kind::Counter),
    ("unregistrations", Kind::Counter),
    ("unregistered_pages", Kind::Counter),
    ("written_back_bytes", Kind::Gauge),
    ("write_back_file_bytes", Kind::Counter),
    ("write_back_errors", Kind::Counter),
    ("write_back_refusals", Kind::Counter),
    ("read_back_errors", Kind::Counter),
    ("read_back_p50_ns", Kind::Gauge),
    ("read_back_p99_ns", Kind::Gauge),
    ("read_back_longest_ns", Kind::Gauge),
    ("beside_bytes", Kind::Gauge),
    ("most_above_present_budget_bytes", Kind::Gauge),
    ("fork_wait_ns", Kind::Counter),
];

/// Words of the statistics page that are told in another form (`collector`): as labels, as one of several, or converted.
pub const SPECIAL: &[&str] = &[
    "budget_bytes",
    "measured_at_ns",
    "triggers",
    "rule",
    "run_pid",
    "program_head",
    "program_tail",
];
