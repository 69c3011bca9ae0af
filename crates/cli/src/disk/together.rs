//! Which options of `coldpress disk serve` go together: what is missing, or contradicts another, is said with a command
//! line that works.

use super::arguments::ServeArguments;
use super::write_back_to::WriteBackTo;
use crate::own_name;
use crate::refusal::Refusal;
use std::path::Path;

/// Refuses options that do not say what is to be served, or where, or that belong to different kinds of disks.
pub fn check(arguments: &ServeArguments) -> Result<(), Refusal> {
    let lines = Lines::of(arguments);
    let has = Has::of(arguments);
    let (what, mends) = match has {
        Has {
            backing: true,
            writeback: true,
            ..
        } => (
            "--backing and --writeback contradict each other: behind --backing is a file that has the content, behind \
             --writeback one that ends with the disk",
            vec![lines.cache(), lines.tier()],
        ),
        Has {
            size: false,
            writeback: true,
            ..
        } => (
            "--size is missing, the size of the disk (--writeback does not bound it)",
            vec![lines.tier()],
        ),
        Has {
            size: false,
            backing: false,
            ..
        } => (
            "what is to be served is missing: --size for a disk in memory, or --backing for a cache before a file",
            vec![lines.memory(), lines.cache()],
        ),
        Has {
            writeback: false, ..
        } if arguments.writeback_limit.is_some() => (
            "--writeback-limit bounds what is written to the file of --writeback, which is missing",
            vec![lines.tier()],
        ),
        Has {
            backing: false,
            writeback: false,
            ..
        } if arguments.accept_threshold.is_some() => (
            "--accept-threshold is for a disk with a file behind it, by --writeback or --backing",
            vec![lines.tier(), lines.cache()],
        ),
        _ if arguments.writeback_fallback.is_some() && !has.store => (
            "--writeback-fallback is for what a store on another machine does not take, which --writeback does not name",
            vec![lines.remote()],
        ),
        Has { place: false, .. } => (
            "where it is to be served is missing: --socket, or --listen",
            vec![match (has.backing, has.writeback) {
                (true, _) => lines.cache(),
                (_, true) => lines.tier(),
                _ => lines.memory(),
            }],
        ),
        _ => return Ok(()),
    };
    let refusal = Refusal::new(format!("disk serve: {what}"));
    Err(mends.into_iter().fold(refusal, Refusal::mend))
}

/// What was given.
#[derive(Clone, Copy)]
struct Has {
    size: bool,
    backing: bool,
    writeback: bool,
    /// What it is written back to is a store on another machine.
    store: bool,
    place: bool,
}

impl Has {
    fn of(arguments: &ServeArguments) -> Self {
        Self {
            size: arguments.size.is_some(),
            backing: arguments.backing.is_some(),
            writeback: arguments.writeback.is_some(),
            store: matches!(arguments.writeback, Some(WriteBackTo::Store(_))),
            place: arguments.socket.is_some() || arguments.listen.is_some(),
        }
    }
}

/// Command lines that work, of what was given, and examples of what was not.
struct Lines {
    size: String,
    backing: String,
    writeback: String,
    fallback: String,
    place: String,
}

impl Lines {
    fn of(arguments: &ServeArguments) -> Self {
        let path = |path: &Option<std::path::PathBuf>, example: &str| {
            let path = path.as_deref().unwrap_or(Path::new(example));
            path.display().to_string()
        };
        Self {
            size: arguments.size.map_or("4G".to_owned(), as_typed),
            backing: path(&arguments.backing, "image.raw"),
            writeback: match &arguments.writeback {
                Some(to) => to.to_string(),
                None => "/var/tmp/tier".to_owned(),
            },
            fallback: path(&arguments.writeback_fallback, "/var/tmp/tier"),
            place: match arguments.listen {
                Some(listen) if arguments.socket.is_none() => format!("--listen {listen}"),
                _ => format!("--socket {}", path(&arguments.socket, "disk.sock")),
            },
        }
    }

    fn whole(&self, kind: &str) -> String {
        format!("{} disk serve {kind} {}", own_name::get(), self.place)
    }

    fn memory(&self) -> String {
        self.whole(&format!("--size {}", self.size))
    }

    fn tier(&self) -> String {
        self.whole(&format!(
            "--size {} --writeback {}",
            self.size, self.writeback
        ))
    }

    fn remote(&self) -> String {
        self.whole(&format!(
            "--size {} --writeback redis://HOST:6379 --writeback-fallback {}",
            self.size, self.fallback
        ))
    }

    fn cache(&self) -> String {
        self.whole(&format!("--backing {}", self.backing))
    }
}

/// A size as it is typed.
fn as_typed(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "G"), (1 << 20, "M")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArguments,
    }

    /// The options of a line that begins as the command does, or with the options.
    fn parsed(line: &str) -> ServeArguments {
        let options = line
            .rsplit_once("disk serve")
            .map_or(line, |(_, rest)| rest);
        let words = ["serve"].into_iter().chain(options.split_whitespace());
        Line::try_parse_from(words).unwrap().serve
    }

    fn refused(options: &str) -> String {
        let arguments = parsed(options);
        check(&arguments).unwrap_err().to_string()
    }

    /// Clap named `--size` alone where `--backing` would have done, and one of two where both were missing.
    #[test]
    fn what_is_missing_or_contradicts_is_said_with_a_line_that_works() {
        for (options, why, line) in [
            ("", "what is to be served is missing", "--backing image.raw"),
            (
                "--socket /s",
                "what is to be served is missing",
                "--size 4G --socket /s",
            ),
            (
                "--size 8M",
                "where it is to be served is missing",
                "--size 8M --socket disk.sock",
            ),
            ("--backing b", "where it is", "--backing b --socket"),
            (
                "--writeback w --socket /s",
                "--size is missing",
                "--size 4G --writeback w --socket /s",
            ),
            (
                "--backing b --writeback w --size 3G --listen 10809",
                "contradict each other",
                "--size 3G --writeback w --listen 127.0.0.1:10809",
            ),
            (
                "--size 8M --writeback-limit 1G --socket /s",
                "--writeback-limit",
                "--writeback /var/tmp/tier --socket /s",
            ),
            (
                "--size 8M --accept-threshold 80 --socket /s",
                "--accept-threshold",
                "--backing",
            ),
            (
                "--size 8M --writeback w --writeback-fallback f --socket /s",
                "--writeback-fallback",
                "--size 8M --writeback redis://HOST:6379 --writeback-fallback f --socket /s",
            ),
            (
                "--writeback redis://:hush@h --socket /s",
                "--size is missing",
                "--writeback redis://***@h --socket /s",
            ),
        ] {
            let told = refused(options);
            assert!(!told.contains("hush"), "{told}");
            assert!(
                told.contains(why) && told.contains(line),
                "{options}: {told}"
            );
            let mends: Vec<&str> = told.lines().skip(1).collect();
            assert!(!mends.is_empty(), "{told}");
            for mend in mends {
                assert_eq!(check(&parsed(mend.trim())), Ok(()), "{mend}");
            }
        }
    }

    #[test]
    fn each_kind_of_disk_is_accepted() {
        for options in [
            "--size 8M --socket /s",
            "--size 8M --listen 10809",
            "--size 8M --writeback w --writeback-limit 1G --accept-threshold 80 --socket /s",
            "--backing b --size 8M --accept-threshold 80 --socket /s",
            "--size 8M --writeback s3://b/p --writeback-fallback f --socket /s",
        ] {
            let arguments = parsed(options);
            assert_eq!(check(&arguments), Ok(()), "{options}");
        }
    }
}
