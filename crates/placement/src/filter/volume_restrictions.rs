//! `VolumeRestrictions`: disks that pods on one node cannot share, and `ReadWriteOncePod` claims.

use super::{Filter, Here, Rejection, claims};
use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::pod::Pod;
use crate::template::{Template, Volume};

struct VolumeRestrictions {
    /// For each template, whether its pods use a disk that this pod cannot share.
    disks: Box<[bool]>,
    /// How many such pods are on the node.
    conflicting_pods: i64,
    /// For each template, how many of this pod's `ReadWriteOncePod` claims its pods use.
    claims: Box<[i64]>,
    /// How many of these claims are used on any node, and one such node.
    used: i64,
    user: Option<NodeId>,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let template = cluster.template(pod);
    let wants_disks = template
        .volumes
        .iter()
        .any(|volume| matches!(volume, Volume::Disk { .. }));
    let exclusive = claims::known(cluster, template)
        .filter(|(claim, known)| !claim.ephemeral && known.access.is_exclusive());
    let exclusive: Vec<_> = exclusive.map(|(claim, _)| claim).collect();
    if !wants_disks && exclusive.is_empty() {
        return None;
    }
    let uses = |other: &Template| {
        let uses = |volume: &Volume| {
            matches!(volume, Volume::Claim(claim) if exclusive.contains(claim))
                && other.namespace == template.namespace
        };
        other
            .volumes
            .iter()
            .map(|volume| i64::from(uses(volume)))
            .sum()
    };
    let templates = cluster.templates();
    let mut filter = VolumeRestrictions {
        disks: templates
            .iter()
            .map(|other| conflict(template, other))
            .collect(),
        conflicting_pods: 0,
        claims: templates.iter().map(uses).collect(),
        used: 0,
        user: None,
    };
    for (id, node) in cluster.node_ids().zip(cluster.nodes()) {
        for pod in &node.pods {
            let uses = filter.claims[pod.template.index()];
            if uses > 0 {
                filter.used += uses;
                filter.user = Some(id);
            }
        }
    }
    // A claim that no pod uses keeps no pod away.
    (wants_disks || filter.used > 0).then(|| Box::new(filter) as _)
}

/// Whether two pods conflict because of a disk.
fn conflict(one: &Template, other: &Template) -> bool {
    let conflicts = |volume| {
        other
            .volumes
            .iter()
            .any(|other| cannot_share(volume, other))
    };
    one.volumes.iter().any(conflicts)
}

fn cannot_share(one: &Volume, other: &Volume) -> bool {
    let (
        Volume::Disk {
            kind,
            name,
            pool,
            monitors,
            read_only,
        },
        Volume::Disk {
            kind: other_kind,
            name: other_name,
            pool: other_pool,
            monitors: other_monitors,
            read_only: other_read_only,
        },
    ) = (one, other)
    else {
        return false;
    };
    let same = (kind, name, pool) == (other_kind, other_name, other_pool);
    let both_read = *read_only && *other_read_only;
    match *kind {
        // EBS attaches no volume twice, not even to read.
        "awsElasticBlockStore" => same,
        "rbd" => {
            let mut monitors = monitors.iter();
            same && !both_read && monitors.any(|monitor| other_monitors.contains(monitor))
        }
        _ => same && !both_read,
    }
}

impl Filter for VolumeRestrictions {
    fn changes(&self) -> bool {
        true
    }

    fn enter(&mut self, here: Here<'_>) {
        let pods = here.node.pods.iter();
        let conflicting_pods = pods.filter(|pod| self.disks[pod.template.index()]);
        // The number of a node's pods fits into `i64`.
        self.conflicting_pods = i64::try_from(conflicting_pods.count()).unwrap_or(i64::MAX);
    }

    fn change(&mut self, _here: Here<'_>, pod: &Pod, times: i64) {
        let template = pod.template.index();
        self.conflicting_pods += i64::from(self.disks[template]) * times;
        self.used += self.claims[template] * times;
    }

    fn change_elsewhere(&mut self, pods: &[(NodeId, &Pod)], times: i64) {
        let used = pods
            .iter()
            .map(|(_, pod)| self.claims[pod.template.index()]);
        self.used += times * used.sum::<i64>();
    }

    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        if self.conflicting_pods > 0 {
            return Err(Rejection::unschedulable("node(s) had no available disk"));
        }
        if self.used > 0 {
            return Err(Rejection::unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            ));
        }
        Ok(())
    }

    fn obstacle(&self, here: Here<'_>, away: &dyn Fn(usize) -> bool) -> Option<String> {
        let disk = |pod: &Pod| self.disks[pod.template.index()];
        let claim = |pod: &Pod| self.claims[pod.template.index()] > 0;
        let name = |pod: &Pod| {
            let name = here.cluster.full_name(pod);
            format!("{name} (priority {})", pod.priority)
        };
        let of = |wanted: &dyn Fn(&Pod) -> bool| {
            let mut pods = here.node.pods.iter().enumerate();
            let found = pods.find(|(index, pod)| !away(*index) && wanted(pod));
            found.map(|(_, pod)| name(pod))
        };
        if self.conflicting_pods > 0 {
            return Some(format!("a disk that it shares with {}", of(&disk)?));
        }
        let elsewhere = || {
            let id = self.user.filter(|id| *id != here.id)?;
            let mut pods = here.cluster.node(id).pods.iter();
            let pod = pods.find(|pod| claim(pod))?;
            Some(format!("{} on {}", name(pod), here.cluster.node_name(id)))
        };
        let user = of(&claim).or_else(elsewhere)?;
        Some(format!("a claim for one pod alone, used by {user}"))
    }
}
