//! README.md and the pages of `docs/`: their commands are those of the program, and the example cluster answers as they show.

use crate::scheduler;
use evictd_testkit::pages::{self, Outputs};
use evictd_testkit::program::{self, page};
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs one of the README's commands about the example cluster, on a terminal of 80 columns.
fn asked(arguments: &str) -> String {
    let mut command = scheduler();
    command.current_dir(ROOT).env("COLUMNS", "80");
    page(&program::run(
        command.args(arguments.split_whitespace()),
        "",
    ))
}

#[test]
fn the_documents_show_only_flags_that_the_help_has() {
    let unknown =
        pages::unknown_in_commands(env!("CARGO_BIN_EXE_evictd-scheduler"), "evictd-scheduler");
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn the_front_page_shows_the_answer_about_the_example_cluster() {
    let readme = std::fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let commands = readme
        .lines()
        .filter_map(|line| line.strip_prefix("$ evictd-scheduler "));
    let about_examples: Vec<&str> = commands
        .filter(|line| line.contains("config/examples"))
        .collect();
    assert_eq!(about_examples.len(), 3, "{about_examples:?}");
    let answers: Vec<String> = about_examples.into_iter().map(asked).collect();
    pages::check_exactly(
        "README.md",
        &Outputs::from([("explain", answers[0].clone())]),
    );
    for (answer, line) in answers.iter().zip([
        "These events try it again:",
        "preempt 1 pod on worker-1 for it, against no PodDisruptionBudget",
        "0 are unschedulable",
    ]) {
        let one_line = answer.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(one_line.contains(line), "{answer}");
    }
}
