//! Extenders are asked before a node is picked.

use crate::scenario::{Scenario, pod};
use evictd_placement::{Cluster, Pod};
use evictd_preemption::{
    Extender, ExtenderError, Offer, Options, PlanError, Victim, VictimRules, plan,
};

/// Answers with prepared results.
struct PreparedExtender {
    interested: bool,
    ignorable: bool,
    answer: fn(&[Offer]) -> Result<Vec<Offer>, String>,
    asked: Vec<usize>,
}

impl Extender for PreparedExtender {
    fn name(&self) -> &'static str {
        "prepared"
    }

    fn is_interested(&self, _cluster: &Cluster, _preemptor: &Pod) -> bool {
        self.interested
    }

    fn is_ignorable(&self) -> bool {
        self.ignorable
    }

    fn process(
        &mut self,
        _cluster: &Cluster,
        _preemptor: &Pod,
        offers: &[Offer],
    ) -> Result<Vec<Offer>, ExtenderError> {
        self.asked.push(offers.len());
        (self.answer)(offers).map_err(|problem| ExtenderError {
            name: "prepared".to_owned(),
            problem,
        })
    }
}

fn prepared(answer: fn(&[Offer]) -> Result<Vec<Offer>, String>) -> PreparedExtender {
    PreparedExtender {
        interested: true,
        ignorable: false,
        answer,
        asked: Vec::new(),
    }
}

fn ignorable(answer: fn(&[Offer]) -> Result<Vec<Offer>, String>) -> PreparedExtender {
    PreparedExtender {
        ignorable: true,
        ..prepared(answer)
    }
}

/// Nodes a, b and c; a would be chosen.
fn scenario() -> Scenario {
    let nodes = [
        ("a", 4, vec![pod("one", 1, 4)]),
        ("b", 4, vec![pod("two", 2, 2), pod("three", 2, 2)]),
        ("c", 4, vec![pod("four", 3, 4)]),
    ];
    Scenario::new(&nodes, &pod("new", 1000, 4))
}

fn error(extender: &mut PreparedExtender) -> String {
    let scenario = scenario();
    let Scenario {
        cluster, preemptor, ..
    } = &scenario;
    let outcome = plan(
        cluster,
        VictimRules::default(),
        preemptor,
        Options::default(),
        &mut [extender],
        &|_| false,
    );
    let Err(PlanError::Extender(error)) = outcome else {
        panic!("no error of the extender");
    };
    error.to_string()
}

fn without_first(offers: &[Offer]) -> Vec<Offer> {
    offers[1..].to_vec()
}

#[test]
fn s3_024_s4_020_each_extender_receives_what_the_previous_one_accepted() {
    let mut first = prepared(|offers| Ok(without_first(offers)));
    let mut second = prepared(|offers| Ok(without_first(offers)));
    let answer = scenario().plan_with(&mut [&mut first, &mut second], &[]);
    assert_eq!((first.asked, second.asked), (vec![3], vec![2]));
    assert_eq!(answer.chosen.as_deref(), Some("c"));
    assert_eq!(answer.candidates, ["c"]);
}

#[test]
fn s4_020_an_extender_may_spare_victims() {
    let mut one = prepared(|offers| {
        let mut offer = offers[1].clone();
        offer.victims.truncate(1);
        Ok(vec![offer])
    });
    let answer = scenario().plan_with(&mut [&mut one], &[]);
    assert_eq!(
        (answer.chosen.as_deref(), answer.victims.len()),
        (Some("b"), 1)
    );
}

#[test]
fn s4_020_an_uninterested_extender_is_not_asked() {
    let mut other = PreparedExtender {
        interested: false,
        ..prepared(|_| Err("must not be asked".to_owned()))
    };
    let answer = scenario().plan_with(&mut [&mut other], &[]);
    assert_eq!(answer.chosen.as_deref(), Some("a"));
    assert!(other.asked.is_empty());
}

#[test]
fn s3_024_an_error_ends_the_plan_unless_the_extender_is_ignorable() {
    assert_eq!(
        error(&mut prepared(|_| Err("no answer".to_owned()))),
        "extender prepared: no answer"
    );
    let mut fails = ignorable(|_| Err("no answer".to_owned()));
    let answer = scenario().plan_with(&mut [&mut fails], &[]);
    assert_eq!(answer.chosen.as_deref(), Some("a"));
}

#[test]
fn s4_020_a_node_without_victims_is_an_error_or_dropped() {
    fn emptied(offers: &[Offer]) -> Vec<Offer> {
        let mut offers = offers.to_vec();
        offers[0].victims.clear();
        offers
    }
    assert_eq!(
        error(&mut prepared(|offers| Ok(emptied(offers)))),
        "extender prepared: expected at least one victim pod on node \"a\""
    );
    let answer = scenario().plan_with(&mut [&mut ignorable(|offers| Ok(emptied(offers)))], &[]);
    assert_eq!(answer.candidates, ["b", "c"]);
}

#[test]
fn s4_020_an_extender_may_not_add_nodes_or_victims() {
    let mut greedy = prepared(|offers| {
        let mut offers = offers.to_vec();
        let node = offers[0].node;
        offers[0].victims.push(Victim::new(node, 9));
        Ok(offers)
    });
    assert!(error(&mut greedy).contains("was not offered as a victim"));
}

#[test]
fn s3_024_s4_009_without_remaining_candidates_no_further_extender_is_asked() {
    let mut first = prepared(|_| Ok(Vec::new()));
    let mut second = prepared(|_| Err("must not be asked".to_owned()));
    let answer = scenario().plan_with(&mut [&mut first, &mut second], &[]);
    assert!(second.asked.is_empty());
    assert_eq!(answer.chosen, None);
    assert!(answer.actions.is_empty());
    let message = "no candidate node for preemption";
    assert_eq!(answer.message.as_deref(), Some(message));
}
