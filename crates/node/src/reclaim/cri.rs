//! Containers and images through CRI.

use super::{Answer, Places, Runtime, uses::UsesFile};
use crate::runtime::ContentStore;
use evictd_cri::{Client, ContainerState, ContainerStats, Error, FilesystemUsage};
use evictd_kernel::clock::Clock;
use evictd_reclaim::{Container, Image, Inventory, Removal, Sandbox, Size};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// The label of a container that has the UID of its pod.
const POD_UID: &str = "io.kubernetes.pod.uid";

/// The container runtime of this node.
#[derive(Debug)]
pub(crate) struct CriRuntime {
    client: Client,
    clock: Clock,
    uses: UsesFile,
    /// When each exited container ended. It does not change, so it is asked once.
    ended: Mutex<HashMap<String, Option<Timestamp>>>,
    content: ContentStore,
}

impl CriRuntime {
    /// Through this client; since when images are here, and their last use, is kept in this directory.
    pub(crate) fn new(client: Client, runtime_directory: PathBuf, clock: Clock) -> Self {
        Self {
            client,
            clock,
            uses: UsesFile::open(runtime_directory),
            ended: Mutex::default(),
            content: ContentStore::default(),
        }
    }

    async fn inventory(&self) -> Result<Inventory, Error> {
        let info = match self.client.info().await {
            Err(Error::Runtime { .. }) => BTreeMap::new(),
            answer => answer?,
        };
        let sandbox_image = sandbox_image(&info);
        // Containers last: one that began to use an image since the images were listed counts.
        let images = self.client.images().await?;
        let sandboxes = self.client.sandboxes().await?;
        let containers = self.client.containers().await?;
        let pods: HashMap<&str, &str> = sandboxes
            .iter()
            .map(|one| (one.id.as_str(), one.pod.uid.as_str()))
            .collect();
        let ended = self.ended(&containers).await?;
        // Without sizes it can still be listed.
        let stats = self.client.container_stats().await.ok().flatten();
        let stats = stats.unwrap_or_default();
        let layers: HashMap<&str, Size> = stats
            .iter()
            .filter_map(|one| Some((one.id.as_str(), layer_of(one)?)))
            .collect();
        let containers = containers.iter().map(|one| {
            let label = one.labels.get(POD_UID).map(String::as_str);
            let pod = pods.get(one.sandbox.as_str()).copied().or(label);
            let exited = one.state == ContainerState::Exited;
            let image = [&one.image, &one.image_ref, &one.image_id];
            Container {
                id: one.id.clone(),
                sandbox: one.sandbox.clone(),
                pod: pod.unwrap_or_default().to_owned(),
                name: one.name.clone(),
                exited,
                ended: ended.get(&one.id).copied().flatten().or(one.created),
                image: image
                    .into_iter()
                    .filter(|text| !text.is_empty())
                    .cloned()
                    .collect(),
                layer: layers.get(one.id.as_str()).copied(),
            }
        });
        let of_pods = sandboxes.iter().map(|one| Sandbox {
            id: one.id.clone(),
            pod: one.pod.uid.clone(),
            ready: one.ready,
            created: one.created,
        });
        let of_images = images.into_iter().map(|one| {
            let names = one.tags.into_iter().chain(one.digests).collect();
            let image = Image {
                id: one.id,
                names,
                bytes: one.bytes,
                pinned: one.pinned,
                ..Image::default()
            };
            let is_image = |text: &String| Inventory::is_named(&image, text);
            Image {
                of_sandboxes: sandbox_image.as_ref().is_some_and(is_image)
                    || looks_like_pause(&image),
                ..image
            }
        });
        let all_layers = layers.values().map(|layer| layer.bytes);
        let all_layers = all_layers.fold(0_i64, i64::saturating_add);
        Ok(Inventory {
            images_on_disk: self.images_on_disk(all_layers).await,
            containers: containers.collect(),
            sandboxes: of_pods.collect(),
            images: of_images.collect(),
        })
    }

    /// The disk usage of images. The runtime counts the layers of containers with the unpacked images. `None` too where
    /// the compressed ones cannot be counted.
    async fn images_on_disk(&self, layers: i64) -> Option<Size> {
        let filesystems = self.client.filesystems().await.ok().flatten()?;
        let places = Places::of(&filesystems)?;
        let unpacked = counted(filesystems.images.first()?)?;
        let compressed = self.content.measure(&places.images).await?;
        let bytes = unpacked.bytes.saturating_sub(layers);
        (bytes >= 0).then(|| Size {
            bytes: bytes.saturating_add(compressed.bytes),
            inodes: unpacked
                .inodes
                .zip(compressed.inodes)
                .map(|(a, b)| a.saturating_add(b)),
        })
    }

    /// When each exited container ended.
    async fn ended(
        &self,
        containers: &[evictd_cri::Container],
    ) -> Result<HashMap<String, Option<Timestamp>>, Error> {
        let known = || self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *known());
        let mut ended = HashMap::new();
        for one in containers {
            if one.state != ContainerState::Exited {
                continue;
            }
            // The time of an end does not change, and asking for it is a call for each container.
            let time = match before.remove(&one.id) {
                Some(time) => time,
                None => self
                    .client
                    .container(&one.id)
                    .await?
                    .and_then(|status| status.finished),
            };
            ended.insert(one.id.clone(), time);
        }
        known().clone_from(&ended);
        Ok(ended)
    }
}

impl Runtime for CriRuntime {
    fn list(&self) -> Answer<'_, Inventory> {
        Box::pin(async {
            let listed = self.inventory().await;
            let mut inventory = listed.map_err(|error| error.to_string())?;
            self.uses.note(self.clock.now(), &mut inventory).await;
            Ok(inventory)
        })
    }

    fn places(&self) -> Answer<'_, Option<Places>> {
        Box::pin(async {
            let filesystems = self.client.filesystems().await;
            let filesystems = filesystems.map_err(|error| error.to_string())?;
            Ok(filesystems.as_ref().and_then(Places::of))
        })
    }

    fn remove<'a>(&'a self, removal: &'a Removal) -> Answer<'a, ()> {
        Box::pin(async move {
            let removed = match removal {
                Removal::Container { id, .. } => self.client.remove_container(id).await,
                Removal::Sandbox { id } => self.client.remove_sandbox(id).await,
                Removal::Image { id, .. } => self.client.remove_image(id).await,
            };
            removed.map_err(|error| error.to_string())
        })
    }
}

/// The usage that a runtime has counted; `None` if it has not yet: containerd answers zero without a time until then.
fn counted(usage: &FilesystemUsage) -> Option<Size> {
    usage.at?;
    Some(Size {
        bytes: i64::try_from(usage.bytes?).ok()?,
        inodes: usage.inodes.and_then(|inodes| i64::try_from(inodes).ok()),
    })
}

fn layer_of(stats: &ContainerStats) -> Option<Size> {
    counted(stats.writable_layer.as_ref()?)
}

/// The image that sandboxes are made of, from containerd's own configuration. Later versions pin it instead.
fn sandbox_image(info: &BTreeMap<String, String>) -> Option<String> {
    let config: Value = serde_json::from_str(info.get("config")?).ok()?;
    Some(config["sandboxImage"].as_str()?.to_owned())
}

/// Kubernetes' own image for sandboxes, `registry.k8s.io/pause:3.9`, for runtimes that neither pin nor name it.
fn looks_like_pause(image: &Image) -> bool {
    image.names.iter().any(|name| {
        let last = name.rsplit('/').next().unwrap_or_default();
        last.split([':', '@']).next() == Some("pause")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cri::Settings;
    use evictd_testkit::cri::{Behaviour, Double, State, wire};
    use std::path::Path;

    const ENDED: i64 = 7_000_000_000;

    fn image(id: &str, tag: &str) -> wire::Image {
        wire::Image {
            id: id.to_owned(),
            repo_tags: vec![tag.to_owned()],
            size: 5,
            pinned: id == "sha256:pinned",
            ..wire::Image::default()
        }
    }

    fn container(id: &str, state: i32, image: &str) -> wire::Container {
        wire::Container {
            id: id.to_owned(),
            sandbox_id: "box".to_owned(),
            image: Some(wire::ImageSpec {
                image: image.to_owned(),
            }),
            state,
            created_at: 3_000_000_000,
            ..wire::Container::default()
        }
    }

    fn state() -> State {
        let metadata = Some(wire::SandboxMetadata {
            uid: "web".to_owned(),
            ..wire::SandboxMetadata::default()
        });
        let mut elsewhere = container("elsewhere", 2, "x");
        elsewhere.sandbox_id = "gone".to_owned();
        let label = (POD_UID.to_owned(), "job".to_owned());
        elsewhere.labels = [label].into();
        let config = r#"{"sandboxImage": "team.test/sandbox:1"}"#;
        State {
            info: [("config".to_owned(), config.to_owned())].into(),
            sandboxes: vec![wire::Sandbox {
                id: "box".to_owned(),
                metadata,
                ..wire::Sandbox::default()
            }],
            containers: vec![
                container("created", 0, "x"),
                container("running", 1, "sha256:used"),
                container("exited", 2, "x"),
                elsewhere,
            ],
            statuses: vec![wire::ContainerStatus {
                id: "exited".to_owned(),
                finished_at: ENDED,
                ..wire::ContainerStatus::default()
            }],
            images: vec![
                image("sha256:used", "team.test/app:1"),
                image("sha256:pinned", "team.test/pinned:1"),
                image("sha256:own", "team.test/sandbox:1"),
                image("sha256:usual", "mirror.test/k8s/pause:3.9"),
                image("sha256:other", "team.test/pause-player:1"),
            ],
            ..State::default()
        }
    }

    fn runtime(double: &Double, directory: &Path) -> CriRuntime {
        let client = Client::new(Settings {
            endpoint: Some(double.socket().display().to_string()),
            ..Settings::default()
        });
        CriRuntime::new(client.unwrap(), directory.to_owned(), Clock::start())
    }

    #[tokio::test]
    async fn the_inventory_has_ends_last_uses_and_sandbox_images() {
        let place = tempfile::tempdir().unwrap();
        let double = Double::start(state()).unwrap();
        let runtime = runtime(&double, place.path());
        let listed = runtime.list().await.unwrap();
        let containers: Vec<_> = listed
            .containers
            .iter()
            .map(|one| {
                (
                    &*one.id,
                    &*one.pod,
                    one.exited,
                    one.ended.unwrap().as_second(),
                )
            })
            .collect();
        let expected = [
            ("created", "web", false, 3),
            ("running", "web", false, 3),
            ("exited", "web", true, 7),
            ("elsewhere", "job", true, 3),
        ];
        assert_eq!(containers, expected);
        assert!(listed.sandboxes[0].ready);
        let images: Vec<_> = listed
            .images
            .iter()
            .map(|one| (&*one.id, one.pinned, one.of_sandboxes))
            .collect();
        let expected = [
            ("sha256:used", false, false),
            ("sha256:pinned", true, false),
            ("sha256:own", false, true),
            ("sha256:usual", false, true),
            ("sha256:other", false, false),
        ];
        assert_eq!(images, expected);
        let asked = double.calls("ContainerStatus");
        runtime.list().await.unwrap();
        assert_eq!(
            double.calls("ContainerStatus"),
            asked,
            "an end does not change"
        );
    }

    #[tokio::test]
    async fn the_last_use_of_images_outlives_a_restart() {
        let place = tempfile::tempdir().unwrap();
        let double = Double::start(state()).unwrap();
        let first = runtime(&double, place.path()).list().await.unwrap();
        let kept = std::fs::read_to_string(place.path().join("images.json")).unwrap();
        assert!(kept.contains("sha256:other"), "{kept}");
        let again = runtime(&double, place.path()).list().await.unwrap();
        let other = |listed: &Inventory| listed.images[4].last_used;
        assert_eq!(other(&again), other(&first));
        assert!(again.images[0].last_used > first.images[0].last_used);
        std::fs::write(place.path().join("images.json"), "{torn").unwrap();
        let anew = runtime(&double, place.path()).list().await.unwrap();
        assert!(other(&anew) > other(&first));
    }

    #[tokio::test]
    async fn removals_are_carried_out_and_refusals_say_why() {
        let place = tempfile::tempdir().unwrap();
        let double = Double::start(state()).unwrap();
        let runtime = runtime(&double, place.path());
        let removal = Removal::Image {
            id: "sha256:other".to_owned(),
            name: "team.test/pause-player:1".to_owned(),
            bytes: 5,
        };
        double.behave("RemoveImage", Behaviour::Refuse(9, "it is in use"));
        let why = runtime.remove(&removal).await.unwrap_err();
        assert!(
            why.contains("RemoveImage") && why.contains("it is in use"),
            "{why}"
        );
        double.recover("RemoveImage");
        runtime.remove(&removal).await.unwrap();
        let exited = Removal::Container {
            id: "exited".to_owned(),
            name: "main".to_owned(),
            bytes: None,
        };
        runtime.remove(&exited).await.unwrap();
        let sandbox = Removal::Sandbox {
            id: "box".to_owned(),
        };
        runtime.remove(&sandbox).await.unwrap();
        let left = runtime.list().await.unwrap();
        let counts = (
            left.images.len(),
            left.containers.len(),
            left.sandboxes.len(),
        );
        assert_eq!(counts, (4, 1, 0));
    }

    #[tokio::test]
    async fn sizes_are_those_on_disk_and_uncounted_ones_are_unknown() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        let blobs = root.join("io.containerd.content.v1.content/blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        std::fs::write(blobs.join("a"), vec![1; 1 << 20]).unwrap();
        let mountpoint = root.join("io.containerd.snapshotter.v1.overlayfs");
        let usage = |timestamp, bytes| wire::FilesystemUsage {
            timestamp,
            identifier: Some(wire::FilesystemIdentifier {
                mountpoint: mountpoint.display().to_string(),
            }),
            used_bytes: Some(wire::Count { value: bytes }),
            inodes_used: Some(wire::Count { value: 9 }),
        };
        let stats = |id: &str, layer| wire::ContainerStats {
            attributes: Some(wire::ContainerAttributes {
                id: id.to_owned(),
                ..wire::ContainerAttributes::default()
            }),
            writable_layer: Some(layer),
            ..wire::ContainerStats::default()
        };
        let told = State {
            container_stats: vec![
                stats("running", usage(1, 3 << 20)),
                // containerd has not looked at it yet.
                stats("exited", usage(0, 0)),
            ],
            filesystems: wire::ImageFsInfo {
                images: vec![usage(1, 10 << 20)],
                ..wire::ImageFsInfo::default()
            },
            ..state()
        };
        let double = Double::start(told).unwrap();
        let runtime = runtime(&double, place.path());
        let listed = runtime.list().await.unwrap();
        let images = listed.images_on_disk.unwrap();
        assert!((8 << 20..9 << 20).contains(&images.bytes), "{images:?}");
        let layer = |id: &str| {
            listed
                .containers
                .iter()
                .find(|one| one.id == id)
                .unwrap()
                .layer
        };
        assert_eq!(layer("running").map(|size| size.bytes), Some(3 << 20));
        assert_eq!(layer("exited"), None);
        let places = runtime.places().await.unwrap().unwrap();
        assert_eq!(places.layers, mountpoint);
        double.change(|state| state.filesystems.images[0].timestamp = 0);
        assert_eq!(runtime.list().await.unwrap().images_on_disk, None);
    }
}
