//! Which cgroup belongs to a pod: the kubelet's own by UID, or the one that its manifest names.
//!
//! The author of a manifest must not be able to have another pod's processes killed. So the cgroup in a manifest counts
//! only if it is below a root that the configuration reserves for manifests, and if no other pod claims any part of it.
//!
//! A failed read, other than because the file does not exist, proves nothing about a pod. It is retried at once. If it
//! keeps failing, the pod keeps the cgroup that it had.

use super::{
    BoundCgroup, DeletedPod, Listed, LocalPod, StillRunning, Warning, unknown::placeholder,
};
use evictd_kernel::cgroup::{CgroupError, Hierarchies, OwnCgroups, PodCgroup};
use evictd_pod::Pod;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

/// How often a read is tried: most errors here, such as a lack of file descriptors, pass.
const TRIES: u32 = 3;

/// Annotation with a pod's cgroup: a path from the root of the hierarchies (`/batch/web`), or one that begins with
/// the mount point of a hierarchy.
pub(super) const CGROUP_ANNOTATION: &str = "evictd.dev/cgroup";

/// Why a pod is not bound to a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The path names the root of the hierarchy.
    Root,
    /// The cgroup does not exist (yet).
    Missing,
    /// The path cannot be resolved.
    Unreadable(String),
    /// With `..` and links resolved it is not strictly below any of the configured `cgroupRoots`.
    OutsideRoots(PathBuf),
    /// It resolves to another path in another hierarchy.
    Ambiguous,
    /// evictd itself runs in it or below it.
    Own,
    /// Another pod's cgroup is the same, above it or below it.
    ClaimedBy {
        /// `namespace/name` of the other pod, or its UID if no source lists it.
        pod: String,
        /// The other pod's cgroup.
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

/// The claims of a pod about itself, as far as its cgroup confirms them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CgroupCheck {
    /// It is the mirror pod of a static pod: it has no cgroup of its own, and no other pod has the UID that it
    /// names.
    pub(super) is_mirror: bool,
    /// It still runs, although its status says that it has ended.
    pub(super) still_runs: bool,
}

/// The binding of a pod when the cgroups were last read.
#[derive(Debug, Clone)]
pub(super) struct LastBinding {
    pub(super) cgroup: Option<BoundCgroup>,
    pub(super) cgroup_check: CgroupCheck,
}

/// The last bindings of all pods, by the UIDs in the listing.
pub(super) type LastBindings = HashMap<String, LastBinding>;

/// Pods that are no longer listed, by UID.
pub(super) type DeletedPods = BTreeMap<String, Arc<DeletedPod>>;

/// Which pod has which cgroup.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings {
    /// Parallel to the pods.
    pub(super) cgroups: Vec<Option<BoundCgroup>>,
    /// Parallel to the pods.
    pub(super) cgroup_checks: Vec<CgroupCheck>,
    /// Pods' cgroups made by a kubelet for pods that are not listed.
    pub(super) unknown: Vec<PodCgroup>,
    pub(super) warnings: Vec<Warning>,
}

/// A pod's claim to a cgroup, before it is compared with the claims of others.
struct Claim {
    /// Index of the pod; `None` if no source lists it.
    pod: Option<usize>,
    cgroup: BoundCgroup,
    /// The path as written.
    named: String,
}

impl Binder {
    /// `proc_root` is `/proc` on a real machine; this process finds its own cgroups there. Manifests may only name
    /// cgroups below `cgroup_roots`, which are written like the annotation.
    pub fn new(hierarchies: Hierarchies, proc_root: PathBuf, cgroup_roots: Vec<PathBuf>) -> Self {
        Self {
            hierarchies,
            proc_root,
            cgroup_roots,
        }
    }

    /// Binds all pods. `deleted` are pods that may still run, `last` are the last bindings.
    pub(super) fn bind(
        &self,
        pods: &[Listed],
        deleted: &DeletedPods,
        last: &LastBindings,
    ) -> Result<Bindings, CgroupError> {
        let daemon = self.daemon_cgroups()?;
        let groups = self.kubelet_cgroups()?.into_iter();
        let by_uid: HashMap<String, PodCgroup> =
            groups.map(|group| (group.uid.clone(), group)).collect();
        let uids: HashSet<&str> = pods.iter().map(|one| one.pod.uid.as_str()).collect();
        let mut bindings = Bindings {
            cgroups: vec![None; pods.len()],
            ..Bindings::default()
        };
        let mut claims = Vec::with_capacity(pods.len());
        let mut known = HashSet::new();
        for (index, listed) in pods.iter().enumerate() {
            let pod = &listed.pod;
            let held = last.get(&pod.uid);
            let group = by_uid.get(&pod.uid);
            let is_free = |uid: &str| !uids.contains(uid) && !deleted.contains_key(uid);
            let cgroup_check = CgroupCheck {
                is_mirror: group.is_none() && is_mirror(listed, is_free),
                still_runs: pod.terminal
                    && group.is_some_and(|group| self.runs_after_end(group, held)),
            };
            bindings.cgroup_checks.push(cgroup_check);
            let mirrored = pod.mirror_of().filter(|_| cgroup_check.is_mirror);
            let uid = mirrored.unwrap_or(&pod.uid);
            known.insert(uid);
            let annotation = pod
                .annotations
                .get(CGROUP_ANNOTATION)
                .filter(|_| listed.manifest.is_some());
            let found = match (annotation, by_uid.get(uid)) {
                (Some(named), _) => {
                    let passes = |refusal: &Refusal| matches!(refusal, Refusal::Unreadable(_));
                    Some((named.to_owned(), retry(passes, || self.resolve(named))))
                }
                (None, Some(group)) => {
                    let named = group.relative.display().to_string();
                    Some((named, Ok(group.relative.clone())))
                }
                (None, None) => None,
            };
            let held = held
                .and_then(|held| held.cgroup.as_ref())
                .filter(|held| held.by_annotation == annotation.is_some());
            let Some((named, resolved)) = self.or_last(pod, found, held, &mut bindings) else {
                continue;
            };
            match resolved {
                Ok(relative) if daemon.are_within(&relative) => {
                    // If evictd runs in its own pod's cgroup, there is nothing to correct.
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
            .filter(|group| !daemon.are_within(&group.relative))
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

    /// The bindings if the cgroups cannot be read: the last ones, without cgroups that are known to be removed.
    pub(super) fn last_known(&self, pods: &[Listed], last: &LastBindings) -> Bindings {
        let mut bindings = Bindings::default();
        for listed in pods {
            let held = last.get(&listed.pod.uid);
            let cgroup = held
                .and_then(|held| held.cgroup.clone())
                .filter(|cgroup| self.may_be_there(&cgroup.relative));
            bindings.cgroups.push(cgroup);
            let cgroup_check = held.map(|held| held.cgroup_check);
            bindings
                .cgroup_checks
                .push(cgroup_check.unwrap_or_default());
        }
        bindings
    }

    /// The result for one pod; if it is unknown because of an error, the cgroup that the pod had.
    fn or_last(
        &self,
        pod: &Pod,
        found: Option<(String, Result<PathBuf, Refusal>)>,
        held: Option<&BoundCgroup>,
        bindings: &mut Bindings,
    ) -> Option<(String, Result<PathBuf, Refusal>)> {
        let problem = match &found {
            Some((_, Err(Refusal::Unreadable(problem)))) => problem.clone(),
            None => "it was not found at its path".to_owned(),
            Some(_) => return found,
        };
        let Some(held) = held.filter(|held| self.may_be_there(&held.relative)) else {
            return found;
        };
        let path = Path::new("/").join(&held.relative);
        bindings.warnings.push(Warning::CgroupStays {
            pod: pod.full_name(),
            path,
            problem,
        });
        Some((
            held.relative.display().to_string(),
            Ok(held.relative.clone()),
        ))
    }

    /// Whether the cgroup exists or may exist.
    fn may_be_there(&self, relative: &Path) -> bool {
        let parent = relative.parent().unwrap_or(Path::new(""));
        let mut mounts = self.hierarchies.mounts();
        let home = mounts.find(|mount| !is_absent(&fs::metadata(mount.join(parent))));
        home.is_some_and(|mount| !is_absent(&fs::metadata(mount.join(relative))))
    }

    /// Whether a process runs in the cgroup of a pod whose status says that it has ended; the last known answer if
    /// it cannot be read.
    fn runs_after_end(&self, group: &PodCgroup, held: Option<&LastBinding>) -> bool {
        let before = held.is_some_and(|held| held.cgroup_check.still_runs);
        self.still_runs(&group.relative).unwrap_or(before)
    }

    /// Whether a process runs in this cgroup; `None` if it cannot be read.
    fn still_runs(&self, group: &Path) -> Option<bool> {
        let passes = |error: &CgroupError| !error.is_gone();
        match retry(passes, || self.hierarchies.procs(group)) {
            Ok(processes) => Some(!processes.is_empty()),
            Err(error) => error.is_gone().then_some(false),
        }
    }

    /// Whether a process is known to run in this cgroup.
    pub(super) fn runs(&self, group: &Path) -> bool {
        self.hierarchies.runs(group)
    }

    fn daemon_cgroups(&self) -> Result<OwnCgroups, CgroupError> {
        retry(
            |_| true,
            || OwnCgroups::read(&self.hierarchies, &self.proc_root),
        )
    }

    /// The pods' cgroups below each root.
    fn kubelet_cgroups(&self) -> Result<Vec<PodCgroup>, CgroupError> {
        let mut groups = Vec::new();
        for root in &self.cgroup_roots {
            let root = self.relative(root);
            let passes = |error: &CgroupError| !error.is_gone();
            match retry(passes, || self.hierarchies.pods(&root)) {
                Ok(more) => groups.extend(more),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(groups)
    }

    /// The deleted pods whose cgroups, which belong to no listed pod, still contain a process. evictd's own pod is
    /// left out.
    pub(super) fn still_running(
        &self,
        deleted: &DeletedPods,
        unknown: &[PodCgroup],
    ) -> Vec<StillRunning> {
        let of = |group: &PodCgroup| Some((deleted.get(&group.uid)?, group.relative.clone()));
        let here: Vec<_> = unknown.iter().filter_map(of).collect();
        if here.is_empty() {
            return Vec::new();
        }
        let Ok(daemon) = self.daemon_cgroups() else {
            return Vec::new();
        };
        let still_running = here.into_iter().filter_map(|(deleted, relative)| {
            if daemon.are_within(&relative) || self.still_runs(&relative) == Some(false) {
                return None;
            }
            let mut pod = Arc::clone(&deleted.pod);
            Arc::make_mut(&mut pod).terminal = false;
            Some(StillRunning {
                pod,
                cgroup: BoundCgroup {
                    relative,
                    by_annotation: false,
                },
                since: deleted.at,
                grace: deleted.grace,
            })
        });
        still_running.collect()
    }

    /// Placeholder pods for unlisted pods, if these may be chosen at all. Pods that were listed before are left
    /// out, because more is known of them.
    pub(super) fn placeholders(
        &self,
        unknown: &[PodCgroup],
        deleted: &DeletedPods,
    ) -> Vec<LocalPod> {
        let Ok(daemon) = self.daemon_cgroups() else {
            return Vec::new();
        };
        let groups = unknown.iter();
        groups
            .filter(|group| !deleted.contains_key(&group.uid))
            .filter_map(|group| placeholder(group, &daemon, &self.hierarchies))
            .collect()
    }

    /// The cgroup that a manifest names, relative to the root of its hierarchy, if manifests may name it.
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
            if !self.is_below_a_root(mount, &found)? {
                return Err(Refusal::OutsideRoots(Path::new("/").join(found)));
            }
            if resolved.as_ref().is_some_and(|other| *other != found) {
                return Err(Refusal::Ambiguous);
            }
            resolved = Some(found);
        }
        resolved.ok_or(Refusal::Missing)
    }

    fn is_below_a_root(&self, mount: &Path, found: &Path) -> Result<bool, Refusal> {
        let mut unreadable = None;
        for root in &self.cgroup_roots {
            match canonical(mount, &self.relative(root)) {
                Ok(Some(root)) if found != root && found.starts_with(&root) => return Ok(true),
                Err(refusal @ Refusal::Unreadable(_)) => unreadable = Some(refusal),
                Ok(_) | Err(_) => {}
            }
        }
        unreadable.map_or(Ok(false), Err)
    }

    /// The path, which may begin with a mount point, relative to the root of its hierarchy.
    fn relative(&self, path: &Path) -> PathBuf {
        let mut mounts = self.hierarchies.mounts();
        let below_mount = mounts.find_map(|mount| path.strip_prefix(mount).ok());
        let path = below_mount.unwrap_or(path);
        path.strip_prefix("/").unwrap_or(path).to_owned()
    }
}

/// Retries a read at once while its error may pass.
fn retry<T, E>(
    passes: impl Fn(&E) -> bool,
    mut read: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..TRIES {
        match read() {
            Err(error) if passes(&error) => {}
            done => return done,
        }
    }
    read()
}

/// Whether it is certain that nothing exists there.
fn is_absent<T>(read: &io::Result<T>) -> bool {
    let absent =
        |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    read.as_ref().is_err_and(absent)
}

/// A pod counts as a mirror pod only while it runs, and only if no pod has the UID of the static pod that it names.
fn is_mirror(listed: &Listed, is_free: impl Fn(&str) -> bool) -> bool {
    let pod = &listed.pod;
    let remote = listed.manifest.is_none() && !pod.terminal;
    remote && pod.mirror_of().is_some_and(is_free)
}

/// `path` below `mount` with `..` and links resolved, relative to `mount`; `None` if it does not exist.
fn canonical(mount: &Path, path: &Path) -> Result<Option<PathBuf>, Refusal> {
    let unreadable = |error: io::Error| Refusal::Unreadable(error.to_string());
    let mount = mount.canonicalize().map_err(unreadable)?;
    let found = mount.join(path).canonicalize();
    if is_absent(&found) {
        return Ok(None);
    }
    let found = found.map_err(unreadable)?;
    let Ok(relative) = found.strip_prefix(&mount) else {
        return Err(Refusal::OutsideRoots(found));
    };
    let metadata = fs::metadata(&found);
    if is_absent(&metadata) {
        return Ok(None);
    }
    let is_group = metadata.map_err(unreadable)?.is_dir();
    Ok(is_group.then(|| relative.to_owned()))
}

impl Bindings {
    /// Grants every claim that overlaps no other. If a manifest's claim overlaps a kubelet's, the kubelet's wins;
    /// if two of the same kind overlap, neither is granted.
    fn settle(&mut self, mut claims: Vec<Claim>, pods: &[Listed]) {
        claims.sort_by(|a, b| a.cgroup.relative.cmp(&b.cgroup.relative));
        let mut rival: Vec<Option<usize>> = vec![None; claims.len()];
        // In this order every cgroup comes right before all cgroups below it.
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
