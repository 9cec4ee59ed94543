//! Writable layers of containers, as the container runtime counts them, or from a walk where its figures are old.

use super::{
    cgroup::container_usage,
    ledger::{Entry, Kind},
    parts::Measured,
};
use evictd_cri::{Client, Container, ContainerState, ContainerStats, Error, FilesystemUsage};
use evictd_kernel::threads::Pool;
use evictd_signals::human_bytes;
use evictd_usage::{
    Extent, FsUsage, PodUsage,
    figure::{Figure, Source, sum},
};

use jiff::{SignedDuration, Timestamp};
use nix::sys::statvfs::statvfs;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::Duration,
};
use tokio::{
    sync::oneshot::{Receiver, error::TryRecvError},
    time::timeout,
};

/// The longest wait for the runtime. Directories are walked after it, so it must leave time for them.
const PATIENCE: Duration = Duration::from_secs(1);
/// A runtime that gave no answer in time is not asked again for this time.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// The longest wait for the filesystems of the layers, which may hang.
const FILESYSTEM_PATIENCE: Duration = Duration::from_millis(200);
/// The most filesystems that are looked at; a runtime has one for each of its snapshotters.
const MOST_FILESYSTEMS: usize = 16;
/// Figures that are older count as unknown.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(2);

/// A runtime that counts a container has counted it by this age.
const YOUNG: SignedDuration = SignedDuration::from_secs(20);
/// Figures of the runtime that are older give way to a walk.
const FRESH: SignedDuration = SignedDuration::from_secs(2);

/// The labels by which kubelets name a container's pod to runtimes.
const POD_UID: &str = "io.kubernetes.pod.uid";

/// The writable layers in the runtime's last report.
#[derive(Debug, Default)]
pub(super) struct Layers {
    runtime: Option<Client>,
    /// By the pod's UID and the container's name.
    known: BTreeMap<(String, String), Layer>,
    /// The runtime's names for the containers that it runs, by the same.
    running: BTreeMap<(String, String), String>,
    /// Bytes of images, and when they were counted.
    images: Option<(i64, Timestamp)>,
    problem: Option<String>,
    /// Where a runtime was looked for in vain.
    absent: Option<String>,
    /// A look at the filesystems that has not ended.
    looking: Option<Receiver<Used>>,
    paused_until: Option<Timestamp>,
}

/// Bytes that are used on the filesystems that the runtime names, by its name for them.
type Used = HashMap<String, i64>;

#[derive(Debug, Clone, Copy)]
struct Layer {
    usage: FsUsage,
    at: Timestamp,
    /// When its container was made.
    created: Option<Timestamp>,
    /// Whether its container has ended, so that it grows no more.
    ended: bool,
}

impl Layer {
    fn is_known(&self) -> bool {
        self.usage.bytes.is_some()
    }

    /// As the runtime counted it. containerd counts every 10 s: for a younger container it reports zero bytes without a
    /// time.
    fn counted(now: Timestamp, counted: Option<&FilesystemUsage>, container: &Container) -> Self {
        let reported = counted.and_then(|layer| Some((layer, layer.at?, figure(layer.bytes)?)));
        let unknown = FsUsage {
            extent: Extent::Unknown,
            ..FsUsage::default()
        };
        let (usage, at) = reported.map_or((unknown, now), |(layer, at, bytes)| {
            let at = at.min(now);
            let inodes = figure(layer.inodes).map(Figure::inodes);
            let usage = FsUsage {
                bytes: Some(Figure::bytes(bytes).measured(Source::Runtime, Some(at))),
                inodes: inodes.map(|inodes| inodes.measured(Source::Runtime, Some(at))),
                ..FsUsage::default()
            };
            (usage, at)
        });
        Self {
            usage,
            at,
            created: container.created,
            ended: container.state == ContainerState::Exited,
        }
    }
}

impl Layers {
    pub(super) fn of(runtime: Client) -> Self {
        Self {
            runtime: Some(runtime),
            ..Self::default()
        }
    }

    /// Why the layers are not known.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Why the layers of existing containers are unknown. Without containers there are no layers, and nothing is
    /// missing.
    pub(super) fn missing(&self) -> Option<String> {
        let absent = self.absent.as_ref()?;
        Some(format!(
            "writable layers of containers are unknown: {absent}"
        ))
    }

    /// Whether the layer was counted or walked.
    pub(super) fn knows(&self, place: &(String, String)) -> bool {
        self.known.get(place).is_some_and(Layer::is_known)
    }

    /// Asks the runtime; its earlier answer is kept if it does not answer.
    pub(super) async fn read(&mut self, now: Timestamp) {
        self.known
            // Old figures are better than none for a while, when a runtime is busy.
            .retain(|_, layer| now.duration_since(layer.at) < MAX_AGE);
        let Some(runtime) = &self.runtime else {
            return;
        };
        if self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        let asked = timeout(PATIENCE, async {
            tokio::try_join!(
                runtime.containers(),
                runtime.container_stats(),
                runtime.filesystems()
            )
        });
        self.absent = None;
        let problem = match asked.await {
            Ok(Ok((containers, Some(stats), filesystems))) => {
                let (possible, problem) = possible(&self.used(&stats).await, stats);
                self.known = layers(now, &containers, &possible);
                self.running = running(&containers);
                let images = filesystems.map_or_else(Vec::new, |found| found.images);
                self.images = images_of(now, &images, &possible);
                problem
            }
            Ok(Ok((_, None, _))) => Some("the container runtime does not count them".to_owned()),
            Ok(Err(error @ Error::NotThere { .. })) => {
                self.absent = Some(error.to_string());
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => {
                // Each attempt costs the patience again, which a cycle cannot spend every time.
                self.paused_until = Some(now + PAUSE);
                Some(format!(
                    "the container runtime does not answer within {PATIENCE:?}"
                ))
            }
        };
        self.problem =
            problem.map(|why| format!("writable layers of containers are unknown: {why}"));
    }

    /// The usage of the filesystems of these layers, as far as they answer.
    async fn used(&mut self, stats: &[ContainerStats]) -> Used {
        if let Some(earlier) = &mut self.looking
            && earlier.try_recv().err() == Some(TryRecvError::Empty)
        {
            return Used::new();
        }
        let layers = stats.iter().filter_map(|one| one.writable_layer.as_ref());
        let mut places: Vec<String> = layers.map(|layer| layer.mountpoint.clone()).collect();
        places.sort_unstable();
        places.dedup();
        places.retain(|place| Path::new(place).is_absolute());
        // A runtime names few filesystems. More of them would be a mistake, and each takes time.
        places.truncate(MOST_FILESYSTEMS);
        let look = move || {
            let used = |place: String| Some((used_on(&place)?, place));
            let used = places.into_iter().filter_map(used);
            used.map(|(bytes, place)| (place, bytes)).collect()
        };
        let Ok(mut looking) = Pool::of_this_process().run(look) else {
            return Used::new();
        };
        if let Ok(used) = timeout(FILESYSTEM_PATIENCE, &mut looking).await {
            return used.unwrap_or_default();
        }
        self.looking = Some(looking);
        Used::new()
    }

    /// Whether the runtime runs this container, so that it counts its layer sooner or later.
    pub(super) fn counts(&self, place: &(String, String)) -> bool {
        self.known.contains_key(place)
    }

    /// The runtime's id of this container. The API server has the id only after the kubelet has reported it.
    pub(super) fn container(&self, place: &(String, String)) -> Option<&str> {
        self.running.get(place).map(String::as_str)
    }

    /// Whether this layer was counted in the last seconds, and not before `since`.
    pub(super) fn is_fresh(
        &self,
        (now, since): (Timestamp, Timestamp),
        place: &(String, String),
    ) -> bool {
        let known = self.known.get(place).filter(|layer| layer.is_known());
        known.is_some_and(|layer| now.duration_since(layer.at) <= FRESH && layer.at >= since)
    }

    /// A layer was walked. If that was cut short, the runtime's figure is nearer to the truth.
    pub(super) fn walked(&mut self, now: Timestamp, place: (String, String), found: &Measured) {
        let known = self.known.get(&place);
        if found.truncation.is_some() && known.is_some() {
            return;
        }
        let layer = Layer {
            usage: found.figures(now),
            at: now,
            created: known.and_then(|layer| layer.created),
            ended: known.is_some_and(|layer| layer.ended),
        };
        self.known.insert(place, layer);
    }

    /// Bytes of images, and when they were counted.
    pub(super) fn images(&self) -> Option<(i64, Timestamp)> {
        self.images
    }

    /// The layers of the pod with this UID.
    pub(super) fn entries(&self, uid: &str) -> impl Iterator<Item = Entry> {
        let layers = self.known.iter().filter(move |((of, _), _)| of == uid);
        layers.filter_map(|((uid, _), layer)| {
            Some(Entry {
                uid: uid.clone(),
                kind: Kind::WritableLayers,
                device: None,
                bytes: layer.usage.bytes?.value,
                inodes: layer.usage.inodes.map(|inodes| inodes.value),
                at: layer.at,
            })
        })
    }

    /// Adds the layers of the pod with this UID, which are part of all that the pod has written (S1-070). The figure of a
    /// running container from before `since` does not say how much there is now.
    pub(super) fn add(&self, uid: &str, since: Timestamp, usage: &mut PodUsage) {
        for ((_, name), layer) in self.known.iter().filter(|((of, _), _)| of == uid) {
            let rootfs = &mut container_usage(usage, name).rootfs;
            *rootfs = layer.usage;
            if layer.at < since && !layer.ended {
                rootfs.extent = Extent::Unknown;
            }
            usage.ephemeral_storage = sum([usage.ephemeral_storage, layer.usage.bytes].into_iter());
        }
    }
}

fn figure(value: Option<u64>) -> Option<i64> {
    value.and_then(|value| i64::try_from(value).ok())
}

/// Bytes in use on the filesystem of this directory. May hang.
fn used_on(place: &str) -> Option<i64> {
    let found = statvfs(place).ok()?;
    let blocks = found.blocks().saturating_sub(found.blocks_free());
    i64::try_from(blocks.saturating_mul(found.fragment_size())).ok()
}

/// The figures without those of layers that hold more than is used on their whole filesystem, and a problem that names
/// one of these.
fn possible(used: &Used, mut stats: Vec<ContainerStats>) -> (Vec<ContainerStats>, Option<String>) {
    let mut problem = None;
    for one in &mut stats {
        let Some(layer) = &mut one.writable_layer else {
            continue;
        };
        let Some((reported, used)) = layer.bytes.zip(used.get(&layer.mountpoint)) else {
            continue;
        };
        let reported = i64::try_from(reported).unwrap_or(i64::MAX);
        // A layer cannot be larger than all that is used on its filesystem.
        if reported > *used {
            (layer.bytes, layer.inodes) = (None, None);
            problem = Some(format!(
                "the container runtime counts {} in that of container {:?} ({:?}), but only {} are used on {:?}",
                human_bytes(reported),
                one.name,
                one.id,
                human_bytes(*used),
                layer.mountpoint
            ));
        }
    }
    (stats, problem)
}

/// Runtimes count the layers of containers with the images. `None` if both were counted at different moments and do not
/// fit together.
fn images_of(
    now: Timestamp,
    images: &[FilesystemUsage],
    stats: &[ContainerStats],
) -> Option<(i64, Timestamp)> {
    let all = figure(images.first()?.bytes)?;
    let layers = stats.iter().filter_map(|one| one.writable_layer.as_ref());
    let layers = layers.filter_map(|layer| figure(layer.bytes));
    let layers = layers.fold(0, i64::saturating_add);
    // containerd reports the age of its oldest layer of an image, which never changes. The layers of containers do age.
    let counted = stats
        .iter()
        .filter_map(|one| one.writable_layer.as_ref()?.at);
    let at = counted.min().map_or(now, |at| at.min(now));
    let images = all.saturating_sub(layers);
    (images >= 0).then_some((images, at))
}

fn running(containers: &[Container]) -> BTreeMap<(String, String), String> {
    let runs = |one: &&Container| one.state == ContainerState::Running;
    let place = |one: &Container| Some((one.labels.get(POD_UID)?.clone(), one.name.clone()));
    let all = containers.iter().filter(runs);
    all.filter_map(|one| Some((place(one)?, one.id.clone())))
        .collect()
}

/// Of several containers of one name the newest counts, as for the kubelet.
fn layers(
    now: Timestamp,
    containers: &[Container],
    stats: &[ContainerStats],
) -> BTreeMap<(String, String), Layer> {
    let by_id: HashMap<&str, &ContainerStats> =
        stats.iter().map(|one| (one.id.as_str(), one)).collect();
    let mut layers: BTreeMap<(String, String), Layer> = BTreeMap::new();
    for container in containers {
        let stats = by_id.get(container.id.as_str());
        // The layer of an ended container is no longer counted. One that a runtime has not counted after a while never
        // will be.
        let young = |created: Timestamp| now.duration_since(created) < YOUNG;
        let runs = container.state == ContainerState::Running;
        if stats.is_none() && !(runs && container.created.is_some_and(young)) {
            continue;
        }
        let Some(uid) = container.labels.get(POD_UID) else {
            continue;
        };
        let counted = stats.and_then(|one| one.writable_layer.as_ref());
        let layer = Layer::counted(now, counted, container);
        if layer.ended && !layer.is_known() {
            continue;
        }
        let known = layers
            .entry((uid.clone(), container.name.clone()))
            .or_insert(layer);
        if known.created < layer.created {
            *known = layer;
        }
    }
    layers
}

#[cfg(test)]
mod tests;
