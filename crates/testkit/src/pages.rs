//! Pages whose examples are real output: a test produces the output and compares it with the page. The commands that pages
//! show are compared with the help of their program.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in a test a panic is the report"
)]

use crate::program::{self, page as output_of};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The output of each block, by the name in the comment above the block: `<!-- NAME -->`.
pub type Outputs = BTreeMap<&'static str, String>;

/// Checks a page, by its path from the root of the workspace: a block contains no word that its output lacks, and no metric or journal field is named that no
/// output contains. Figures, times and ids may differ, and so may the words in `varying`. `EVICTD_WRITE=1` writes the outputs into the
/// page.
pub fn check(page: &str, outputs: &Outputs, varying: &[&str]) {
    let Some(text) = held(page, outputs) else {
        return;
    };
    let blocks = blocks(&text);
    for (name, block) in &blocks {
        let mut known: BTreeSet<&str> = words(&outputs[name]).collect();
        known.extend(varying);
        let unknown: Vec<&str> = words(block).filter(|word| !known.contains(word)).collect();
        assert!(
            unknown.is_empty(),
            "{page}, block {name}: not in the output: {unknown:?}; EVICTD_WRITE=1 writes this:\n{}",
            outputs[name]
        );
    }
    let all: BTreeSet<&str> = outputs.values().flat_map(|output| words(output)).collect();
    let promised = words(&text).filter(|word| {
        let word = word.to_lowercase();
        word.starts_with("evictd_") && word != "evictd_write"
    });
    let missing: Vec<&str> = promised.filter(|word| !all.contains(word)).collect();
    assert!(missing.is_empty(), "{page} names {missing:?}");
}

/// Checks a page whose outputs are the same in each run: its blocks are these outputs to the letter.
pub fn check_exactly(page: &str, outputs: &Outputs) {
    let Some(text) = held(page, outputs) else {
        return;
    };
    for (name, block) in blocks(&text) {
        let output = outputs[name].trim_end();
        assert_eq!(
            block, output,
            "{page}, block {name}; EVICTD_WRITE=1 writes it"
        );
    }
}

/// The text of a page whose blocks have these names. None if it was written anew.
fn held(page: &str, outputs: &Outputs) -> Option<String> {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    if env::var_os("EVICTD_WRITE").is_some() {
        fs::write(&path, written(&text, outputs)).unwrap();
        return None;
    }
    let named: BTreeSet<&str> = blocks(&text).into_keys().collect();
    let expected: BTreeSet<&str> = outputs.keys().copied().collect();
    assert_eq!(named, expected, "the blocks of {page}");
    Some(text)
}

/// The flags and subcommands in the commands of README.md and of `docs/` that the program's help lacks.
pub fn unknown_in_commands(path: &str, program: &str) -> Vec<String> {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.push(root().join("README.md"));
    let mut helps = BTreeMap::new();
    let mut unknown = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for words in commands(&text, program) {
            let missing = lacking(&words, |subcommands| {
                let help = || {
                    output_of(&program::run(
                        Command::new(path).args(subcommands).arg("--help"),
                        "",
                    ))
                };
                helps
                    .entry(subcommands.to_vec())
                    .or_insert_with(help)
                    .clone()
            });
            let shown = page.file_name().unwrap().display();
            unknown.extend(
                missing.map(|word| format!("{shown}: {word} in: {program} {}", words.join(" "))),
            );
        }
    }
    unknown
}

/// The arguments of each call of a program in the blocks for a console, also behind `sudo`, `kubectl` or a pipe.
fn commands(text: &str, program: &str) -> Vec<Vec<String>> {
    let blocks = text.split("```console\n").skip(1);
    let blocks = blocks.filter_map(|block| Some(block.split_once("```")?.0.replace("\\\n", " ")));
    let mut commands = Vec::new();
    for block in blocks {
        let lines = block.lines().filter(|line| line.starts_with(['$', '#']));
        for line in lines {
            let line = line[1..].split(" #").next().unwrap_or_default();
            for call in line.split(['|', ';']) {
                let mut words = call.split_whitespace();
                let first = words.find(|word| !["sudo", "kubectl"].contains(word));
                if first == Some(program) {
                    let arguments = words.take_while(|word| !word.starts_with(['>', '<']));
                    commands.push(arguments.map(str::to_owned).collect());
                }
            }
        }
    }
    commands
}

/// The first flag of a call that the help of its subcommand lacks, or the subcommand itself.
fn lacking(words: &[String], mut help: impl FnMut(&[String]) -> String) -> Option<String> {
    let mut depth = 0;
    let mut text = help(&[]);
    while text.contains("\nCommands:\n") {
        let name = words.get(depth)?;
        let list = text.split("\nCommands:\n").nth(1)?;
        let known = list
            .lines()
            .any(|line| line.split_whitespace().next() == Some(name));
        if !known {
            return Some(name.clone());
        }
        depth += 1;
        text = help(&words[..depth]);
    }
    let flags = words[depth..]
        .iter()
        .filter(|word| word.starts_with('-') && word.len() > 1);
    let names = flags.map(|flag| flag.split('=').next().unwrap_or(flag));
    let within = |letter: char| letter.is_alphanumeric() || letter == '-';
    let known: BTreeSet<&str> = text.split(|letter| !within(letter)).collect();
    names
        .into_iter()
        .find(|name| !known.contains(name))
        .map(str::to_owned)
}

/// Words without digits: a figure, a time or an id is another one in each run.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let within = |letter: char| letter.is_alphanumeric() || "_-".contains(letter);
    let tokens = text.split(move |letter| !within(letter));
    tokens.filter(|token| token.len() > 2 && !token.contains(|letter: char| letter.is_numeric()))
}

/// The blocks of a page by their names.
fn blocks(text: &str) -> BTreeMap<&str, &str> {
    let named = text.split("<!-- ").skip(1);
    let block = |part| -> Option<(&str, &str)> {
        let (name, rest) = str::split_once(part, " -->\n```")?;
        let (_, rest) = rest.split_once('\n')?;
        Some((name, rest.split_once("\n```")?.0))
    };
    named.filter_map(block).collect()
}

/// The page with these outputs in its blocks.
fn written(text: &str, outputs: &Outputs) -> String {
    let mut page = text.to_owned();
    for (name, output) in outputs {
        let begin = format!("<!-- {name} -->\n```");
        let at = page.find(&begin).unwrap() + begin.len();
        let first = at + page[at..].find('\n').unwrap() + 1;
        let end = first + page[first..].find("```").unwrap();
        page.replace_range(first..end, &format!("{}\n", output.trim_end()));
    }
    page
}

#[test]
fn a_block_is_known_by_its_name_and_figures_may_differ() {
    let page =
        "Text.\n\n<!-- log -->\n```json\n{\"EVICTD_POD\": \"shop/hog\", \"at\": \"12:03Z\"}\n```\n";
    assert_eq!(blocks(page).keys().collect::<Vec<_>>(), [&"log"]);
    let found: Vec<&str> = words(blocks(page)["log"]).collect();
    assert_eq!(found, ["EVICTD_POD", "shop", "hog"]);
    let outputs = Outputs::from([("log", "gone\n".to_owned())]);
    let page = written(page, &outputs);
    assert_eq!(page, "Text.\n\n<!-- log -->\n```json\ngone\n```\n");
}

#[test]
fn a_command_of_a_page_is_compared_with_the_help_of_its_subcommand() {
    let page = "```console\n$ sudo tool run --fast \\\n    --far=2 -n 3 > out   # as root\n$ other | tool walk\nno $ tool\n```\n";
    let found = commands(page, "tool");
    assert_eq!(
        found,
        [vec!["run", "--fast", "--far=2", "-n", "3"], vec!["walk"]]
    );
    let help = |subcommands: &[String]| match subcommands {
        [] => "Usage\n\nCommands:\n  run  Runs\n".to_owned(),
        _ => "Options:\n  -n, --number\n  --faster\n  --far <N>\n".to_owned(),
    };
    assert_eq!(lacking(&found[0], help).as_deref(), Some("--fast"));
    assert_eq!(lacking(&found[1], help).as_deref(), Some("walk"));
}
