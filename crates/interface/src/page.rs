//! The statistics page of a process as a whole: one slot of the [run file](crate::run_file).
//!
//! ```text
//!      0 ┌──────────────┐
//!        │ statistics   │ written by the pager, read by everybody
//!   4096 ├──────────────┤
//!        │ figures      │ written by the pager, read by everybody
//!   8192 ├──────────────┤
//!        │ mappings     │ written by the pager when it is asked to
//!  12288 ├──────────────┤
//!        │ control      │ written by who asks, never by the pager
//!  16384 └──────────────┘
//! ```
//!
//! How it grows: the places above, and those of all fields, never change as long as
//! [`VERSION`](crate::statistics::VERSION) is the same. New figures are appended at the end of
//! [`Statistics`], and its word `filled_bytes` says how far the writer's structure reached. So an
//! older command reads the page of a newer pager, of which it knows less; and a newer command the
//! page of an older pager, whose missing figures it leaves out. (The first files ended at 8192 and
//! had no `filled_bytes`: zero.)

use crate::control::Control;
use crate::figures::Figures;
use crate::mappings::Mappings;
use crate::statistics::Statistics;

/// Where the figures of the engine begin.
pub const FIGURES_AT: usize = 4096;
/// Where the table of mappings begins.
pub const MAPPINGS_AT: usize = 8192;
/// Where the request block begins.
pub const CONTROL_AT: usize = 12288;
/// Bytes of the page.
pub const FILE_BYTES: usize = 16384;

const STATISTICS_PADDING: usize = FIGURES_AT - size_of::<Statistics>();
const FIGURES_PADDING: usize = MAPPINGS_AT - FIGURES_AT - size_of::<Figures>();
const MAPPINGS_PADDING: usize = CONTROL_AT - MAPPINGS_AT - size_of::<Mappings>();
const CONTROL_PADDING: usize = FILE_BYTES - CONTROL_AT - size_of::<Control>();

/// The page.
#[repr(C)]
#[derive(Debug)]
pub struct Page {
    /// The figures.
    pub statistics: Statistics,
    padding_0: [u8; STATISTICS_PADDING],
    /// The engine's figures and tunables, by name.
    pub figures: Figures,
    padding_1: [u8; FIGURES_PADDING],
    /// What is remembered of each mapping.
    pub mappings: Mappings,
    padding_2: [u8; MAPPINGS_PADDING],
    /// What is asked for.
    pub control: Control,
    padding_3: [u8; CONTROL_PADDING],
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

impl Page {
    /// One of zeros.
    pub const fn new() -> Self {
        Self {
            statistics: Statistics::new(),
            padding_0: [0; STATISTICS_PADDING],
            figures: Figures::new(),
            padding_1: [0; FIGURES_PADDING],
            mappings: Mappings::new(),
            padding_2: [0; MAPPINGS_PADDING],
            control: Control::new(),
            padding_3: [0; CONTROL_PADDING],
        }
    }
}

const _: () = {
    assert!(size_of::<Page>() == FILE_BYTES);
    assert!(core::mem::offset_of!(Page, figures) == FIGURES_AT);
    assert!(core::mem::offset_of!(Page, mappings) == MAPPINGS_AT);
    assert!(core::mem::offset_of!(Page, control) == CONTROL_AT);
};
