//! `NodePorts`: host ports that another pod uses.

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::template::HostPort;

/// kube-scheduler keeps the ports of a node as a set. If two pods use the same port, which it never allows, removing
/// the first one frees it.
struct Ports {
    /// For each template, the ports of its pods that conflict with this pod's, as indices of `taken`.
    conflicts: Box<[Box<[usize]>]>,
    taken: Vec<bool>,
    /// `taken` before the visiting pods were added, and their number.
    before: Vec<bool>,
    visitors: usize,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let wanted = &cluster.template(pod).ports;
    if wanted.is_empty() {
        return None;
    }
    let mut known: Vec<HostPort> = Vec::new();
    let mut index = |port: &HostPort| {
        known
            .iter()
            .position(|known| known == port)
            .unwrap_or_else(|| {
                known.push(*port);
                known.len() - 1
            })
    };
    let conflicts = cluster.templates().iter().map(|other| {
        let taken = other.ports.iter();
        let conflicting = taken.filter(|taken| wanted.iter().any(|wanted| wanted.conflicts(taken)));
        conflicting.map(&mut index).collect()
    });
    let conflicts = conflicts.collect();
    Some(Box::new(Ports {
        conflicts,
        taken: vec![false; known.len()],
        before: Vec::new(),
        visitors: 0,
    }))
}

impl Filter for Ports {
    fn changes(&self) -> bool {
        true
    }

    fn keeps_state(&self) -> bool {
        false
    }

    fn enter(&mut self, here: Here<'_>) {
        self.taken.fill(false);
        for pod in &here.node.pods {
            self.change(here, pod, 1);
        }
    }

    fn change(&mut self, _here: Here<'_>, pod: &Pod, times: i64) {
        for index in &self.conflicts[pod.template.index()] {
            self.taken[*index] = times > 0;
        }
    }

    fn visit(&mut self, here: Here<'_>, pod: &Pod) {
        // Removing a visiting pod may free a port that the node's own pod uses, so the set is restored instead.
        if self.visitors == 0 {
            self.before.clone_from(&self.taken);
        }
        self.visitors += 1;
        self.change(here, pod, 1);
    }

    fn end_visit(&mut self, _here: Here<'_>, _pod: &Pod) {
        self.visitors -= 1;
        if self.visitors == 0 {
            self.taken.clone_from(&self.before);
        }
    }

    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        if !self.taken.contains(&true) {
            return Ok(());
        }
        Err(Rejection::unschedulable(
            "node(s) didn't have free ports for the requested pod ports",
        ))
    }

    fn obstacle(&self, here: Here<'_>, away: &dyn Fn(usize) -> bool) -> Option<String> {
        let mut pods = here.node.pods.iter().enumerate();
        let (_, pod) = pods.find(|(index, pod)| {
            !away(*index) && !self.conflicts[pod.template.index()].is_empty()
        })?;
        Some(format!(
            "host port taken by {} (priority {})",
            here.cluster.full_name(pod),
            pod.priority
        ))
    }
}
