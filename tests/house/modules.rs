//! The modules of a crate and what each of them uses, read from its tokens; tests are left out.
//!
//! The rule: at each level of a crate's `src`, the modules that lie side by side (a file, or a folder with all that is in
//! it) use each other in one direction only. A parent and its children are not side by side: a folder's `mod.rs` may use
//! its files, and they may use what it defines.
//!
//! A path counts when it begins with `crate`, `self`, `super` or a module that is declared in the same file. It leads to
//! the module that defines what it names: a name that `lib.rs` re-exports counts as the module's that has it. Methods and
//! traits that are used without a path are not seen.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's place in its crate: no segments for `lib.rs`, `["plan", "page"]` for `plan/page.rs`.
type Place = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
pub(crate) struct Modules(BTreeMap<Place, Module>);

#[derive(Default)]
struct Module {
    file: PathBuf,
    paths: Vec<Written>,
    /// What `use` calls by a name here, and whether that is of this crate.
    names: BTreeMap<String, Option<Place>>,
}

/// A path as it is written, made to begin at the crate's root.
struct Written {
    path: Place,
    line: usize,
}

/// One module uses another that lies beside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrow {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Where that is written.
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
}

/// The arrows between the modules of one level, by their names: from, then to.
pub(crate) type Level = BTreeMap<String, BTreeMap<String, Arrow>>;

impl Modules {
    /// Those of the crate that begins with this file.
    pub(crate) fn of(root: &Path) -> Self {
        let mut modules = Self::default();
        modules.read(Vec::new(), root, root.parent().unwrap());
        modules
    }

    /// Reads a module's file; its children's lie in `directory`.
    fn read(&mut self, place: Place, file: &Path, directory: &Path) {
        let text = fs::read_to_string(file).unwrap();
        let tokens: TokenStream = text.parse().unwrap();
        let reader = Reader {
            modules: self,
            place,
            file,
            directory,
        };
        reader.read(tokens);
    }

    /// The module that defines what a path names; `None` when that is another crate.
    fn defines(&self, path: &[String]) -> Option<Place> {
        let mut place = Place::new();
        for (index, segment) in path.iter().enumerate() {
            let child = [place.as_slice(), std::slice::from_ref(segment)].concat();
            if self.0.contains_key(&child) {
                place = child;
                continue;
            }
            let Some(name) = self.0.get(&place)?.names.get(segment) else {
                break;
            };
            let target = name.as_ref()?;
            // `use self::plan` names itself.
            if target.as_slice() == &path[..=index] {
                break;
            }
            return self.defines(&[target, &path[index + 1..]].concat());
        }
        Some(place)
    }

    /// The arrows between siblings, by the place of their parent.
    pub(crate) fn levels(&self) -> BTreeMap<Place, Level> {
        let mut levels: BTreeMap<Place, Level> = BTreeMap::new();
        for (from, module) in &self.0 {
            for written in &module.paths {
                let Some(to) = self.defines(&written.path) else {
                    continue;
                };
                let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) else {
                    continue; // a parent and what is below it
                };
                let arrow = Arrow {
                    from: one.clone(),
                    to: other.clone(),
                    file: module.file.clone(),
                    line: written.line,
                };
                let level = levels.entry(from[..shared].to_vec()).or_default();
                let arrows = level.entry(one.clone()).or_default();
                arrows.entry(other.clone()).or_insert(arrow);
            }
        }
        levels
    }
}

/// The shortest circle through each module that lies on one, each circle once.
pub(crate) fn circles(level: &Level) -> Vec<Vec<Arrow>> {
    let mut seen = BTreeSet::new();
    let found = level.keys().filter_map(|start| circle(level, start));
    found
        .filter(|circle| {
            let members: BTreeSet<_> = circle.iter().map(|arrow| arrow.from.clone()).collect();
            seen.insert(members)
        })
        .collect()
}

fn circle(level: &Level, start: &str) -> Option<Vec<Arrow>> {
    let mut reached: BTreeMap<&str, &Arrow> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(from) = next.pop_front() {
        for (to, arrow) in level.get(from).into_iter().flatten() {
            if !reached.contains_key(to.as_str()) {
                reached.insert(to, arrow);
                next.push_back(to);
            }
        }
    }
    let mut circle = vec![(*reached.get(start)?).clone()];
    while circle[0].from != start {
        circle.insert(0, reached[circle[0].from.as_str()].clone());
    }
    Some(circle)
}

/// Reads one module's tokens.
struct Reader<'a> {
    modules: &'a mut Modules,
    place: Place,
    file: &'a Path,
    directory: &'a Path,
}

impl Reader<'_> {
    fn read(mut self, tokens: TokenStream) {
        let mut module = Module {
            file: self.file.to_owned(),
            ..Module::default()
        };
        let tokens = without_tests(tokens);
        let children = children(&tokens);
        self.walk(&tokens, &children, &mut module);
        self.modules.0.insert(self.place.clone(), module);
        for (name, body) in children {
            let place = [self.place.as_slice(), std::slice::from_ref(&name)].concat();
            let directory = self.directory.join(&name);
            if let Some(body) = body {
                let inner = Reader {
                    modules: self.modules,
                    place,
                    file: self.file,
                    directory: &directory,
                };
                inner.read(body);
                continue;
            }
            let beside = self.directory.join(format!("{name}.rs"));
            let file = if beside.exists() {
                beside
            } else {
                directory.join("mod.rs")
            };
            self.modules.read(place, &file, &directory);
        }
    }

    /// Notes every path among the tokens, at any depth but below inline modules.
    fn walk(&mut self, tokens: &[TokenTree], children: &Children, module: &mut Module) {
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(word) if word == "mod" => {
                    let body = inline_module(&tokens[at..]);
                    at += if body.is_some() { 3 } else { 1 };
                }
                TokenTree::Ident(word) if word == "use" => {
                    at += 1;
                    at += self.import(&tokens[at..], &[], children, module);
                }
                TokenTree::Ident(_) => {
                    let (path, length) = path(&tokens[at..]);
                    // A word alone is a variable or a local name.
                    if path.len() > 1
                        && let Some(path) = self.absolute(&path, children)
                    {
                        let line = tokens[at].span().start().line;
                        module.paths.push(Written { path, line });
                    }
                    at += length;
                }
                TokenTree::Group(group) => {
                    self.walk(&without_tests(group.stream()), children, module);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Notes the names of a `use`, whose tree goes on after `prefix`; how many tokens that took.
    fn import(
        &mut self,
        tokens: &[TokenTree],
        prefix: &[String],
        children: &Children,
        module: &mut Module,
    ) -> usize {
        let start = tokens.iter().take_while(|token| is(token, ':')).count();
        let (path, length) = path(&tokens[start..]);
        let mut at = start + length;
        let whole = [prefix, &path].concat();
        match tokens.get(at) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                for tree in inner.split(|token| is(token, ',')) {
                    if !tree.is_empty() {
                        self.import(tree, &whole, children, module);
                    }
                }
                return at + 1;
            }
            _ => {}
        }
        let mut name = whole.last().cloned().unwrap_or_default();
        if name == "self" {
            name = whole.iter().rev().nth(1).cloned().unwrap_or_default();
        }
        if matches!(tokens.get(at), Some(TokenTree::Ident(word)) if word == "as") {
            name = tokens[at + 1].to_string();
            at += 2;
        }
        let target = self.absolute(&whole, children);
        if let Some(path) = target.clone() {
            let line = tokens[0].span().start().line;
            module.paths.push(Written { path, line });
        }
        if !tokens.get(at).is_some_and(|token| is(token, '*')) {
            module.names.insert(name, target);
        }
        at
    }

    /// A path from the crate's root; `None` for one into another crate.
    fn absolute(&self, path: &[String], children: &Children) -> Option<Place> {
        let mut place = match path.first()?.as_str() {
            "crate" => Place::new(),
            "self" | "super" => self.place.clone(),
            child if children.contains_key(child) => {
                return Some([self.place.as_slice(), path].concat());
            }
            _ => return None,
        };
        for (index, segment) in path.iter().enumerate() {
            match segment.as_str() {
                "crate" if index == 0 => {}
                "self" => {}
                "super" => {
                    place.pop();
                }
                _ => place.push(segment.clone()),
            }
        }
        Some(place)
    }
}

/// The modules that are declared among the tokens, with their text where that is inline.
pub(crate) type Children = BTreeMap<String, Option<TokenStream>>;

pub(crate) fn children(tokens: &[TokenTree]) -> Children {
    let declared = tokens.windows(3).filter_map(|tokens| {
        let [TokenTree::Ident(word), TokenTree::Ident(name), end] = tokens else {
            return None;
        };
        let body = inline_module(tokens).map(Group::stream);
        (word == "mod" && (body.is_some() || is(end, ';'))).then(|| (name.to_string(), body))
    });
    declared.collect()
}

fn inline_module(tokens: &[TokenTree]) -> Option<&Group> {
    match tokens {
        [
            TokenTree::Ident(_),
            TokenTree::Ident(_),
            TokenTree::Group(body),
            ..,
        ] => Some(body),
        _ => None,
    }
}

/// The tokens without what `#[cfg(test)]` stands before: up to its `;`, its `,` or its body.
pub(crate) fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let attribute = tokens.peek().map(TokenTree::to_string);
        let test =
            is(&token, '#') && attribute.is_some_and(|text| text.replace(' ', "") == "[cfg(test)]");
        if !test {
            kept.push(token);
            continue;
        }
        let (mut import, mut item) = (false, false);
        for token in tokens.by_ref() {
            if let TokenTree::Ident(word) = &token {
                import |= word == "use";
                item |= word == "fn" || word == "impl" || word == "use";
            }
            let body =
                matches!(&token, TokenTree::Group(body) if body.delimiter() == Delimiter::Brace);
            if is(&token, ';') || (is(&token, ',') && !item) || (body && !import) {
                break;
            }
        }
    }
    kept
}

/// The segments that the tokens begin with, `a::b::c`, and how many tokens they are.
pub(crate) fn path(tokens: &[TokenTree]) -> (Place, usize) {
    let mut segments = Place::new();
    let mut at = 0;
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        segments.push(word.to_string());
        at += 1;
        if !tokens
            .get(at..at + 2)
            .is_some_and(|two| two.iter().all(|token| is(token, ':')))
        {
            break;
        }
        at += 2;
    }
    (segments, at)
}

pub(crate) fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

#[test]
fn a_circle_is_found_through_every_way_of_naming() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "lib.rs",
        "mod a; mod b; mod c; mod d; mod parent; pub use b::B; use parent::Below;",
    );
    write("a.rs", "use crate::{B, c::{self as other}};");
    // A test's own path does not count, nor does one in a comment or a text.
    write(
        "b.rs",
        "pub struct B; #[cfg(test)] mod tests { use crate::a; } // crate::a\nconst A: &str = \"crate::a::A\";",
    );
    write("c.rs", "fn f() { println!(\"{}\", super::a::g()); }");
    write("d.rs", "fn f(_: crate::Below) {}");
    write(
        "parent/mod.rs",
        "mod one; mod two { use super::one::Y; pub struct X; } pub use two::X; struct Own; pub struct Below;",
    );
    write(
        "parent/one.rs",
        "use super::{Own, X}; use crate::d; pub struct Y;",
    );
    let levels = Modules::of(&directory.path().join("lib.rs")).levels();
    let found = levels.values().flat_map(circles).map(|circle| {
        let arrow = |arrow: &Arrow| {
            let file = arrow.file.strip_prefix(directory.path()).unwrap();
            let Arrow { from, to, line, .. } = arrow;
            format!("{from}->{to} {}:{line}", file.display())
        };
        circle.iter().map(arrow).collect::<Vec<_>>().join(", ")
    });
    let found: Vec<_> = found.collect();
    let expected = [
        "a->c a.rs:1, c->a c.rs:1",
        "d->parent d.rs:1, parent->d parent/one.rs:1",
        "one->two parent/one.rs:1, two->one parent/mod.rs:1",
    ];
    assert_eq!(found, expected);
}
