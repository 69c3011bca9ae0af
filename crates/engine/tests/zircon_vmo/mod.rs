//! Promise: VMOs behave as the cases of Zircon's VMO tests ask (suite `vmo`), each written anew. A test
//! has the name of its case; docs/zircon-cases.md lists those that have none, and why.

pub mod kit;
pub mod space;

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
