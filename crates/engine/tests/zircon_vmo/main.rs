//! Promise: VMOs behave as the cases of Zircon's VMO tests ask (suite `vmo`), each written anew. A test
//! has the name of its case; docs/zircon-cases.md lists those that have none, and why.

#[path = "../machine/frames.rs"]
#[allow(dead_code, reason = "each test file uses what it needs")]
mod frames;
mod kit;
#[path = "../vmo/machine.rs"]
#[allow(dead_code, reason = "each test file uses what it needs")]
mod machine;
mod space;
#[path = "../machine/spin_lock.rs"]
mod spin_lock;
#[path = "../vmo/system.rs"]
#[allow(dead_code, reason = "each test file uses what it needs")]
mod system;

mod attribution;
mod clones;
mod commit;
mod create;
mod hints;
mod locks;
mod lookup;
mod mapped;
mod paged;
mod pins;
mod transfer;
mod zeros;
