//! Configurations that can't be used: exit code 2, every mistake with its place, and nothing taken for good.

use evictd_testkit::program;
use evictd_testkit::testing::left_out;
use serde_json::Value;
use std::{
    fs::{self, File},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
};
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// Runs `check-config` on a file that must be refused; gives back what it says on stderr.
fn refusal(file: &Path) -> String {
    let mut check = crate::evictd(&["check-config"]);
    program::refusal(&program::run(check.arg(file), ""), 2)
}

fn file(directory: &TempDir, content: impl AsRef<[u8]>) -> std::path::PathBuf {
    let path = directory.path().join("evictd.yaml");
    fs::write(&path, content).unwrap();
    path
}

#[test]
fn every_mistake_is_told_in_one_go_with_file_line_and_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(
        &directory,
        "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\nhousekeepingIntervall: 1s\n\
         housekeepingInterval: 1M\nevictionHard:\n  memory.availble: 1Gi\n  pid.available: 120%\n\
         \x20 nodefs.available: -1Gi\n  nodefs.available: 99999Ei\nevictionSoft:\n  imagefs.available: 20%\n",
    );
    let said = refusal(&path);
    let name = path.display();
    let expected = [
        format!(
            "{name}:3:1: housekeepingIntervall: unknown key; did you mean housekeepingInterval?"
        ),
        format!(
            "{name}:4:23: housekeepingInterval: \"1M\" is counted in months; 1m if minutes are meant"
        ),
        format!(
            "{name}:6:3: evictionHard.memory.availble: unsupported eviction signal memory.availble; \
             did you mean memory.available?"
        ),
        format!(
            "{name}:7:18: evictionHard.pid.available: eviction percentage threshold pid.available must be <= 100%"
        ),
        format!(
            "{name}:9:3: evictionHard.nodefs.available: appears twice, first in line 8; remove one"
        ),
        format!("{name}:11:22: evictionSoft.imagefs.available: grace period must be specified"),
    ];
    for line in &expected {
        assert!(said.contains(line), "{line}\n{said}");
    }
    assert_eq!(said.lines().count(), expected.len(), "{said}");
}

#[test]
fn mistakes_are_in_the_json_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "kind: EvictionConfiguration\ndryRun: maybe\n");
    let mut check = crate::evictd(&["check-config", "-o", "json"]);
    let output = program::run(check.arg(&path), "");
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["valid"], false);
    assert_eq!(report["errors"][0]["key"], "dryRun");
    assert_eq!(report["errors"][0]["line"], 2);
    assert_eq!(report["errors"][0]["column"], 9);
    assert_eq!(report["effective"], Value::Null);
}

#[test]
fn a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let said = refusal(directory.path());
    assert!(said.contains("is a directory"), "{said}");
}

#[test]
fn a_file_that_is_not_there() {
    let said = refusal(Path::new("/nonexistent/evictd.yaml"));
    assert!(said.contains("/nonexistent/evictd.yaml: "), "{said}");
}

#[test]
fn a_file_that_may_not_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "kind: EvictionConfiguration\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let mut check = crate::evictd(&["check-config"]);
    check.arg(&path);
    if File::open(&path).is_ok() {
        check.uid(NOBODY);
    }
    let output = match check.output() {
        Ok(output) => output,
        Err(error) => return left_out("a_file_that_may_not_be_read", error),
    };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("Permission denied"), "{said}");
}

#[test]
fn a_hundred_megabytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evictd.yaml");
    File::create(&path).unwrap().set_len(100 << 20).unwrap();
    let said = refusal(&path);
    assert!(said.contains("is larger than 16 MiB"), "{said}");
}

#[test]
fn not_utf_8() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, b"dryRun: true\nnodeName: \xff\xfe\n");
    let said = refusal(&path);
    let place = format!("{}:2", path.display());
    assert!(said.contains(&place) && said.contains("UTF-8"), "{said}");
}

#[test]
fn neither_yaml_nor_json() {
    let directory = tempfile::tempdir().unwrap();
    for text in ["a: [1", "{\"a\": }", "\t- x", "a: b: c", "--- a\n--- b\n"] {
        let path = file(&directory, text);
        let said = refusal(&path);
        assert!(
            said.contains(&format!("{}:", path.display())),
            "{text}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
