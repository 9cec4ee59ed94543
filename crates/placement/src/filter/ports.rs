//! `NodePorts`: ports of the node that another pod has taken.

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;

struct Ports {
    /// Of each template, whether a pod of it takes a port that this one wants.
    conflicts: Box<[bool]>,
    /// How many such pods are here.
    here: i64,
}

pub(super) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let wanted = &cluster.template(pod).ports;
    if wanted.is_empty() {
        return None;
    }
    let templates = cluster.templates().iter();
    let conflicts = templates.map(|other| {
        let mut taken = other.ports.iter();
        taken.any(|taken| wanted.iter().any(|wanted| wanted.conflicts(taken)))
    });
    Some(Box::new(Ports {
        conflicts: conflicts.collect(),
        here: 0,
    }))
}

impl Filter for Ports {
    fn changes(&self) -> bool {
        true
    }

    fn enter(&mut self, here: Here<'_>) {
        self.here = 0;
        for pod in &here.node.pods {
            self.change(here, pod, 1);
        }
    }

    fn change(&mut self, _here: Here<'_>, pod: &Pod, times: i64) {
        if self.conflicts[pod.template.index()] {
            self.here += times;
        }
    }

    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        if self.here == 0 {
            return Ok(());
        }
        Err(Rejection::unschedulable(
            "node(s) didn't have free ports for the requested pod ports",
        ))
    }

    fn obstacle(&self, here: Here<'_>, away: &dyn Fn(usize) -> bool) -> Option<String> {
        let mut pods = here.node.pods.iter().enumerate();
        let (_, pod) =
            pods.find(|(index, pod)| !away(*index) && self.conflicts[pod.template.index()])?;
        Some(format!(
            "host port taken by {} (priority {})",
            here.cluster.full_name(pod),
            pod.priority
        ))
    }
}
