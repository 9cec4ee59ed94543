//! The gate of `DynamicResources` (`PreEnqueue`): a pod is not tried before its claims exist, and a claim that comes wakes it.

use super::{add, delete, pod, run, update, with};
use evictd_scheduling::simulation::{self, StepOutcome};
use serde::Deserialize;
use serde_json::{Value, json};

fn claim(name: &str) -> Value {
    json!({ "kind": "ResourceClaim", "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}") } })
}

/// A claim that was created for this pod.
fn claim_of(name: &str, pod: &str) -> Value {
    let owner =
        json!([{ "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": true }]);
    with(&claim(name), "metadata.ownerReferences", owner)
}

fn user(name: &str, claims: Value) -> Value {
    pod(name, json!({ "resourceClaims": claims }))
}

/// Whether `default/p` is gated or active after each step.
fn gated(steps: &[Value]) -> Vec<bool> {
    let is_gated = |step: StepOutcome| {
        assert_ne!(step.gated.is_empty(), step.active.is_empty(), "{step:?}");
        !step.gated.is_empty()
    };
    run(steps).steps.into_iter().map(is_gated).collect()
}

#[test]
fn a_pod_is_not_tried_before_the_claims_that_it_names_exist() {
    let claims = json!([{ "name": "a", "resourceClaimName": "a" }, { "name": "b", "resourceClaimName": "b" }]);
    let there = [
        add(&user("p", claims)),
        add(&claim("other")),
        add(&claim("b")),
        add(&claim("a")),
    ];
    assert_eq!(gated(&there), [true, true, true, false]);
}

#[test]
fn a_pod_is_not_tried_before_the_claim_of_its_template_is_made_for_it() {
    let before = user(
        "p",
        json!([{ "name": "a", "resourceClaimTemplateName": "t" }]),
    );
    let statuses = json!([{ "name": "a", "resourceClaimName": "made" }]);
    let after = with(
        &before,
        "status",
        json!({ "resourceClaimStatuses": statuses }),
    );
    let made = add(&claim_of("made", "p"));
    // The status of the pod and the claim come in either order.
    let steps = [add(&before), made.clone(), update(&after)];
    assert_eq!(gated(&steps), [true, true, false]);
    let steps = [add(&before), update(&after), made];
    assert_eq!(gated(&steps), [true, true, false]);
    // A claim of another pod does not count.
    let steps = [add(&before), update(&after), add(&claim_of("made", "q"))];
    assert_eq!(gated(&steps), [true, true, true]);
    // The template needed no claim.
    let none = with(
        &before,
        "status",
        json!({ "resourceClaimStatuses": [{ "name": "a" }] }),
    );
    assert_eq!(gated(&[add(&none)]), [false]);
}

#[test]
fn a_pod_waits_while_its_claim_is_being_deleted() {
    let user = add(&user(
        "p",
        json!([{ "name": "a", "resourceClaimName": "a" }]),
    ));
    let leaving = with(
        &claim("a"),
        "metadata.deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    let steps = [add(&leaving), user, delete(&leaving), add(&claim("a"))];
    let after: Vec<bool> = run(&steps)
        .steps
        .into_iter()
        .map(|step| !step.gated.is_empty())
        .collect();
    assert_eq!(after, [false, true, true, false]);
}

#[test]
fn a_profile_without_the_plugin_does_not_wait_for_claims() {
    let steps = [add(&user(
        "p",
        json!([{ "name": "a", "resourceClaimName": "a" }]),
    ))];
    let steps = steps.map(|step| with(&step, "at", json!(0)));
    let disabled = json!({ "preEnqueue": { "disabled": [{ "name": "DynamicResources" }] } });
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "schedulerName": "default-scheduler", "plugins": disabled }],
    });
    for (config, is_gated) in [(config, false), (Value::Null, true)] {
        let timeline = json!({ "now": "2026-01-01T00:00:00Z", "config": config, "steps": steps });
        let timeline = simulation::Timeline::deserialize(&timeline).unwrap();
        let outcome = simulation::run(timeline).unwrap();
        assert_eq!(!outcome.steps[0].gated.is_empty(), is_gated);
    }
}
