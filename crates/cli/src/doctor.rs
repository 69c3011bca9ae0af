//! `coldpress doctor`: what Coldpress needs of this machine, what is there, and how to mend the rest.

use crate::help;
use crate::host::{DEVICE, Host, Node, PRESSURE};
use crate::memory_limit;
use crate::missing_tier::missing_lines;
use crate::preload_library;
use crate::readiness;
use crate::refusal::{EXIT_REFUSED, Refusal};
use crate::size::format_bytes;
use crate::streams::print;
use crate::tier::{Access, Assessment, Tier};
use crate::userfaultfd::FEATURES;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::IsTerminal;

/// Prints the findings; the exit status is 0 where `run` would start a program, and 125 otherwise.
pub fn doctor(as_json: bool) -> Result<u8, Refusal> {
    let assessment = Assessment::take();
    let refusals = readiness::refusals(&assessment);
    print(&match as_json {
        true => format!("{:#}\n", to_json(&assessment, &refusals)),
        false => in_lines(&to_text(&assessment, &refusals)),
    })?;
    Ok(if refusals.is_empty() { 0 } else { EXIT_REFUSED })
}

fn access_text(assessment: &Assessment) -> String {
    match assessment.access {
        Some(Access::SystemCall) if assessment.host.root => {
            "by the system call, as root".to_owned()
        }
        Some(Access::SystemCall) if assessment.host.sysctl.as_deref() == Some("1") => {
            "by the system call, as vm.unprivileged_userfaultfd is 1".to_owned()
        }
        Some(Access::SystemCall) => "by the system call, with CAP_SYS_PTRACE".to_owned(),
        Some(Access::Device {
            inherited: false, ..
        }) => format!("by {DEVICE}"),
        Some(Access::Device { descriptor, .. }) => {
            format!("by descriptor {descriptor}, an inherited {DEVICE}")
        }
        None => "too little for coldpress run".to_owned(),
    }
}

fn node_text(node: Node) -> String {
    match node {
        Node::Absent => "absent".to_owned(),
        Node::Closed { mode } => format!("present, mode {mode:04o}, not open to this user"),
        Node::Openable { mode } => format!("present, mode {mode:04o}, open to this user"),
    }
}

/// Features of the kernel that the pager takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Features {
    Present,
    Missing,
}

fn feature_names(present: Option<u64>, wanted: Features) -> Vec<&'static str> {
    let has = |bit: u64| present.is_some_and(|mask| mask & bit != 0);
    FEATURES
        .iter()
        .filter(|f| has(f.bit) == (wanted == Features::Present))
        .map(|f| f.name)
        .collect()
}

fn to_text(assessment: &Assessment, refusals: &[Refusal]) -> String {
    let mut text = String::new();
    rows_to(&mut text, verdict_rows(assessment, refusals));
    if !assessment.missing.is_empty() {
        let _ = writeln!(text, "\n{}\n", missing_lines(assessment).join("\n"));
    }
    rows_to(&mut text, machine_rows(&assessment.host));
    rows_to(&mut text, permission_rows(&assessment.host));
    rows_to(&mut text, kernel_rows(assessment));
    rows_to(&mut text, vec![("pager's library", library_text())]);
    for refusal in others(assessment, refusals) {
        let _ = writeln!(text, "\n{refusal}");
    }
    text
}

/// Wraps at the terminal, if there is one. Commands stay as they are: somebody may copy them.
fn in_lines(text: &str) -> String {
    if !std::io::stdout().is_terminal() {
        return text.to_owned();
    }
    let width = help::width(std::io::stdout());
    let lines = text.lines().map(|line| match line.starts_with("      ") {
        true => line.to_owned(),
        false => help::wrapped(line, width),
    });
    lines.map(|line| line + "\n").collect()
}

fn rows_to(text: &mut String, rows: Rows) {
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<28} {value}");
    }
}

/// Lines of the text: the name of what was found out, and what was found.
type Rows = Vec<(&'static str, String)>;

fn verdict_rows(assessment: &Assessment, refusals: &[Refusal]) -> Rows {
    let verdict = match refusals.len() {
        0 => "ready: coldpress run works here",
        _ => "coldpress run will refuse",
    };
    let tier = format!("{} ({})", assessment.tier.name(), access_text(assessment));
    vec![("verdict", verdict.to_owned()), ("tier", tier)]
}

/// The machine and its systems.
fn machine_rows(host: &Host) -> Rows {
    let kernel = if host.kernel_is_new_enough() {
        host.kernel.clone()
    } else {
        format!("{} (too old: 6.8 is needed)", host.kernel)
    };
    vec![
        ("kernel", kernel),
        ("machine", host.machine.clone()),
        ("memory", memory_text()),
        ("user", host.user.clone()),
        ("glibc", text_or(&host.glibc, "none")),
    ]
}

/// What this user may do.
fn permission_rows(host: &Host) -> Rows {
    let seccomp = match host.seccomp {
        0 => "off",
        1 => "strict",
        _ => "filtered",
    };
    let container = host
        .container
        .as_ref()
        .map_or("no sign of one".to_owned(), |sign| format!("yes ({sign})"));
    vec![
        (
            "vm.unprivileged_userfaultfd",
            text_or(&host.sysctl, "no such sysctl"),
        ),
        (DEVICE, node_text(host.node)),
        (
            "CAP_SYS_PTRACE",
            if host.ptrace { "yes" } else { "no" }.to_owned(),
        ),
        ("seccomp", seccomp.to_owned()),
        ("container", container),
    ]
}

/// What the kernel can do.
fn kernel_rows(assessment: &Assessment) -> Rows {
    let (present, absent) = match assessment.features {
        Some(_) => (
            feature_names(assessment.features, Features::Present).join(" "),
            feature_names(assessment.features, Features::Missing),
        ),
        None => (
            "unknown: no userfaultfd could be created".to_owned(),
            Vec::new(),
        ),
    };
    let absent = if absent.is_empty() {
        "none".to_owned()
    } else {
        absent.join(" ")
    };
    let host = &assessment.host;
    vec![
        ("userfaultfd features", present),
        ("  missing", absent),
        ("PAGEMAP_SCAN", works_text(&host.pagemap_scan_error)),
        (PRESSURE, works_text(&host.memory_pressure_error)),
    ]
}

fn text_or(text: &Option<String>, otherwise: &str) -> String {
    text.clone().unwrap_or_else(|| otherwise.to_owned())
}

/// Whether something works, or why it does not.
fn works_text(error: &Option<String>) -> String {
    error
        .as_ref()
        .map_or("yes".to_owned(), |error| format!("no ({error})"))
}

/// The refusals that are not about the tier, of which more is said.
fn others<'a>(assessment: &Assessment, refusals: &'a [Refusal]) -> &'a [Refusal] {
    let about_the_tier = usize::from(assessment.tier != Tier::Full);
    &refusals[about_the_tier.min(refusals.len())..]
}

/// What a program may use, and why it is not more.
fn memory_text() -> String {
    let usable = memory_limit::usable_bytes().map_or("unknown".to_owned(), format_bytes);
    match memory_limit::group_bytes() {
        Some(limit) => format!(
            "{usable} (its memory group is limited to {})",
            format_bytes(limit)
        ),
        None => format!("{usable} (no limit by a memory group)"),
    }
}

/// Where the library is that `run` loads into programs.
fn library_text() -> String {
    match preload_library::find() {
        Ok(path) => path.display().to_string(),
        Err(refusal) => format!("not found: {}", refusal.in_one_line()),
    }
}

fn to_json(assessment: &Assessment, refusals: &[Refusal]) -> Value {
    let host = &assessment.host;
    let (node, mode) = match host.node {
        Node::Absent => ("absent", None),
        Node::Closed { mode } => ("closed", Some(mode)),
        Node::Openable { mode } => ("openable", Some(mode)),
    };
    let missing: Vec<Value> = assessment
        .missing
        .iter()
        .map(|missing| {
            let mends: Vec<Value> = missing
                .mends
                .iter()
                .map(|(for_whom, command)| json!({ "for": for_whom.trim(), "command": command }))
                .collect();
            json!({ "what": missing.what, "mends": mends })
        })
        .collect();
    let refusals: Vec<String> = refusals.iter().map(Refusal::to_string).collect();
    json!({
        "run_works": refusals.is_empty(),
        "refusals": refusals,
        "tier": assessment.tier.name(),
        "access": assessment.access.map(|access| match access {
            Access::SystemCall => "system_call",
            Access::Device { inherited: false, .. } => "device",
            Access::Device { inherited: true, .. } => "inherited_device",
        }),
        "kernel": host.kernel,
        "kernel_is_new_enough": host.kernel_is_new_enough(),
        "machine": host.machine,
        "glibc": host.glibc,
        "unprivileged_userfaultfd": host.sysctl,
        "device": { "state": node, "mode": mode.map(|mode| format!("{mode:04o}")) },
        "user": host.user,
        "cap_sys_ptrace": host.ptrace,
        "seccomp": host.seccomp,
        "container": host.container,
        "features_present": assessment.features.map(|_| feature_names(assessment.features, Features::Present)),
        "features_missing": assessment.features.map(|_| feature_names(assessment.features, Features::Missing)),
        "pagemap_scan": host.pagemap_scan_error.is_none(),
        "memory_pressure": host.memory_pressure_error.is_none(),
        "usable_memory_bytes": memory_limit::usable_bytes().ok(),
        "memory_group_limit_bytes": memory_limit::group_bytes(),
        "library": preload_library::find().ok(),
        "missing": missing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::missing_tier;

    #[test]
    fn the_findings_name_the_tier_and_every_missing_thing() {
        let assessment = Assessment::take();
        let refusals = [
            missing_tier::refuse(&assessment),
            Refusal::new("no library").mend("install it"),
        ];
        let text = to_text(&assessment, &refusals);
        assert!(text.contains("will refuse") && text.contains("no library\n  install it"));
        assert!(to_text(&assessment, &[]).contains("ready: "));
        assert!(text.contains(assessment.tier.name()));
        assert_eq!(assessment.missing.is_empty(), assessment.tier == Tier::Full);
        let json = to_json(&assessment, &refusals);
        assert_eq!(
            (&json["run_works"], &json["refusals"][1]),
            (&json!(false), &json!("no library\n  install it"))
        );
        assert_eq!(json["tier"], assessment.tier.name());
        let refusal = missing_tier::refuse(&assessment);
        assert_eq!(refusal.code(), EXIT_REFUSED);
        for missing in &assessment.missing {
            assert!(text.contains(&missing.what) && refusal.to_string().contains(&missing.what));
        }
    }
}
