//! Reclaim: what goes when.

pub(crate) mod chaos;
pub(crate) mod cold_age;
pub(crate) mod compaction;
pub(crate) mod fence;
pub(crate) mod futility;
pub(crate) mod group;
pub(crate) mod hope;
pub(crate) mod recode;
pub(crate) mod shortage;
pub(crate) mod squeeze;
pub mod turns;
pub(crate) mod write_back;
