//! The directories of one pod, and how each is measured.

use super::{Truncation, UsageWarning, cgroup::container_usage};
use evictd_kernel::walk::{self, Budget, DiskUsage, KeptTree, ProjectUsage};
use evictd_pod::Pod;
use evictd_usage::{
    Extent, FsUsage, LargestDirectories, LargestDirectory, PodUsage, VolumeUsage,
    figure::{Figure, Source, sum},
};
use jiff::Timestamp;
use nix::sys::stat::stat;
use std::path::PathBuf;

/// The longest path of a directory in a record, in characters.
const LONGEST_PATH: usize = 80;

/// One directory of a pod.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    pub(super) path: PathBuf,
    /// None if there is no such directory.
    pub(super) measured: Option<Measured>,
    /// The directories below it that hold most, if it was walked whole.
    pub(super) directories: Option<Box<LargestDirectories>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartKind {
    /// Logs of the container of this name.
    Logs(String),
    /// The writable layer of the container of this name.
    Layer(String),
    /// The volume of this name that lives and dies with the pod; without a name, all such volumes of one kind.
    Volume(String),
    /// The kubelet's files for the pod's containers, such as termination logs.
    KubeletFiles,
    /// A volume that is a directory of the node. It is not the pod's, and its end gives nothing of it back.
    HostPath,
}

/// The size of a directory, itself included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) bytes: i64,
    /// `None` where only bytes were asked for.
    pub(super) inodes: Option<i64>,
    pub(super) device: u64,
    pub(super) source: Source,
    /// Why it is only a lower bound.
    pub(super) truncation: Option<Truncation>,
}

impl From<DiskUsage> for Measured {
    fn from(walked: DiskUsage) -> Self {
        Self {
            bytes: walked.bytes,
            inodes: Some(walked.inodes),
            device: walked.device,
            source: Source::Walk,
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
            source: Source::Project,
            truncation: None,
        }
    }
}

impl Measured {
    /// As figures of this moment. The amount of unreadable files is unknown, so they do not make the figures lower
    /// bounds.
    pub(super) fn figures(&self, now: Timestamp) -> FsUsage {
        let more = self.truncation.as_ref();
        let cut_short = more.is_some_and(|why| *why != Truncation::Unreadable);
        let bytes = Figure::bytes(self.bytes).measured(self.source, Some(now));
        let inodes = |inodes| {
            let inodes = Figure::inodes(inodes).measured(self.source, Some(now));
            inodes.at_least(cut_short)
        };
        FsUsage {
            bytes: Some(bytes.at_least(cut_short)),
            inodes: self.inodes.map(inodes),
            ..FsUsage::default()
        }
    }
}

impl Part {
    pub(super) const fn new(kind: PartKind, path: PathBuf) -> Self {
        Self {
            kind,
            path,
            measured: None,
            directories: None,
        }
    }

    /// Its size; `None` if it could not even be opened: then that is unknown, not zero.
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

/// Measures each directory; those with a kept tree by the changes in it.
pub(super) fn measure(
    now: Timestamp,
    mut parts: Vec<(Part, Option<KeptTree>)>,
    projects: Projects,
    mut budget: Budget<'_>,
) -> Vec<(Part, Option<KeptTree>)> {
    let counted = own_projects(&parts);
    for ((part, tree), project) in parts.iter_mut().zip(counted) {
        // The contents are not the pod's: only its filesystem is of interest.
        if part.kind == PartKind::HostPath {
            part.measured = stat(&part.path).ok().map(|found| Measured {
                bytes: 0,
                inodes: None,
                device: found.st_dev,
                source: Source::Walk,
                truncation: None,
            });
            continue;
        }
        if let Some(project) = project.filter(|project| suffices(project, projects)) {
            part.measured = Some(project.into());
            continue;
        }
        let walked = match tree {
            Some(tree) => tree.measure(now, &mut budget),
            None => DiskUsage::with_largest(&part.path, &mut budget).map(|walked| {
                let (usage, largest) = walked?;
                part.directories = shown(largest);
                Some(usage)
            }),
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

/// The directories as records have them; the pod chooses how long their paths are.
fn shown(largest: walk::LargestDirectories) -> Option<Box<LargestDirectories>> {
    let shown = |found: Option<(PathBuf, i64)>| {
        let (path, amount) = found?;
        let path = cut_in_the_middle(&path.to_string_lossy());
        Some(LargestDirectory { path, amount })
    };
    let all = LargestDirectories {
        by_bytes: shown(largest.by_bytes),
        by_inodes: shown(largest.by_inodes),
    };
    (all != LargestDirectories::default()).then(|| Box::new(all))
}

/// The beginning and the end of a path say most.
fn cut_in_the_middle(path: &str) -> String {
    let length = path.chars().count();
    if length <= LONGEST_PATH {
        return path.to_owned();
    }
    let half = LONGEST_PATH / 2 - 1;
    let begin: String = path.chars().take(half).collect();
    let end: String = path.chars().skip(length - half).collect();
    format!("{begin}..{end}")
}

fn suffices(project: &ProjectUsage, projects: Projects) -> bool {
    match projects {
        Projects::ForBytes => true,
        Projects::ForAll => project.inodes.is_some(),
        Projects::AsLowerBound => false,
    }
}

/// The usage that the filesystem counts for each volume. Two with equal figures may share a project: neither is taken.
fn own_projects(parts: &[(Part, Option<KeptTree>)]) -> Vec<Option<ProjectUsage>> {
    let counted: Vec<Option<ProjectUsage>> = parts
        .iter()
        .map(|(part, _)| match part.kind {
            PartKind::Volume(_) => ProjectUsage::of(&part.path),
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

/// The pod's total contains the directories that are deleted with it, as the kubelet counts them (S1-070). Usage on
/// another filesystem than `node`, that of the kubelet's directory, counts for the pod's limits only.
pub(super) fn add(now: Timestamp, parts: &[Part], node: Option<u64>, usage: &mut PodUsage) {
    for part in parts {
        let Some(measured) = &part.measured else {
            continue;
        };
        let mut figures = measured.figures(now);
        if part.known().is_none() {
            figures = FsUsage {
                extent: Extent::Unknown,
                ..FsUsage::default()
            };
        } else if node.is_some_and(|node| node != measured.device) {
            figures.extent = Extent::Elsewhere;
        }
        match &part.kind {
            // Added with those that the runtime has counted.
            PartKind::Layer(container) => {
                container_usage(usage, container)
                    .directories
                    .clone_from(&part.directories);
                continue;
            }
            PartKind::HostPath => continue,
            PartKind::Logs(container) => container_usage(usage, container).logs = figures,
            PartKind::KubeletFiles => usage.kubelet_files = figures,
            PartKind::Volume(name) => usage.volumes.push(VolumeUsage {
                name: name.clone(),
                usage: figures,
                directories: part.directories.clone(),
            }),
        }
        if part.kind == PartKind::KubeletFiles {
            continue;
        }
        usage.ephemeral_storage = sum([usage.ephemeral_storage, figures.bytes].into_iter());
    }
}
