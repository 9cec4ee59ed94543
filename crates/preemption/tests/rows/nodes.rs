//! Which nodes are tried.

use crate::scenario::{Scenario, budget, pod, with};
use evictd_preemption::{Compat, Nodes};
use serde_json::{Value, json};

#[test]
fn s3_014_s4_014_unresolvable_nodes_are_not_tried() {
    let nodes = [
        ("small", 2, vec![pod("one", 1, 2)]),
        ("full", 4, vec![pod("two", 1, 4)]),
    ];
    for compat in Compat::ALL {
        let answer = Scenario::new(&nodes, &pod("new", 1000, 4))
            .compat(compat)
            .plan();
        assert_eq!(answer.candidates, ["full"]);
        assert!(answer.plan.not_candidates.is_empty());
    }
}

#[test]
fn s4_010_s4_018_without_candidates_the_message_counts_the_reasons() {
    let nodes = [
        ("small", 2, vec![pod("one", 1, 2)]),
        ("high", 4, vec![pod("two", 2000, 4)]),
        ("half", 4, vec![pod("three", 2000, 2), pod("four", 1, 2)]),
    ];
    let answer = Scenario::new(&nodes, &pod("new", 1000, 4)).plan();
    let message = "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, \
                   1 Preemption is not helpful for scheduling.";
    assert_eq!(answer.message.as_deref(), Some(message));
    let answer = Scenario::new(&nodes[..1], &pod("new", 1000, 4)).plan();
    let message = "0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(answer.message.as_deref(), Some(message));
}

#[test]
fn s3_001_a_pod_that_fits_on_some_node_preempts_no_pod() {
    let nodes = [("full", 4, vec![pod("one", 1, 4)]), ("free", 4, vec![])];
    let answer = Scenario::new(&nodes, &pod("new", 1000, 4)).plan();
    assert!(answer.plan.fits() && answer.candidates.is_empty() && answer.actions.is_empty());
    assert_eq!(answer.message, None);
}

/// Many full nodes; the first `covered` can only be freed by violating a budget.
fn many(count: usize, covered: usize) -> Scenario {
    let names: Vec<String> = (0..count).map(|index| format!("node-{index:04}")).collect();
    let nodes: Vec<(&str, u32, Vec<Value>)> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let app = if index < covered { "covered" } else { "free" };
            let pod = with(
                pod(&format!("pod-{index}"), 1, 4),
                "/metadata/labels",
                json!({ "app": app }),
            );
            (name.as_str(), 4, vec![pod])
        })
        .collect();
    Scenario::new(&nodes, &pod("new", 1000, 4)).budgets(&[budget("covered", 0)])
}

#[test]
fn s3_017_only_a_requested_sample_skips_nodes_and_v1_18_never_does() {
    let all = many(300, 0);
    assert_eq!(all.plan().candidates.len(), 300);
    let oldest = many(300, 0)
        .nodes(Nodes::Sample { offset: 7 })
        .compat(Compat::V1_18);
    assert_eq!(oldest.plan().candidates.len(), 300);
}

#[test]
fn s4_015_a_sample_is_a_tenth_of_the_nodes_and_a_hundred_at_least() {
    for (count, wanted) in [(50, 50), (300, 100), (2000, 200)] {
        let scenario = many(count, 0).nodes(Nodes::Sample { offset: 5 });
        let candidates = scenario.plan().candidates;
        assert_eq!(candidates.len(), wanted, "{count}");
        if wanted < count {
            assert_eq!(candidates[0], "node-0005");
        }
    }
    // The offset wraps around beyond the last node.
    let round = many(300, 0).nodes(Nodes::Sample { offset: 550 }).plan();
    assert!(round.candidates.contains(&"node-0000".to_owned()));
    assert!(!round.candidates.contains(&"node-0249".to_owned()));
}

#[test]
fn s4_016_s4_017_a_sample_continues_until_one_candidate_violates_no_budget() {
    let scenario = many(300, 150).nodes(Nodes::Sample { offset: 0 });
    let answer = scenario.plan();
    assert_eq!(answer.candidates.len(), 151);
    assert_eq!(answer.chosen.as_deref(), Some("node-0150"));
}
