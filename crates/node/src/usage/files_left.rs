//! Whether the files of an evicted pod are removed. Its object stays in the API, so that it is listed proves nothing.

use super::{directories::DiskRoots, layers::Layers};
use crate::pods::LocalPod;
use evictd_cri::Client;
use evictd_kernel::{
    threads::Pool,
    walk::{Budget, DiskUsage},
};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::oneshot::{Receiver, channel, error::TryRecvError},
    time::timeout,
};

/// The period of the checks.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);
/// A walk that takes longer is stopped: then there is something left.
const PATIENCE: Duration = Duration::from_secs(1);
/// Directories that are empty, and files of a few lines.
const LITTLE_BYTES: i64 = 1 << 20;
const FEW_INODES: i64 = 100;

/// Looks at the files of pods in the background, one pod at a time.
#[derive(Debug)]
pub(super) struct FilesLeft {
    roots: DiskRoots,
    threads: Pool,
    runtime: Option<Client>,
    looking: Option<(String, Receiver<Option<bool>>)>,
    /// By the pod's UID: the time and the result of the last check.
    known: HashMap<String, (Timestamp, Option<bool>)>,
}

impl FilesLeft {
    pub(super) fn new(roots: DiskRoots) -> Self {
        Self {
            roots,
            threads: Pool::of_this_process(),
            runtime: None,
            looking: None,
            known: HashMap::new(),
        }
    }

    pub(super) fn ask(&mut self, runtime: Client) {
        self.runtime = Some(runtime);
    }

    /// Whether hardly any of the pod's files are left, as of the last look; `None` if that is not known. Never waits.
    pub(super) fn are_gone(&mut self, now: Timestamp, pod: &LocalPod) -> Option<bool> {
        if let Some((uid, looking)) = &mut self.looking {
            match looking.try_recv() {
                Err(TryRecvError::Empty) => {}
                found => {
                    self.known.insert(uid.clone(), (now, found.ok().flatten()));
                    self.looking = None;
                }
            }
        }
        let recent = |at: Timestamp| now.duration_since(at) < PERIOD;
        let last = self.known.get(&pod.uid).copied();
        // One look at a time: directories of many pods may be on a disk that hangs.
        if self.looking.is_none() && !last.is_some_and(|(at, _)| recent(at)) {
            let looking = self.look(now, pod);
            self.looking = looking.map(|looking| (pod.uid.clone(), looking));
            self.known
                .retain(|_, (at, _)| now.duration_since(*at) < PERIOD * 60);
        }
        last?.1
    }

    fn look(&self, now: Timestamp, pod: &LocalPod) -> Option<Receiver<Option<bool>>> {
        let paths = self.roots.directories_of(pod);
        // Without a directory of the kubelet's, its root directory may be another one.
        let needed = pod.manifest.is_none();
        let directory = needed.then(|| self.roots.pods().join(&pod.uid));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let walk = self
            .threads
            .run(move || {
                if !directory.is_none_or(|directory| directory.is_dir()) {
                    return None;
                }
                let mut budget = Budget {
                    entries: u64::MAX,
                    stop: &stopped,
                };
                let mut found: Vec<DiskUsage> = Vec::new();
                for path in paths {
                    found.extend(DiskUsage::of(&path, &mut budget).ok()?);
                }
                Some(found)
            })
            .ok()?;
        let (uid, runtime) = (pod.uid.clone(), self.runtime.clone());
        let (answer, answered) = channel();
        tokio::spawn(async move {
            let mut layers = runtime.map_or_else(Layers::default, Layers::of);
            layers.read(now).await;
            let gone = if let Ok(found) = timeout(PATIENCE, walk).await {
                let found = found.ok().flatten();
                found.and_then(|found| gone(&found, &layers, &uid))
            } else {
                stop.store(true, Ordering::Relaxed);
                Some(false)
            };
            let _ = answer.send(gone);
        });
        Some(answered)
    }
}

/// `None` if a layer that cannot be seen may still be there.
fn gone(found: &[DiskUsage], layers: &Layers, uid: &str) -> Option<bool> {
    let directories = found.iter().map(|one| (one.bytes, one.inodes));
    let layers_of = layers.entries(uid);
    let layers_of = layers_of.map(|one| (one.bytes, one.inodes.unwrap_or(0)));
    let (mut bytes, mut inodes) = (0_i64, 0_i64);
    for part in directories.chain(layers_of) {
        bytes = bytes.saturating_add(part.0);
        inodes = inodes.saturating_add(part.1);
    }
    let gone = bytes < LITTLE_BYTES && inodes < FEW_INODES;
    (!gone || layers.problem().is_none()).then_some(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_pod::{Pod, wire};
    use serde_json::json;
    use std::{collections::BTreeSet, fs, path::Path};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// What is known after a look, if one is due.
    async fn look(left: &mut FilesLeft, second: i64, pod: &LocalPod) -> Option<bool> {
        let mut known = left.are_gone(at(second), pod);
        while left.looking.is_some() {
            tokio::task::yield_now().await;
            known = left.are_gone(at(second), pod);
        }
        known
    }

    fn of_kubelet(kubelet: &Path) -> FilesLeft {
        FilesLeft::new(DiskRoots {
            kubelet: kubelet.to_owned(),
            logs: kubelet.join("logs"),
            proc: "/proc".into(),
        })
    }

    #[tokio::test]
    async fn files_that_are_left_are_seen_when_the_pod_is_told_to_have_failed() {
        let top = tempfile::tempdir().unwrap();
        let volume = "pods/u/volumes/kubernetes.io~empty-dir/scratch";
        let [volume, host] = [volume, "host"].map(|directory| top.path().join(directory));
        for directory in [&volume, &host] {
            fs::create_dir_all(directory).unwrap();
        }
        let failed = json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"containers": [{"name": "main"}], "volumes": [
                {"name": "scratch", "emptyDir": {}}, {"name": "host", "hostPath": {"path": host}},
            ]},
            "status": {"phase": "Failed"},
        });
        let mut failed: wire::Pod = serde_json::from_value(failed).unwrap();
        let running = Pod::from_wire(wire::Pod {
            status: wire::PodStatus::default().into(),
            ..failed.clone()
        });
        crate::pods::trim::trim(&mut failed, &BTreeSet::new());
        for pod in [running, Pod::from_wire(failed)] {
            let pod = LocalPod::new(pod, None);
            // What is in a directory of the node stays when the pod ends: it is not waited for.
            fs::write(host.join("data"), vec![1; 2 << 20]).unwrap();
            fs::write(volume.join("data"), vec![1; 2 << 20]).unwrap();
            let mut left = of_kubelet(top.path());
            assert_eq!(look(&mut left, 0, &pod).await, Some(false));
            fs::remove_file(volume.join("data")).unwrap();
            assert_eq!(look(&mut left, 2, &pod).await, Some(true));
        }
    }

    #[tokio::test]
    async fn the_files_of_a_pod_are_gone_when_its_volumes_are_empty() {
        let top = tempfile::tempdir().unwrap();
        let volume = top
            .path()
            .join("pods/u/volumes/kubernetes.io~empty-dir/scratch");
        fs::create_dir_all(&volume).unwrap();
        fs::write(volume.join("data"), vec![1; 2 << 20]).unwrap();
        let mut pod: wire::Pod =
            serde_json::from_str(r#"{"spec":{"volumes":[{"name":"scratch","emptyDir":{}}]}}"#)
                .unwrap();
        pod.metadata.uid = "u".into();
        let pod = LocalPod::new(Pod::from_wire(pod), None);
        let mut left = of_kubelet(top.path());
        assert_eq!(left.are_gone(at(0), &pod), None);
        assert_eq!(look(&mut left, 0, &pod).await, Some(false));
        fs::remove_file(volume.join("data")).unwrap();
        let just_now = look(&mut left, 0, &pod).await;
        assert_eq!(just_now, Some(false));
        assert_eq!(look(&mut left, 2, &pod).await, Some(true));
        // Where nothing at all is found, the root directory may be wrong.
        fs::remove_dir_all(top.path().join("pods")).unwrap();
        assert_eq!(look(&mut left, 4, &pod).await, None);
    }
}
