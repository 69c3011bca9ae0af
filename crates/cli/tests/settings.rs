//! Settings in files that are found: which counts, what is said of a wrong one, and what `coldpress settings` shows.

use crate::common::{Directory, NOBODY, coldpress, coldpress_as_nobody, root, stderr, stdout};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

/// A directory of the user's settings, with its drop-ins.
fn config(directory: &Directory) -> PathBuf {
    let path = directory.path("config");
    fs::create_dir_all(path.join("coldpress/coldpress.toml.d")).unwrap();
    path
}

fn with_config(mut command: Command, config: &PathBuf) -> Command {
    command
        .env_remove("COLDPRESS_CONFIG")
        .env("XDG_CONFIG_HOME", config);
    command
}

/// Value and place of a setting, as `coldpress settings --json` tells them.
fn setting(config: &PathBuf, name: &str, environment: &[(&str, &str)]) -> (String, String) {
    let mut command = with_config(coldpress(), config);
    command.envs(environment.iter().copied());
    let output = command.args(["settings", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = value["settings"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name);
    let row = row.unwrap_or_else(|| panic!("no {name} in {value:#}"));
    let text = |key: &str| row[key].as_str().unwrap().to_owned();
    (text("value"), text("from"))
}

#[test]
fn drop_ins_count_over_the_file_and_the_environment_over_both() {
    let directory = Directory::new("settings");
    let config = config(&directory);
    directory.file(
        "config/coldpress/coldpress.toml",
        b"# mine\nbudget = \"1G\"\ncold-after = \"9s\"\n",
        0o644,
    );
    directory.file(
        "config/coldpress/coldpress.toml.d/20-age.conf",
        b"cold-after = \"8s\"\n[tune]\nthreshold = 60\n",
        0o644,
    );
    directory.file(
        "config/coldpress/coldpress.toml.d/10-age.conf",
        b"cold-after = \"7s\"\n",
        0o644,
    );
    let shown = config.join("coldpress").display().to_string();
    let expected = |value: &str, from: String| (value.to_owned(), from);
    let main = expected("1G", format!("{shown}/coldpress.toml:2"));
    assert_eq!(setting(&config, "budget", &[]), main);
    let last = expected("8s", format!("{shown}/coldpress.toml.d/20-age.conf:1"));
    assert_eq!(setting(&config, "cold-after", &[]), last);
    let tuned = setting(&config, "tune.kernel.compression.threshold", &[]);
    assert_eq!(tuned.0, "60");
    let environment = [("COLDPRESS_BUDGET", "2G")];
    let upper = expected("2G", "COLDPRESS_BUDGET".to_owned());
    assert_eq!(setting(&config, "budget", &environment), upper);
    // A file that is named is read instead of all of them.
    let output = with_config(coldpress(), &config)
        .args(["settings", "--config", "/dev/null"])
        .output()
        .unwrap();
    assert!(!stdout(&output).contains("9s"), "{}", stdout(&output));
    assert!(stdout(&output).contains("/dev/null"), "{}", stdout(&output));
}

#[test]
fn a_wrong_file_is_named_with_its_line() {
    let directory = Directory::new("wrong-settings");
    let config = config(&directory);
    let path = directory.file(
        "config/coldpress/coldpress.toml",
        b"quiet = true\nbugdet = \"1G\"\n",
        0o644,
    );
    for arguments in [&["settings"][..], &["run", "--", "true"]] {
        let output = with_config(coldpress(), &config)
            .args(arguments)
            .output()
            .unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{message}");
        let expected = format!("{}:2: there is no setting \"bugdet\"", path.display());
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error_and_what_cannot_be_entered_is_nothing() {
    if !root("settings of another user") {
        return;
    }
    let directory = Directory::new("unreadable-settings");
    let config = config(&directory);
    directory.file(
        "config/coldpress/coldpress.toml",
        b"budget = \"1G\"\n",
        0o600,
    );
    let settings = || {
        let mut command = with_config(coldpress_as_nobody(&directory), &config);
        command.arg("settings").output().unwrap()
    };
    let output = settings();
    assert_eq!(output.status.code(), Some(125));
    let message = stderr(&output);
    assert!(
        message.contains("coldpress.toml cannot be read: Permission denied"),
        "{message}"
    );
    // As the HOME of root is for who was made somebody else by `setpriv`.
    fs::set_permissions(&config, fs::Permissions::from_mode(0o700)).unwrap();
    let output = settings();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("no file of settings was found"));
}

#[test]
fn root_takes_no_settings_that_somebody_else_has_written() {
    if !root("settings of another user") {
        return;
    }
    let directory = Directory::new("foreign-settings");
    let config = config(&directory);
    let path = directory.file(
        "config/coldpress/coldpress.toml",
        b"stats = \"/etc/passwd\"\n",
        0o644,
    );
    chown(&path, Some(NOBODY), None).unwrap();
    let output = with_config(coldpress(), &config)
        .args(["run", "--", "true"])
        .output()
        .unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{message}");
    assert!(
        message.contains("is not for root to read settings from: it belongs to user 65534"),
        "{message}"
    );
    assert!(message.contains("chown root:root"), "{message}");
    // The user it belongs to may.
    let output = with_config(coldpress_as_nobody(&directory), &config)
        .arg("settings")
        .output()
        .unwrap();
    assert!(
        stdout(&output).contains("/etc/passwd"),
        "{}",
        stderr(&output)
    );
}
