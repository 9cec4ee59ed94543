//! Standard output, standard error and directories that take nothing: what is lost is told, and nothing panics.

use evictd_testkit::{
    pages,
    program::{refusal, stderr, try_run},
    testing::with_tmpfs,
};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{self, Write},
    process::{Command, Output, Stdio},
};

/// What is made from the command line and the table of keys.
const GENERATED: [&[&str]; 8] = [
    &["man"],
    &["man", "evictd-status"],
    &["man", "evictd.yaml"],
    &["completions", "bash"],
    &["completions", "zsh"],
    &["completions", "fish"],
    &["check-config", "--schema"],
    &["check-config", "--defaults"],
];

/// Runs it to its end with these two outputs.
fn run(mut command: Command, stdout: Stdio, stderr: Stdio) -> Output {
    let child = command
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn();
    child.unwrap().wait_with_output().unwrap()
}

fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe whose reader has gone.
fn without_reader() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_failed_write_to_stdout_is_an_error_and_a_closed_pipe_is_not() {
    for arguments in GENERATED {
        let output = run(crate::evictd(arguments), full(), Stdio::piped());
        assert_eq!(
            refusal(&output, 1),
            "evictd: cannot write to standard output: No space left on device (os error 28)\n",
            "{arguments:?}"
        );
        let output = run(crate::evictd(arguments), without_reader(), Stdio::piped());
        assert_eq!(refusal(&output, 0), "", "{arguments:?}");
        // The standard library opens /dev/null where a program is started without.
        let mut closed = Command::new("/bin/sh");
        closed.args(["-c", "exec \"$@\" >&-", "sh", crate::node::EVICTD]);
        closed.args(arguments);
        let output = run(closed, Stdio::null(), Stdio::piped());
        assert_eq!(refusal(&output, 0), "", "{arguments:?}");
    }
}

#[test]
fn an_error_that_standard_error_does_not_take_still_has_its_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::write(path("bad.yaml"), "dryRunn: true\n").unwrap();
    let (bad, missing) = (path("bad.yaml"), path("missing"));
    let socket = ["--socket", &missing];
    let table: [(&[&str], i32); 6] = [
        (&["check-config", &bad], 2),
        (&["check-config", &missing], 2),
        (&["run", "--config", &missing], 2),
        (&["man", "no-such-page"], 2),
        (&[&["status"], &socket[..]].concat(), 1),
        (&["explain", "--pods", &missing, "--summary", &missing], 2),
    ];
    for (arguments, code) in table {
        for takes_nothing in [full, without_reader] {
            let output = run(crate::evictd(arguments), Stdio::piped(), takes_nothing());
            assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        }
    }
}

#[test]
fn a_warning_that_standard_error_does_not_take_costs_no_answer() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/explain");
    let pods = fs::read_to_string(format!("{place}/pods.json")).unwrap();
    let mut pods: Value = serde_json::from_str(&pods).unwrap();
    pods["items"][0]["spec"]["nodeName"] = "elsewhere".into();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pods.json");
    fs::write(&file, pods.to_string()).unwrap();
    let explain = |stderr: Stdio| {
        let mut command = crate::evictd(&["explain", "-o", "json", "--pods"]);
        command.arg(&file).current_dir(place);
        command.args(["--summary", "summary.json", "--now", "2026-11-21T00:12:20Z"]);
        run(command, Stdio::piped(), stderr)
    };
    let heard = explain(Stdio::piped());
    assert!(stderr(&heard).contains("are left out"), "{heard:?}");
    for takes_nothing in [full, without_reader] {
        let output = explain(takes_nothing());
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(output.stdout, heard.stdout);
    }
}

#[test]
fn pages_that_cannot_be_written_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    File::create(&file).unwrap().write_all(b"mine").unwrap();
    let write = |to: &std::path::Path| {
        let mut command = crate::evictd(&["man", "--directory"]);
        try_run(command.arg(to), "").unwrap()
    };
    let said = refusal(&write(&file), 1);
    assert_eq!(
        said,
        format!(
            "evictd: cannot make {}: File exists (os error 17)\n",
            file.display()
        )
    );
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    let page = directory.path().join("evictd.8");
    fs::create_dir(&page).unwrap();
    let said = refusal(&write(directory.path()), 1);
    let expected = format!("evictd: cannot write {}: Is a directory", page.display());
    assert!(said.starts_with(&expected), "{said}");
    let small = directory.path().join("small");
    fs::create_dir(&small).unwrap();
    let name = "pages_that_cannot_be_written_are_named";
    with_tmpfs(name, small, 16, move |at| {
        let said = refusal(&write(at), 1);
        let expected = format!("evictd: cannot write {}/evictd", at.display());
        assert!(said.starts_with(&expected), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
    });
}

#[test]
fn the_documents_show_only_flags_that_the_help_has() {
    let unknown = pages::unknown_in_commands(crate::node::EVICTD, "evictd");
    assert!(unknown.is_empty(), "{unknown:#?}");
}
