//! The settings in force: those of the command line over those of the environment over those of files, and the budget
//! that memory's limits leave.

use crate::budget::BudgetInForce;
use crate::config_file;
use crate::config_layers;
use crate::memory_limit;
use crate::output_file;
use crate::refusal::Refusal;
use crate::settings::{Settings, Told};
use crate::size::Budget;
use crate::trace_target::TraceTarget;
use std::path::{Path, PathBuf};

/// What a run without options would be refused for: settings in the environment and in files, memory's limits.
pub fn surroundings() -> Vec<Refusal> {
    match settings(Settings::default(), None) {
        Ok(chosen) => {
            let tuned = tuned(chosen.clone()).err();
            let others = [budget(&chosen).err(), outputs(&chosen).err()];
            tuned
                .into_iter()
                .chain(others.into_iter().flatten())
                .collect()
        }
        Err(refusal) => vec![refusal],
    }
}

/// What the command line, the environment and files say.
pub fn settings(upper: Settings, config: Option<PathBuf>) -> Result<Settings, Refusal> {
    let (lower, _) = told(config)?;
    Ok(upper.over(lower.settings))
}

/// The variable that names a file as `--config` does.
pub(crate) const CONFIG_VARIABLE: &str = "COLDPRESS_CONFIG";

/// What the environment and files say, and the files, lowest first. The file that the command line or
/// `COLDPRESS_CONFIG` names is read instead of those of the machine and of the user.
pub fn told(config: Option<PathBuf>) -> Result<(Told, Vec<PathBuf>), Refusal> {
    let environment = Told::from_environment()?;
    let named = std::env::var_os(CONFIG_VARIABLE).filter(|name| !name.is_empty());
    let (lower, files) = match config.or(named.map(Into::into)) {
        Some(path) => (config_file::read(&path)?, vec![path]),
        None => config_file::read_found(&config_layers::directories())?,
    };
    Ok((environment.over(lower), files))
}

/// The budget that the settings ask for, within the limits of this machine and of the memory group.
pub fn budget(chosen: &Settings) -> Result<BudgetInForce, Refusal> {
    let asked = chosen.budget.unwrap_or(Budget::Unlimited);
    let asked = asked.resolve(memory_limit::usable_bytes)?;
    BudgetInForce::of(asked, memory_limit::group_bytes())
}

/// The tunables for the pager, and the settings, in which codec and storage are what the tunables say of them.
pub fn tuned(chosen: Settings) -> Result<(String, Settings), Refusal> {
    let refused = |why: String| Refusal::new(format!("--tune: {why}"));
    let mut tune = chosen.tune.clone().unwrap_or_default();
    let (codec, storage) = tune.codec_and_storage().map_err(refused)?;
    for (option, twice) in [
        ("codec", codec.is_some() && chosen.codec.is_some()),
        ("storage", storage.is_some() && chosen.storage.is_some()),
    ] {
        if twice {
            return Err(refused(format!("--{option} says what that is")));
        }
    }
    let chosen = Settings {
        codec: chosen.codec.or(codec),
        storage: chosen.storage.or(storage),
        ..chosen
    };
    Ok((tune.for_the_pager(), chosen))
}

/// Checks that the files of statistics and of a trace can be written.
pub fn outputs(chosen: &Settings) -> Result<(), Refusal> {
    if let Some(target) = &chosen.stats {
        output_file::check(target).map_err(|refusal| refusal.of("--stats"))?;
    }
    if let Some(target) = &chosen.trace {
        output_file::check(target).map_err(|refusal| refusal.of("--trace"))?;
        TraceTarget::place(target)?;
    }
    one_file(chosen).map_or(Ok(()), Err)
}

/// Why statistics and trace cannot both be written: to one file, of which the later would replace the earlier.
fn one_file(chosen: &Settings) -> Option<Refusal> {
    let (stats, trace) = (chosen.stats.as_deref()?, chosen.trace.as_deref()?);
    let leads_to = |path: &Path| output_file::regular(path).ok().flatten();
    let (stats_file, trace_file) = (leads_to(stats), leads_to(trace));
    (stats_file.is_some() && stats_file == trace_file).then(|| {
        Refusal::new(format!(
            "--stats and --trace name one file ({}), which would hold the statistics only",
            stats.display()
        ))
        .mend("Name two files")
    })
}
