//! What is said where the full tier of userfaultfd is not there.

use crate::mend::NO_SETCAP;
use crate::own_name;
use crate::refusal::Refusal;
use crate::tier::Assessment;

/// The refusal that `run` ends with where the full tier is not there.
pub fn refuse(assessment: &Assessment) -> Refusal {
    let what = format!(
        "run needs the full tier of userfaultfd; here it is: {}",
        assessment.tier.name()
    );
    let mut refusal = Refusal::new(what);
    for line in missing_lines(assessment) {
        refusal = refusal.mend(line);
    }
    refusal.mend(format!("All findings: {} doctor", own_name::get()))
}

/// What is missing and how to mend it, one line each.
pub fn missing_lines(assessment: &Assessment) -> Vec<String> {
    let mut lines = Vec::new();
    for missing in &assessment.missing {
        lines.push(format!("Missing: {}.", missing.what));
        for (for_whom, command) in &missing.mends {
            lines.push(format!(
                "  - {for_whom}{}",
                if command.is_empty() { "" } else { ":" }
            ));
            if !command.is_empty() {
                lines.push(format!("      {command}"));
            }
        }
    }
    if assessment
        .missing
        .iter()
        .any(|missing| missing.mends.len() > 1)
    {
        lines.push(NO_SETCAP.to_owned());
    }
    lines
}
