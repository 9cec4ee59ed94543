//! Which cgroup is a pod's: the kubelet's own by UID, or the one that its manifest names.
//!
//! Whoever may write a manifest must not be able to have an innocent process killed. So a manifest's word counts only
//! for a cgroup below a root that the configuration sets aside for it, and only if no one else claims any part of it.

use super::{Listed, Warning, unknown::stand_in};
use crate::cgroup::{CgroupError, Hierarchies, OwnCgroups, PodCgroup};
use evictd_pod::Pod;
use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::{Path, PathBuf},
};

/// Names a pod's cgroup in its manifest: a path from the root of the hierarchies (`/batch/web`), or one that begins with
/// where a hierarchy is mounted.
pub const CGROUP_ANNOTATION: &str = "evictd.dev/cgroup";

/// The cgroup that is a pod's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundCgroup {
    /// The group, relative to the root of its hierarchy.
    pub relative: PathBuf,
    /// Whether the manifest names it, not the pod's UID. Its children are then called like the containers.
    pub by_annotation: bool,
}

/// Why a pod is not tied to a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The path names the root of the hierarchy.
    Root,
    /// No such cgroup (yet).
    Missing,
    /// It can't be resolved.
    Unreadable(String),
    /// With `..` and links resolved it is not strictly below any of the configured `cgroupRoots`.
    OutsideRoots(PathBuf),
    /// It resolves to another path in another hierarchy.
    Ambiguous,
    /// evictd itself runs in it or below it.
    Own,
    /// Another pod's cgroup is the same, above it or below it.
    ClaimedBy {
        /// `namespace/name` of the other pod, or its UID where nobody listed it.
        pod: String,
        /// The other's cgroup.
        path: PathBuf,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("it is the root of the hierarchy"),
            Self::Missing => f.write_str("there is no such cgroup"),
            Self::Unreadable(problem) => write!(f, "it cannot be resolved: {problem}"),
            Self::OutsideRoots(path) => write!(
                f,
                "it is {}, which is not strictly below any of the configured cgroupRoots",
                path.display()
            ),
            Self::Ambiguous => f.write_str("it is not the same path in every hierarchy"),
            Self::Own => f.write_str("evictd itself runs in it"),
            Self::ClaimedBy { pod, path } => {
                write!(f, "pod {pod} claims {}", path.display())
            }
        }
    }
}

/// Finds the cgroups of pods.
#[derive(Debug, Clone)]
pub struct Binder {
    hierarchies: Hierarchies,
    proc_root: PathBuf,
    cgroup_roots: Vec<PathBuf>,
}

/// Which pod has which cgroup.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings {
    /// Parallel to the pods.
    pub(super) cgroups: Vec<Option<BoundCgroup>>,
    /// The kubelet's groups of pods that are not among them.
    pub(super) unknown: Vec<PodCgroup>,
    pub(super) warnings: Vec<Warning>,
}

/// A pod's wish for a cgroup, before the others' are known.
struct Claim {
    /// Index of the pod; None where nobody listed it.
    pod: Option<usize>,
    cgroup: BoundCgroup,
    /// As it was named.
    named: String,
}

impl Binder {
    /// `proc_root` is where this process finds itself (`/proc`). `cgroup_roots` are the cgroups below which manifests may
    /// name one, written like the annotation.
    pub fn new(hierarchies: Hierarchies, proc_root: PathBuf, cgroup_roots: Vec<PathBuf>) -> Self {
        Self {
            hierarchies,
            proc_root,
            cgroup_roots,
        }
    }

    pub(super) fn bind(&self, pods: &[Listed]) -> Result<Bindings, CgroupError> {
        let own = OwnCgroups::read(&self.hierarchies, &self.proc_root)?;
        let mut bindings = Bindings {
            cgroups: vec![None; pods.len()],
            ..Bindings::default()
        };
        let mut by_uid: HashMap<String, PodCgroup> = HashMap::new();
        for group in self.made_by_kubelets()? {
            by_uid.insert(group.uid.clone(), group);
        }
        let mut claims = Vec::with_capacity(pods.len());
        let mut known = HashSet::new();
        for (index, listed) in pods.iter().enumerate() {
            let pod = &listed.pod;
            known.insert(pod.uid.as_str());
            let annotation = pod.annotations.get(CGROUP_ANNOTATION);
            let annotation = annotation.filter(|_| listed.manifest.is_some());
            let (named, resolved) = match (annotation, by_uid.get(&pod.uid)) {
                (Some(named), _) => (named.clone(), self.resolve(named)),
                (None, Some(group)) => (
                    group.relative.display().to_string(),
                    Ok(group.relative.clone()),
                ),
                (None, None) => continue,
            };
            match resolved {
                Ok(relative) if own.are_within(&relative) => {
                    // That evictd runs in its own pod is nothing to mend.
                    if annotation.is_some() {
                        bindings.refuse(pod.full_name(), named, Refusal::Own);
                    }
                }
                Ok(relative) => claims.push(Claim {
                    pod: Some(index),
                    cgroup: BoundCgroup {
                        relative,
                        by_annotation: annotation.is_some(),
                    },
                    named,
                }),
                Err(refusal) => bindings.refuse(pod.full_name(), named, refusal),
            }
        }
        let mut unknown: Vec<_> = by_uid
            .into_values()
            .filter(|group| !known.contains(group.uid.as_str()))
            .filter(|group| !own.are_within(&group.relative))
            .collect();
        unknown.sort_unstable_by(|a, b| a.uid.cmp(&b.uid));
        claims.extend(unknown.iter().map(|group| Claim {
            pod: None,
            cgroup: BoundCgroup {
                relative: group.relative.clone(),
                by_annotation: false,
            },
            named: group.uid.clone(),
        }));
        bindings.unknown = unknown;
        bindings.settle(claims, pods);
        Ok(bindings)
    }

    /// Whether anything is known to run in this group.
    pub(super) fn runs(&self, group: &Path) -> bool {
        self.hierarchies.runs(group)
    }

    /// The groups of pods below the root, and below each configured one: a kubelet may have a root of its own.
    fn made_by_kubelets(&self) -> Result<Vec<PodCgroup>, CgroupError> {
        let mut groups = self.hierarchies.pods(Path::new(""))?;
        for root in &self.cgroup_roots {
            let root = self.relative(root);
            if groups.iter().any(|group| group.relative.starts_with(&root)) {
                continue;
            }
            match self.hierarchies.pods(&root) {
                Ok(more) => groups.extend(more),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(groups)
    }

    /// What stands in for pods that nobody lists, where they may be chosen at all: below the roots only.
    pub(super) fn stand_ins(&self, unknown: &[PodCgroup]) -> Vec<(Pod, BoundCgroup)> {
        let Ok(own) = OwnCgroups::read(&self.hierarchies, &self.proc_root) else {
            return Vec::new();
        };
        let groups = unknown.iter();
        groups
            .filter(|group| {
                let mut roots = self.cgroup_roots.iter();
                roots.any(|root| group.relative.starts_with(self.relative(root)))
            })
            .filter_map(|group| stand_in(group, &own, &self.hierarchies))
            .collect()
    }

    /// The group that a manifest names, relative to the root of its hierarchy, if manifests may name it.
    fn resolve(&self, named: &str) -> Result<PathBuf, Refusal> {
        let path = self.relative(Path::new(named));
        let mut resolved: Option<PathBuf> = None;
        for mount in self.hierarchies.mounts() {
            let Some(found) = canonical(mount, &path)? else {
                continue;
            };
            if found.as_os_str().is_empty() {
                return Err(Refusal::Root);
            }
            let below_a_root = self.cgroup_roots.iter().any(|root| {
                canonical(mount, &self.relative(root)).is_ok_and(|root| {
                    root.is_some_and(|root| found != root && found.starts_with(root))
                })
            });
            if !below_a_root {
                return Err(Refusal::OutsideRoots(Path::new("/").join(found)));
            }
            if resolved.as_ref().is_some_and(|other| *other != found) {
                return Err(Refusal::Ambiguous);
            }
            resolved = Some(found);
        }
        resolved.ok_or(Refusal::Missing)
    }

    /// A path as people write it, from the root of its hierarchy.
    fn relative(&self, path: &Path) -> PathBuf {
        let mut mounts = self.hierarchies.mounts();
        let below_mount = mounts.find_map(|mount| path.strip_prefix(mount).ok());
        let path = below_mount.unwrap_or(path);
        path.strip_prefix("/").unwrap_or(path).to_owned()
    }
}

/// `path` below `mount` with `..` and links resolved, relative to `mount` again; None if it is not there.
fn canonical(mount: &Path, path: &Path) -> Result<Option<PathBuf>, Refusal> {
    let unreadable = |error: std::io::Error| Refusal::Unreadable(error.to_string());
    let mount = mount.canonicalize().map_err(unreadable)?;
    let found = match mount.join(path).canonicalize() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    match found.strip_prefix(&mount) {
        Ok(relative) => Ok(found.is_dir().then(|| relative.to_owned())),
        Err(_) => Err(Refusal::OutsideRoots(found)),
    }
}

impl Bindings {
    /// Grants every claim that no other touches. Where two overlap, what a manifest names yields to what the kubelet made;
    /// between equals neither gets it.
    fn settle(&mut self, mut claims: Vec<Claim>, pods: &[Listed]) {
        claims.sort_by(|a, b| a.cgroup.relative.cmp(&b.cgroup.relative));
        let mut rival: Vec<Option<usize>> = vec![None; claims.len()];
        // In this order every group comes right before all groups below it.
        let mut above: Vec<usize> = Vec::new();
        for index in 0..claims.len() {
            let path = &claims[index].cgroup.relative;
            while above
                .last()
                .is_some_and(|top| !path.starts_with(&claims[*top].cgroup.relative))
            {
                above.pop();
            }
            for &other in &above {
                let (ours, theirs) = (&claims[index].cgroup, &claims[other].cgroup);
                if ours.by_annotation || !theirs.by_annotation {
                    rival[index] = Some(other);
                }
                if theirs.by_annotation || !ours.by_annotation {
                    rival[other] = Some(index);
                }
            }
            above.push(index);
        }
        for (index, claim) in claims.iter().enumerate() {
            let Some(pod) = claim.pod else { continue };
            let Some(rival) = rival[index] else {
                self.cgroups[pod] = Some(claim.cgroup.clone());
                continue;
            };
            let rival = &claims[rival];
            let refusal = Refusal::ClaimedBy {
                pod: rival
                    .pod
                    .map_or_else(|| rival.named.clone(), |pod| pods[pod].pod.full_name()),
                path: Path::new("/").join(&rival.cgroup.relative),
            };
            self.refuse(pods[pod].pod.full_name(), claim.named.clone(), refusal);
        }
    }

    fn refuse(&mut self, pod: String, path: String, refusal: Refusal) {
        self.warnings.push(Warning::Cgroup { pod, path, refusal });
    }
}

#[cfg(test)]
mod tests;
