//! Cases recorded from another program, one a file: `input`, `expected` and `tags`.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use serde_json::Value;
use std::fs;
use std::path::Path;

/// The cases of a folder below `tests/oracle` of a crate, by file name.
fn cases(manifest: &str, folder: &str) -> Vec<(String, Value)> {
    let folder = Path::new(manifest).join("tests/oracle").join(folder);
    let mut cases: Vec<(String, Value)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

/// The fields that differ, those left out that are free.
fn differences(expected: &Value, answer: &Value) -> Vec<String> {
    let (expected, answer) = (expected.as_object().unwrap(), answer.as_object().unwrap());
    let free = expected.get("free").and_then(Value::as_array);
    let free =
        |key: &str| key == "free" || free.is_some_and(|free| free.iter().any(|field| field == key));
    let keys = expected
        .keys()
        .chain(answer.keys().filter(|key| !expected.contains_key(*key)));
    keys.filter(|key| !free(key) && expected.get(*key) != answer.get(*key))
        .map(|key| {
            let (wanted, got) = (expected.get(key), answer.get(key));
            format!("  {key}\n    wanted {wanted:?}\n    got    {got:?}")
        })
        .collect()
}

/// Answers each case of a folder below `tests/oracle` of a crate, of which there are so many.
///
/// # Panics
///
/// If an answer differs from the recorded one.
pub fn check(manifest: &str, folder: &str, count: usize, answer: impl Fn(&Value) -> Value) {
    let cases = cases(manifest, folder);
    assert_eq!(cases.len(), count);
    let mut wrong = Vec::new();
    for (name, case) in cases {
        let found = differences(&case["expected"], &answer(&case["input"]));
        if !found.is_empty() {
            let tags = &case["tags"];
            wrong.push(format!("{name} {tags}\n{}", found.join("\n")));
        }
    }
    let all = wrong.len();
    assert!(
        wrong.is_empty(),
        "{all} of {count} differ:\n{}",
        wrong.join("\n")
    );
}
