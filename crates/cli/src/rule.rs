//! Which rule is in force in a process, and why, in a few words.

use crate::duration::format_cold_after;
use crate::size::format_bytes;
use coldpress_interface::statistics::{Rule, Statistics};
use coldpress_interface::triggers::Triggers;
use std::sync::atomic::Ordering::Relaxed;

/// The name of a rule as the trace writes it, as a text.
pub fn plain(rule: &str) -> String {
    rule.replace('_', " ")
}

/// The rule in a few words; `None` where the pager is too old to have one.
pub fn explain(s: &Statistics) -> Option<String> {
    if !s.answers() {
        return None;
    }
    let number = s.rule.load(Relaxed);
    let Some(rule) = Rule::from_word(number) else {
        return Some(format!("rule {number}, of a newer version"));
    };
    let over = s
        .total_bytes
        .load(Relaxed)
        .saturating_sub(s.budget_bytes.load(Relaxed));
    Some(match rule {
        Rule::WithinBudget => "nothing to do: within budget".to_owned(),
        Rule::ColdAge if is_chosen(s) && s.cold_after_ms.load(Relaxed) == 0 => {
            "nothing yet: the cold age is being chosen".to_owned()
        }
        Rule::ColdAge if is_chosen(s) => format!("older than {}, chosen by the pager", age(s)),
        Rule::ColdAge => format!("older than {}", age(s)),
        Rule::Guarded => format!("nothing now: too many refaults at {}", age(s)),
        Rule::ShortOfMemory => "the coldest: machine short of memory".to_owned(),
        Rule::MemoryGroup => "the coldest: memory group nearly full".to_owned(),
        Rule::NearBudget => "the coldest: near budget".to_owned(),
        Rule::AboveBudget => format!("the coldest: {} above budget", format_bytes(over)),
        Rule::OutOfReach => format!("budget out of reach: {} above", format_bytes(over)),
        Rule::Chaos => "anything: chaos".to_owned(),
        Rule::SwitchedOff => format!(
            "nothing: {}",
            match triggers(s) {
                Some(Triggers::NONE) => "all triggers are off".to_owned(),
                Some(on) => format!("only {on} is on"),
                None => "the trigger is off".to_owned(),
            }
        ),
    })
}

fn age(s: &Statistics) -> String {
    format_cold_after(s.cold_after_ms.load(Relaxed))
}

/// The cold age as it was asked for: a time, "none", or "auto" with what that is now.
pub fn cold_age(s: &Statistics) -> String {
    match (is_chosen(s), s.cold_after_ms.load(Relaxed)) {
        (false, _) => age(s),
        (true, 0) => "auto".to_owned(),
        (true, _) => format!("auto, now {}", age(s)),
    }
}

/// Whether the pager chooses the cold age.
pub fn is_chosen(s: &Statistics) -> bool {
    s.cold_age_is_chosen.load(Relaxed) == 1
}

/// The triggers that are on; `None` where that is not known.
pub fn triggers(s: &Statistics) -> Option<Triggers> {
    Triggers::from_bits(s.triggers.load(Relaxed)).filter(|_| s.answers())
}

/// The share of each trigger in what was compressed: `eager 98 %, critical 2 %`. `None` where nothing
/// was.
pub fn driven_by(s: &Statistics) -> Option<String> {
    let counts = [
        ("eager", &s.eager_compressions),
        ("pressure", &s.pressure_compressions),
        ("critical", &s.critical_compressions),
    ]
    .map(|(name, word)| (name, word.load(Relaxed)));
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let shares: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| match *count as f64 * 100.0 / all as f64 {
            share if share < 0.5 => format!("{name} <1 %"),
            share => format!("{name} {share:.0} %"),
        })
        .collect();
    (all > 0).then(|| shares.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Statistics {
        let s = Statistics::new();
        s.filled_bytes.store(u64::MAX, Relaxed);
        s.budget_bytes.store(64 << 20, Relaxed);
        s.total_bytes.store(67 << 20, Relaxed);
        s.cold_after_ms.store(30_000, Relaxed);
        s
    }

    #[test]
    fn every_rule_is_explained() {
        let s = page();
        let told = |rule: Rule| {
            s.rule.store(rule as u64, Relaxed);
            explain(&s).unwrap()
        };
        for rule in Rule::ALL {
            assert!((5..40).contains(&told(rule).len()), "{}", told(rule));
        }
        assert_eq!(told(Rule::ColdAge), "older than 30 s");
        assert_eq!(told(Rule::AboveBudget), "the coldest: 3.0 MiB above budget");
        assert_eq!(told(Rule::SwitchedOff), "nothing: all triggers are off");
        s.triggers.store(Triggers::EAGER.bits(), Relaxed);
        assert_eq!(told(Rule::SwitchedOff), "nothing: only eager is on");
        s.rule.store(99, Relaxed);
        assert_eq!(explain(&s).unwrap(), "rule 99, of a newer version");
        assert_eq!(explain(&Statistics::new()), None);
    }

    #[test]
    fn shares_are_of_all_that_was_compressed() {
        let s = page();
        assert_eq!(driven_by(&s), None);
        s.pressure_compressions.store(3, Relaxed);
        assert_eq!(driven_by(&s).unwrap(), "pressure 100 %");
        s.eager_compressions.store(997, Relaxed);
        assert_eq!(driven_by(&s).unwrap(), "eager 100 %, pressure <1 %");
    }
}
