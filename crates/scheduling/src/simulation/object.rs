//! Objects of a timeline, by their kind.

use crate::change::{Change, Delta};
use evictd_manifests::Kind;
use evictd_pod::{Node, wire};
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// Kind, namespace and name of an object. The namespace of a cluster-scoped object is empty.
pub(super) type Name = (Kind, String, String);

macro_rules! kinds {
    ($($variant:ident $type:ty),* $(,)?) => {
        /// An object by its kind.
        #[derive(Debug, Clone)]
        #[allow(missing_docs, reason = "they are the kinds of the API")]
        pub enum Object {
            $($variant(Arc<$type>),)*
            /// A kind that wakes no pod, with its title where no decision needs it.
            Other(Option<String>),
        }

        impl Object {
            fn read<'de, D: Deserializer<'de>>(
                kind: &str,
                api_version: &str,
                from: D,
            ) -> Result<Self, D::Error> {
                let known = Kind::of(kind, api_version);
                match known {
                    $(Some(Kind::$variant) => Ok(Self::$variant(Arc::new(<$type>::deserialize(from)?))),)*
                    _ => {
                        serde::de::IgnoredAny::deserialize(from)?;
                        let title = || Kind::title_of_other(kind, api_version);
                        Ok(Self::Other(known.is_none().then(title)))
                    }
                }
            }

            pub(super) fn name(&self) -> Option<Name> {
                match self {
                    $(Self::$variant(object) => {
                        let (kind, metadata) = (Kind::$variant, &object.metadata);
                        Some((kind, namespace(kind, metadata), metadata.name.clone()))
                    })*
                    Self::Other(_) => None,
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
    Pod wire::Pod,
    Node Node,
    PersistentVolumeClaim wire::PersistentVolumeClaim,
    PersistentVolume wire::PersistentVolume,
    StorageClass wire::StorageClass,
    CsiNode wire::CsiNode,
    CsiDriver wire::CsiDriverObject,
    CsiStorageCapacity wire::CsiStorageCapacity,
    VolumeAttachment wire::VolumeAttachment,
    ResourceClaim wire::ResourceClaim,
    ResourceSlice wire::ResourceSlice,
    DeviceClass wire::DeviceClass,
    DeviceTaintRule wire::DeviceTaintRule,
}

fn namespace(kind: Kind, metadata: &wire::Metadata) -> String {
    if kind.is_namespaced() {
        metadata.namespace_or_default().to_owned()
    } else {
        String::new()
    }
}

impl fmt::Display for Object {
    /// `Pod shop/web`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some((kind, namespace, name)) if namespace.is_empty() => {
                write!(f, "{} {name}", kind.as_str())
            }
            Some((kind, namespace, name)) => write!(f, "{} {namespace}/{name}", kind.as_str()),
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
        let (mut kind, mut api_version) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match (key.as_str(), &kind) {
                ("kind", _) => kind = Some(map.next_value::<String>()?),
                ("apiVersion", _) => api_version = Some(map.next_value::<String>()?),
                // Without buffering, so that errors keep their position.
                (_, Some(kind)) if before.is_empty() => {
                    let rest = Resumed {
                        key: Some(key),
                        map,
                    };
                    let version = api_version.as_deref().unwrap_or_default();
                    return Object::read(kind, version, MapAccessDeserializer::new(rest));
                }
                _ => {
                    before.insert(key, map.next_value()?);
                }
            }
        }
        let kind = kind.ok_or_else(|| Error::missing_field("kind"))?;
        let version = api_version.unwrap_or_default();
        Object::read(&kind, &version, Value::Object(before)).map_err(Error::custom)
    }
}

/// The entries from one on whose key was read already.
struct Resumed<A> {
    key: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Resumed<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.key.take() {
            Some(key) => {
                let key: StringDeserializer<A::Error> = key.into_deserializer();
                seed.deserialize(key).map(Some)
            }
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
