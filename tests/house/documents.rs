//! The names in a document, and whether the code has them.

use std::fs;
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

/// The links of a page that lead nowhere: to no file, or to no heading of it. Other sites are not asked.
pub(crate) fn dead_links(page: &Path) -> Vec<String> {
    let Ok(text) = fs::read_to_string(page) else {
        return vec![format!("{} cannot be read", page.display())];
    };
    let links = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let inside = links.filter(|link| !link.contains("://") && !link.contains(' '));
    let leads_nowhere = |link: &&str| {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = match path {
            "" => page.to_owned(),
            _ => page.with_file_name("").join(path),
        };
        if heading.is_empty() {
            return !target.exists();
        }
        let Ok(text) = fs::read_to_string(&target) else {
            return true;
        };
        !text
            .lines()
            .any(|line| line.starts_with('#') && anchor(line) == heading)
    };
    let shown = page.display();
    inside
        .filter(leads_nowhere)
        .map(|link| format!("{shown}: {link}"))
        .collect()
}

/// The anchor of a heading, as sites that show Markdown make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

#[test]
fn a_link_to_no_heading_is_dead() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.md");
    let text = "# A page: `one`\n[a](#a-page-one) [b](other.md) [c](page.md#two) [d](https://example.com/none)\n";
    fs::write(&page, text).unwrap();
    let dead = dead_links(&page);
    assert_eq!(dead.len(), 2, "{dead:?}");
    assert!(dead[0].ends_with("other.md") && dead[1].ends_with("page.md#two"));
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
