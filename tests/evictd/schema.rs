//! The JSON Schemas that ship: of the configuration and of the chart's values. They are as they are made, take what ships
//! and what a reader takes, and refuse what is plainly wrong.

use evictd_node_config::{self as config, json_schema};
use evictd_testkit::program;
use jsonschema::Validator;
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

const OURS: &str = "EvictionConfiguration";
const KUBELETS: &str = "KubeletConfiguration";

fn place(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn document(file: &str) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(place(file)).unwrap()).unwrap()
}

fn validator() -> Validator {
    jsonschema::validator_for(&json_schema()).unwrap()
}

/// Everything that is wrong.
fn complaints(validator: &Validator, document: &Value) -> Vec<String> {
    let errors = validator.iter_errors(document);
    let told =
        |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
    errors.map(told).collect()
}

/// Compares a file with what it is made from; `EVICTD_WRITE=1` writes it.
fn assert_made(file: &str, schema: &Value) {
    let made = format!("{schema:#}\n");
    if std::env::var_os("EVICTD_WRITE").is_some() {
        fs::write(place(file), &made).unwrap();
    }
    let found = fs::read_to_string(place(file)).unwrap_or_default();
    assert!(
        found == made,
        "{file} is not as it is made: run `just generate`"
    );
}

#[test]
fn what_ships_is_as_it_is_made() {
    assert_made("config/evictd.schema.json", &json_schema());
    assert_made("packaging/helm/evictd/values.schema.json", &values_schema());
    let printed = program::run(&mut crate::evictd(&["check-config", "--schema"]), "");
    let shipped = fs::read(place("config/evictd.schema.json")).unwrap();
    assert!(printed.stdout == shipped, "{printed:?}");
}

#[test]
fn every_file_that_ships_is_valid() {
    let validator = validator();
    let mut files = vec![place("config/evictd.yaml")];
    let presets = fs::read_dir(place("config/presets")).unwrap();
    files.extend(presets.map(|entry| entry.unwrap().path()));
    let overlays = fs::read_dir(place("packaging/kubernetes/overlays")).unwrap();
    let overlays = overlays.map(|entry| entry.unwrap().path().join("evictd.yaml"));
    files.extend(overlays.filter(|file| file.exists()));
    assert!(files.len() > 6, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let document: Value = serde_saphyr::from_str(&text).unwrap();
        let none: [String; 0] = [];
        assert_eq!(
            complaints(&validator, &document),
            none,
            "{}",
            file.display()
        );
        let named = text.lines().next().unwrap_or_default();
        let schema = match file.parent().and_then(Path::file_name) {
            Some(name) if name == "config" => "/usr/share/evictd/evictd.schema.json",
            // Beside it in this repository as in a package.
            Some(name) if name == "presets" => "../evictd.schema.json",
            _ => continue,
        };
        assert_eq!(named, format!("# yaml-language-server: $schema={schema}"));
    }
    let mut kubelets = document("tests/fixtures/kubelet-configz.json")["kubeletconfig"].take();
    kubelets["kind"] = json!(KUBELETS);
    assert_eq!(complaints(&validator, &kubelets), [""; 0]);
}

#[test]
fn the_schema_marks_mistakes_where_they_stand() {
    let table = [
        ("{dryRunn: true}", ""),
        ("{dryRun: 1}", "/dryRun"),
        ("{pods: {sorce: auto}}", "/pods"),
        ("{pods: {source: kubelets}}", "/pods/source"),
        ("{pods: {manifests: etc/m}}", "/pods/manifests"),
        ("{pods: [auto]}", "/pods"),
        ("{evictionHard: {memory.free: 1Gi}}", "/evictionHard"),
        (
            "{evictionHard: {memory.available: 1Gib}}",
            "/evictionHard/memory.available",
        ),
        (
            "{evictionHard: {memory.psi: 20%}}",
            "/evictionHard/memory.psi",
        ),
        (
            "{evictionSoftGracePeriod: {memory.available: 1M}}",
            "/evictionSoftGracePeriod/memory.available",
        ),
        (
            "{evictionPressureTransitionPeriod: 10}",
            "/evictionPressureTransitionPeriod",
        ),
        ("{futileEvictions: -1}", "/futileEvictions"),
        (
            "{protect: {selectors: [{matchLabel: {a: b}}]}}",
            "/protect/selectors/0",
        ),
        ("{metrics: {address: localhost}}", "/metrics/address"),
        ("{kind: EvictionConfig}", "/kind"),
        (
            "{kind: EvictionConfiguration, apiVersion: v1}",
            "/apiVersion",
        ),
        ("{dedicatedImageFs: true}", ""),
        (
            "{kind: KubeletConfiguration, evictionHard: {memory.psi: full avg10 > 20%}}",
            "/evictionHard",
        ),
        (
            "{kind: KubeletConfiguration, evictionSoft: [a]}",
            "/evictionSoft",
        ),
    ];
    let validator = validator();
    for (text, place) in table {
        let document: Value = serde_saphyr::from_str(text).unwrap();
        let complaints = complaints(&validator, &document);
        let there = complaints
            .iter()
            .any(|told| told.starts_with(&format!("{place}: ")));
        assert!(there, "{text}: {complaints:?}");
        // An editor marks nothing that the daemon would take.
        let kind = document
            .get("kind")
            .is_none()
            .then(|| format!("kind: {OURS}, "));
        let text = text.replacen('{', &format!("{{{}", kind.unwrap_or_default()), 1);
        assert!(config::parse("f.yaml", &text).is_err(), "{text}");
    }
}

/// The paths of all settings of a definition, `pods.source`.
fn settings(definition: &Value) -> Vec<Vec<String>> {
    let properties = definition["properties"].as_object().unwrap();
    let mut settings = Vec::new();
    for (name, property) in properties {
        match property["properties"].as_object() {
            Some(inner) => {
                let path = |last: &String| vec![name.clone(), last.clone()];
                settings.extend(inner.keys().map(path));
            }
            None if matches!(name.as_str(), "kind" | "apiVersion") => {}
            None => settings.push(vec![name.clone()]),
        }
    }
    settings
}

/// Texts that some setting takes, and the empty one.
const TEXTS: &str = "\
    |x| full  avg60 >  1.25 % for 1m|on|a b|0|0s|1s|1m30s|1h0m0s|.5s|1.5h|+5s|10us|10µs|1m 30s|\
    500ms|2 weeks|1day|0%|5%|0.5%|100%|+5%|1e1%|100Mi|1.5Gi|1e9|1E9|12e-1|500m|5k|+5Gi|-5|\
    full avg10 > 20% for 5s|some avg300>5%|/|/a/b|a/b|../x|127.0.0.1:20261|[::1]:80|\
    $(POD_IP):20261|:80|auto|manifests|kubernetes|kubelet|cri|cgroup|summary|delete|eviction|\
    together|first|off|report|reject|own|standard|wait|evict|spare|rank|last|fairShare|either|both|\
    memAvailable|workingSet";

/// What is tried for every setting.
fn tried() -> Vec<Value> {
    let others = json!([
        null, true, false, 0, 1, -1, 3, 60, 2.5, 1e9, 99_999_999_999_i64, [], ["pods"], ["none"], ["a", "b"], [1],
        {}, {"a": 1}, {"a": "b"}, [{"matchLabels": {"a": "b"}}], [{}],
        [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}],
    ]);
    let texts = TEXTS.split('|').map(|text| json!(text));
    others
        .as_array()
        .unwrap()
        .iter()
        .cloned()
        .chain(texts)
        .collect()
}

#[test]
fn whatever_a_reader_takes_the_schema_takes() {
    let (validator, schema) = (validator(), json_schema());
    let mut checked = 0;
    for kind in [OURS, KUBELETS] {
        let settings = settings(&schema["definitions"][kind]);
        for value in tried() {
            // A soft threshold and its grace period need each other, so that each has a document where the other is good.
            for alone in ["", "evictionSoft", "evictionSoftGracePeriod"] {
                let tried = settings.iter().filter(|path| {
                    let pair = path[0]
                        .starts_with("evictionSoft")
                        .then_some(path[0].as_str());
                    pair.unwrap_or_default() == alone
                });
                let empty = json!({ "kind": kind });
                let refuses =
                    |path: &&Vec<String>| !validator.is_valid(&with(empty.clone(), path, &value));
                let wrong: Vec<&Vec<String>> = tried.filter(refuses).collect();
                let document = wrong.iter().fold(empty.clone(), |document, path| {
                    let document = with(document, path, &value);
                    match partner(path) {
                        Some((other, good)) => with(document, &other, &json!(good)),
                        None => document,
                    }
                });
                let read = config::parse("f.json", &document.to_string());
                let mistakes = read
                    .err()
                    .map(|refused| refused.mistakes)
                    .unwrap_or_default();
                for setting in wrong.iter().map(|path| path.join(".")) {
                    let told = mistakes
                        .iter()
                        .any(|mistake| mistake.key.starts_with(&setting));
                    assert!(
                        told,
                        "{kind}: {setting}: {value} is taken, and not by the schema"
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 3000, "{checked}");
}

/// The document with this value there.
fn with(mut document: Value, path: &[String], value: &Value) -> Value {
    match path {
        [name] => document[name] = value.clone(),
        [above, name] => document[above][name] = value.clone(),
        _ => unreachable!("no key is deeper"),
    }
    document
}

/// What a soft threshold or its grace period does not stand without.
fn partner(path: &[String]) -> Option<(Vec<String>, &'static str)> {
    let [map, signal] = path else { return None };
    let of = |map: &str| vec![map.to_owned(), signal.clone()];
    match map.as_str() {
        "evictionSoft" => Some((of("evictionSoftGracePeriod"), "1m")),
        "evictionSoftGracePeriod" if signal.contains("psi") => {
            Some((of("evictionSoft"), "full avg10 > 20%"))
        }
        "evictionSoftGracePeriod" => Some((of("evictionSoft"), "50%")),
        _ => None,
    }
}

#[test]
fn every_setting_has_its_words_and_its_default() {
    let schema = json_schema();
    for kind in [OURS, KUBELETS] {
        let definition = &schema["definitions"][kind];
        for (name, property) in definition["properties"].as_object().unwrap() {
            let group =
                property.get("description").is_none() && property.get("properties").is_some();
            let inner = if group {
                &property["properties"]
            } else {
                &json!({ name: property })
            };
            for (name, property) in inner.as_object().unwrap() {
                if matches!(name.as_str(), "kind" | "apiVersion") {
                    continue;
                }
                assert!(property["description"].is_string(), "{kind} {name}");
                assert!(property.get("default").is_some(), "{kind} {name}");
            }
        }
    }
    let ours = &schema["definitions"][OURS]["properties"];
    let waits = |property: &Value| {
        let words = property["description"].as_str().unwrap();
        words.ends_with("A change takes effect at the next start.")
    };
    assert!(waits(&ours["socket"]) && !waits(&ours["dryRun"]));
}

/// The schema of the chart's values: those of values.yaml, each with what is written above it there.
fn values_schema() -> Value {
    let yaml = fs::read_to_string(place("packaging/helm/evictd/values.yaml")).unwrap();
    let defaults = document("packaging/helm/evictd/values.yaml");
    let mut properties = Map::new();
    for (name, default) in defaults.as_object().unwrap() {
        let mut property = match default {
            _ if name == "config" => json_schema()["definitions"][OURS].take(),
            _ if name == "scheduler" => json!({ "enum": ["", "second", "only"] }),
            Value::Bool(_) => json!({ "type": "boolean" }),
            // A directory; one that is empty by default may be.
            Value::String(path) if path.is_empty() => {
                json!({ "type": "string", "pattern": "^(/|$)" })
            }
            Value::String(_) => json!({ "type": "string", "pattern": "^/" }),
            _ => json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "repository": { "type": "string", "minLength": 1 },
                    // `--set image.tag=7` is a number.
                    "tag": { "type": ["string", "number"] },
                },
            }),
        };
        property["description"] = json!(said_above(name, &yaml));
        property["default"] = default.clone();
        properties.insert(name.clone(), property);
    }
    // Helm gives it to every chart.
    properties.insert("global".to_owned(), json!({ "type": "object" }));
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart evictd",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// The comment above a key; for one that has others below it, what stands above those.
fn said_above(name: &str, yaml: &str) -> String {
    let key = format!("{name}:");
    let before: Vec<&str> = yaml
        .lines()
        .take_while(|line| !line.starts_with(&key))
        .collect();
    let comment = before
        .iter()
        .rev()
        .take_while(|line| line.starts_with("# "));
    let mut lines: Vec<&str> = comment.map(|line| line.trim_start_matches("# ")).collect();
    lines.reverse();
    lines.join(" ")
}

#[test]
fn the_charts_values_are_valid_and_a_wrong_one_is_not() {
    let validator = jsonschema::validator_for(&values_schema()).unwrap();
    let defaults = document("packaging/helm/evictd/values.yaml");
    assert_eq!(complaints(&validator, &defaults), [""; 0]);
    for (good, value) in [
        (
            "config",
            json!({ "evictionHard": { "memory.available": "1Gi" }, "dryRun": true }),
        ),
        (
            "image",
            json!({ "repository": "registry.example/evictd", "tag": 7 }),
        ),
        ("global", json!({ "any": 1 })),
    ] {
        assert_eq!(
            complaints(&validator, &json!({ good: value })),
            [""; 0],
            "{good}"
        );
    }
    for (wrong, value) in [
        ("dryRunn", json!(true)),
        ("dryRun", json!("yes")),
        ("images", json!("var/lib")),
        ("image", json!({ "repo": "x" })),
        ("config", json!({ "dryRunn": true })),
        ("config", json!({ "pods": { "source": "nowhere" } })),
    ] {
        let complaints = complaints(&validator, &json!({ wrong: value }));
        assert_eq!(complaints.len(), 1, "{wrong}: {complaints:?}");
    }
}
