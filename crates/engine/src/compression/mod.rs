//! Content leaves and comes back: the protocol of RFC-0219, and what is done with content that is away.
//!
//! | concept | file |
//! |---|---|
//! | out: cold pages are taken and compressed | [`compress`] |
//! | back: content is restored | `restore`, for a touch [`fault`], ahead of one `read_ahead`, on waking `wake` |
//! | the two ways to change memory and page list together | `drivers` |
//! | pages begin and end without content | `track` |
//! | the program changes its address space | [`change`], [`fork`] |
//! | what is stored is moved, stored anew, and written back | `compaction`, `recode`, [`write_back`](mod@write_back) |
//! | what stands in storage for a page that was written back | `stub` |
//! | what each trigger may do, by which values | [`trigger`], [`tunables`] |

pub mod change;
mod compaction;
pub mod compress;
pub(crate) mod drivers;
pub mod fault;
pub mod fork;
pub mod harvest;
pub mod kept;
pub mod metadata;
pub mod read_ahead;
pub mod recode;
pub(crate) mod restore;
pub mod stored;
pub(crate) mod stub;
pub(crate) mod track;
pub mod trigger;
pub mod tunables;
pub(crate) mod wake;
pub mod worker;
pub mod write_back;
