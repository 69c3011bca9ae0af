//! The Linux host of the engine: discovery, fault handlers, reclaim, fork, the statistics page.
