//! The evidence of a decision, as the secure port shows it.

use crate::run::view::{self, Decision as Evidence};
use evictd_pod::wire;
use evictd_scheduling::Outcome as Decision;
use jiff::Timestamp;
use std::sync::Arc;

pub(super) fn evidence_of(
    time: Timestamp,
    pod: &wire::Pod,
    attempt: u32,
    outcome: &Decision,
) -> Evidence {
    let mut evidence = Evidence {
        time,
        pod: view::name(pod),
        attempt,
        feasible: 0,
        node: None,
        score: None,
        equal: 0,
        runner_up: None,
        scores: Vec::new(),
        rejections: Arc::default(),
        message: None,
        nominated: None,
        victims: Vec::new(),
    };
    match outcome {
        Decision::Placed { node, result, .. } => {
            evidence.feasible = result.feasible;
            evidence.node = Some(node.to_string());
            evidence.score = result.score;
            evidence.equal = result.top.len();
            let why = &result.evidence;
            evidence.runner_up.clone_from(&why.runner_up);
            evidence.scores.clone_from(&why.scores);
            evidence.rejections = Arc::clone(&why.rejections);
        }
        Decision::Unschedulable(rejected) => {
            evidence.message = Some(rejected.message.clone());
            evidence.rejections = Arc::clone(&rejected.rejections);
            evidence.nominated.clone_from(&rejected.nominated);
            let victims = rejected.victims.iter().map(|(name, _)| name.clone());
            evidence.victims = victims.collect();
        }
        Decision::Error(message) | Decision::PutOff(message) => {
            evidence.message = Some(message.clone());
        }
        Decision::WaitsOnPermit { node } => {
            evidence.node = Some(node.to_string());
            evidence.message = Some("it waits for a permit".to_owned());
        }
        // The attempt continues with the answer of the extenders.
        Decision::AskExtenders(_) => {}
        Decision::Deleting => evidence.message = Some("it is being deleted".to_owned()),
        Decision::NoProfile => {
            evidence.message = Some("no profile has its scheduler name".to_owned());
        }
    }
    evidence
}
