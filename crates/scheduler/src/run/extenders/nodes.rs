//! Whole nodes, for extenders without a cache of the cluster.

use evictd_cluster_client::{Access, ByKey, Key, Keyed, Reflector, Retry, Store, Watches};
use evictd_pod::wire;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The nodes as the API server sends them, by name. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Nodes(Arc<Mutex<HashMap<String, Arc<RawValue>>>>);

/// A node with its JSON.
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

/// The version of a known node.
pub(super) struct Known {
    name: String,
    version: String,
}

impl Keyed for Known {
    fn key(&self) -> Key<'_> {
        ["", &self.name]
    }
}

impl Nodes {
    /// Must be called inside the runtime.
    pub(super) fn follow(access: &Access, watches: &Watches) -> Self {
        let nodes = Self::default();
        let reflector = Reflector::new("/api/v1/nodes", nodes.clone(), watches.budget());
        let (access, watches) = (access.clone(), watches.clone());
        tokio::spawn(async move {
            let fields = String::new();
            reflector.run(fields, access, &watches, Retry::soon()).await;
        });
        nodes
    }

    /// The known nodes of these names.
    pub(super) fn of(&self, names: &[Arc<str>]) -> Vec<Arc<RawValue>> {
        let known = self.lock();
        let nodes = names.iter().filter_map(|name| known.get(&**name));
        nodes.map(Arc::clone).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<RawValue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Nodes {
    type Object = Whole;
    type Kept = Known;
    type Table = ByKey<Known>;

    fn key(node: &Whole) -> Key<'_> {
        ["", &node.name]
    }

    fn version(node: &Whole) -> &str {
        &node.version
    }

    fn has_version(known: &Known, version: &str) -> bool {
        known.version == version
    }

    /// A node that was created again replaces the old one, so that its UID does not matter.
    fn has_uid(_: &Known, _: &str) -> bool {
        true
    }

    fn applied(&mut self, _: Option<Known>, node: Whole) -> Known {
        self.lock().insert(node.name.clone(), node.text);
        Known {
            name: node.name,
            version: node.version,
        }
    }

    fn gone(&mut self, known: Known, _: Option<Whole>) {
        self.lock().remove(&known.name);
    }

    fn up_to_date(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cluster_client::{Budget, Follow, parse};

    #[test]
    fn a_node_that_is_deleted_while_the_list_is_streamed_does_not_stay() {
        let nodes = Nodes::default();
        let mut reflector = Reflector::new("/api/v1/nodes", nodes.clone(), &Budget::default());
        let node = |version: u32| {
            let text =
                format!(r#"{{"metadata": {{"name": "a", "resourceVersion": "{version}"}}}}"#);
            parse::<Whole>(&text)
        };
        reflector.begin();
        reflector.applied(node(1), 0);
        reflector.deleted(node(2));
        reflector.up_to_date();
        assert_eq!(nodes.of(&["a".into()]).len(), 0);
    }
}
