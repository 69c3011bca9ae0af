//! `cargo xtask package --check`: the packages, installed in a clean root and used there.
//!
//! Each check is a script that succeeds or does not. First the root is as small as can be, so that nothing is there by
//! chance; then what looks at manual pages, completions and headers is installed into it.

use super::clean_root::{CleanRoot, Rule, Who};
use super::{Made, by_cargo, command};
use anyhow::{Context, Result, bail};
use coldpress_harness::{install as missing, workspace};

/// What is to be found true.
pub struct Check {
    name: &'static str,
    who: Who,
    script: &'static str,
}

/// One of them.
pub const fn check_by(who: Who, name: &'static str, script: &'static str) -> Check {
    Check { name, who, script }
}

/// All files, without what `dpkg` and others write down as they go.
const LIST: &str = r"find / -xdev \( -path /proc -o -path /dev -o -path /tmp -o -path /var/log -o -path /var/cache \
    -o -path /packages -o -path '/var/lib/dpkg/*-old' -o -path /var/lib/apt -o -path '/home/joe' -o -path '/run/*' \) \
    -prune -o -print | sort";

/// A real program: perl builds a table of some 40 MiB and reads it back.
const PROGRAM: &str = r#"at=$(mktemp -d)
cat > $at/table.pl <<'END'
my %table; my $sum = 0;
for my $n (1 .. 150_000) { $table{"key $n"} = "value of number $n, " x 4 }
for my $n (1 .. 150_000) { $sum += $n % 97 * length($table{"key $n"}) + ord(substr($table{"key $n"}, -4)) }
print "$sum\n";
END
perl $at/table.pl > $at/native
"#;

const INSTALL: &[Check] = &[
    check_by(
        Who::Root,
        "the package is installed, and needs no other",
        "dpkg --install /packages/coldpress_*.deb",
    ),
    check_by(
        Who::Root,
        "it has no maintainer script",
        r#"test -z "$(ls /var/lib/dpkg/info/coldpress.*inst /var/lib/dpkg/info/coldpress.*rm 2>/dev/null)""#,
    ),
    check_by(
        Who::User,
        "--version names version, commit, target and vectors",
        r"coldpress --version; coldpress -V
        coldpress --version | grep -q '^commit:  [0-9a-f]\{12\}$'
        coldpress --version | grep -q '^target:  x86_64-unknown-linux-gnu$'
        coldpress --version | grep -Eq '^vectors: (AVX-512|AVX2|none)'
        test $(coldpress -V | wc -l) = 1",
    ),
    check_by(
        Who::Root,
        "doctor finds the library and is content, for root",
        "coldpress doctor\ncoldpress doctor | grep -q /usr/lib/coldpress/libcoldpress_preload.so",
    ),
    check_by(
        Who::User,
        "doctor names the udev rule to an ordinary user, and run refuses",
        "test $(cat /proc/sys/vm/unprivileged_userfaultfd) = 0
        coldpress doctor && exit 1 || test $? = 125
        coldpress doctor | grep -q 60-userfaultfd.rules
        coldpress run -- true && exit 1 || test $? = 125",
    ),
    check_by(
        Who::UserWithRule,
        "doctor is content for an ordinary user where the rule is in force",
        "coldpress doctor\ncoldpress doctor | grep -q 'by /dev/userfaultfd'",
    ),
];

const USE: &[Check] = &[
    check_by(Who::Root, "a real program runs in less, as root", "run coldpress"),
    check_by(Who::UserWithRule, "a real program runs in less, as an ordinary user", "run coldpress"),
    check_by(
        Who::Root,
        "behind an entry point that drops root the program is managed, with the device handed down",
        r#"at=$(mktemp -d); chmod 755 $at
        printf '#!/bin/sh\nexec setpriv --reuid joe --regid joe --clear-groups "$@"\n' > $at/entrypoint.sh
        chmod 755 $at/entrypoint.sh
        cat > $at/held.pl <<'END'
my %table;
for my $n (1 .. 150_000) { $table{"key $n"} = "value of number $n, " x 4 }
open(my $status, "<", "/proc/self/status");
while (<$status>) { print "$1\n" if /RssAnon:\s+(\d+)/ }
END
        native=$(perl $at/held.pl)
        managed=$(coldpress run --budget 24M -- $at/entrypoint.sh perl $at/held.pl 3<> /dev/userfaultfd)
        echo $native KiB natively, $managed KiB managed
        test $managed -lt $((native * 4 / 5))
        rm -r $at"#,
    ),
    check_by(
        Who::UserWithRule,
        "the tarball works, unpacked below ~/.local",
        r"mkdir ~/.local && tar -C ~/.local --strip-components=1 -xf /packages/coldpress-*.tar.gz
        ~/.local/bin/coldpress doctor | grep -q $HOME/.local/lib/coldpress/libcoldpress_preload.so
        run ~/.local/bin/coldpress
        tar -tf /packages/coldpress-*.tar.gz | sed -n 's,^[^/]*/\(.*[^/]\)$,\1,p' | (cd ~/.local && xargs rm)
        test -z $(find ~/.local ! -type d)",
    ),
    check_by(
        Who::Root,
        "settings are layered, masked and named with their place",
        r#"mkdir -p /etc/coldpress/coldpress.toml.d /usr/lib/coldpress/coldpress.toml.d /run/coldpress/coldpress.toml.d
        echo 'budget = "1G"' > /usr/lib/coldpress/coldpress.toml
        echo 'budget = "2G"' > /etc/coldpress/coldpress.toml
        echo 'cold-after = "9s"' > /usr/lib/coldpress/coldpress.toml.d/50-age.conf
        echo 'cold-after = "8s"' > /run/coldpress/coldpress.toml.d/50-age.conf
        echo 'quiet = true' > /etc/coldpress/coldpress.toml.d/90-quiet.conf
        coldpress settings
        coldpress settings | grep -Eq '^ *budget +2G +/etc/coldpress/coldpress.toml:1$'
        coldpress settings | grep -Eq '^ *cold-after +8s +/run/coldpress/coldpress.toml.d/50-age.conf:1$'
        COLDPRESS_BUDGET=3G coldpress settings | grep -Eq '^ *budget +3G +COLDPRESS_BUDGET$'
        su joe -c 'mkdir -p ~/.config/coldpress && echo budget = 67108864 > ~/.config/coldpress/coldpress.toml'
        su - joe -c 'coldpress settings' | grep -Eq '^ *budget +67108864 +/home/joe/.config/coldpress/coldpress.toml:1$'"#,
    ),
    check_by(
        Who::Root,
        "root takes no settings that a user has written, and a wrong file is named with its line",
        r"HOME=/home/joe coldpress settings > /tmp/out 2>&1 && exit 1 || test $? = 125
        grep -q '/home/joe/.config/coldpress/coldpress.toml is not for root' /tmp/out
        printf '\nbugdet = 1\n' > /etc/coldpress/coldpress.toml
        coldpress run -- true > /tmp/out 2>&1 && exit 1 || test $? = 125
        grep -q '/etc/coldpress/coldpress.toml:2: there is no setting' /tmp/out
        rm -r /etc/coldpress /usr/lib/coldpress/coldpress.toml* /run/coldpress /home/joe/.config /tmp/out",
    ),
    check_by(
        Who::Root,
        "the example of settings is one",
        "sed 's/^#\\(.* = \\|\\[\\)/\\1/' /usr/share/doc/coldpress/examples/coldpress.toml > /tmp/all.toml
        coldpress settings --config /tmp/all.toml
        coldpress settings --config /tmp/all.toml | grep -q '65%'; rm /tmp/all.toml",
    ),
];

/// What looks at manual pages, completions and headers.
const TOOLS: &str = "man-db gcc libc6-dev pkg-config bash-completion zsh fish lintian";

const LOOK: &[Check] = &[
    check_by(
        Who::Root,
        "the package is installed again",
        "dpkg --install /packages/coldpress_*.deb",
    ),
    check_by(
        Who::User,
        "every manual page renders without a warning",
        r"for page in /usr/share/man/man1/coldpress*.1.gz; do
            MANWIDTH=80 man --warnings -l $page > /tmp/page 2> /tmp/warnings
            test -s /tmp/page; cat /tmp/warnings; test ! -s /tmp/warnings
        done
        man coldpress-run | grep -q cold-after; rm /tmp/page /tmp/warnings",
    ),
    check_by(
        Who::User,
        "completions load in bash, zsh and fish, and complete",
        r#"completes_in_bash
        zsh -fc 'autoload -U compinit && compinit -D && test $_comps[coldpress] = _coldpress && autoload -X +X _coldpress 2>/dev/null || whence _coldpress'
        fish -c 'complete -C "coldpress ru"' | grep -q ^run"#,
    ),
    check_by(
        Who::User,
        "a program in C is compiled by pkg-config, against the shared and the static library",
        r##"cat > /tmp/use.c <<'END'
#include "coldpress.h"
#include "lazyfree.h"
int main(void) {
    static char samples[8192] __attribute__((aligned(4096)));
    if (coldpress_advise_if_managed(samples, sizeof samples, COLDPRESS_LATENCY_SENSITIVE)) return 1;
    lazyfree_cache_t cache = lazyfree_cache_new(64 << 20);
    char *page = lazyfree_write_alloc(cache, 42);
    if (!page) return 2;
    strcpy(page, "what took long to make");
    lazyfree_write_unlock(cache, false);
    char text[23];
    lazyfree_rlock_t lock = lazyfree_read_lock(cache, 42);
    if (!lazyfree_read(text, lock, 0, sizeof text)) return 3;
    lazyfree_read_unlock(cache, lock, false);
    lazyfree_cache_free(cache);
    puts(text);
    return 0;
}
END
        for header in 'coldpress coldpress.h' 'coldpress-cache lazyfree.h' 'coldpress-cache upstream/cache.h'; do
            set -- $header
            echo "#include <$2>" | cc -Wall -Werror -fsyntax-only $(pkg-config --cflags $1) -x c -
        done
        cc -Wall -Wextra -Werror -o /tmp/use /tmp/use.c $(pkg-config --cflags --libs coldpress-cache coldpress)
        test "$(/tmp/use)" = 'what took long to make'
        ldd /tmp/use | grep -q 'libcoldpress_cache_c.so.0 => /'
        library=$(pkg-config --variable=libdir coldpress-cache)/libcoldpress_cache_c.a
        cc -o /tmp/use-static /tmp/use.c $(pkg-config --cflags coldpress-cache coldpress) $library -lpthread -ldl -lm -lgcc_s
        test "$(/tmp/use-static)" = 'what took long to make'
        rm /tmp/use*"##,
    ),
    check_by(
        Who::User,
        "lintian finds no error",
        "lintian --fail-on error --tag-display-limit 0 /packages/coldpress_*.deb",
    ),
];

/// Runs all checks; 1 if one failed.
pub fn check(made: &Made) -> Result<u8> {
    // SAFETY: geteuid reads nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        bail!("a clean root is made and entered by root only: sudo cargo xtask package --check");
    }
    missing::packages(&[
        missing::program("mmdebstrap", "mmdebstrap"),
        missing::program("util-linux", "unshare"),
    ])?;
    let rule = workspace::root().join("packaging/examples/60-userfaultfd.rules");
    let mut root = CleanRoot::make(Rule::read(&rule)?)?;
    root.bring(&made.deb)?;
    root.bring(&made.tarball)?;
    let mut tally = Tally::default();
    let before = succeed(&root, LIST)?;
    tally.all(&root, INSTALL)?;
    tally.all(&root, USE)?;
    succeed(&root, "dpkg --purge coldpress")?;
    let left = left_behind(&before, &succeed(&root, LIST)?);
    tally.told(
        "purging the package leaves nothing behind",
        left.is_empty(),
        &left.join("\n"),
    );
    eprintln!("installing into the clean root: {TOOLS}");
    let install =
        format!("apt-get update -q && apt-get install -q -y --no-install-recommends {TOOLS}");
    succeed(&root, &install).context("tools could not be installed into the clean root")?;
    by_cargo::prepare(&mut root)?;
    tally.all(&root, by_cargo::CHECKS)?;
    tally.all(&root, LOOK)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(u8::from(tally.failed > 0))
}

/// What a script prints that only prepares something.
pub fn succeed(root: &CleanRoot, script: &str) -> Result<String> {
    let output = root.run(Who::Root, script)?;
    if !output.status.success() {
        bail!("in the clean root: {script}\n{}", command::said(&output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines that are in the second list and not in the first.
fn left_behind(before: &str, after: &str) -> Vec<String> {
    let before: std::collections::BTreeSet<&str> = before.lines().collect();
    let new = after.lines().filter(|line| !before.contains(line));
    new.map(str::to_owned).collect()
}

/// What was found.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn all(&mut self, root: &CleanRoot, checks: &[Check]) -> Result<()> {
        for check in checks {
            let functions = format!(
                "run() {{ {PROGRAM}{RUN}}}\ncompletes_in_bash() {{ {COMPLETES_IN_BASH}}}\n"
            );
            let output = root.run(check.who, &format!("{functions}{}", check.script))?;
            self.told(check.name, output.status.success(), &command::said(&output));
        }
        Ok(())
    }

    fn told(&mut self, name: &str, passed: bool, said: &str) {
        let outcome = if passed { "ok" } else { "FAILED" };
        println!("{outcome:<6}  {name}");
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("{said}");
        }
    }
}

/// The program under a budget of four fifths of what it holds: its output is that of its native run, and pages were evicted.
const RUN: &str = r#"
"$1" run --budget 32M --stats $at/stats -- perl $at/table.pl > $at/managed
cmp $at/native $at/managed
grep -Eq '"evictions": [1-9]' $at/stats
rm -r $at
"#;

/// Bash finds the completions by itself, and they complete.
const COMPLETES_IN_BASH: &str = r#"
bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader coldpress
    COMP_WORDS=(coldpress ru); COMP_CWORD=1; COMP_LINE="coldpress ru"; COMP_POINT=12
    _coldpress coldpress ru coldpress; test "${COMPREPLY[*]}" = run'
"#;
