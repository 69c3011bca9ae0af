//! What a run is asked for.

use crate::codec::Inner;
use crate::inject::Kind;
use crate::mode::Mode;
use crate::random::Random;
use crate::sabotage::{KernelSabotage, PagerSabotage};
use coldpress_storage::StorageKind;

/// What a run is asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Everything follows from it.
    pub seed: u64,
    /// Steps of all worlds together.
    pub steps: u64,
    /// Steps of one world.
    pub world_steps: u64,
    /// The machine.
    pub mode: Mode,
    /// Which codec is disturbed.
    pub codec: Inner,
    /// Which storage; without, each world has another.
    pub storage: Option<StorageKind>,
    /// The first world of the run, to bring a failure back without those before it.
    pub first_world: u64,
    /// Kinds of fault that shall not happen.
    pub without: Vec<Kind>,
    /// Tell every step that concerns this segment or VMO, as it happens.
    pub follow: u32,
    /// What is wrong on purpose with the kernel below the pager.
    pub pager_sabotage: PagerSabotage,
    /// What is wrong with the kernel machine on purpose.
    pub kernel_sabotage: KernelSabotage,
}

impl Settings {
    /// A run of so many steps.
    pub fn new(mode: Mode, seed: u64, steps: u64) -> Self {
        Self {
            seed,
            steps,
            world_steps: 100_000,
            mode,
            codec: Inner::Cheap,
            storage: None,
            first_world: 0,
            // A damaged link leads to another page's bytes, and storage, which has to follow it to
            // give the object back, ends the program where it can tell and goes wrong where it
            // cannot: a known gap.
            without: vec![Kind::FlipLink],
            follow: 0,
            pager_sabotage: PagerSabotage::None,
            kernel_sabotage: KernelSabotage::None,
        }
    }

    /// The storage of a world.
    pub(crate) fn storage(&self, random: &Random) -> StorageKind {
        let drawn = random.pick(&StorageKind::ALL);
        self.storage.unwrap_or(drawn)
    }
}
