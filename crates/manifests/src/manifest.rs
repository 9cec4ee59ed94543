//! A pod as it was written.

use evictd_pod::wire::{self, Metadata, null_is_default};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A pod with the fields that only admission reads.
#[derive(Debug, Clone, Default)]
pub struct PodManifest {
    /// The pod, without any default.
    pub pod: wire::Pod,
    pub(crate) runtime_class_name: String,
    pub(crate) ephemeral_volumes: Vec<EphemeralVolume>,
}

/// A volume whose claim lives as long as its pod.
#[derive(Debug, Clone)]
pub(crate) struct EphemeralVolume {
    pub(crate) name: String,
    pub(crate) template: ClaimTemplate,
}

/// A claim that is still to be made.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimTemplate {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) spec: wire::ClaimSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AdmissionFields {
    #[serde(deserialize_with = "null_is_default")]
    spec: SpecFields,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecFields {
    #[serde(deserialize_with = "null_is_default")]
    runtime_class_name: String,
    #[serde(deserialize_with = "null_is_default")]
    volumes: Vec<VolumeFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VolumeFields {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    ephemeral: Option<EphemeralFields>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EphemeralFields {
    volume_claim_template: Option<ClaimTemplate>,
}

impl PodManifest {
    /// Reads a v1 Pod or a pod template.
    ///
    /// # Errors
    /// If a field has a wrong type.
    pub fn from_value(value: &Value) -> Result<Self, serde_json::Error> {
        let mut manifest = Self::deserialize(value)?;
        manifest.set(AdmissionFields::deserialize(value)?);
        Ok(manifest)
    }

    /// Reads the fields for admission, too, where the pod may still be admitted.
    pub(crate) fn read_admission_fields(&mut self, text: &[u8]) -> Result<(), serde_json::Error> {
        if self.pod.metadata.uid.is_empty() {
            self.set(serde_json::from_slice(text)?);
        }
        Ok(())
    }

    fn set(&mut self, AdmissionFields { spec }: AdmissionFields) {
        self.runtime_class_name = spec.runtime_class_name;
        let volumes = spec.volumes.into_iter().filter_map(|volume| {
            let template = volume.ephemeral?.volume_claim_template?;
            Some(EphemeralVolume {
                name: volume.name,
                template,
            })
        });
        self.ephemeral_volumes = volumes.collect();
    }
}

/// Only the pod, so that a dump of many stored ones is read once.
impl<'de> Deserialize<'de> for PodManifest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pod = wire::Pod::deserialize(deserializer)?;
        Ok(Self {
            pod,
            ..Self::default()
        })
    }
}

/// A pod that admission has nothing to add to.
impl From<wire::Pod> for PodManifest {
    fn from(pod: wire::Pod) -> Self {
        Self {
            pod,
            ..Self::default()
        }
    }
}
