//! `coldpress completions SHELL`: completions for the shell, made of the definition of the command line.

use crate::arguments;
use crate::refusal::Refusal;
use crate::streams;
use clap_complete::Shell;

/// The help text behind the options.
pub const HELP: &str = "\
Examples:
  coldpress completions bash > ~/.local/share/bash-completion/completions/coldpress
  coldpress completions zsh > ~/.zfunc/_coldpress
  coldpress completions fish > ~/.config/fish/completions/coldpress.fish

Packages of Coldpress install them.";

/// Prints the completions.
pub fn completions(shell: Shell) -> Result<u8, Refusal> {
    streams::print(&script(shell))?;
    Ok(0)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut arguments::definition(),
        "coldpress",
        &mut script,
    );
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sub_command_that_is_shown_can_be_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            let shown = arguments::definition();
            for command in shown.get_subcommands().filter(|c| !c.is_hide_set()) {
                assert!(script.contains(command.get_name()), "{shell}");
            }
            assert!(script.contains("cold-after"), "{shell}");
        }
    }
}
