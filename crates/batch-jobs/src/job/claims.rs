//! Claims on volumes of a job (S6-045).

use super::call::{Call, Resource};
use super::failure::RoundError;
use super::lister::Lister;
use super::object::{metadata, namespace};
use evictd_batch_objects::Job;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The characters of the end of a name that is generated.
const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The name of the claim of a volume. One that is not given ends like Volcano's in twelve letters and digits, but they
/// follow from the job's UID: a controller that was killed between making the claim and naming it in the job makes no
/// second one.
pub(super) fn name(job: &Job, index: usize) -> String {
    let given = job
        .spec
        .volumes
        .get(index)
        .map(|volume| &volume.volume_claim_name);
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return given.clone();
    }
    // FNV-1a, once more for each character.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut mix = |byte: u8| {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        hash
    };
    job.metadata.uid.bytes().for_each(|byte| {
        mix(byte);
    });
    index.to_le_bytes().into_iter().for_each(|byte| {
        mix(byte);
    });
    let end = (0..12_u8).map(|place| {
        let drawn = usize::try_from((mix(place) >> 32) % 36).unwrap_or(0);
        char::from(ALPHABET[drawn])
    });
    format!("{}-pvc-{}", job.metadata.name, end.collect::<String>())
}

/// The claims that are to be made. A claim that is named, and is not there, is an error.
pub(super) fn wanted(job: &Job, lister: &dyn Lister) -> Result<Vec<Call>, RoundError> {
    let mut calls = Vec::new();
    for (index, volume) in job.spec.volumes.iter().enumerate() {
        let name = name(job, index);
        if lister.has_claim(namespace(job), &name) {
            continue;
        }
        // The user names a claim that exists, so that none is created in its place.
        if !volume.volume_claim_name.is_empty() {
            return Err(RoundError::Claim(name));
        }
        if let Some(spec) = &volume.volume_claim {
            let resource = Resource::PersistentVolumeClaim;
            let object = json!({
                "apiVersion": resource.api_version(),
                "kind": resource.kind(),
                "metadata": metadata(job, &name),
                "spec": spec,
            });
            let object = object.into();
            calls.push(Call::CreateObject { resource, object });
        }
    }
    Ok(calls)
}

/// Names the claims in the job where it does not name them itself.
pub(super) fn names(job: &Job) -> Option<Call> {
    let unnamed = job.spec.volumes.iter().enumerate();
    let unnamed = unnamed.filter(|(_, volume)| volume.volume_claim_name.is_empty());
    let operations: Vec<Value> = unnamed
        .map(|(index, _)| {
            let path = format!("/spec/volumes/{index}/volumeClaimName");
            json!({"op": "add", "path": path, "value": name(job, index)})
        })
        .collect();
    (!operations.is_empty()).then_some(Call::PatchJob {
        patch: Value::Array(operations),
    })
}

/// Writes down which claims the job has.
pub(super) fn record(job: &Job, controlled: &mut BTreeMap<String, String>) {
    for index in 0..job.spec.volumes.len() {
        let name = name(job, index);
        controlled.insert(format!("volume-pvc-{name}"), name);
    }
}
