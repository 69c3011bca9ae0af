//! The commands to try: `run` with the options that make it what was estimated.
//!
//! The options of the estimate are repeated, as `run` does not know them. `run` reads settings of the environment and
//! of files itself, and the estimate is made with their codec, storage and budget. Other settings of theirs that `run`
//! would obey and the estimate does not know are overridden by options.

use crate::own_name;
use crate::settings::Settings;
use crate::size::Budget;
use coldpress_interface::control::COLD_AFTER_AUTO;
use coldpress_interface::triggers::Triggers;

/// Options of the commands to try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Those of each command.
    always: String,
    /// Those of one without a budget.
    without_budget: String,
    /// Those of one with a budget, besides it.
    with_budget: String,
}

impl Commands {
    /// For an estimate with the options `own`, where the environment and files say `surroundings`.
    pub fn new(own: &Settings, surroundings: &Settings) -> Self {
        let option = |needed: bool, text: &str| match needed {
            true => format!("{text} "),
            false => String::new(),
        };
        let codec = own.codec.map(|codec| format!("--codec {codec} "));
        let storage = own
            .storage
            .map(|storage| format!("--storage {} ", storage.name()));
        let triggers = surroundings.triggers.is_some_and(|on| on != Triggers::ALL);
        let is_not = |said: Option<u64>, expected: u64| said.is_some_and(|said| said != expected);
        let cold_after_ms = surroundings.cold_after_ms;
        let has_budget = !matches!(surroundings.budget, None | Some(Budget::Unlimited));
        Self {
            always: [
                codec.unwrap_or_default(),
                storage.unwrap_or_default(),
                option(triggers, &format!("--trigger {}", Triggers::ALL)),
                option(
                    is_not(surroundings.recode_after_ms, COLD_AFTER_AUTO),
                    "--recode-after auto",
                ),
                option(surroundings.follow == Some(false), "--follow"),
            ]
            .concat(),
            without_budget: option(has_budget, "--budget none")
                + &option(is_not(cold_after_ms, COLD_AFTER_AUTO), "--cold-after auto"),
            with_budget: option(is_not(cold_after_ms, 0), "--cold-after none"),
        }
    }

    /// The command that runs `program` without a budget.
    pub fn by_default(&self, program: &str) -> String {
        let (coldpress, always, others) = (own_name::get(), &self.always, &self.without_budget);
        format!("{coldpress} run {always}{others}-- {program}")
    }

    /// The command that runs `program` with a budget of so many bytes.
    pub fn under(&self, bytes: u64, program: &str) -> String {
        let (coldpress, always, others) = (own_name::get(), &self.always, &self.with_budget);
        let budget = budget_argument(bytes);
        format!("{coldpress} run {always}--budget {budget} {others}-- {program}")
    }
}

/// A budget as the option takes it.
pub fn budget_argument(bytes: u64) -> String {
    match bytes % (1 << 20) {
        0 => format!("{}M", bytes >> 20),
        _ => format!("{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::named;

    fn settings(list: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in list {
            (named(name).unwrap().read)(&mut settings, value).unwrap();
        }
        settings
    }

    fn told(own: &[(&str, &str)], surroundings: &[(&str, &str)]) -> [String; 2] {
        let commands = Commands::new(&settings(own), &settings(surroundings));
        [commands.by_default("p"), commands.under(44 << 20, "p")]
    }

    #[test]
    fn budgets_are_written_as_the_option_reads_them() {
        for bytes in [8 << 20, 181 << 20, 10_000_001] {
            let text = budget_argument(bytes);
            let read = crate::size::parse_bytes(&text);
            assert_eq!(read, Some(bytes), "{text}");
        }
    }

    #[test]
    fn options_of_the_estimate_are_those_of_the_run() {
        assert_eq!(
            told(&[], &[]),
            ["coldpress run -- p", "coldpress run --budget 44M -- p"]
        );
        let own = [
            ("budget", "1G"),
            ("codec", "lz4"),
            ("storage", "size-class"),
        ];
        assert_eq!(
            told(&own, &[]),
            [
                "coldpress run --codec lz4:1 --storage size-class -- p",
                "coldpress run --codec lz4:1 --storage size-class --budget 44M -- p",
            ]
        );
    }

    #[test]
    fn surroundings_that_were_not_estimated_are_overridden() {
        let unlike = [
            ("budget", "1G"),
            ("cold-after", "30s"),
            ("codec", "lzo"),
            ("recode-after", "none"),
            ("trigger", "eager"),
            ("follow", "no"),
        ];
        let always = "--trigger eager,pressure,critical --recode-after auto --follow";
        assert_eq!(
            told(&[], &unlike),
            [
                format!("coldpress run {always} --budget none --cold-after auto -- p"),
                format!("coldpress run {always} --budget 44M --cold-after none -- p"),
            ]
        );
        let alike = [
            ("budget", "none"),
            ("recode-after", "auto"),
            ("follow", "yes"),
            ("trigger", "eager,pressure,critical"),
        ];
        assert_eq!(told(&[], &alike), told(&[], &[]));
        let auto = told(&[], &[("cold-after", "auto")]);
        assert!(
            auto[1].ends_with("--budget 44M --cold-after none -- p"),
            "{auto:?}"
        );
    }
}
