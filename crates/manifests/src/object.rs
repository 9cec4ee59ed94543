//! The kinds of objects that decide where pods run.

use crate::manifest::PodManifest;
use crate::wire::{LimitRange, ResourceClaimTemplate, RuntimeClass};
use evictd_pod::Node;
use evictd_pod::wire::{self, Metadata};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Uses the type of a kind that is known at run time only.
pub trait KindVisitor {
    /// The result.
    type Output;

    /// Uses the type.
    fn visit<T: DeserializeOwned>(self) -> Self::Output;
}

macro_rules! kinds {
    ($($variant:ident $group:literal $name:literal $is_namespaced:literal $type:ty;)*) => {
        /// A kind of the API that is read; others do not decide where pods run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "they are the kinds of the API")]
        pub enum Kind {
            $($variant,)*
        }

        /// An object of such a kind.
        #[derive(Debug, Clone)]
        #[allow(missing_docs, reason = "they are the kinds of the API")]
        pub enum Object {
            $($variant(Box<$type>),)*
        }

        impl Kind {
            /// The kind of that name in any version of its group. Without an `apiVersion` the name decides.
            pub fn of(name: &str, api_version: &str) -> Option<Self> {
                let group = group_of(api_version);
                match name {
                    $($name if group.is_none_or(|group| group == $group) => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name in the API.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Whether its objects are in namespaces.
            pub const fn is_namespaced(self) -> bool {
                match self {
                    $(Self::$variant => $is_namespaced,)*
                }
            }

            /// Calls the visitor with the type of its objects.
            pub fn visit<V: KindVisitor>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$variant => visitor.visit::<$type>(),)*
                }
            }

            /// Reads an object of this kind from a value.
            ///
            /// # Errors
            /// If a field has a wrong type.
            pub fn read_value(self, value: &Value) -> Result<Object, serde_json::Error> {
                if self == Self::Pod {
                    return Ok(Object::Pod(Box::new(PodManifest::from_value(value)?)));
                }
                Ok(match self {
                    $(Self::$variant => Object::$variant(Box::new(<$type>::deserialize(value)?)),)*
                })
            }

            /// Reads the JSON of an object of this kind.
            ///
            /// # Errors
            /// If it is not JSON, or a field has a wrong type.
            pub fn read(self, text: &[u8]) -> Result<Object, serde_json::Error> {
                let mut object = match self {
                    $(Self::$variant => Object::$variant(serde_json::from_slice(text)?),)*
                };
                if let Object::Pod(pod) = &mut object {
                    pod.read_admission_fields(text)?;
                }
                Ok(object)
            }
        }

        impl Object {
            /// Its kind.
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Self::$variant(_) => Kind::$variant,)*
                }
            }

            /// Its metadata.
            pub fn metadata(&self) -> &Metadata {
                match self {
                    $(Self::$variant(object) => object.as_ref().metadata(),)*
                }
            }
        }
    };
}

/// Kinds may share a type, for which one implementation is enough.
trait HasMetadata {
    fn metadata(&self) -> &Metadata;
}

macro_rules! has_metadata {
    ($($type:ty)*) => {$(
        impl HasMetadata for $type {
            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }
    )*};
}

kinds! {
    Node "" "Node" false Node;
    Namespace "" "Namespace" false wire::Namespace;
    Pod "" "Pod" true PodManifest;
    PodDisruptionBudget "policy" "PodDisruptionBudget" true wire::PodDisruptionBudget;
    PriorityClass "scheduling.k8s.io" "PriorityClass" false wire::PriorityClass;
    PodGroup "scheduling.k8s.io" "PodGroup" true wire::PodGroup;
    PersistentVolumeClaim "" "PersistentVolumeClaim" true wire::PersistentVolumeClaim;
    PersistentVolume "" "PersistentVolume" false wire::PersistentVolume;
    StorageClass "storage.k8s.io" "StorageClass" false wire::StorageClass;
    CsiNode "storage.k8s.io" "CSINode" false wire::CsiNode;
    VolumeAttachment "storage.k8s.io" "VolumeAttachment" false wire::VolumeAttachment;
    CsiDriver "storage.k8s.io" "CSIDriver" false wire::CsiDriverObject;
    CsiStorageCapacity "storage.k8s.io" "CSIStorageCapacity" true wire::CsiStorageCapacity;
    Service "" "Service" true wire::Service;
    ReplicationController "" "ReplicationController" true wire::Service;
    ReplicaSet "apps" "ReplicaSet" true wire::Workload;
    StatefulSet "apps" "StatefulSet" true wire::Workload;
    ResourceClaim "resource.k8s.io" "ResourceClaim" true wire::ResourceClaim;
    ResourceSlice "resource.k8s.io" "ResourceSlice" false wire::ResourceSlice;
    DeviceClass "resource.k8s.io" "DeviceClass" false wire::DeviceClass;
    ResourceClaimTemplate "resource.k8s.io" "ResourceClaimTemplate" true ResourceClaimTemplate;
    RuntimeClass "node.k8s.io" "RuntimeClass" false RuntimeClass;
    LimitRange "" "LimitRange" true LimitRange;
}

has_metadata! {
    Node wire::Namespace wire::PodDisruptionBudget wire::PriorityClass wire::PodGroup
    wire::PersistentVolumeClaim wire::PersistentVolume wire::StorageClass wire::CsiNode
    wire::VolumeAttachment wire::CsiDriverObject wire::CsiStorageCapacity wire::Service wire::Workload
    wire::ResourceClaim wire::ResourceSlice wire::DeviceClass ResourceClaimTemplate RuntimeClass LimitRange
}

impl HasMetadata for PodManifest {
    fn metadata(&self) -> &Metadata {
        &self.pod.metadata
    }
}

impl Kind {
    /// Whether its objects have pod templates, too.
    pub const fn may_be_a_workload(self) -> bool {
        matches!(
            self,
            Self::ReplicaSet | Self::StatefulSet | Self::ReplicationController
        )
    }

    /// The title of objects of another kind in messages: the kind, with its group where a kind that is read has that name.
    pub fn title_of_other(name: &str, api_version: &str) -> String {
        match (Self::of(name, ""), group_of(api_version)) {
            (Some(_), Some(group)) => format!("{name} of {group}"),
            _ => name.to_owned(),
        }
    }
}

/// The group; `None` without a version. The group of `v1` is empty; the kinds of `extensions` are now in `apps`.
pub(crate) fn group_of(api_version: &str) -> Option<&str> {
    let group = match api_version.split_once('/') {
        Some((group, _)) => group,
        None if api_version.is_empty() => return None,
        None => "",
    };
    Some(if group == "extensions" { "apps" } else { group })
}

impl std::fmt::Display for Object {
    /// `Pod shop/web`, `Node n1`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, metadata) = (self.kind(), self.metadata());
        if kind.is_namespaced() {
            write!(f, "{} {}", kind.as_str(), metadata.full_name())
        } else {
            write!(f, "{} {}", kind.as_str(), metadata.name)
        }
    }
}
