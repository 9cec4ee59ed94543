//! What `packaging/monitoring` shows and warns of is what the daemon measures: no figure is left out, and none is made up.

mod dashboard;

use crate::promtool;
use evictd_node::{Format, Metrics, ThresholdState, Tier};
use evictd_signals::{Observation, Signal};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn place(file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("packaging/monitoring").join(file)
}

fn text(file: &str) -> String {
    fs::read_to_string(place(file)).unwrap()
}

/// Every metric by the name of its family, with its type, as it is registered. Those that come and go are there once.
fn metrics() -> BTreeMap<String, String> {
    let (mut metrics, exposition) = Metrics::new();
    let observation = Observation {
        available: 1,
        capacity: 2,
        time: None,
    };
    metrics.observed(Signal::MemoryAvailable, Some(&observation));
    let state = ThresholdState {
        value: 1,
        met: false,
    };
    metrics.threshold(Signal::MemoryAvailable, Tier::Hard, Some(state));
    let now = jiff::Timestamp::UNIX_EPOCH;
    metrics.node_heartbeat().set(now);
    metrics.configuration().taken(now, &["socket"]);
    let text = exposition.render(Format::Plain).unwrap();
    let types = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

/// The metrics of ours that are named in this text, as families.
fn named(text: &str, metrics: &BTreeMap<String, String>) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("evictd_"));
    let family = |word: &str| {
        let series = ["_bucket", "_count", "_sum"].into_iter();
        let histogram = series
            .filter_map(|suffix| word.strip_suffix(suffix))
            .find(|name| {
                metrics
                    .get(*name)
                    .is_some_and(|kind| kind.as_str() == "histogram")
            });
        histogram.unwrap_or(word).to_owned()
    };
    ours.map(family).collect()
}

fn assert_known(file: &str, text: &str) -> BTreeSet<String> {
    let metrics = metrics();
    let named = named(text, &metrics);
    assert!(!named.is_empty(), "{file} names no metric");
    for name in &named {
        assert!(
            metrics.contains_key(name),
            "{file}: {name} is not registered in crates/node/src/metrics"
        );
    }
    named
}

/// Compares a file with what it is made from; `EVICTD_WRITE=1` writes it.
fn assert_made(file: &str, made: &str) {
    if std::env::var_os("EVICTD_WRITE").is_some() {
        fs::write(place(file), made).unwrap();
    }
    let found = fs::read_to_string(place(file)).unwrap_or_default();
    assert!(
        found == made,
        "packaging/monitoring/{file} is not as it is made: run `just generate`"
    );
}

/// The rules of `rules.yaml`.
fn alerts() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&text("rules.yaml")).unwrap();
    rules["groups"][0]["rules"].as_array().unwrap().clone()
}

#[test]
fn the_dashboard_is_made_of_every_metric_and_no_other() {
    let made = format!("{:#}\n", dashboard::dashboard());
    assert_made("dashboard.json", &made);
    let shown = assert_known("dashboard.json", &made);
    let missing: Vec<_> = metrics()
        .into_keys()
        .filter(|name| !shown.contains(name))
        .collect();
    assert_eq!(missing, [""; 0], "no panel shows them");
}

#[test]
fn alerts_are_made_of_metrics_that_there_are() {
    assert_known("rules.yaml", &text("rules.yaml"));
    assert_known("rules_test.yaml", &text("rules_test.yaml"));
}

#[test]
fn every_alert_says_what_is_the_matter_and_what_to_do_and_is_tested() {
    let tests = text("rules_test.yaml");
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        for annotation in ["summary", "description", "runbook"] {
            let said = alert["annotations"][annotation].as_str();
            assert!(
                said.is_some_and(|said| !said.is_empty()),
                "{name}: {annotation}"
            );
        }
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}");
        // With what must fire right below.
        let fires = format!(
            "(ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}})'\n        exp_samples:"
        );
        assert!(tests.contains(&fires), "no test sees {name} fire");
    }
}

#[test]
fn the_prometheus_rule_is_made_of_the_rules_themselves() {
    let head = "\
# Made from rules.yaml by `just generate`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: evictd
  namespace: evictd
  labels:
    app.kubernetes.io/name: evictd
spec:
";
    let rules = text("rules.yaml");
    let rules = rules.lines().skip_while(|line| line.starts_with('#'));
    let mut made = head.to_owned();
    for line in rules {
        made.extend(["  ", line, "\n"]);
    }
    let parsed: Value = serde_saphyr::from_str(&made).unwrap();
    let rules: Value = serde_saphyr::from_str(&text("rules.yaml")).unwrap();
    assert_eq!(parsed["spec"], rules);
    assert_made("prometheusrule.yaml", &made);
}

#[test]
fn the_kustomize_component_equals_the_folder() {
    let component: Value = serde_saphyr::from_str(&text("kustomization.yaml")).unwrap();
    let resources = component["resources"].as_array().unwrap().iter();
    let dashboards = component["configMapGenerator"][0]["files"]
        .as_array()
        .unwrap();
    for file in resources.chain(dashboards) {
        assert!(place(file.as_str().unwrap()).is_file(), "{file}");
    }
    let monitor: Value = serde_saphyr::from_str(&text("podmonitor.yaml")).unwrap();
    let relabeled = &monitor["spec"]["podMetricsEndpoints"][0]["relabelings"][0];
    assert_eq!(relabeled["targetLabel"], "node", "the alerts compare by it");
}

#[test]
fn promtool_finds_the_rules_right_and_the_alerts_fire_when_they_should() {
    let name = "promtool_finds_the_rules_right";
    let directory = place("");
    for (arguments, file) in [
        (["check", "rules"], "rules.yaml"),
        (["test", "rules"], "rules_test.yaml"),
    ] {
        let Some(said) = promtool::run(&directory, &[arguments[0], arguments[1], file], "") else {
            return evictd_testkit::testing::left_out(name, promtool::MISSING);
        };
        assert!(said.contains("SUCCESS"), "{said}");
    }
}
