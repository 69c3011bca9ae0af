//! Arguments of `coldpress estimate`.

use crate::choice;
use crate::duration;
use crate::estimate::commands::Commands;
use crate::estimate::content;
use crate::estimate::watch::Means;
use crate::in_force;
use crate::memory_limit;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::size::Budget;
use clap::Args;
use coldpress_codec::CodecKind;
use coldpress_eval::Storing;
use coldpress_interface::control::NO_BUDGET;
use coldpress_storage::StorageKind;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How long is looked where nothing is said.
const WATCH: Duration = Duration::from_secs(10);

/// The help text's end.
pub const HELP: &str = "\
Examples:
  coldpress estimate 4242
  coldpress estimate --watch 1m --svg ages.svg 4242
  coldpress estimate --all
  coldpress estimate --budget 200M 4242
  coldpress estimate -- redis-server --port 6380

Nothing is injected, and nothing in the program changes. To see which pages are in use, the kernel's record of touched \
pages is cleared once (/proc/PID/clear_refs, the process's user); that changes only what the kernel knows of recent use. \
--ages damon (root) changes nothing, --ages none does without.

With -- PROGRAM the program runs natively, and the estimate goes to standard error when it ends, or after --for. It is \
looked at in stretches of 1 s, 2 s, 4 s and so on, up to --watch, of whichever of its processes holds most. A program \
that ends within a second has no estimate; the stretch that a program's end cuts off is lost, so use a small --watch for \
a short one. The exit status is the program's.

HOLDS ~, BACK/S ≤: much was touched that had been idle; how often that happens was not seen. HOLDS is then a guess, \
BETWEEN has its bounds, and no more comes back than BACK/S. --watch 5m sees more.";

/// Arguments of `coldpress estimate`. Their comments are the help text.
#[derive(Debug, Args)]
pub struct EstimateArguments {
    /// The process
    #[arg(
        value_name = "PID",
        value_parser = crate::pid::parse_pid,
        required_unless_present_any = ["all", "program"],
        conflicts_with_all = ["all", "program"]
    )]
    pub pid: Option<u32>,
    /// Print one line for each process of yours (as root: anybody's) with 64 MiB or more that could be managed
    #[arg(long, conflicts_with = "program")]
    pub all: bool,
    /// How long to watch: 500ms, 10s, 2m (a number is seconds). With a program: the longest
    /// stretch [default: 10s]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = duration::parse_milliseconds)]
    pub watch: Option<u64>,
    /// How to find the pages in use
    #[arg(long, value_enum, default_value_t = Means::Auto)]
    pub ages: Means,
    /// Add a line for this budget [default: what the environment or a file of settings says]
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "SIZE|PERCENT",
        conflicts_with = "all",
        value_parser = Budget::parse
    )]
    pub budget: Option<Budget>,
    /// How pages would be compressed, as run takes it [default: what run would choose]
    #[arg(long, value_name = "NAME", value_parser = choice::parse_codec)]
    pub codec: Option<CodecKind>,
    /// How compressed pages would be kept, as run takes it [default: what run would choose]
    #[arg(long, value_name = "NAME", value_parser = choice::parse_storage)]
    pub storage: Option<StorageKind>,
    /// Print JSON (bytes, seconds, shares of 1)
    #[arg(long, conflicts_with = "program")]
    pub json: bool,
    /// Draw memory by age, as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub svg: Option<PathBuf>,
    /// With a program: write the estimate to this file, as JSON
    #[arg(long, value_name = "FILE", requires = "program")]
    pub stats: Option<PathBuf>,
    /// With a program: report after this long, and let it run on [default: at its end]
    #[arg(long = "for", allow_hyphen_values = true, value_name = "DURATION", requires = "program", value_parser = duration::parse_milliseconds)]
    pub watch_for: Option<u64>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", last = true)]
    pub program: Vec<OsString>,
}

impl EstimateArguments {
    /// How long is looked.
    pub fn watching(&self) -> Duration {
        self.watch.map_or(WATCH, Duration::from_millis)
    }

    /// The settings that the estimate is made with: those of the command line over those of the environment and of
    /// files, as `run` takes them.
    pub fn chosen(&self) -> Result<Chosen, Refusal> {
        let own = Settings {
            budget: self.budget,
            codec: self.codec,
            storage: self.storage,
            ..Settings::default()
        };
        let surroundings = in_force::settings(Settings::default(), None)?;
        let commands = Commands::new(&own, &surroundings);
        let (_, both) = in_force::tuned(own.over(surroundings))?;
        let budget = both
            .budget
            .map(|budget| budget.resolve(memory_limit::usable_bytes));
        Ok(Chosen {
            storing: content::storing(
                both.codec.unwrap_or_else(CodecKind::best),
                both.storage.unwrap_or_default(),
            ),
            budget: budget.transpose()?.filter(|bytes| *bytes != NO_BUDGET),
            commands,
        })
    }
}

/// The settings of an estimate.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// How pages would be stored.
    pub storing: Storing,
    /// The budget to be told of, in bytes.
    pub budget: Option<u64>,
    /// The commands to try.
    pub commands: Commands,
}
