//! Which cgroup is a pod's: the kubelet's own by UID, or the one that its manifest names.
//!
//! Whoever may write a manifest must not be able to have an innocent process killed. So a manifest's word counts only
//! for a cgroup below a root that the configuration sets aside for it, and only if no one else claims any part of it.
//!
//! A reading that fails, other than because nothing is there, says nothing about a pod: it is tried again at once, and if
//! it fails on, the pod keeps the cgroup that it had.

use super::{BoundCgroup, Departed, Listed, LocalPod, Vanished, Warning, unknown::stand_in};
use evictd_kernel::cgroup::{CgroupError, Hierarchies, OwnCgroups, PodCgroup};
use evictd_pod::Pod;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What fails is tried this often: most that can fail here, such as a lack of descriptors, passes.
const TRIES: u32 = 3;

/// Names a pod's cgroup in its manifest: a path from the root of the hierarchies (`/batch/web`), or one that begins with
/// where a hierarchy is mounted.
pub const CGROUP_ANNOTATION: &str = "evictd.dev/cgroup";

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

/// What a pod says of itself that only its cgroup can prove.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// That it is the image of a static pod is believed: it has no cgroup of its own, and no other pod has that UID.
    pub(super) is_mirror: bool,
    /// It runs, though its status says that it has ended.
    pub(super) runs_on: bool,
}

/// What a pod had when its cgroup was last looked at.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) cgroup: Option<BoundCgroup>,
    pub(super) standing: Standing,
}

/// The same of all pods, by the UIDs that they are listed with.
pub(super) type LastHeld = HashMap<String, Held>;

/// Pods that are listed no more, by UID.
pub(super) type DepartedPods = BTreeMap<String, Arc<Departed>>;

/// Which pod has which cgroup.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings {
    /// Parallel to the pods.
    pub(super) cgroups: Vec<Option<BoundCgroup>>,
    /// Parallel to the pods.
    pub(super) standings: Vec<Standing>,
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

    /// `departed` are pods that may still run, `last` is what all had before.
    pub(super) fn bind(
        &self,
        pods: &[Listed],
        departed: &DepartedPods,
        last: &LastHeld,
    ) -> Result<Bindings, CgroupError> {
        let own = self.own()?;
        let groups = self.made_by_kubelets()?.into_iter();
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
            let is_free = |uid: &str| !uids.contains(uid) && !departed.contains_key(uid);
            let standing = Standing {
                is_mirror: group.is_none() && is_mirror(listed, is_free),
                runs_on: pod.terminal && group.is_some_and(|group| self.runs_on(group, held)),
            };
            bindings.standings.push(standing);
            let mirrored = pod.mirror_of().filter(|_| standing.is_mirror);
            let uid = mirrored.unwrap_or(&pod.uid);
            known.insert(uid);
            let annotation = pod.annotations.get(CGROUP_ANNOTATION);
            let annotation = annotation.filter(|_| listed.manifest.is_some());
            let found = match (annotation, by_uid.get(uid)) {
                (Some(named), _) => {
                    let passes = |refusal: &Refusal| matches!(refusal, Refusal::Unreadable(_));
                    Some((named.clone(), again(passes, || self.resolve(named))))
                }
                (None, Some(group)) => {
                    let named = group.relative.display().to_string();
                    Some((named, Ok(group.relative.clone())))
                }
                (None, None) => None,
            };
            let held = held.and_then(|held| held.cgroup.as_ref());
            let held = held.filter(|held| held.by_annotation == annotation.is_some());
            let Some((named, resolved)) = self.or_as_before(pod, found, held, &mut bindings) else {
                continue;
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

    /// Where the cgroups cannot be looked through: all that the pods had and that is not known to be gone.
    pub(super) fn as_before(&self, pods: &[Listed], last: &LastHeld) -> Bindings {
        let mut bindings = Bindings::default();
        for listed in pods {
            let held = last.get(&listed.pod.uid);
            let cgroup = held.and_then(|held| held.cgroup.clone());
            let cgroup = cgroup.filter(|cgroup| self.may_be_there(&cgroup.relative));
            bindings.cgroups.push(cgroup);
            let standing = held.map(|held| held.standing);
            bindings.standings.push(standing.unwrap_or_default());
        }
        bindings
    }

    /// What was found of a pod; where that cannot be known, the cgroup that it had.
    fn or_as_before(
        &self,
        pod: &Pod,
        found: Option<(String, Result<PathBuf, Refusal>)>,
        held: Option<&BoundCgroup>,
        bindings: &mut Bindings,
    ) -> Option<(String, Result<PathBuf, Refusal>)> {
        let problem = match &found {
            Some((_, Err(Refusal::Unreadable(problem)))) => problem.clone(),
            None => "it was not found where it is".to_owned(),
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

    /// Whether the group is there, as far as anybody can tell.
    fn may_be_there(&self, relative: &Path) -> bool {
        let parent = relative.parent().unwrap_or(Path::new(""));
        let mut mounts = self.hierarchies.mounts();
        let home = mounts.find(|mount| !is_absent(&fs::metadata(mount.join(parent))));
        home.is_some_and(|mount| !is_absent(&fs::metadata(mount.join(relative))))
    }

    /// Whether anything runs in the group of a pod whose status says that it has ended; as it was where nobody can tell.
    fn runs_on(&self, group: &PodCgroup, held: Option<&Held>) -> bool {
        let before = held.is_some_and(|held| held.standing.runs_on);
        self.still_runs(&group.relative).unwrap_or(before)
    }

    /// `None` where nobody can tell.
    fn still_runs(&self, group: &Path) -> Option<bool> {
        let passes = |error: &CgroupError| !error.is_gone();
        match again(passes, || self.hierarchies.procs(group)) {
            Ok(processes) => Some(!processes.is_empty()),
            Err(error) => error.is_gone().then_some(false),
        }
    }

    /// Whether anything is known to run in this group.
    pub(super) fn runs(&self, group: &Path) -> bool {
        self.hierarchies.runs(group)
    }

    fn own(&self) -> Result<OwnCgroups, CgroupError> {
        again(
            |_| true,
            || OwnCgroups::read(&self.hierarchies, &self.proc_root),
        )
    }

    /// The groups of pods below each root.
    fn made_by_kubelets(&self) -> Result<Vec<PodCgroup>, CgroupError> {
        let mut groups = Vec::new();
        for root in &self.cgroup_roots {
            let root = self.relative(root);
            let passes = |error: &CgroupError| !error.is_gone();
            match again(passes, || self.hierarchies.pods(&root)) {
                Ok(more) => groups.extend(more),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(groups)
    }

    /// Those of the departed pods whose groups, which nobody lists, still hold a process. evictd itself is none of them.
    pub(super) fn vanished(&self, departed: &DepartedPods, unknown: &[PodCgroup]) -> Vec<Vanished> {
        let of = |group: &PodCgroup| Some((departed.get(&group.uid)?, group.relative.clone()));
        let here: Vec<_> = unknown.iter().filter_map(of).collect();
        if here.is_empty() {
            return Vec::new();
        }
        let Ok(own) = self.own() else {
            return Vec::new();
        };
        let vanished = here.into_iter().filter_map(|(departed, relative)| {
            if own.are_within(&relative) || self.still_runs(&relative) == Some(false) {
                return None;
            }
            let mut pod = Arc::clone(&departed.pod);
            Arc::make_mut(&mut pod).terminal = false;
            Some(Vanished {
                pod,
                cgroup: BoundCgroup {
                    relative,
                    by_annotation: false,
                },
                since: departed.at,
                grace: departed.grace,
            })
        });
        vanished.collect()
    }

    /// What stands in for pods that nobody lists, where they may be chosen at all. Of those that were listed more is known.
    pub(super) fn stand_ins(
        &self,
        unknown: &[PodCgroup],
        departed: &DepartedPods,
    ) -> Vec<LocalPod> {
        let Ok(own) = self.own() else {
            return Vec::new();
        };
        let groups = unknown.iter();
        groups
            .filter(|group| !departed.contains_key(&group.uid))
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

    /// A path as people write it, from the root of its hierarchy.
    fn relative(&self, path: &Path) -> PathBuf {
        let mut mounts = self.hierarchies.mounts();
        let below_mount = mounts.find_map(|mount| path.strip_prefix(mount).ok());
        let path = below_mount.unwrap_or(path);
        path.strip_prefix("/").unwrap_or(path).to_owned()
    }
}

/// Reads again, at once, while what fails may pass.
fn again<T, E>(
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

/// Whether it is certain that nothing is there.
fn is_absent<T>(read: &io::Result<T>) -> bool {
    let absent =
        |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    read.as_ref().is_err_and(absent)
}

/// A mirror's word counts only where no pod has the UID that it names, and only of a pod that runs.
fn is_mirror(listed: &Listed, is_free: impl Fn(&str) -> bool) -> bool {
    let pod = &listed.pod;
    let remote = listed.manifest.is_none() && !pod.terminal;
    remote && pod.mirror_of().is_some_and(is_free)
}

/// `path` below `mount` with `..` and links resolved, relative to `mount` again; None if it is not there.
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
