//! The settings in force: those of the command line over those of the environment over those of the file, and the budget
//! that memory's limits leave.

use crate::budget::BudgetInForce;
use crate::config_file;
use crate::memory_limit;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::size::Budget;
use std::path::PathBuf;

/// What a run without options would be refused for: settings in the environment and their file, memory's limits.
pub fn surroundings() -> Result<(), Refusal> {
    budget(&settings(Settings::default(), None)?).map(drop)
}

/// What the command line, the environment and the file say.
pub fn settings(upper: Settings, config: Option<PathBuf>) -> Result<Settings, Refusal> {
    let upper = upper.over(Settings::from_environment()?);
    let named = std::env::var_os("COLDPRESS_CONFIG").filter(|name| !name.is_empty());
    Ok(match config.or(named.map(Into::into)) {
        Some(path) => upper.over(config_file::read(&path)?),
        None => upper,
    })
}

/// The budget that the settings ask for, within the limits of this machine and of the memory group.
pub fn budget(chosen: &Settings) -> Result<BudgetInForce, Refusal> {
    let asked = chosen.budget.unwrap_or(Budget::Unlimited);
    let asked = asked.resolve(memory_limit::usable_bytes)?;
    BudgetInForce::of(asked, memory_limit::group_bytes())
}
