//! `coldpress settings`: the settings that a run without options has, and where each comes from.
//!
//! The values are shown as they are written where they come from; what nobody says is shown as what holds then.

use crate::grid::{self, left};
use crate::help;
use crate::in_force;
use crate::memory_limit;
use crate::refusal::Refusal;
use crate::settings::{SETTINGS, Said, Settings, Told};
use crate::size::{Budget, format_budget};
use crate::streams::{print, visible};
use clap::Args;
use coldpress_codec::CodecKind;
use coldpress_interface::triggers::Triggers;
use coldpress_storage::StorageKind;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The help text behind the options.
pub const HELP: &str = "\
Files:
  /usr/lib/coldpress/coldpress.toml             of the distribution
  /usr/local/lib/coldpress/coldpress.toml       the same, installed by hand
  /etc/coldpress/coldpress.toml                 of the administrator
  /run/coldpress/coldpress.toml                 the same, until the next boot
  ~/.config/coldpress/coldpress.toml            of the user
  coldpress.toml.d/*.conf beside each of them   drop-ins

Of files of one name only that in the lowest line counts. Drop-ins count over coldpress.toml, in the order of \
their names. The environment counts over all files, options count over the environment. Root takes no file that \
somebody else can have written.";

/// Arguments of `coldpress settings`.
#[derive(Debug, Args)]
pub struct SettingsArguments {
    /// Read this TOML file instead of those of the machine and the user
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the settings.
pub fn show(arguments: &SettingsArguments) -> Result<u8, Refusal> {
    let (told, files) = in_force::told(arguments.config.clone())?;
    let rows = rows(&told);
    print(&match arguments.json {
        true => format!("{:#}\n", to_json(&rows, &files)),
        false => to_text(rows, &files, help::table_width()),
    })?;
    Ok(0)
}

/// All settings, in the order of their table; tunables as far as somebody sets them.
fn rows(told: &Told) -> Vec<Said> {
    let mut rows = Vec::new();
    for setting in SETTINGS {
        let said = told.said.iter().find(|said| said.name == setting.name);
        let by_default = || {
            Some(Said {
                name: setting.name.to_owned(),
                value: default(setting.name, &told.settings)?,
                from: "default".to_owned(),
            })
        };
        rows.extend(said.cloned().or_else(by_default));
    }
    let tunables = told
        .said
        .iter()
        .filter(|said| said.name.starts_with("tune."));
    rows.extend(tunables.cloned());
    rows
}

/// What holds where nobody says anything of a setting. `None`: nothing is to be shown.
fn default(name: &str, settings: &Settings) -> Option<String> {
    // Tunables may name codec and storage, too.
    let tuned = settings
        .tune
        .clone()
        .unwrap_or_default()
        .codec_and_storage();
    let (codec, storage) = tuned.unwrap_or_default();
    let has_no_budget = matches!(settings.budget, None | Some(Budget::Unlimited));
    Some(match name {
        "budget" => match memory_limit::group_bytes() {
            Some(limit) => format!("{}, the limit of the memory group", format_budget(limit)),
            None => "none".to_owned(),
        },
        "cold-after" if has_no_budget => "auto".to_owned(),
        "cold-after" => "none".to_owned(),
        "trigger" => Triggers::ALL.to_string(),
        "codec" => codec.unwrap_or_else(CodecKind::best).to_string(),
        "storage" => storage.unwrap_or(StorageKind::default()).name().to_owned(),
        "recode-after" => "auto".to_owned(),
        "follow" => "true".to_owned(),
        "quiet" | "verbose" => "false".to_owned(),
        _ => return None,
    })
}

fn to_text(rows: Vec<Said>, files: &[PathBuf], width: Option<usize>) -> String {
    let headings = [
        left("SETTING").cut_start(),
        left("VALUE").cut_end(),
        left("FROM").cut_start(),
    ];
    let cells = rows.into_iter().map(|row| {
        let cells = [row.name, row.value, row.from];
        cells.map(|cell| visible(&cell)).to_vec()
    });
    let mut text = grid::fitted(&headings, cells.collect(), width);
    let files: Vec<String> = files
        .iter()
        .map(|file| format!("  {}\n", visible(&file.display().to_string())))
        .collect();
    text += &match files.is_empty() {
        true => "\nno file of settings was found\n".to_owned(),
        false => format!(
            "\nfiles, a later one counts over an earlier:\n{}",
            files.concat()
        ),
    };
    text
}

fn to_json(rows: &[Said], files: &[PathBuf]) -> Value {
    let settings: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "name": row.name, "value": row.value, "from": row.from }))
        .collect();
    json!({ "settings": settings, "files": files })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::named;

    fn told(list: &[(&str, &str)]) -> Told {
        let mut told = Told::default();
        for (name, value) in list {
            told.set(named(name).unwrap(), value, "/etc/x:1").unwrap();
        }
        told
    }

    fn row(rows: &[Said], name: &str) -> (String, String) {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        (row.value.clone(), row.from.clone())
    }

    #[test]
    fn what_nobody_says_is_shown_as_what_holds_then() {
        let rows = rows(&told(&[]));
        assert_eq!(
            row(&rows, "cold-after"),
            ("auto".to_owned(), "default".to_owned())
        );
        assert_eq!(row(&rows, "codec").0, CodecKind::best().to_string());
        assert!(rows.iter().all(|row| row.name != "stats"));
        let with_a_budget = super::rows(&told(&[("budget", "1G")]));
        assert_eq!(row(&with_a_budget, "budget").1, "/etc/x:1");
        assert_eq!(row(&with_a_budget, "cold-after").0, "none");
    }

    #[test]
    fn tunables_are_rows_and_may_name_the_codec() {
        let rows = rows(&told(&[("tune", "strategy=zstd threshold=60")]));
        assert_eq!(row(&rows, "codec").0, "zstd:1");
        assert_eq!(row(&rows, "tune.kernel.compression.threshold").0, "60");
        let value = to_json(&rows, &["/etc/x".into()]);
        assert_eq!(value["files"][0], "/etc/x");
        let text = to_text(rows.clone(), &[], None);
        assert!(text.contains("no file of settings"), "{text}");
        let long = Said {
            name: "tune.kernel.compression.a.very.long.name.of.a.tunable".to_owned(),
            value: "1.0 GiB, the limit of the memory group".to_owned(),
            from: "/home/joe/.config/coldpress/coldpress.toml.d/50-age.conf:123".to_owned(),
        };
        let text = to_text([rows, vec![long]].concat(), &["/etc/x".into()], Some(80));
        grid::assert_fits(&text, 80);
        assert!(
            text.contains(".conf:123") && text.ends_with(":\n  /etc/x\n"),
            "{text}"
        );
    }
}
