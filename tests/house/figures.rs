//! The figures that a page quotes are those that `docs/figures.md` has.

use super::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const UNITS: [&str; 10] = [
    "µs", "ms", "s", "minutes", "kB", "MB", "GB", "MiB", "GiB", "%",
];

/// The amounts of a text: numbers and ranges before a unit, such as `0.29 s` or `4 to 10.7 s`, and cells of tables that are
/// nothing but a number. Code and the targets of links are no text.
fn amounts(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for paragraph in page
        .split("```")
        .step_by(2)
        .flat_map(|part| part.split("\n\n"))
    {
        let (rows, sentences): (Vec<&str>, Vec<&str>) =
            paragraph.lines().partition(|line| line.starts_with('|'));
        let sentences = without_targets(&sentences.join(" "));
        let words: Vec<&str> = sentences.split_whitespace().collect();
        found.extend(in_words(&words, false));
        for row in rows {
            for cell in without_targets(row).split('|') {
                let words: Vec<&str> = cell.split_whitespace().collect();
                found.extend(in_words(&words, true));
            }
        }
    }
    found
}

/// `[text](target)` and `code` as `text` and nothing.
fn without_targets(line: &str) -> String {
    let code: String = line.split('`').step_by(2).collect();
    let mut parts = code.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, rest| {
        let after = rest.split_once(')').map_or("", |(_, after)| after);
        format!("{text} {after}")
    })
}

fn in_words(words: &[&str], is_cell: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let Some((number, mut end)) = number(words, at) else {
            at += 1;
            continue;
        };
        let mut amount = number;
        if words.get(end) == Some(&"to")
            && let Some((upper, after)) = self::number(words, end + 1)
        {
            amount = format!("{amount} to {upper}");
            end = after;
        }
        let unit = words
            .get(end)
            .map(|word| word.trim_end_matches([',', '.', ';', ':', ')']));
        match unit.filter(|unit| UNITS.contains(unit)) {
            Some(unit) => found.push(format!("{amount} {unit}")),
            None if is_cell && at == 0 && end == words.len() => found.push(amount),
            None => {}
        }
        at = end;
    }
    found
}

/// A number that begins here, and where it ends: `0.29`, or `10 000`.
fn number(words: &[&str], at: usize) -> Option<(String, usize)> {
    let is_number = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_digit())
            && word
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    let first = words.get(at)?.trim_start_matches(['(', '[']);
    if !is_number(first) || first.ends_with('.') {
        return None;
    }
    let mut text = first.to_owned();
    let mut end = at + 1;
    let goes_on =
        |word: &&&str| word.len() == 3 && word.chars().all(|digit| digit.is_ascii_digit());
    while let Some(next) = words.get(end).filter(goes_on) {
        text = format!("{text} {next}");
        end += 1;
    }
    Some((text, end))
}

/// The paragraphs and tables of a page that name `docs/figures.md` as their source.
fn quoting(page: &str) -> String {
    let paragraphs = page.split("\n\n");
    let quoting = paragraphs.filter(|text| text.contains("(figures.md"));
    quoting.collect::<Vec<_>>().join("\n\n")
}

/// Quoted are all of README.md, and the paragraphs of a page that link to `docs/figures.md`.
#[test]
fn quoted_figures_are_those_that_were_measured() {
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let measured = amounts(&read(&root().join("docs/figures.md")));
    let mut quoted = vec![("README.md".to_owned(), read(&root().join("README.md")))];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let is_page = path.extension().is_some_and(|end| end == "md");
        if is_page && !path.ends_with("figures.md") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            quoted.push((name, quoting(&read(&path))));
        }
    }
    let others: Vec<String> = quoted
        .iter()
        .flat_map(|(name, text)| {
            let amounts = amounts(text).into_iter();
            amounts
                .filter(|amount| !measured.contains(amount))
                .map(move |amount| format!("{name}: {amount}"))
        })
        .collect();
    assert!(others.is_empty(), "not in docs/figures.md: {others:#?}");
}

#[test]
fn amounts_are_found_in_sentences_and_tables() {
    let page = "It took 4 to\n10.7 s, in 4 of 8 runs, (12 MB) at 1.36.2, see [2 s](a.md#3) and `7 ms`.\n\
        | 10 000 pods | 22 to 27 ms | 44 | v1 | 0.5 s. |\n```\n9 s\n```\n";
    let found: Vec<String> = amounts(page).into_iter().collect();
    assert_eq!(
        found,
        ["0.5 s", "12 MB", "2 s", "22 to 27 ms", "4 to 10.7 s", "44"]
    );
}

#[test]
fn only_what_names_the_page_is_a_quotation() {
    let page = "It takes 3 s.\n\nIt takes 4 s\n([figures](figures.md#it)).\n";
    assert_eq!(quoting(page).lines().next(), Some("It takes 4 s"));
}
