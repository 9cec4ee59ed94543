//! The names in a document, and whether the code has them.

use std::path::{Path, PathBuf};

/// The names between backticks, outside of blocks of code.
pub(crate) fn names(page: &str) -> Vec<&str> {
    let prose = page.split("```").step_by(2);
    prose
        .flat_map(|part| part.split('`').skip(1).step_by(2))
        .collect()
}

/// Whether the name is a path below `root`, the end of a file's path, a word of the code, or `Type::item` where both are.
pub(crate) fn exists(name: &str, root: &Path, code: &[(PathBuf, String)]) -> bool {
    let name = name.trim_end_matches("()");
    if name.contains('/') {
        return root.join(name).exists();
    }
    if let Some((of, item)) = name.split_once("::") {
        let defines = |text: &str| {
            let kinds = ["struct", "enum", "trait", "impl"];
            kinds
                .iter()
                .any(|kind| has_word(text, &format!("{kind} {of}")))
        };
        return code
            .iter()
            .any(|(_, text)| defines(text) && has_word(text, item));
    }
    if Path::new(name).extension().is_some_and(|end| end == "rs") {
        return code.iter().any(|(path, _)| path.ends_with(name));
    }
    root.join("crates").join(name).exists() || code.iter().any(|(_, text)| has_word(text, name))
}

fn has_word(text: &str, word: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
    })
}

#[test]
fn names_that_are_not_in_the_code_are_found() {
    let page = "`Agent::cycle` and `Agent::turn`, `agent.rs`, `Agen`\n```\n`Drawn`\n```\n`house()`, `src/missing`";
    let code = [(
        PathBuf::from("src/agent.rs"),
        "struct Agent; impl Agent { fn cycle() {} } fn house() {}".to_owned(),
    )];
    let root = Path::new("/nonexistent");
    let missing = |name: &&str| !exists(name, root, &code);
    let found: Vec<&str> = names(page).into_iter().filter(missing).collect();
    assert_eq!(found, ["Agent::turn", "Agen", "src/missing"]);
}
