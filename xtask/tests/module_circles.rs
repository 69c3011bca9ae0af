//! No module imports one that imports it in turn, by whatever way round: a room is understood without those that use it.
//!
//! A module is what lies directly below a crate's root, a file or a directory; what is inside a directory may refer to its
//! parts as it likes. What the root itself holds is for all, and counts for none. Tests count for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree};

type Imports = BTreeMap<String, BTreeSet<String>>;

/// What a file names below `crate::`.
#[derive(Default)]
struct Named(BTreeSet<String>);

impl Named {
    fn of_tree(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => drop(self.0.insert(path.ident.to_string())),
            UseTree::Name(name) => drop(self.0.insert(name.ident.to_string())),
            UseTree::Rename(rename) => drop(self.0.insert(rename.ident.to_string())),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.of_tree(item)),
            UseTree::Glob(_) => {}
        }
    }
}

impl<'a> Visit<'a> for Named {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(ItemMod { attrs, .. }) => attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_use_tree(&mut self, tree: &'a UseTree) {
        if let UseTree::Path(path) = tree
            && path.ident == "crate"
        {
            self.of_tree(&path.tree);
        }
    }

    fn visit_macro(&mut self, called: &'a syn::Macro) {
        // What is between the brackets is whatever the macro makes of it, but a path is a path.
        let text = called.tokens.to_string();
        for rest in text.split("crate :: ").skip(1) {
            let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric());
            self.0.insert(rest[..end.unwrap_or(rest.len())].to_owned());
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let mut segments = path.segments.iter();
        if segments.next().is_some_and(|first| first.ident == "crate")
            && let Some(second) = segments.next()
        {
            self.0.insert(second.ident.to_string());
        }
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let text = match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
        _ => return false,
    };
    text == "test"
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => {
                found.push(path)
            }
            false => {}
        }
    }
}

/// The module below the root of `source` that a file belongs to; `None`: the root.
fn module(source: &Path, file: &Path) -> Option<String> {
    let below = file.strip_prefix(source).unwrap();
    let first = below.components().next().unwrap();
    let name = Path::new(first.as_os_str())
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap();
    let root = below.components().count() == 1 && ["lib", "main"].contains(&name);
    (!root).then(|| name.to_owned())
}

fn imports(source: &Path) -> Imports {
    let mut found = Vec::new();
    files(source, &mut found);
    let mut imports = Imports::new();
    for file in &found {
        let Some(module) = module(source, file) else {
            continue;
        };
        let text = fs::read_to_string(file).unwrap();
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut named = Named::default();
        if !parsed.attrs.iter().any(is_for_tests) {
            named.visit_file(&parsed);
        }
        imports.entry(module).or_default().append(&mut named.0);
    }
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    for (module, named) in &mut imports {
        named.retain(|name| name != module && modules.contains(name));
    }
    imports
}

fn reached(imports: &Imports, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(module) = open.pop() {
        for next in imports.get(&module).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}

/// Modules that reach each other.
fn circles(imports: &Imports) -> BTreeSet<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<String>> = imports
        .keys()
        .map(|module| (module, reached(imports, module)))
        .collect();
    let in_circle = imports
        .keys()
        .filter(|module| reach[module].contains(*module));
    in_circle
        .map(|module| {
            let together = reach[module]
                .iter()
                .filter(|other| reach[other].contains(module));
            together.cloned().collect()
        })
        .collect()
}

#[test]
fn no_module_imports_one_that_imports_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut crates = vec![("xtask".to_owned(), root.join("xtask/src"))];
    let members = ["crates", "tools"].map(|directory| fs::read_dir(root.join(directory)).unwrap());
    for entry in members.into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.join("src").is_dir() {
            crates.push((name, path.join("src")));
        }
    }
    let mut found = Vec::new();
    for (name, source) in crates {
        found.extend(
            circles(&imports(&source))
                .into_iter()
                .map(|circle| (name.clone(), circle)),
        );
    }
    found.sort();
    assert!(found.is_empty(), "circles: {found:#?}");
}

#[test]
fn circles_are_seen_and_what_is_inside_a_directory_is_one_module() {
    let of = |pairs: &[(&str, &[&str])]| -> Imports {
        let all = pairs.iter();
        all.map(|(module, named)| {
            (
                (*module).to_owned(),
                named.iter().map(|&name| name.to_owned()).collect(),
            )
        })
        .collect()
    };
    let none = of(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert!(circles(&none).is_empty());
    let round = of(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]);
    assert_eq!(
        circles(&round),
        BTreeSet::from([["a", "b", "c"].map(str::to_owned).to_vec()])
    );
    let source = Path::new("/s");
    let in_directory = module(source, Path::new("/s/queues/ageing.rs"));
    assert_eq!(in_directory.as_deref(), Some("queues"));
    assert_eq!(module(source, Path::new("/s/lib.rs")), None);
    let mut named = Named::default();
    let text = "use crate::{a::B, c}; fn f() { crate::d::g(); m!(1, sym crate::h::i) } #[cfg(test)] mod tests { use crate::e; }";
    named.visit_file(&syn::parse_file(text).unwrap());
    assert_eq!(
        named.0,
        BTreeSet::from(["a", "c", "d", "h"].map(str::to_owned))
    );
}
