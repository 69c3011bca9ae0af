//! What a document links to. The test holds that each link leads somewhere.

use pulldown_cmark::{Event, Options, Parser, Tag};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(
        text,
        Options::ENABLE_TABLES | Options::ENABLE_HEADING_ATTRIBUTES,
    )
}

/// A link to another place of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// As written, without the anchor; empty for an anchor of the document itself.
    pub path: String,
    /// What follows `#`.
    pub anchor: Option<String>,
    /// Where the destination stands in the text.
    pub at: Range<usize>,
}

/// The links of a document that lead to no other host.
pub fn relative(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (event, range) in parser(text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            continue;
        };
        let is_elsewhere = dest_url.contains("://") || dest_url.starts_with("mailto:");
        let start = text[range.clone()].rfind(&*dest_url);
        let Some(start) = start.filter(|_| !is_elsewhere && !dest_url.is_empty()) else {
            continue;
        };
        let (path, anchor) = match dest_url.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_owned())),
            None => (&*dest_url, None),
        };
        let start = range.start + start;
        links.push(Link {
            path: path.to_owned(),
            anchor,
            at: start..start + dest_url.len(),
        });
    }
    links
}

/// The path that a link of `document` leads to, without `.` and `..`. Both are relative to one root; `None` leads out of it.
pub fn resolve(document: &Path, link: &str) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    let whole = document.parent()?.join(link);
    for component in whole.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => resolved.pop().then_some(())?,
            Component::Normal(name) => resolved.push(name),
            _ => return None,
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;
    use pulldown_cmark::TagEnd;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    /// The anchors of a document's headings, as GitHub makes them.
    fn anchors(text: &str) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut heading: Option<String> = None;
        for event in parser(text) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let before = seen.entry(slug.clone()).or_default();
                    anchors.insert(match *before {
                        0 => slug,
                        n => format!("{slug}-{n}"),
                    });
                    *before += 1;
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&part);
                    }
                }
                _ => {}
            }
        }
        anchors
    }

    fn slug(heading: &str) -> String {
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    }

    fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(workspace::root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name();
            let path = folder.join(&name);
            let is_left_out = name.to_string_lossy().starts_with('.') || name == "target";
            if workspace::root().join(&path).is_dir() && !is_left_out {
                documents(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }

    fn all_documents() -> Vec<PathBuf> {
        let mut found = Vec::new();
        documents(Path::new(""), &mut found);
        found
    }

    /// What is wrong with a link, if anything.
    fn fault(document: &Path, text: &str, link: &Link) -> Option<String> {
        let root = workspace::root();
        let target = match link.path.is_empty() {
            true => Some(document.to_owned()),
            false => resolve(document, &link.path),
        };
        let Some(target) = target.filter(|target| root.join(target).exists()) else {
            return Some(format!("{}: no {}", document.display(), link.path));
        };
        let anchor = link.anchor.as_ref()?;
        let there = match target == document {
            true => anchors(text),
            false => anchors(&fs::read_to_string(root.join(&target)).unwrap_or_default()),
        };
        (!there.contains(anchor)).then(|| {
            let (from, to) = (document.display(), target.display());
            format!("{from}: {to} has no heading #{anchor}")
        })
    }

    #[test]
    fn each_relative_link_of_a_document_resolves() {
        let (mut checked, mut faults) = (0, Vec::new());
        for document in all_documents() {
            let text = fs::read_to_string(workspace::root().join(&document)).unwrap();
            for link in relative(&text) {
                checked += 1;
                faults.extend(fault(&document, &text, &link));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert!(checked > 200, "{checked} links");
    }

    #[test]
    fn each_document_is_a_page_of_the_book() {
        let summary = Path::new("book/SUMMARY.md");
        let text = fs::read_to_string(workspace::root().join(summary)).unwrap();
        let pages: BTreeSet<_> = relative(&text)
            .iter()
            .filter_map(|link| resolve(summary, &link.path))
            .collect();
        let is_apart = |path: &&PathBuf| *path == summary || path.starts_with("packaging");
        let documents: BTreeSet<_> = all_documents()
            .iter()
            .filter(|path| !is_apart(path))
            .cloned()
            .collect();
        assert_eq!(documents, pages);
    }

    #[test]
    fn links_are_found_where_they_are_links() {
        let text = "[a\nb](x/y.md#z) `[no](code.md)`, <https://e.org>, [own](#own)\n\n    [no](indented.md)\n";
        let links = relative(text);
        let shown: Vec<_> = links
            .iter()
            .map(|link| (&*link.path, link.anchor.as_deref(), &text[link.at.clone()]))
            .collect();
        assert_eq!(
            shown,
            [("x/y.md", Some("z"), "x/y.md#z"), ("", Some("own"), "#own")]
        );
    }

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# The `run` file, again\n\n## Same\n\n## Same\n\n```\n# none\n```\n";
        let expected = ["same", "same-1", "the-run-file-again"];
        assert_eq!(anchors(text), expected.map(str::to_owned).into());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_noticed() {
        let document = Path::new("docs/cli.md");
        let of = |text| relative(text).iter().find_map(|l| fault(document, text, l));
        assert_eq!(of("[a](install.md#from-a-package)"), None);
        assert!(of("[a](no-such.md)").is_some());
        assert!(of("[a](install.md#no-such)").is_some());
        assert!(of("[a](../../outside.md)").is_some());
    }
}
