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
    ($($variant:ident $group:literal $name:literal $resource:literal $is_namespaced:literal $type:ty;)*) => {
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
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

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

            /// Its name in paths: `pods`.
            pub const fn resource(self) -> &'static str {
                match self {
                    $(Self::$variant => $resource,)*
                }
            }

            /// Its group in the API; empty for `v1`.
            pub const fn group(self) -> &'static str {
                match self {
                    $(Self::$variant => $group,)*
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
    Node "" "Node" "nodes" false Node;
    Namespace "" "Namespace" "namespaces" false wire::Namespace;
    Pod "" "Pod" "pods" true PodManifest;
    PodDisruptionBudget "policy" "PodDisruptionBudget" "poddisruptionbudgets" true wire::PodDisruptionBudget;
    PriorityClass "scheduling.k8s.io" "PriorityClass" "priorityclasses" false wire::PriorityClass;
    PodGroup "scheduling.k8s.io" "PodGroup" "podgroups" true wire::PodGroup;
    CompositePodGroup "scheduling.k8s.io" "CompositePodGroup" "compositepodgroups" true wire::CompositePodGroup;
    PersistentVolumeClaim "" "PersistentVolumeClaim" "persistentvolumeclaims" true wire::PersistentVolumeClaim;
    PersistentVolume "" "PersistentVolume" "persistentvolumes" false wire::PersistentVolume;
    StorageClass "storage.k8s.io" "StorageClass" "storageclasses" false wire::StorageClass;
    CsiNode "storage.k8s.io" "CSINode" "csinodes" false wire::CsiNode;
    VolumeAttachment "storage.k8s.io" "VolumeAttachment" "volumeattachments" false wire::VolumeAttachment;
    CsiDriver "storage.k8s.io" "CSIDriver" "csidrivers" false wire::CsiDriverObject;
    CsiStorageCapacity "storage.k8s.io" "CSIStorageCapacity" "csistoragecapacities" true wire::CsiStorageCapacity;
    Service "" "Service" "services" true wire::Service;
    ReplicationController "" "ReplicationController" "replicationcontrollers" true wire::Service;
    ReplicaSet "apps" "ReplicaSet" "replicasets" true wire::Workload;
    StatefulSet "apps" "StatefulSet" "statefulsets" true wire::Workload;
    ResourceClaim "resource.k8s.io" "ResourceClaim" "resourceclaims" true wire::ResourceClaim;
    ResourceSlice "resource.k8s.io" "ResourceSlice" "resourceslices" false wire::ResourceSlice;
    DeviceClass "resource.k8s.io" "DeviceClass" "deviceclasses" false wire::DeviceClass;
    DeviceTaintRule "resource.k8s.io" "DeviceTaintRule" "devicetaintrules" false wire::DeviceTaintRule;
    ResourceClaimTemplate "resource.k8s.io" "ResourceClaimTemplate" "resourceclaimtemplates" true ResourceClaimTemplate;
    RuntimeClass "node.k8s.io" "RuntimeClass" "runtimeclasses" false RuntimeClass;
    LimitRange "" "LimitRange" "limitranges" true LimitRange;
}

has_metadata! {
    Node wire::Namespace wire::PodDisruptionBudget wire::PriorityClass wire::PodGroup wire::CompositePodGroup
    wire::PersistentVolumeClaim wire::PersistentVolume wire::StorageClass wire::CsiNode
    wire::VolumeAttachment wire::CsiDriverObject wire::CsiStorageCapacity wire::Service wire::Workload
    wire::ResourceClaim wire::ResourceSlice wire::DeviceClass wire::DeviceTaintRule ResourceClaimTemplate RuntimeClass LimitRange
}

impl HasMetadata for PodManifest {
    fn metadata(&self) -> &Metadata {
        &self.pod.metadata
    }
}

impl Kind {
    /// The order in which a cluster's lists are read: pods refer to all the others, so that they come last.
    pub fn in_order_of_use() -> impl Iterator<Item = Self> {
        let others = Self::ALL.iter().filter(|kind| **kind != Self::Pod);
        others.chain(&[Self::Pod]).copied()
    }

    /// Its name on the command line of kubectl, also where a custom resource has the same one: `pods`,
    /// `podgroups.scheduling.k8s.io`.
    pub fn full_resource(self) -> String {
        match self.group() {
            "" => self.resource().to_owned(),
            group => format!("{}.{group}", self.resource()),
        }
    }

    /// Whether its objects have pod templates, too.
    pub const fn may_be_a_workload(self) -> bool {
        matches!(
            self,
            Self::ReplicaSet | Self::StatefulSet | Self::ReplicationController
        )
    }
}

/// The group; `None` without a version. The group of `v1` is empty; the kinds of `extensions` are now in `apps`.
pub fn group_of(api_version: &str) -> Option<&str> {
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
