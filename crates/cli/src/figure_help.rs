//! What a word of the statistics page means, in a sentence or two, as its comment in the code says it.
//!
//! The lines are joined, and links that only lead somewhere in the code are taken out.

use coldpress_interface::statistics::Statistics;

/// The meaning of a word of the page; `None`: there is no such word.
pub fn help(field: &str) -> Option<String> {
    let (_, lines) = Statistics::MEANINGS
        .iter()
        .find(|(name, _)| *name == field)?;
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    Some(without_links(&lines.join(" ")))
}

/// A link is for a reader of the code: "(…)" around it goes with it.
fn without_links(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = text.find("([`") {
        let Some(end) = text[start..].find("])").or(text[start..].find("))")) else {
            break;
        };
        text.replace_range(start..start + end + 2, "");
    }
    text.replace(" .", ".")
        .replace("  ", " ")
        .replace(" ;", ";")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_page_has_a_meaning_without_links() {
        let page = Statistics::new();
        page.filled_bytes
            .store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
        for (name, _) in page.fields() {
            let text = help(name).unwrap();
            assert!(text.ends_with('.'), "{name}: {text:?}");
            assert!(!text.contains("](") && !text.contains(" ."), "{text}");
        }
        assert_eq!(help("triggers").unwrap(), "Triggers that are switched on.");
        assert_eq!(help("no_such_word"), None);
    }
}
