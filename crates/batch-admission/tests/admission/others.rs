//! Paths and operations, pod groups, pods.

use crate::{ask, denial, of_job, task};
use serde_json::{Value, json};

#[test]
fn s6_074_other_operations_are_refused_in_the_words_of_their_path() {
    let object = json!({"metadata": {"name": "x", "namespace": "default"}});
    for (path, operation, expected) in [
        ("/jobs/mutate", "UPDATE", "expect operation to be 'CREATE' "),
        (
            "/jobs/validate",
            "DELETE",
            "expect operation to be 'CREATE' or 'UPDATE'",
        ),
        (
            "/queues/mutate",
            "UPDATE",
            "invalid operation `UPDATE`, expect operation to be `CREATE`",
        ),
        (
            "/queues/validate",
            "CONNECT",
            "invalid operation `CONNECT`, expect operation to be `CREATE`, `UPDATE` or `DELETE`",
        ),
        ("/pods/mutate", "UPDATE", "expect operation to be 'CREATE' "),
        (
            "/pods/validate",
            "UPDATE",
            "expect operation to be 'CREATE'",
        ),
        (
            "/podgroups/mutate",
            "UPDATE",
            "invalid operation `UPDATE`, expect operation to be `CREATE`",
        ),
        (
            "/podgroups/validate",
            "UPDATE",
            "unsupported operation UPDATE",
        ),
    ] {
        assert_eq!(
            denial(ask(path, operation, json!({"object": object}))),
            expected
        );
    }
}

#[test]
fn s6_060_a_pod_group_in_the_default_queue_goes_to_that_of_its_namespace() {
    let namespaces = json!([
        {"metadata": {"name": "ns1", "annotations": {"scheduling.volcano.sh/queue-name": "team-a"}}},
        {"metadata": {"name": "ns2"}},
    ]);
    let patch = |namespace: &str, queue: Value| {
        let object =
            json!({"metadata": {"name": "pg", "namespace": namespace}, "spec": {"queue": queue}});
        let fields = json!({"object": object, "namespaces": namespaces});
        json!(ask("/podgroups/mutate", "CREATE", fields).patch)
    };
    let to_team = json!([{"op": "add", "path": "/spec/queue", "value": "team-a"}]);
    assert_eq!(patch("ns1", json!("default")), to_team);
    for (namespace, queue) in [
        ("ns1", json!(null)),
        ("ns1", json!("team")),
        ("ns2", json!("default")),
        ("ns3", json!("default")),
    ] {
        assert_eq!(patch(namespace, queue), json!([]));
    }
    let nameless = json!({"object": {"spec": {"queue": "default"}}, "namespace": "ns1", "namespaces": namespaces});
    assert_eq!(
        json!(ask("/podgroups/mutate", "CREATE", nameless).patch),
        to_team
    );
}

#[test]
fn s6_074_the_queue_and_the_topology_of_a_pod_group() {
    let both = json!({"highestTierAllowed": 1, "highestTierName": "a"});
    let twice = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously.";
    for (spec, expected) in [
        (json!({}), String::new()),
        (json!({"queue": "default"}), String::new()),
        (json!({"queue": "nope"}), "unable to find queue: queue.scheduling.volcano.sh \"nope\" not found".to_owned()),
        (
            json!({"queue": "is-closed"}),
            "can only submit PodGroup to queue with state `Open`, queue `is-closed` status is `Closed`.".to_owned(),
        ),
        (json!({"networkTopology": both}), twice.to_owned()),
        (
            json!({"subGroupPolicy": [{"name": "a"}, {"name": "b", "networkTopology": both}, {"name": "c", "networkTopology": both}]}),
            format!("in subGroupPolicy 'b': {twice}"),
        ),
        (
            json!({"queue": "nope", "networkTopology": both, "subGroupPolicy": [{"name": "b", "networkTopology": both}]}),
            format!("unable to find queue: queue.scheduling.volcano.sh \"nope\" not found; {twice} in subGroupPolicy 'b': {twice}"),
        ),
    ] {
        let object = json!({"metadata": {"name": "pg"}, "spec": spec});
        assert_eq!(denial(ask("/podgroups/validate", "CREATE", json!({"object": object}))), expected);
    }
}

#[test]
fn s6_085_budgets_in_the_annotations_of_our_pods() {
    let (least, most) = (
        "volcano.sh/jdb-min-available",
        "volcano.sh/jdb-max-unavailable",
    );
    let of = |scheduler: &str, annotations: Value| {
        let object =
            json!({"metadata": {"annotations": annotations}, "spec": {"schedulerName": scheduler}});
        denial(ask("/pods/validate", "CREATE", json!({"object": object})))
    };
    assert_eq!(of("volcano", json!({})), "");
    for right in ["1", "+3", "1%", "99%", "5%%"] {
        assert_eq!(of("volcano", json!({least: right})), "", "{right}");
    }
    let percentage = "it must be a valid percentage which between 1% ~ 99%";
    for (value, said) in [
        ("0", "invalid value <\"0\"> for KEY, it must be a positive integer".to_owned()),
        ("-1", "invalid value <\"-1\"> for KEY, it must be a positive integer".to_owned()),
        ("0%", format!("invalid value <\"0%\"> for KEY, {percentage}")),
        ("100%", format!("invalid value <\"100%\"> for KEY, {percentage}")),
        ("99999999999", format!("invalid value <\"99999999999\"> for KEY, {percentage}")),
        ("abc", "invalid value strconv.Atoi: parsing \"abc\": invalid syntax for KEY".to_owned()),
        ("", "invalid value strconv.Atoi: parsing \"\": invalid syntax for KEY".to_owned()),
        ("99999999999999999999%", "invalid value strconv.Atoi: parsing \"99999999999999999999\": value out of range for KEY".to_owned()),
    ] {
        for key in [least, most] {
            assert_eq!(of("volcano", json!({key: value})), said.replace("KEY", key));
            assert_eq!(of("default-scheduler", json!({key: value})), "");
        }
    }
    assert_eq!(
        of("volcano", json!({least: "1", most: "1"})),
        "not allow configure multiple annotations <[volcano.sh/jdb-min-available volcano.sh/jdb-max-unavailable]> at same time"
    );
    assert!(
        ask("/pods/mutate", "CREATE", json!({"object": {"spec": {}}}))
            .patch
            .is_empty()
    );
}

fn cron_job(name: &str, spec: Value) -> String {
    let object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    denial(ask(
        "/cronjobs/validate",
        "CREATE",
        json!({"object": object}),
    ))
}

#[test]
fn s6_246_a_cron_job_needs_a_schedule_a_zone_and_a_short_name() {
    let long = "a".repeat(53);
    for (name, spec, expected) in [
        (
            "a",
            json!({"schedule": "@daily", "timeZone": "Europe/Berlin"}),
            "",
        ),
        ("a", json!({}), "schedule is required, but got empty"),
        (
            "a",
            json!({"schedule": "x", "timeZone": ""}),
            "schedule is not a valid cron expression timeZone must be nil or non-empty string, got empty string",
        ),
        (
            "a",
            json!({"schedule": "CRON_TZ=UTC * * * * *", "timeZone": "a/../b"}),
            "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field unknown timeZone invalid timeZone",
        ),
        (
            &long,
            json!({"schedule": "x"}),
            "schedule is not a valid cron expression; cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)",
        ),
    ] {
        assert_eq!(cron_job(name, spec), expected);
    }
    assert!(
        cron_job("-a", json!({"schedule": "@daily"}))
            .starts_with("invalid cronJob name \"-a\": name part must consist")
    );
}

#[test]
fn s6_247_the_targets_of_a_flow_exist_and_form_no_circle() {
    let flow = |flows: Value| {
        let object = json!({"metadata": {"name": "f"}, "spec": {"flows": flows}});
        denial(ask(
            "/jobflows/validate",
            "UPDATE",
            json!({"object": object}),
        ))
    };
    let part =
        |name: &str, targets: Value| json!({"name": name, "dependsOn": {"targets": targets}});
    let diamond = json!([
        {"name": "a"}, part("b", json!(["a"])), part("c", json!(["a", "a"])), part("d", json!(["b", "c"])),
    ]);
    assert_eq!(flow(diamond), "");
    let circle = json!([part("a", json!(["c"])), part("b", json!(["a"])), part("c", json!(["b"])), {"name": "d"}]);
    assert_eq!(flow(circle), "jobflow Flow is not DAG");
    let missing = json!([part("a", json!(["x"]))]);
    assert_eq!(
        flow(missing),
        "jobflow Flow is not DAG: vertex is not defined: x"
    );
    // The last flow of a name counts.
    assert_eq!(flow(json!([part("a", json!(["a"])), {"name": "a"}])), "");
}

#[test]
fn s6_248_a_hyper_node_has_members_with_patterns_that_compile() {
    let hyper_node = |spec: Value| {
        let object = json!({"metadata": {"name": "h"}, "spec": spec});
        denial(ask(
            "/hypernodes/validate",
            "CREATE",
            json!({"object": object}),
        ))
    };
    assert_eq!(
        hyper_node(json!({"tier": 1})),
        ".spec.members: Invalid value: null: member must have at least one member"
    );
    let member =
        |pattern: &str| json!({"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}});
    assert_eq!(hyper_node(json!({"members": [member("^n-[0-9]+$")]})), "");
    assert_eq!(
        hyper_node(json!({"members": [member("n-[0-9")]})),
        ".spec.members.selector.regexMatch.pattern: Invalid value: \"n-[0-9\": member regexMatch pattern is invalid: error parsing regexp: missing closing ]: `[0-9`"
    );
}

#[test]
fn timeouts_of_policies_that_are_no_durations_are_refused_with_their_path() {
    for (timeout, wrong) in [
        ("36h", ""),
        ("1d", "time: unknown unit \"d\" in duration \"1d\""),
        ("5", "time: missing unit in duration \"5\""),
        ("9999999999h", "time: invalid duration \"9999999999h\""),
    ] {
        let policies = json!([{"event": "PodPending", "action": "AbortJob", "timeout": "1m"},
            {"event": "PodFailed", "action": "RestartJob", "timeout": timeout}]);
        let mut task = task("w");
        task["policies"] = policies.clone();
        for (spec, path) in [
            (json!({"policies": policies}), "spec"),
            (json!({"tasks": [task]}), "spec.tasks[0]"),
        ] {
            let expected = match wrong {
                "" => String::new(),
                wrong => format!("cannot read the object: {path}.policies[1].timeout: {wrong}"),
            };
            assert_eq!(of_job(spec), expected);
        }
    }
}
