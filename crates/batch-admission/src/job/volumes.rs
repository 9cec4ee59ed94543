//! Volumes of a job (S6-079).

use crate::field::listed;
use evictd_batch_objects::VolumeSpec;
use evictd_pod::names;
use std::collections::BTreeSet;

/// The first thing that is wrong with the volumes; nothing if they are right.
pub(super) fn check(volumes: &[VolumeSpec]) -> String {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for volume in volumes {
        let (path, name) = (&volume.mount_path, &volume.volume_claim_name);
        if path.is_empty() {
            return " mountPath is required;".to_owned();
        }
        if seen.contains(path.as_str()) {
            return format!(" duplicated mountPath: {path};");
        }
        if volume.volume_claim.is_none() && name.is_empty() {
            return " either VolumeClaim or VolumeClaimName must be specified;".to_owned();
        }
        if !name.is_empty() {
            if volume.volume_claim.is_some() {
                return "conflict: If you want to use an existing PVC, just specify VolumeClaimName.If you want to create a new PVC, you do not need to specify VolumeClaimName".to_owned();
            }
            let wrong = names::dns_subdomain(name);
            if !wrong.is_empty() {
                return format!("invalid VolumeClaimName {name} : {}", listed(&wrong));
            }
        }
        seen.insert(path);
    }
    String::new()
}
