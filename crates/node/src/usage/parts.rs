//! The directories of one pod, and how each is measured.

use super::{Truncation, UsageWarning, cgroup::container_usage};
use evictd_eviction::usage::{FsUsage, PodUsage, VolumeUsage};
use evictd_kernel::walk::{Budget, DiskUsage, KeptTree, ProjectUsage, project_usage, walk};
use evictd_pod::Pod;
use jiff::Timestamp;
use std::path::PathBuf;

/// One directory of a pod.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    pub(super) path: PathBuf,
    /// None if there is no such directory.
    pub(super) measured: Option<Measured>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartKind {
    /// Logs of the container of this name.
    Logs(String),
    /// The writable layer of the container of this name.
    Layer(String),
    /// The volume of this name that lives and dies with the pod; without a name, all such volumes of one kind.
    Volume(String),
    /// The volume of this name that is a directory of the node.
    HostPath(String),
}

/// What a directory holds, itself included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) bytes: i64,
    /// `None` where only bytes were asked for.
    pub(super) inodes: Option<i64>,
    pub(super) device: u64,
    /// Why it is only a lower bound.
    pub(super) truncation: Option<Truncation>,
}

impl From<DiskUsage> for Measured {
    fn from(walked: DiskUsage) -> Self {
        Self {
            bytes: walked.bytes,
            inodes: Some(walked.inodes),
            device: walked.device,
            truncation: walked.truncation,
        }
    }
}

impl From<ProjectUsage> for Measured {
    fn from(project: ProjectUsage) -> Self {
        Self {
            bytes: project.bytes,
            inodes: project.inodes,
            device: project.device,
            truncation: None,
        }
    }
}

impl Part {
    pub(super) const fn new(kind: PartKind, path: PathBuf) -> Self {
        Self {
            kind,
            path,
            measured: None,
        }
    }

    /// What it holds; `None` if it could not even be opened: then that is unknown, not zero.
    pub(super) fn known(&self) -> Option<Measured> {
        self.measured.filter(|found| found.inodes != Some(0))
    }
}

/// Whether the filesystem's own count of a project may be taken in place of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Projects {
    /// For bytes alone: inodes are left unknown.
    ForBytes,
    /// Where it counts bytes and inodes.
    ForAll,
    /// Only where a walk is cut short. The pod holds deleted files open, which a project contains and which are
    /// counted apart.
    AsLowerBound,
}

/// Measures each directory; those with a tree that is kept by what has changed in it.
pub(super) fn measure(
    now: Timestamp,
    mut parts: Vec<(Part, Option<KeptTree>)>,
    projects: Projects,
    mut budget: Budget<'_>,
) -> Vec<(Part, Option<KeptTree>)> {
    let counted = own_projects(&parts);
    for ((part, tree), project) in parts.iter_mut().zip(counted) {
        if let Some(project) = project.filter(|project| suffices(project, projects)) {
            part.measured = Some(project.into());
            continue;
        }
        let walked = match tree {
            Some(tree) => tree.measure(now, &mut budget),
            None => walk(&part.path, &mut budget),
        };
        let walked = walked.unwrap_or_else(|_| {
            Some(DiskUsage {
                truncation: Some(Truncation::Unreadable),
                ..DiskUsage::default()
            })
        });
        part.measured = walked.map(Measured::from);
        if let (Some(measured), Some(project)) = (&mut part.measured, project)
            && measured.truncation.is_some()
        {
            measured.bytes = measured.bytes.max(project.bytes);
        }
    }
    parts
}

fn suffices(project: &ProjectUsage, projects: Projects) -> bool {
    match projects {
        Projects::ForBytes => true,
        Projects::ForAll => project.inodes.is_some(),
        Projects::AsLowerBound => false,
    }
}

/// What the filesystem counts for each volume. Two that tell the same may share a project: neither is taken.
fn own_projects(parts: &[(Part, Option<KeptTree>)]) -> Vec<Option<ProjectUsage>> {
    let counted: Vec<Option<ProjectUsage>> = parts
        .iter()
        .map(|(part, _)| match part.kind {
            PartKind::Volume(_) => project_usage(&part.path),
            _ => None,
        })
        .collect();
    let alone = |one: &ProjectUsage| {
        counted
            .iter()
            .flatten()
            .filter(|other| *other == one)
            .count()
            == 1
    };
    counted.iter().map(|one| one.filter(alone)).collect()
}

/// Warns of figures that are only lower bounds.
pub(super) fn warn(pod: &Pod, index: usize, parts: &[Part], warnings: &mut Vec<UsageWarning>) {
    let truncation = parts
        .iter()
        .filter_map(|part| Some((part, part.measured?.truncation?)));
    warnings.extend(truncation.map(|(part, truncation)| UsageWarning::AtLeast {
        pod: pod.full_name(),
        index,
        directory: part.path.clone(),
        truncation,
    }));
}

/// The pod's total contains what is deleted with the pod, as the kubelet counts it (S1-070).
pub(super) fn add(now: Timestamp, parts: &[Part], usage: &mut PodUsage) {
    for part in parts {
        let Some(measured) = part.known() else {
            continue;
        };
        // How much there is of what cannot be read nobody knows.
        let more = |why: &Truncation| *why != Truncation::Unreadable;
        usage.disk_at_least |= measured.truncation.as_ref().is_some_and(more);
        let figures = FsUsage {
            bytes: Some(measured.bytes),
            inodes: measured.inodes,
        };
        match &part.kind {
            // Added with those that the runtime has counted.
            PartKind::Layer(_) => continue,
            PartKind::Logs(container) => container_usage(usage, container).logs = figures,
            PartKind::Volume(name) | PartKind::HostPath(name) => usage.volumes.push(VolumeUsage {
                name: name.clone(),
                usage: figures,
            }),
        }
        if !matches!(part.kind, PartKind::HostPath(_)) {
            let total = usage.ephemeral_storage.unwrap_or(0);
            usage.ephemeral_storage = Some(total.saturating_add(measured.bytes));
        }
    }
    usage.time = Some(usage.time.map_or(now, |time| time.min(now)));
}
