//! Attempts that wait for responses of extenders.

use crate::config::Extender;
use crate::cycle::{Filtered, Verdict};
use crate::extenders::{
    ExtenderRequest, ExtenderResponse, ExtenderState, ReplayedExtender, apply_filter,
    considers_nodes, is_interested, select_host,
};
use crate::framework::Framework;
use crate::queue::Popped;
use crate::scheduling_algorithm::ScheduleResult;
use evictd_placement::{Cluster, NodeId, Pod};
use evictd_pod::wire;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// The most requests about nodes in one attempt. The nodes may change between request and response.
const MAX_ROUNDS: u32 = 3;

/// The next step of an attempt.
pub(super) enum Step {
    Decided(ScheduleResult),
    FitsNowhere(Box<Filtered>),
    AskExtenders(ExtenderRequest),
    Error(String),
}

/// A gang that waits for responses about its pods.
#[derive(Debug)]
pub(super) struct GangCalls {
    pub(super) members: Vec<Popped>,
    /// The pods without a response.
    pub(super) outstanding: HashSet<Arc<str>>,
    /// How many rounds of requests were sent.
    pub(super) rounds: u32,
    /// Whether further pods of its group were added meanwhile.
    pub(super) has_new_pods: bool,
}

/// The effect of a response on a gang.
pub(super) enum GangResponse {
    NotOfGang,
    /// Other responses are outstanding.
    Incomplete,
    /// It was the last one.
    Complete {
        gang: Arc<str>,
        calls: GangCalls,
    },
}

/// The extenders in the order in which they are asked, and the attempts that wait for them.
#[derive(Default)]
pub(super) struct ExtenderCalls {
    pub(super) extenders: Vec<Extender>,
    /// By the key of the pod.
    pub(super) pods: HashMap<Arc<str>, ExtenderState>,
    /// By the name of the group.
    gangs: HashMap<Arc<str>, GangCalls>,
}

impl ExtenderCalls {
    pub(super) fn are_interested_in(&self, pod: &wire::Pod) -> bool {
        self.extenders
            .iter()
            .any(|extender| is_interested(extender, pod))
    }

    /// Decides about a pod as far as the responses allow. `state` is that of its attempt.
    pub(super) fn step(
        &self,
        state: &mut ExtenderState,
        (framework, cluster): (&Framework, &Cluster),
        wire: &wire::Pod,
        pod: &Pod,
    ) -> Step {
        let mut filtered = Box::new(framework.filter(cluster, pod));
        let mut response = None;
        let considers_nodes = |extender: &Extender| considers_nodes(extender, wire);
        if !filtered.feasible.is_empty() && self.extenders.iter().any(considers_nodes) {
            let nodes = match &state.nodes {
                Some(Ok(nodes)) => nodes,
                Some(Err(message)) => return Step::Error(message.clone()),
                None => return request_nodes(state, cluster, &filtered),
            };
            let was_requested = |id: &NodeId| state.requested.contains(cluster.node_name(*id));
            let any_new = !filtered.feasible.iter().all(was_requested);
            let only_nominated = filtered.verdicts.contains(&Verdict::NotTried);
            filtered = apply_filter(cluster, nodes, filtered);
            if filtered.feasible.is_empty()
                && (any_new || only_nominated)
                && state.rounds < MAX_ROUNDS
            {
                // The extenders reject the nominated node, or nodes have become feasible since the request.
                state.leaves_nominated |= only_nominated;
                state.nodes = None;
                return request_all_nodes(state, (framework, cluster), pod);
            }
            response = Some(nodes);
        }
        if filtered.feasible.is_empty() {
            return Step::FitsNowhere(filtered);
        }
        let feasible = &filtered.feasible;
        Step::Decided(select_host(framework, cluster, pod, feasible, response))
    }

    /// The extenders that take part in a preemption for a pod, with their responses so far.
    pub(super) fn preempting(&self, key: &str, pod: &wire::Pod) -> Vec<ReplayedExtender<'_>> {
        let state = self.pods.get(key);
        self.extenders
            .iter()
            .enumerate()
            .filter(|(_, extender)| {
                !extender.preempt_verb.is_empty() && is_interested(extender, pod)
            })
            .map(|(index, extender)| ReplayedExtender {
                index,
                extender,
                response: state.and_then(|state| state.victims.get(&index)),
                request: None,
            })
            .collect()
    }

    pub(super) fn begin_gang(&mut self, gang: Arc<str>, calls: GangCalls) {
        self.gangs.insert(gang, calls);
    }

    /// Whether a gang waits for responses. Its further pods then wait for its result.
    pub(super) fn holds_gang(&mut self, gang: &str) -> bool {
        let Some(calls) = self.gangs.get_mut(gang) else {
            return false;
        };
        calls.has_new_pods = true;
        true
    }

    /// Another attempt of the gang has begun before the pods that were added could be tried.
    pub(super) fn keep_new_pods(&mut self, gang: &str, has_new_pods: bool) -> bool {
        let Some(calls) = self.gangs.get_mut(gang) else {
            return false;
        };
        calls.has_new_pods |= has_new_pods;
        true
    }

    pub(super) fn is_gang_waiting(&self, gang: &str) -> bool {
        self.gangs.contains_key(gang)
    }

    pub(super) fn add_to_gang(&mut self, key: &str, response: &ExtenderResponse) -> GangResponse {
        let waiting = self
            .gangs
            .iter_mut()
            .find(|(_, calls)| calls.outstanding.contains(key));
        let Some((gang, calls)) = waiting else {
            return GangResponse::NotOfGang;
        };
        let gang = Arc::clone(gang);
        calls.outstanding.remove(key);
        // Only complete responses count: the gang is tried again as a whole.
        let is_complete = calls.outstanding.is_empty();
        if let Some(state) = self.pods.get_mut(key) {
            state.add(response.clone());
        }
        match is_complete.then(|| self.gangs.remove(&gang)).flatten() {
            Some(calls) => GangResponse::Complete { gang, calls },
            None => GangResponse::Incomplete,
        }
    }
}

fn request_nodes(state: &mut ExtenderState, cluster: &Cluster, filtered: &Filtered) -> Step {
    let nodes: Vec<Arc<str>> = filtered
        .feasible
        .iter()
        .map(|id| Arc::from(cluster.node_name(*id)))
        .collect();
    state.requested = nodes.iter().cloned().collect();
    state.rounds += 1;
    Step::AskExtenders(ExtenderRequest::Nodes(nodes))
}

/// Requests all feasible nodes, whatever the nomination.
fn request_all_nodes(
    state: &mut ExtenderState,
    (framework, cluster): (&Framework, &Cluster),
    pod: &Pod,
) -> Step {
    let mut pod = pod.clone();
    pod.identity.nominated = None;
    let filtered = framework.filter(cluster, &pod);
    if filtered.feasible.is_empty() {
        return Step::FitsNowhere(Box::new(filtered));
    }
    request_nodes(state, cluster, &filtered)
}

/// The request that a preemption lacked, if any.
pub(super) fn missing_request(extenders: Vec<ReplayedExtender<'_>>) -> Option<ExtenderRequest> {
    extenders.into_iter().find_map(|replayed| {
        Some(ExtenderRequest::Victims {
            extender: replayed.index,
            candidates: replayed.request?,
        })
    })
}
