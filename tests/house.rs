//! The rules that keep the code a house, checked against the code itself.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "house/documents.rs"]
mod documents;
#[path = "house/faces.rs"]
mod faces;
#[path = "house/figures.rs"]
mod figures;
#[path = "house/language.rs"]
mod language;
#[path = "house/modules.rs"]
mod modules;

use faces::face;
use language::Language;
use modules::{Arrow, Modules, circles};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every crate of ours without the first part of its name, and those of ours it may import.
const ARROWS: [(&str, &str); 40] = [
    ("pod", ""),
    ("signals", "pod"),
    ("usage", "pod signals"),
    ("admission", "pod signals"),
    ("reclaim", "pod signals usage"),
    ("decision", "pod signals reclaim"),
    ("departures", "pod signals usage decision"),
    (
        "eviction",
        "pod signals usage admission reclaim decision departures",
    ),
    ("devices", "pod"),
    ("placement", "pod devices"),
    ("preemption", "pod placement"),
    ("what-if", "pod"),
    (
        "scheduling",
        "pod devices manifests placement preemption what-if spelling configuration",
    ),
    ("hyper-nodes", "pod reconcile configuration"),
    ("batch-objects", "pod"),
    ("reconcile", ""),
    ("batch-jobs", "pod batch-objects reconcile"),
    ("batch-workflows", "pod batch-objects reconcile"),
    ("batch-admission", "pod batch-objects batch-workflows"),
    (
        "batch",
        "pod placement scheduling what-if hyper-nodes batch-objects batch-jobs reconcile spelling configuration",
    ),
    (
        "batch-trace",
        "pod placement hyper-nodes batch-objects batch-admission batch picture reconcile spelling",
    ),
    (
        "batch-controller",
        "pod manifests placement scheduling hyper-nodes batch-objects batch-jobs batch-workflows batch-admission batch batch-trace reconcile daemon cluster-client document command html",
    ),
    ("manifests", "pod"),
    ("configuration", "spelling"),
    ("document", "pod manifests configuration"),
    ("command", "html"),
    ("html", ""),
    ("picture", ""),
    ("spelling", ""),
    ("cluster-client", ""),
    ("daemon", "cluster-client command"),
    ("test-objects", ""),
    ("testkit", "test-objects"),
    ("cri", ""),
    ("kernel", "signals usage decision eviction"),
    (
        "node-config",
        "pod signals eviction cri cluster-client document command spelling configuration",
    ),
    (
        "node",
        "pod signals usage admission reclaim decision departures eviction kernel node-config cri daemon cluster-client document command",
    ),
    (
        "demo",
        "pod signals usage decision departures eviction kernel node node-config daemon document command picture",
    ),
    (
        "scheduler",
        "pod devices manifests placement preemption what-if scheduling hyper-nodes batch-objects batch reconcile daemon cluster-client command document html spelling",
    ),
    (
        "evictd",
        "pod signals usage admission reclaim decision eviction kernel node node-config demo daemon cluster-client document command html",
    ),
];

/// The way into the world, which pure code must not take.
const WORLDLY: [&str; 14] = [
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "SystemTime",
    "Timestamp::now",
    "println!",
    "eprint",
    "tokio",
    "tracing",
];

/// The most words of the dialect (`house/language.rs`) in 10 000 words of a crate's comments.
const DIALECT: usize = 30;

/// Crates that speak it more, with the present figure. A figure may only fall, and a crate that is plain leaves the table.
const MORE_DIALECT: [(&str, usize); 0] = [];

/// Crates in which something is called `own`, and how often at present.
const CALLED_OWN: [(&str, usize); 0] = [];

/// Types whose methods stand in more than three files, and in how many at present.
const SPREAD: [(&str, usize); 0] = [];

/// The most names that a crate shows to others.
const LARGEST_FACE: usize = 60;

/// Crates with a closed face, and how many names they show at present where that is more.
const FACES: [(&str, Option<usize>); 20] = [
    ("admission", None),
    ("batch", None),
    ("batch-admission", None),
    ("batch-controller", None),
    ("batch-workflows", None),
    ("batch-jobs", None),
    ("batch-objects", None),
    ("configuration", None),
    ("decision", None),
    ("demo", None),
    ("departures", None),
    ("eviction", None),
    ("kernel", None),
    ("node", None),
    ("node-config", None),
    ("reclaim", None),
    ("reconcile", None),
    ("scheduler", None),
    ("signals", None),
    ("usage", None),
];

/// The longest file, in lines.
const LONGEST: usize = 600;

/// Rows of the specified behaviour, as in the names of their tests: the letter's number, and from where to where.
const ROWS: [(&str, std::ops::RangeInclusive<u32>); 7] = [
    ("s1", 1..=78),
    ("s1", 85..=89),
    ("s2", 1..=23),
    ("s3", 1..=33),
    ("s4", 1..=41),
    ("s5", 1..=113),
    ("s6", 1..=151),
];

/// Rows of schedulers before 1.36 only, which are not built.
const ROWS_OF_OLD_VERSIONS: [&str; 5] = ["s5_014", "s5_015", "s5_020", "s5_077", "s5_078"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The workspace's packages as cargo sees them.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

/// Every Rust file below these directories, with its text.
fn sources(directories: &[&str]) -> Vec<(PathBuf, String)> {
    fn collect(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    let mut found = Vec::new();
    for directory in directories {
        collect(&root().join(directory), &mut found);
    }
    assert!(!found.is_empty(), "no sources in {directories:?}");
    found
}

fn everything() -> Vec<(PathBuf, String)> {
    sources(&["src", "crates", "tests", "benches"])
}

#[test]
fn arrows_point_down_only() {
    let packages = packages();
    assert_eq!(
        packages.len(),
        ARROWS.len(),
        "say in ARROWS what the new crate may import"
    );
    let short = |name: &Value| {
        let name = name.as_str().unwrap();
        name.strip_prefix("evictd-").unwrap_or(name).to_owned()
    };
    for package in packages {
        let name = short(&package["name"]);
        let (_, allowed) = ARROWS.iter().find(|(known, _)| *known == name).unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let in_tests = dependency["kind"] == "dev";
            if dependency["path"].is_null() {
                continue; // of others
            }
            let dependency = short(&dependency["name"]);
            if in_tests && matches!(dependency.as_str(), "testkit" | "test-objects") {
                continue;
            }
            assert!(
                allowed.split(' ').any(|allowed| allowed == dependency),
                "{name} imports {dependency}"
            );
        }
    }
}

/// Every crate of ours with its modules; the rule is at the top of `house/modules.rs`.
#[test]
fn modules_form_no_circle() {
    let mut mistakes = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let targets = package["targets"].as_array().unwrap();
        let is_shipped =
            |target: &&Value| target["kind"] == json!(["lib"]) || target["kind"] == json!(["bin"]);
        for target in targets.iter().filter(is_shipped) {
            let modules = Modules::of(Path::new(target["src_path"].as_str().unwrap()));
            for (_, level) in modules.levels() {
                mistakes.extend(circles(&level).iter().map(|circle| words(name, circle)));
            }
        }
    }
    assert!(mistakes.is_empty(), "\n{}", mistakes.join("\n"));
}

/// `a uses b (a.rs:1), b uses a (b.rs:3)`
fn words(package: &str, circle: &[Arrow]) -> String {
    let uses = circle.iter().map(|arrow| {
        let file = arrow.file.strip_prefix(root()).unwrap().display();
        format!("{} uses {} ({file}:{})", arrow.from, arrow.to, arrow.line)
    });
    format!(
        "{package}: a circle: {}",
        uses.collect::<Vec<_>>().join(", ")
    )
}

/// The lines of code; a grouped import `use std::{fs, fmt}` counts as one line a name.
fn code(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let groups = text.split("use std::{").skip(1);
    let grouped = groups.flat_map(|rest| rest.split("};").next().unwrap_or_default().split(','));
    let imports = grouped.map(|name| format!("std::{}", name.trim()));
    lines.map(str::to_owned).chain(imports).collect()
}

#[test]
fn cores_are_pure() {
    for (path, text) in sources(&[
        "crates/pod/src",
        "crates/manifests/src",
        "crates/signals/src",
        "crates/usage/src",
        "crates/admission/src",
        "crates/reclaim/src",
        "crates/decision/src",
        "crates/departures/src",
        "crates/eviction/src",
        "crates/devices/src",
        "crates/placement/src",
        "crates/preemption/src",
        "crates/what-if/src",
        "crates/scheduling/src",
        "crates/batch/src",
        "crates/batch-admission/src",
        "crates/batch-jobs/src",
        "crates/batch-objects/src",
        "crates/batch-trace/src",
        "crates/batch-workflows/src",
        "crates/reconcile/src",
        "crates/picture/src",
        "crates/configuration/src",
        "crates/html/src",
        "crates/spelling/src",
    ]) {
        for line in code(&text) {
            let word = WORLDLY.iter().find(|word| line.contains(*word));
            assert_eq!(word, None, "{}: {line}", path.display());
        }
    }
}

#[test]
fn no_crate_may_be_unsafe() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"forbid\""));
    for package in packages() {
        let manifest = fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{}",
            package["name"]
        );
    }
}

#[test]
fn files_have_at_most_600_lines() {
    for (path, text) in everything() {
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{} has {lines} lines", path.display());
    }
}

/// Files with unbounded channels, and the bound on their senders.
const UNBOUNDED: [(&str, &str); 8] = [
    (
        "crates/batch-controller/src/controllers/engine.rs",
        "an answer to each round that is under way, one a job, and to each Command",
    ),
    (
        "crates/cluster-client/src/reflector/news.rs",
        "a count beside it, at which reflectors wait",
    ),
    ("crates/demo/src/lib.rs", "the pods of a play"),
    (
        "crates/node/src/agent/terminations.rs",
        "an end of each termination",
    ),
    (
        "crates/node/src/delivery/mod.rs",
        "two results of each notice",
    ),
    (
        "crates/node/src/reclaim/mod.rs",
        "answers to one job at a time",
    ),
    (
        "crates/scheduler/src/run/extenders/mod.rs",
        "a reply about each pod that is asked about, of which there are at most so many",
    ),
    (
        "crates/scheduler/src/run/writer/mod.rs",
        "an outcome of each write, of which one is under way for each object",
    ),
];

#[test]
fn a_channel_without_a_bound_is_bounded_by_what_fills_it() {
    let makes = |text: &str| {
        code(text)
            .iter()
            .any(|line| line.contains("unbounded_channel("))
    };
    let mut found: Vec<String> = sources(&["src", "crates"])
        .into_iter()
        .map(|(path, text)| (path.display().to_string(), text))
        .filter(|(path, _)| !path.contains("/testkit/") && !path.contains("tests"))
        .filter(|(path, _)| !path.contains("/benches/"))
        .filter(|(_, text)| makes(text))
        .map(|(path, _)| path)
        .collect();
    found.sort();
    assert_eq!(found, UNBOUNDED.map(|(path, _)| path));
}

#[test]
fn no_test_is_skipped_in_silence() {
    let tests = sources(&["src", "crates", "tests"]);
    let others = |path: &Path| !path.ends_with("tests/house.rs");
    for (path, text) in tests.iter().filter(|(path, _)| others(path)) {
        let name = path.display();
        assert!(!text.contains("#[ignore"), "{name} ignores a test");
        let itself = text.contains("LEFT OUT") && !path.ends_with("testkit/src/testing.rs");
        assert!(!itself, "{name}: use left_out(), which passes the harness");
    }
}

#[test]
fn every_row_of_the_specified_behaviour_has_a_test() {
    let tests: String = everything()
        .into_iter()
        .filter(|(path, _)| !path.ends_with("tests/house.rs"))
        .map(|(_, text)| text)
        .collect();
    let rows = ROWS
        .into_iter()
        .flat_map(|(sheet, numbers)| numbers.map(move |number| format!("{sheet}_{number:03}")));
    for row in rows {
        let old = ROWS_OF_OLD_VERSIONS.contains(&row.as_str());
        let tested = tests.contains(&format!("{row}_"));
        assert_eq!(
            tested, !old,
            "{row}: a test has it in its name, or it is of old versions only"
        );
    }
}

/// `docs/promises.md` names the test of each promise.
#[test]
fn every_promise_has_its_test() {
    let page = fs::read_to_string(root().join("docs/promises.md")).unwrap();
    let tests: String = everything().into_iter().map(|(_, text)| text).collect();
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(" | `"));
    let mut promises = 0;
    for row in rows {
        let named = row
            .rsplit(" | ")
            .next()
            .unwrap()
            .split('`')
            .skip(1)
            .step_by(2);
        for name in named {
            assert!(tests.contains(&format!("fn {name}(")), "no test {name}");
            promises += 1;
        }
    }
    assert!(promises > 40, "only {promises} tests are named");
}

/// The crates by the names of their folders, with their files; the root package is `evictd`.
fn by_crate() -> Vec<(String, Vec<(PathBuf, String)>)> {
    let mut crates: Vec<(String, Vec<_>)> = Vec::new();
    let folders = fs::read_dir(root().join("crates")).unwrap();
    for folder in folders {
        let name = folder.unwrap().file_name().into_string().unwrap();
        let files = sources(&[&format!("crates/{name}/src")]);
        crates.push((name, files));
    }
    crates.push(("evictd".to_owned(), sources(&["src"])));
    crates.sort();
    crates
}

/// Compares a figure with its limit, or with the present figure of the exceptions, which must be left out once it is met.
fn check(what: &str, figure: usize, limit: usize, exception: Option<usize>) -> Option<String> {
    match exception {
        _ if figure > exception.unwrap_or(limit) => Some(format!(
            "{what}: {figure}, at most {}",
            exception.unwrap_or(limit)
        )),
        Some(_) if figure <= limit => {
            Some(format!("{what}: {figure}; it is no exception any more"))
        }
        _ => None,
    }
}

#[test]
fn comments_and_names_are_plain() {
    let mut mistakes = Vec::new();
    let mut spread = BTreeSet::new();
    for (name, files) in by_crate() {
        let language = Language::of(files.iter());
        let exception = |table: &[(&str, usize)], key: &str| {
            let found = table.iter().find(|(known, _)| *known == key);
            found.map(|(_, figure)| *figure)
        };
        let more = exception(&MORE_DIALECT, &name);
        let words = format!("{name}: words of the dialect in 10 000");
        mistakes.extend(check(&words, language.dialect(), DIALECT, more));
        let own = exception(&CALLED_OWN, &name);
        mistakes.extend(check(
            &format!("{name}: identifiers `own`"),
            language.own,
            0,
            own,
        ));
        for (kind, files) in language.spread() {
            spread.insert(kind.to_owned());
            let present = exception(&SPREAD, kind);
            let words = format!("{name}: files with methods of {kind}");
            mistakes.extend(check(&words, files, 3, present));
        }
        mistakes.extend(language.long);
    }
    for (kind, _) in SPREAD {
        if !spread.contains(kind) {
            mistakes.push(format!("methods of {kind}: no exception any more"));
        }
    }
    assert!(mistakes.is_empty(), "\n{}", mistakes.join("\n"));
}

#[test]
fn faces_are_closed() {
    let mut mistakes = Vec::new();
    for (name, present) in FACES {
        let names = face(&root().join(format!("crates/{name}/src/lib.rs")));
        let words = format!("{name}: names that others can write");
        mistakes.extend(check(&words, names.len(), LARGEST_FACE, present));
    }
    assert!(mistakes.is_empty(), "\n{}", mistakes.join("\n"));
}

#[test]
fn the_architecture_names_what_exists() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let mut code = sources(&["src", "crates"]);
    code.retain(|(path, _)| !path.starts_with("tests/house"));
    let names = documents::names(&page);
    assert!(names.len() > 100, "only {} names", names.len());
    let missing = |name: &&str| !documents::exists(name, root(), &code);
    let missing: Vec<&str> = names.into_iter().filter(missing).collect();
    assert!(missing.is_empty(), "docs/architecture.md: {missing:?}");
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)));
    assert!(pages.len() > 15, "{pages:?}");
    let dead: Vec<String> = pages
        .iter()
        .flat_map(|page| documents::dead_links(page))
        .collect();
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn the_table_of_contents_has_every_page() {
    let contents = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let missing: Vec<String> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            Path::new(name).extension().is_some_and(|end| end == "md")
                && name != "SUMMARY.md"
                && !contents.contains(&format!("({name})"))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
