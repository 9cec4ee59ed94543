//! Containers and images through CRI.

use super::{Answer, Runtime, uses::UsesFile};
use evictd_cri::{Client, ContainerState, Error};
use evictd_eviction::reclaim::{Container, Image, Inventory, Removal, Sandbox};
use evictd_kernel::clock::Clock;
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
pub struct CriRuntime {
    client: Client,
    clock: Clock,
    uses: UsesFile,
    /// When each exited container ended. It does not change, so it is asked once.
    ended: Mutex<HashMap<String, Option<Timestamp>>>,
}

impl CriRuntime {
    /// Through this client; since when images are here, and their last use, is kept in this directory.
    pub fn new(client: Client, runtime_directory: PathBuf, clock: Clock) -> Self {
        Self {
            client,
            clock,
            uses: UsesFile::open(runtime_directory),
            ended: Mutex::default(),
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
            let named = |text: &String| Inventory::is_named(&image, text);
            Image {
                of_sandboxes: sandbox_image.as_ref().is_some_and(named) || looks_like_pause(&image),
                ..image
            }
        });
        Ok(Inventory {
            containers: containers.collect(),
            sandboxes: of_pods.collect(),
            images: of_images.collect(),
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
