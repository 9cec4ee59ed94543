//! Whole nodes, for extenders that keep none themselves.

use evictd_cluster_client::{Access, Backoff, Follow, Parsed, Watch, chance};
use evictd_pod::wire;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::warn;

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The nodes as the API server tells them, by name. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Nodes(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    nodes: HashMap<String, Arc<RawValue>>,
    /// During a list: what is part of it.
    listing: Option<HashMap<String, Arc<RawValue>>>,
}

/// A node and what stands in it.
pub(super) struct Whole {
    name: String,
    version: String,
    text: Arc<RawValue>,
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            metadata: wire::Metadata,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Named { metadata } =
            serde_json::from_str(text.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            name: metadata.name,
            version: metadata.resource_version.into(),
            text: text.into(),
        })
    }
}

impl Nodes {
    /// Begins to follow them. Must be called inside the runtime.
    pub(super) fn follow(access: &Access) -> Self {
        let nodes = Self::default();
        tokio::spawn(run(access.clone(), nodes.clone()));
        nodes
    }

    /// Those of these names that are known.
    pub(super) fn of(&self, names: &[Arc<str>]) -> Vec<Arc<RawValue>> {
        let known = self.lock();
        let nodes = names.iter().filter_map(|name| known.nodes.get(&**name));
        nodes.map(Arc::clone).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(access: Access, mut nodes: Nodes) {
    let mut backoff = Backoff::new(Duration::from_millis(250), LONGEST_PAUSE);
    let mut watch = Watch::new("/api/v1/nodes", String::new());
    // Until nobody else needs them any more.
    while Arc::strong_count(&nodes.0) > 1 {
        let lifetime = Duration::from_mins(5).mul_f64(1.0 + chance());
        let followed = match access.watch_client() {
            Ok(client) => watch
                .follow(&client, lifetime, &mut nodes)
                .await
                .map_err(|error| error.problem.clone()),
            Err(error) => Err(error.to_string()),
        };
        match followed {
            Ok(()) => backoff.reset(),
            Err(problem) => {
                warn!("cannot watch nodes for the extenders: {problem}");
                tokio::time::sleep(backoff.next(chance())).await;
            }
        }
    }
}

impl Follow for Nodes {
    type Object = Whole;

    fn version(object: &Whole) -> &str {
        &object.version
    }

    fn begin(&mut self) {
        self.lock().listing = Some(HashMap::new());
    }

    fn applied(&mut self, object: Parsed<'_, Whole>) {
        // The watch of the scheduler itself tells of one that cannot be read.
        if let Ok(node) = object {
            let mut known = self.lock();
            let known = &mut *known;
            let nodes = known.listing.as_mut().unwrap_or(&mut known.nodes);
            nodes.insert(node.name, node.text);
        }
    }

    fn deleted(&mut self, object: Parsed<'_, Whole>) {
        if let Ok(node) = object {
            self.lock().nodes.remove(&node.name);
        }
    }

    fn up_to_date(&mut self) {
        let mut known = self.lock();
        if let Some(listed) = known.listing.take() {
            known.nodes = listed;
        }
    }
}
