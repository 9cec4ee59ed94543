//! Pods of a group about which extenders are asked: within the tentative placement, about all at once, and all are placed or
//! none.

use crate::{Scene, group, pod};
use evictd_placement::Code;
use evictd_scheduling::config::Extender;
use evictd_scheduling::{
    Attempt, ExtenderRequest, ExtenderResponse, GroupOutcome, NodesResponse, Outcome, Pool,
};
use jiff::SignedDuration;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn extender(managed: &[&str]) -> Extender {
    Extender {
        url_prefix: "http://extender".to_owned(),
        filter_verb: "filter".to_owned(),
        preempt_verb: String::new(),
        prioritize_verb: "prioritize".to_owned(),
        weight: 1,
        bind_verb: String::new(),
        enable_https: false,
        tls: None,
        timeout: SignedDuration::from_secs(5),
        node_cache_capable: true,
        managed_resources: managed
            .iter()
            .map(|resource| (*resource).to_owned())
            .collect(),
        ignored_resources: Vec::new(),
        ignorable: false,
    }
}

/// A pod with the nodes about which the extender was asked.
type ExtenderState = (String, Vec<String>);

pub(crate) fn allows(nodes: &[Arc<str>], allowed: impl Fn(&str) -> bool) -> NodesResponse {
    let (left, others): (Vec<_>, Vec<_>) = nodes.iter().cloned().partition(|node| allowed(node));
    let why = (Code::Unschedulable, "has no licence".to_owned());
    NodesResponse {
        passed: left.into_iter().collect(),
        rejected: others.into_iter().map(|node| (node, why.clone())).collect(),
        scores: [].into_iter().collect(),
    }
}

impl Scene {
    fn with_extender(managed: &[&str]) -> Self {
        let mut scene = Self::new();
        scene.scheduler.set_extenders(vec![extender(managed)]);
        scene
    }

    /// What is asked now.
    fn questions(&mut self) -> Vec<ExtenderState> {
        let attempts = self.attempts().into_iter();
        let asked = attempts.filter_map(|attempt| match attempt.outcome {
            Outcome::AskExtenders(ExtenderRequest::Nodes(nodes)) => {
                let nodes = nodes.iter().map(ToString::to_string);
                Some((attempt.key.to_string(), nodes.collect()))
            }
            _ => None,
        });
        asked.collect()
    }

    pub(crate) fn answer(&mut self, pod: &str, reply: Result<NodesResponse, String>) {
        let key = Arc::from(pod);
        let (now, response) = (self.now, ExtenderResponse::Nodes(reply));
        let attempt = self.scheduler.on_extender_response(now, &key, response);
        assert!(attempt.is_none(), "the others are attempts, too");
    }

    /// Answers until nothing is asked any more: what became of the pods, and what was asked.
    fn settled(
        &mut self,
        reply: impl Fn(&str, &[Arc<str>]) -> Result<NodesResponse, String>,
    ) -> (Vec<Attempt>, Vec<ExtenderState>) {
        let (mut attempts, mut asked) = (Vec::new(), Vec::new());
        loop {
            let (mut questions, before) = (Vec::new(), asked.len());
            for attempt in self.attempts() {
                match attempt.outcome {
                    Outcome::AskExtenders(ExtenderRequest::Nodes(nodes)) => {
                        questions.push((attempt.key, nodes));
                    }
                    outcome => attempts.push(Attempt { outcome, ..attempt }),
                }
            }
            for (key, nodes) in questions {
                self.answer(&key, reply(&key, &nodes));
                let nodes = nodes.iter().map(ToString::to_string).collect();
                asked.push((key.to_string(), nodes));
            }
            if asked.len() == before {
                return (attempts, asked);
            }
        }
    }
}

fn nodes(attempts: &[Attempt]) -> BTreeMap<String, String> {
    let placed = attempts
        .iter()
        .filter_map(|attempt| match &attempt.outcome {
            Outcome::Placed { node, .. } => Some((attempt.key.to_string(), node.to_string())),
            _ => None,
        });
    placed.collect()
}

fn asked(pod: &str, nodes: &[&str]) -> ExtenderState {
    let nodes = nodes.iter().map(|node| (*node).to_owned());
    (pod.to_owned(), nodes.collect())
}

#[test]
fn s5_050_extenders_are_asked_about_each_pod_of_a_gang_after_the_earlier_ones() {
    let mut scene = Scene::with_extender(&[]);
    scene.node("one", "2", "a");
    scene.node("two", "2", "a");
    scene.group(group("train", 2));
    scene.pods("train", 2, "2");
    assert_eq!(
        scene.questions(),
        [
            asked("train-0", &["one", "two"]),
            asked("train-1", &["two"])
        ]
    );
    assert_eq!(scene.requested("one"), 0, "nobody has a node meanwhile");
    let all = |_: &str| true;
    scene.answer("train-0", Ok(allows(&["one".into(), "two".into()], all)));
    assert!(scene.attempts().is_empty(), "an answer is missing");
    scene.answer("train-1", Ok(allows(&["two".into()], all)));
    let attempts = scene.attempts();
    assert_eq!(nodes(&attempts).len(), 2);
    assert_eq!(
        (scene.requested("one"), scene.requested("two")),
        (2000, 2000)
    );
}

#[test]
fn s5_056_extenders_score_the_nodes_of_a_gang() {
    let mut scene = Scene::with_extender(&[]);
    for node in ["one", "two", "three"] {
        scene.node(node, "8", "a");
    }
    scene.group(group("train", 2));
    scene.pods("train", 2, "1");
    let (attempts, _) = scene.settled(|_, nodes| {
        let mut reply = allows(nodes, |_| true);
        reply.scores.insert("three".into(), 10);
        Ok(reply)
    });
    assert!(
        nodes(&attempts).values().all(|node| node == "three"),
        "{attempts:?}"
    );
}

/// The answers lead to a node about which the second was not asked.
#[test]
fn extenders_are_asked_again_about_nodes_that_become_feasible_later() {
    let mut scene = Scene::with_extender(&[]);
    scene.node("one", "2", "a");
    scene.node("two", "2", "a");
    scene.group(group("train", 2));
    scene.pods("train", 2, "2");
    let (attempts, all) =
        scene.settled(|pod, nodes| Ok(allows(nodes, |node| pod == "train-1" || node == "two")));
    assert_eq!(all.last().unwrap(), &asked("train-1", &["one"]));
    let placed = nodes(&attempts);
    assert_eq!((&*placed["train-0"], &*placed["train-1"]), ("two", "one"));
}

#[test]
fn no_pod_of_a_gang_is_placed_if_extenders_reject_a_needed_one() {
    let mut scene = Scene::with_extender(&["example.com/licence"]);
    scene.node("one", "4", "a");
    scene.group(group("train", 3));
    scene.pods("train", 2, "1");
    let mut wants = pod("train-2", "train", "1");
    let limits = json!({ "cpu": "1", "example.com/licence": "0" });
    wants["spec"]["containers"][0]["resources"]["requests"] = limits;
    scene.pod("train-2", Some(wants));
    let (attempts, all) = scene.settled(|_, nodes| Ok(allows(nodes, |_| false)));
    assert_eq!(all, [asked("train-2", &["one"])], "about no other");
    assert_eq!(attempts.len(), 3);
    for attempt in &attempts {
        let Outcome::Unschedulable(rejected) = &attempt.outcome else {
            panic!("{attempts:?}");
        };
        let words = match &*attempt.key {
            "train-2" => "0/1 nodes are available: 1 has no licence.",
            _ => "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining",
        };
        assert!(rejected.message.starts_with(words), "{}", rejected.message);
        assert!(rejected.plugins.contains("Extender"));
    }
    assert_eq!(scene.requested("one"), 0);
    // It may want it later: any event counts, as for a pod by itself (S5-111).
    scene.node("two", "1", "a");
    let (attempts, _) = scene.settled(|_, nodes| Ok(allows(nodes, |_| true)));
    assert_eq!(nodes(&attempts).len(), 3);
}

#[test]
fn a_gang_places_more_pods_than_needed_if_extenders_accept_them() {
    let mut scene = Scene::with_extender(&[]);
    scene.node("one", "8", "a");
    scene.group(group("train", 2));
    let gate = json!([{ "name": "all" }]);
    for index in 0..3 {
        let mut new = pod(&format!("train-{index}"), "train", "1");
        new["spec"]["schedulingGates"] = gate.clone();
        scene.pod(&format!("train-{index}"), Some(new));
    }
    for index in 0..3 {
        let name = format!("train-{index}");
        scene.pod(&name, Some(pod(&name, "train", "1")));
    }
    let (attempts, _) = scene.settled(|pod, nodes| Ok(allows(nodes, |_| pod != "train-1")));
    assert_eq!(
        nodes(&attempts).into_keys().collect::<Vec<_>>(),
        ["train-0", "train-2"]
    );
    assert_eq!(scene.scheduler.queue().len(), 1);
}

#[test]
fn an_extender_that_fails_for_one_pod_is_an_error_of_its_gang() {
    let mut scene = Scene::with_extender(&[]);
    scene.node("one", "8", "a");
    scene.group(group("train", 2));
    scene.pods("train", 2, "1");
    let (attempts, _) = scene.settled(|pod, nodes| match pod {
        "train-1" => Err("extender http://extender: out of order".to_owned()),
        _ => Ok(allows(nodes, |_| true)),
    });
    assert_eq!(attempts.len(), 2);
    for attempt in &attempts {
        // S7-043, T20: the pod keeps its error.
        let words = match &*attempt.key {
            "train-1" => "extender http://extender: out of order",
            _ => {
                "failed to schedule other pod from a pod group: extender http://extender: out of order"
            }
        };
        assert!(
            matches!(&attempt.outcome, Outcome::Error(message) if message == words),
            "{attempts:?}"
        );
    }
    assert_eq!(scene.requested("one"), 0);
    assert_eq!(scene.scheduler.queue().count(Pool::ErrorBackoff), 2);
    scene.group(group("train", 2));
    let (attempts, _) = scene.settled(|_, nodes| Ok(allows(nodes, |_| true)));
    assert_eq!(nodes(&attempts).len(), 2);
}

/// T28: the first pod fits, and the others end in errors. None is bound, and the group says why. The first error ends the
/// attempt, so the pod after it is not tried.
#[test]
fn s7_043_t28_a_group_with_errors_is_not_placed_and_backs_off() {
    let mut scene = Scene::with_extender(&[]);
    scene.node("one", "8", "a");
    scene.group(group("train", 1));
    scene.pods("train", 3, "1");
    let (attempts, _) = scene.settled(|pod, nodes| match pod {
        "train-0" => Ok(allows(nodes, |_| true)),
        pod => Err(format!("boom of {pod}")),
    });
    let is_error = |outcome: &Outcome| matches!(outcome, Outcome::Error(message) if message.ends_with("boom of train-1"));
    assert_eq!(attempts.len(), 3, "{attempts:?}");
    assert!(
        attempts.iter().all(|attempt| is_error(&attempt.outcome)),
        "{attempts:?}"
    );
    let outcomes = scene.outcomes();
    let is_of_group = |outcome: &GroupOutcome| matches!(outcome, GroupOutcome::Error(message) if message.ends_with("boom of train-1"));
    assert!(
        matches!(&outcomes[..], [one] if is_of_group(one)),
        "{outcomes:?}"
    );
    assert_eq!(scene.requested("one"), 0);
    assert_eq!(scene.scheduler.queue().count(Pool::ErrorBackoff), 3);
}

/// S7-027
#[test]
fn a_pod_added_while_extenders_are_asked_waits_for_the_result_of_its_gang() {
    let mut scene = Scene::with_extender(&[]);
    scene.node("one", "8", "a");
    scene.group(group("train", 2));
    scene.pods("train", 2, "1");
    assert_eq!(scene.questions().len(), 2);
    scene.pod("train-2", Some(pod("train-2", "train", "1")));
    assert!(scene.questions().is_empty());
    for name in ["train-0", "train-1"] {
        scene.answer(name, Ok(allows(&["one".into()], |_| true)));
    }
    let (attempts, all) = scene.settled(|_, nodes| Ok(allows(nodes, |_| true)));
    assert_eq!(nodes(&attempts).len(), 3);
    assert_eq!(all, [asked("train-2", &["one"])]);
}

#[test]
fn a_gang_that_loses_a_pod_while_extenders_are_asked_is_not_placed() {
    let mut scene = Scene::with_extender(&[]);
    scene.node("one", "8", "a");
    scene.group(group("train", 2));
    scene.pods("train", 2, "1");
    assert_eq!(scene.questions().len(), 2);
    scene.pod("train-0", None);
    for name in ["train-0", "train-1"] {
        scene.answer(name, Ok(allows(&["one".into()], |_| true)));
    }
    let (attempts, _) = scene.settled(|_, nodes| Ok(allows(nodes, |_| true)));
    assert!(nodes(&attempts).is_empty());
    assert_eq!(scene.requested("one"), 0);
    assert_eq!(scene.scheduler.queue().in_flight().count(), 0);
    scene.pod("train-0", Some(pod("train-0", "train", "1")));
    let (attempts, _) = scene.settled(|_, nodes| Ok(allows(nodes, |_| true)));
    assert_eq!(nodes(&attempts).len(), 2);
}

/// Room is made only where the extenders want the gang.
///
/// S7-074: they are not asked about victims.
#[test]
fn victims_of_a_gang_are_only_on_nodes_that_extenders_accept() {
    let mut scene = Scene::with_extender(&[]);
    scene.node("one", "2", "a");
    scene.node("two", "2", "a");
    scene.running("low-one", "one", "2", 0);
    scene.running("low-two", "two", "2", 0);
    let mut important = group("train", 1);
    important["spec"]["priority"] = json!(100);
    scene.group(important);
    crate::placing::important_pods(&mut scene, "train", 1, "2");
    let (attempts, all) = scene.settled(|_, nodes| Ok(allows(nodes, |node| node == "two")));
    assert_eq!(all, [asked("train-0", &["one", "two"])]);
    let Outcome::Unschedulable(rejected) = &attempts[0].outcome else {
        panic!("{attempts:?}");
    };
    assert_eq!(rejected.nominated.as_deref(), Some("two"));
    assert_eq!(rejected.victims[0].0, "default/low-two");
}
