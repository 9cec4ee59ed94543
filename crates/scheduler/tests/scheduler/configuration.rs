//! A `KubeSchedulerConfiguration` is read whole, with a place for each mistake, and can be written.

use crate::scheduler;
use evictd_testkit::program::stderr;
use std::fs;
use std::process::Output;
use tempfile::TempDir;

/// `run --write-config-to`, with this configuration.
fn write(directory: &TempDir, config: &str, more: &[&str]) -> (Output, String) {
    let (from, to) = (
        directory.path().join("from.yaml"),
        directory.path().join("to.yaml"),
    );
    fs::write(&from, config).unwrap();
    let arguments = [
        "run",
        "--config",
        from.to_str().unwrap(),
        "--write-config-to",
        to.to_str().unwrap(),
    ];
    let output = scheduler().args(arguments).args(more).output().unwrap();
    (output, fs::read_to_string(to).unwrap_or_default())
}

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

#[test]
fn s5_073_the_effective_configuration_is_written_and_read_again() {
    let directory = TempDir::new().unwrap();
    let config = format!(
        "{HEAD}podMaxBackoffSeconds: 30\nprofiles:\n- plugins:\n    score:\n      disabled: [{{name: '*'}}]\n"
    );
    let flags = ["--leader-elect=false", "--leader-elect-retry-period=1s"];
    let (output, written) = write(&directory, &config, &flags);
    assert!(output.status.success(), "{}", stderr(&output));
    for line in [
        "podMaxBackoffSeconds: 30",
        "podInitialBackoffSeconds: 1",
        "leaderElect: false",
        "retryPeriod: 1s",
        "schedulerName: default-scheduler",
    ] {
        assert!(written.contains(line), "{line} is not in\n{written}");
    }
    let (output, again) = write(&directory, &written, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(again, written);
}

#[track_caller]
fn refused(config: &str, lines: &[&str]) {
    let directory = TempDir::new().unwrap();
    let (output, written) = write(&directory, config, &[]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(written, "");
    for line in lines {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn s5_074_each_mistake_is_reported_with_its_place() {
    refused(
        &format!("{HEAD}parallelism: many\npodMaxBackofSeconds: 3\n"),
        &[
            "from.yaml:3:14: parallelism: invalid type",
            "from.yaml:4:",
            "unknown field `podMaxBackofSeconds`; the nearest is `podMaxBackoffSeconds`",
        ],
    );
    refused(
        &format!(
            "{HEAD}parallelism: 0\nprofiles:\n- schedulerName: a\n  plugins:\n    filter:\n      enabled:\n      - name: NodePort\n"
        ),
        &[
            "from.yaml:3:14: parallelism: 0: must be from 1 to",
            "from.yaml:9:15: profiles[0].plugins.filter.enabled[0].name: \"NodePort\": there is no such plugin; the nearest is NodePorts",
        ],
    );
}

#[test]
fn s5_074_wrong_types_duplicates_and_contradictions_are_reported_at_once() {
    let args = "    args: {hardPodAffinityWeight: 101, hardPodAfinityWeight: 2}\n";
    refused(
        &format!(
            "{HEAD}parallelism: 0\nparallelism: -1\npodMaxBackoffSeconds: long\nprofiles:\n\
             - pluginConfig:\n  - name: InterPodAffinity\n{args}"
        ),
        &[
            "from.yaml:4:1: parallelism: appears twice, first in line 3; remove one",
            "from.yaml:4:14: parallelism: -1: must be from 1 to",
            "from.yaml:5:23: podMaxBackoffSeconds: invalid type",
            "from.yaml:9:62: profiles[0].pluginConfig[0].args.hardPodAfinityWeight: unknown field",
        ],
    );
}

#[test]
fn s5_074_another_version_is_reported_and_its_fields_are_not() {
    refused(
        "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\nalgorithmSource: {}\n",
        &[
            "from.yaml:1:13: apiVersion: \"kubescheduler.config.k8s.io/v1beta1\": must be kubescheduler.config.k8s.io/v1",
        ],
    );
}
