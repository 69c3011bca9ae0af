//! No function is longer than a screen: what takes more lines than that has steps, and they have names.
//!
//! Lines count from that with `fn` to that with the closing brace. What is for tests counts for nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItem, Item, ItemMod, Signature, TraitItem};

/// The most lines that a function may have.
const MOST_LINES: usize = 70;

/// Functions that are longer, by file and name. Each must be there and be too long, so that the list only shrinks.
const KNOWN: [(&str, &str); 0] = [];

/// A function that is too long.
struct Long {
    file: String,
    /// Line of its `fn`.
    line: usize,
    name: String,
    lines: usize,
}

/// What a file holds, without what is for tests.
#[derive(Default)]
struct Found {
    /// Name, line of `fn` and number of lines of each function that is too long.
    functions: Vec<(String, usize, usize)>,
    /// Modules for tests that have files of their own.
    test_modules: Vec<String>,
}

impl Found {
    fn in_text(text: &str) -> syn::Result<Found> {
        let parsed = syn::parse_file(text)?;
        let mut found = Found::default();
        if !parsed.attrs.iter().any(is_for_tests) {
            found.visit_file(&parsed);
        }
        Ok(found)
    }

    fn measure(&mut self, signature: &Signature, block: &Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        let lines = last + 1 - first;
        if lines > MOST_LINES {
            self.functions
                .push((signature.ident.to_string(), first, lines));
        }
    }
}

impl<'a> Visit<'a> for Found {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(ItemMod { attrs, .. }) => attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            _ => &[],
        };
        match attributes.iter().any(is_for_tests) {
            false => visit::visit_item(self, item),
            true => {
                if let Item::Mod(module) = item
                    && module.content.is_none()
                {
                    self.test_modules.push(module.ident.to_string());
                }
            }
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        if let ImplItem::Fn(function) = item {
            if function.attrs.iter().any(is_for_tests) {
                return;
            }
            self.measure(&function.sig, &function.block);
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_trait_item(&mut self, item: &'a TraitItem) {
        if let TraitItem::Fn(function) = item
            && let Some(block) = &function.default
        {
            self.measure(&function.sig, block);
        }
        visit::visit_trait_item(self, item);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        _ => false,
    }
}

/// All source files below a directory but those of tests, and of what a build left.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        match path.is_dir() {
            true if name == "tests" || name == "target" => {}
            true => files(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => {
                found.push(path)
            }
            false => {}
        }
    }
}

/// The file of a module that `file` declares.
fn file_of_module(file: &Path, module: &str) -> PathBuf {
    let name = file.file_stem().unwrap();
    let directory = file.parent().unwrap();
    let inside = match ["lib", "main", "mod"].iter().any(|root| name == *root) {
        true => directory.to_owned(),
        false => directory.join(name),
    };
    inside.join(module).with_extension("rs")
}

/// The functions of the workspace that are too long.
fn long_functions(root: &Path) -> Vec<Long> {
    let mut all = Vec::new();
    for directory in ["crates", "tools", "xtask"] {
        files(&root.join(directory), &mut all);
    }
    all.sort();
    let mut of_tests = BTreeSet::new();
    let mut found = Vec::new();
    for file in all {
        let text = fs::read_to_string(&file).unwrap();
        let in_file =
            Found::in_text(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let modules = in_file.test_modules.iter();
        of_tests.extend(modules.map(|module| file_of_module(&file, module)));
        found.push((file, in_file.functions));
    }
    found.retain(|(file, _)| !of_tests.contains(file));
    let of_file = |(file, functions): (PathBuf, Vec<(String, usize, usize)>)| {
        let file = file.strip_prefix(root).unwrap().display().to_string();
        functions.into_iter().map(move |(name, line, lines)| Long {
            file: file.clone(),
            line,
            name,
            lines,
        })
    };
    found.into_iter().flat_map(of_file).collect()
}

#[test]
fn no_function_is_longer_than_a_screen() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let long = long_functions(root);
    let known: BTreeSet<(&str, &str)> = KNOWN.into();
    let are: BTreeSet<(&str, &str)> = long
        .iter()
        .map(|function| (function.file.as_str(), function.name.as_str()))
        .collect();
    let mut complaints = String::new();
    for Long {
        file,
        line,
        name,
        lines,
    } in &long
    {
        if !known.contains(&(file, name)) {
            complaints +=
                &format!("{file}:{line}: {name} has {lines} lines; {MOST_LINES} are allowed\n");
        }
    }
    for (file, name) in known.difference(&are) {
        complaints +=
            &format!("{file}: {name} is not too long, or gone: take it out of the list KNOWN\n");
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn functions_of_all_kinds_are_counted_and_those_of_tests_are_not() {
    let body = |calls| "{\n".to_owned() + &"    f();\n".repeat(calls) + "}";
    let (short, long) = (body(MOST_LINES - 2), body(MOST_LINES - 1));
    let text = format!(
        "fn a() {short}\nfn b() {long}\n#[cfg(test)]\nmod tests {{\nfn c() {long}\n}}\n#[cfg(test)]\nmod d;\n\
         impl E {{\n/// Words.\npub fn f() {long}\n#[cfg(test)]\nfn g() {long}\n}}\ntrait H {{\nfn i();\nfn j() {long}\n}}\n"
    );
    let found = Found::in_text(&text).unwrap();
    let names: Vec<&str> = found.functions.iter().map(|(name, ..)| &**name).collect();
    assert_eq!(names, ["b", "f", "j"]);
    assert_eq!(found.functions[0].2, MOST_LINES + 1);
    assert_eq!(found.test_modules, ["d"]);
    let beside = |file: &str| file_of_module(Path::new(file), "tests");
    assert_eq!(beside("/s/lib.rs"), Path::new("/s/tests.rs"));
    assert_eq!(beside("/s/a/mod.rs"), Path::new("/s/a/tests.rs"));
    assert_eq!(beside("/s/a.rs"), Path::new("/s/a/tests.rs"));
}
