//! Tests inside of Rust files, separated by item: the start's other items and the current tests.
//!
//! A new file keeps nothing but its tests, and stays declared (`mod name;`) in the file that declares it now: they do
//! not compile without the change, which is what a proof looks like. Doc tests belong to the item they document.

use std::collections::BTreeSet;
use std::ops::Range;

use proc_macro2::TokenTree;
use syn::spanned::Spanned as _;
use syn::{Attribute, Item, ItemMod, Meta};

use super::{NotSeparable, Separated};
use crate::model::file_change::FileContent;

/// Whether a Rust text contains the words of a test.
pub(super) fn may_have_tests(text: &str) -> bool {
    text.contains("test")
}

pub(super) fn separated(
    path: &str,
    before: Option<&FileContent>,
    now: &FileContent,
    kept_modules: &BTreeSet<String>,
) -> Separated {
    if !path.ends_with(".rs") {
        return in_source_tests_of_javascript(path, before, now);
    }
    let now_text = now.text()?;
    let before_text = match before {
        Some(before) => before.text()?,
        None => "",
    };
    let declares = |text: &str| kept_modules.iter().any(|name| text.contains(&format!("mod {name};")));
    if !may_have_tests(now_text) && !may_have_tests(before_text) && !declares(now_text) {
        return None;
    }
    let Some((old, new)) = Parts::of(before_text, kept_modules).zip(Parts::of(now_text, kept_modules)) else {
        return Some(Err(NotSeparable));
    };
    if new.is_test_file {
        return Some(Ok(now.clone()));
    }
    let new_tests: Vec<&Part> = new.parts.iter().filter(|part| !old.has_declaration(part)).collect();
    if before.is_none() && new_tests.is_empty() {
        return None;
    }
    if old.tests().eq(new.tests()) && new_tests.iter().all(|part| part.declares.is_none()) {
        // Only the other items changed: the start's file as it was.
        return before.map(|before| Ok(before.clone()));
    }
    Some(join(&old, &new_tests, &new).map(|text| now.with_text(text)).ok_or(NotSeparable))
}

/// vitest can run tests inside of source files; which lines belong to them is not known.
fn in_source_tests_of_javascript(path: &str, before: Option<&FileContent>, now: &FileContent) -> Separated {
    let is_script = [".js", ".ts", ".jsx", ".tsx", ".mjs", ".mts"].iter().any(|end| path.ends_with(end));
    let has_tests =
        |content: &FileContent| content.text().is_some_and(|text| text.contains("import.meta.vitest"));
    (is_script && (has_tests(now) || before.is_some_and(has_tests))).then_some(Err(NotSeparable))
}

/// A test item, or a declaration of a module that stays.
struct Part {
    /// The inline modules around it.
    module: Vec<String>,
    range: Range<usize>,
    declares: Option<String>,
}

/// The tests of a file, and where its inline modules end.
struct Parts<'t> {
    text: &'t str,
    parts: Vec<Part>,
    ends: Vec<(Vec<String>, usize)>,
    is_test_file: bool,
}

impl<'t> Parts<'t> {
    fn of(text: &'t str, kept_modules: &BTreeSet<String>) -> Option<Self> {
        let file = syn::parse_file(text).ok()?;
        // The parser counts from after this mark.
        if text.starts_with('\u{feff}') || file.shebang.is_some() {
            return None;
        }
        let is_test_file = file.attrs.iter().any(is_test_attribute);
        let mut parts = Self { text, parts: Vec::new(), ends: Vec::new(), is_test_file };
        parts.add(&file.items, &[], kept_modules);
        Some(parts)
    }

    fn add(&mut self, items: &[Item], module: &[String], kept_modules: &BTreeSet<String>) {
        for item in items {
            let declares = declared_module(item).filter(|name| kept_modules.contains(name));
            if is_test(item) || declares.is_some() {
                let range = item.span().byte_range();
                self.parts.push(Part { module: module.to_vec(), range, declares });
            } else if let Item::Mod(ItemMod { ident, content: Some((brace, inner)), .. }) = item {
                let module: Vec<String> = module.iter().cloned().chain([ident.to_string()]).collect();
                self.ends.push((module.clone(), brace.span.close().byte_range().start));
                self.add(inner, &module, kept_modules);
            }
        }
    }

    fn has_declaration(&self, part: &Part) -> bool {
        part.declares.is_some()
            && self.parts.iter().any(|own| own.declares == part.declares && own.module == part.module)
    }

    fn tests(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| part.declares.is_none()).map(|part| &self.text[part.range.clone()])
    }
}

fn declared_module(item: &Item) -> Option<String> {
    match item {
        Item::Mod(ItemMod { ident, content: None, .. }) => Some(ident.to_string()),
        _ => None,
    }
}

/// The old text without its tests, with the new ones at the end of the same modules.
fn join(old: &Parts<'_>, new_tests: &[&Part], new: &Parts<'_>) -> Option<String> {
    let mut changes: Vec<(Range<usize>, String)> = old
        .parts
        .iter()
        .filter(|part| part.declares.is_none())
        .map(|part| (part.range.clone(), String::new()))
        .collect();
    for part in new_tests {
        let end = if part.module.is_empty() {
            old.text.len()
        } else {
            old.ends.iter().find(|(module, _)| *module == part.module)?.1
        };
        changes.push((end..end, format!("\n{}\n", &new.text[part.range.clone()])));
    }
    // Stable: insertions at one place keep their order.
    changes.sort_by_key(|(range, _)| range.start);
    let (mut text, mut at) = (String::new(), 0);
    for (range, inserted) in changes {
        text.push_str(old.text.get(at..range.start)?);
        text.push_str(&inserted);
        at = range.end;
    }
    text.push_str(old.text.get(at..)?);
    Some(text)
}

fn is_test(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    };
    attributes.iter().any(is_test_attribute)
}

/// `#[cfg(test)]`, `#[cfg(all(test, …))]`, `#[test]`, `#[tokio::test]`, `#[rstest]`
fn is_test_attribute(attribute: &Attribute) -> bool {
    let Some(name) = attribute.path().segments.last().map(|segment| segment.ident.to_string()) else {
        return false;
    };
    match (&attribute.meta, name.as_str()) {
        (Meta::List(list), "cfg") => names_test(list.tokens.clone().into_iter().collect()),
        (_, "cfg") => false,
        (_, name) => ["test", "rstest", "test_case", "quickcheck", "wasm_bindgen_test"].contains(&name),
    }
}

fn names_test(tokens: Vec<TokenTree>) -> bool {
    let mut negated = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) if name == "test" => return true,
            TokenTree::Ident(name) => negated = name == "not" || name == "any",
            TokenTree::Group(group) => {
                if !negated && names_test(group.stream().into_iter().collect()) {
                    return true;
                }
                negated = false;
            }
            _ => {}
        }
    }
    false
}
