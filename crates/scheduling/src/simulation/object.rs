//! Objects of a timeline, by their kind.

use crate::change::{Change, Delta};
use evictd_pod::{Node, wire};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// Kind, namespace and name of an object. The namespace of a cluster-scoped object is empty.
pub(super) type Name = (&'static str, String, String);

macro_rules! kinds {
    ($($kind:literal $variant:ident $type:ty),* $(,)?) => {
        /// An object by its kind.
        #[derive(Debug, Clone)]
        #[allow(missing_docs, reason = "they are the kinds of the API")]
        pub enum Object {
            $($variant(Arc<$type>),)*
            /// A kind that wakes no pod.
            Other,
        }

        impl Object {
            fn read<'de, D: Deserializer<'de>>(kind: &str, from: D) -> Result<Self, D::Error> {
                match kind {
                    $($kind => Ok(Self::$variant(Arc::new(<$type>::deserialize(from)?))),)*
                    _ => {
                        serde::de::IgnoredAny::deserialize(from)?;
                        Ok(Self::Other)
                    }
                }
            }

            pub(super) fn name(&self) -> Option<Name> {
                match self {
                    $(Self::$variant(object) => {
                        let metadata = &object.metadata;
                        Some(($kind, namespace($kind, metadata), metadata.name.clone()))
                    })*
                    Self::Other => None,
                }
            }

            /// The change from one to the other; `None` if the kinds differ or wake no pod.
            pub(super) fn change(old: Option<Self>, new: Option<Self>) -> Option<Change> {
                match (old, new) {
                    $((Some(Self::$variant(old)), Some(Self::$variant(new))) => {
                        Some(Change::$variant(Delta { old: Some(old), new: Some(new) }))
                    }
                    (Some(Self::$variant(old)), None) => {
                        Some(Change::$variant(Delta { old: Some(old), new: None }))
                    }
                    (None, Some(Self::$variant(new))) => {
                        Some(Change::$variant(Delta { old: None, new: Some(new) }))
                    })*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    "Pod" Pod wire::Pod,
    "Node" Node Node,
    "PersistentVolumeClaim" PersistentVolumeClaim wire::PersistentVolumeClaim,
    "PersistentVolume" PersistentVolume wire::PersistentVolume,
    "StorageClass" StorageClass wire::StorageClass,
    "CSINode" CsiNode wire::CsiNode,
    "CSIDriver" CsiDriver wire::CsiDriverObject,
    "CSIStorageCapacity" CsiStorageCapacity wire::CsiStorageCapacity,
    "VolumeAttachment" VolumeAttachment wire::VolumeAttachment,
    "ResourceClaim" ResourceClaim wire::ResourceClaim,
    "ResourceSlice" ResourceSlice wire::ResourceSlice,
    "DeviceClass" DeviceClass wire::DeviceClass,
}

fn namespace(kind: &str, metadata: &wire::Metadata) -> String {
    match kind {
        "Pod" | "PersistentVolumeClaim" | "CSIStorageCapacity" | "ResourceClaim" => {
            metadata.namespace_or_default().to_owned()
        }
        _ => String::new(),
    }
}

impl fmt::Display for Object {
    /// `Pod shop/web`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some((kind, namespace, name)) if namespace.is_empty() => write!(f, "{kind} {name}"),
            Some((kind, namespace, name)) => write!(f, "{kind} {namespace}/{name}"),
            None => f.write_str("an object of another kind"),
        }
    }
}

impl<'de> Deserialize<'de> for Object {
    /// If `kind` comes first, apart from `apiVersion`, as kubectl prints it, an error has its exact position in the file. Otherwise
    /// it has the position of the object.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByKind)
    }
}

struct ByKind;

impl<'de> Visitor<'de> for ByKind {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object with its kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut before = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key != "kind" {
                before.insert(key, map.next_value()?);
                continue;
            }
            let kind: String = map.next_value()?;
            // Without buffering, so that errors keep their position.
            if before.keys().all(|key| key == "apiVersion") {
                return Object::read(&kind, MapAccessDeserializer::new(map));
            }
            before.extend(Map::deserialize(MapAccessDeserializer::new(map))?);
            return Object::read(&kind, Value::Object(before)).map_err(A::Error::custom);
        }
        Err(A::Error::missing_field("kind"))
    }
}
