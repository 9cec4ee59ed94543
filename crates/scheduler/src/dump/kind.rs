//! The kinds of objects that a plan needs.

use evictd_pod::{Node, wire};

/// A kind that is read; others are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Node,
    Namespace,
    Pod,
    Budget,
    PriorityClass,
    Claim,
    Volume,
    StorageClass,
    CsiNode,
    VolumeAttachment,
    CsiDriver,
    StorageCapacity,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    ResourceClaim,
    ResourceSlice,
    DeviceClass,
}

impl Kind {
    const ALL: [Self; 19] = [
        Self::Node,
        Self::Namespace,
        Self::Pod,
        Self::Budget,
        Self::PriorityClass,
        Self::Claim,
        Self::Volume,
        Self::StorageClass,
        Self::CsiNode,
        Self::VolumeAttachment,
        Self::CsiDriver,
        Self::StorageCapacity,
        Self::Service,
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::ResourceClaim,
        Self::ResourceSlice,
        Self::DeviceClass,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Namespace => "Namespace",
            Self::Pod => "Pod",
            Self::Budget => "PodDisruptionBudget",
            Self::PriorityClass => "PriorityClass",
            Self::Claim => "PersistentVolumeClaim",
            Self::Volume => "PersistentVolume",
            Self::StorageClass => "StorageClass",
            Self::CsiNode => "CSINode",
            Self::VolumeAttachment => "VolumeAttachment",
            Self::CsiDriver => "CSIDriver",
            Self::StorageCapacity => "CSIStorageCapacity",
            Self::Service => "Service",
            Self::ReplicationController => "ReplicationController",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::ResourceClaim => "ResourceClaim",
            Self::ResourceSlice => "ResourceSlice",
            Self::DeviceClass => "DeviceClass",
        }
    }

    const fn group(self) -> &'static str {
        match self {
            Self::Node
            | Self::Namespace
            | Self::Pod
            | Self::Claim
            | Self::Volume
            | Self::Service
            | Self::ReplicationController => "",
            Self::StorageClass
            | Self::CsiNode
            | Self::VolumeAttachment
            | Self::CsiDriver
            | Self::StorageCapacity => "storage.k8s.io",
            Self::ReplicaSet | Self::StatefulSet => "apps",
            Self::Budget => "policy",
            Self::ResourceClaim | Self::ResourceSlice | Self::DeviceClass => "resource.k8s.io",
            Self::PriorityClass => "scheduling.k8s.io",
        }
    }

    /// Whether its objects are namespaced.
    pub(super) const fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::Node
                | Self::Namespace
                | Self::PriorityClass
                | Self::Volume
                | Self::StorageClass
                | Self::CsiNode
                | Self::VolumeAttachment
                | Self::CsiDriver
                | Self::ResourceSlice
                | Self::DeviceClass
        )
    }

    /// The kind of that name in any version of its group; other groups may have kinds of the same name.
    pub(super) fn of(name: &str, api_version: &str) -> Option<Self> {
        let group = match api_version.split_once('/') {
            Some((group, _)) => Some(group),
            None if api_version.is_empty() => None,
            None => Some(""),
        };
        let own =
            |kind: &Self| kind.as_str() == name && group.is_none_or(|group| group == kind.group());
        Self::ALL.into_iter().find(own)
    }
}

/// An object of the dump, parsed.
pub(super) trait Object: serde::de::DeserializeOwned {
    const KIND: Kind;

    fn metadata(&self) -> &wire::Metadata;
}

/// Kinds that share a wire type with another.
pub(super) mod alike {
    use evictd_pod::wire;
    use serde::Deserialize;

    /// A v1 `ReplicationController`.
    #[derive(Deserialize)]
    #[serde(transparent)]
    pub(in crate::dump) struct ReplicationController(pub(in crate::dump) wire::Service);

    /// An apps/v1 `ReplicaSet`.
    #[derive(Deserialize)]
    #[serde(transparent)]
    pub(in crate::dump) struct ReplicaSet(pub(in crate::dump) wire::Workload);

    /// An apps/v1 `StatefulSet`.
    #[derive(Deserialize)]
    #[serde(transparent)]
    pub(in crate::dump) struct StatefulSet(pub(in crate::dump) wire::Workload);
}

macro_rules! objects {
    ($($kind:ident $type:ty $(, $inner:tt)?;)*) => {$(
        impl Object for $type {
            const KIND: Kind = Kind::$kind;

            fn metadata(&self) -> &wire::Metadata {
                &self$(.$inner)?.metadata
            }
        }
    )*};
}

objects! {
    Node Node;
    Namespace wire::Namespace;
    Pod wire::Pod;
    Budget wire::PodDisruptionBudget;
    PriorityClass wire::PriorityClass;
    Claim wire::PersistentVolumeClaim;
    Volume wire::PersistentVolume;
    StorageClass wire::StorageClass;
    CsiNode wire::CsiNode;
    VolumeAttachment wire::VolumeAttachment;
    CsiDriver wire::CsiDriverObject;
    StorageCapacity wire::CsiStorageCapacity;
    Service wire::Service;
    ReplicationController alike::ReplicationController, 0;
    ReplicaSet alike::ReplicaSet, 0;
    StatefulSet alike::StatefulSet, 0;
    ResourceClaim wire::ResourceClaim;
    ResourceSlice wire::ResourceSlice;
    DeviceClass wire::DeviceClass;
}
