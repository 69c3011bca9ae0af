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

/// How to mend what is missing, and what that is; one line each. The commands come first: whoever reads this wants one.
pub fn missing_lines(assessment: &Assessment) -> Vec<String> {
    let mut lines = Vec::new();
    for missing in &assessment.missing {
        let several = missing.mends.len() > 1;
        if several {
            lines.push("One of these mends it:".to_owned());
        }
        for (for_whom, command) in &missing.mends {
            let colon = if command.is_empty() { "" } else { ":" };
            lines.push(format!("  - {for_whom}{colon}"));
            if !command.is_empty() {
                lines.push(format!("      {command}"));
            }
        }
        lines.push(format!("Why: {}.", missing.what));
        if several {
            lines.push(NO_SETCAP.to_owned());
        }
    }
    lines
}
