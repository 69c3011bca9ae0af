//! What is known of pages: their entries in page lists, their records, the queues in which these stand.
//!
//! Nothing here moves a page or its content.

pub mod account;
pub mod entry;
pub mod interval;
pub mod page;
pub mod page_list;
pub mod patience;
pub mod queues;
pub mod segment;
pub mod tables;
