//! Pages of `docs/` whose examples are real output: a test produces what they show, and holds them to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
};

/// The output of each block, by the name in the comment above the block: `<!-- NAME -->`.
pub(crate) type Outputs = BTreeMap<&'static str, String>;

/// Checks a page of `docs/`: a block contains no word that its output lacks, and no metric or journal field is named that no
/// output contains. Figures, times and ids may differ, and so may the words in `varying`. `EVICTD_WRITE=1` writes the outputs into the
/// page.
pub(crate) fn check(page: &str, outputs: &Outputs, varying: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(page);
    let text = fs::read_to_string(&path).unwrap();
    if env::var_os("EVICTD_WRITE").is_some() {
        fs::write(&path, written(&text, outputs)).unwrap();
        return;
    }
    let blocks = blocks(&text);
    let named: BTreeSet<&str> = blocks.keys().copied().collect();
    let expected: BTreeSet<&str> = outputs.keys().copied().collect();
    assert_eq!(named, expected, "the blocks of {page}");
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
        let at = page.find(&begin).expect("the page has each block") + begin.len();
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
