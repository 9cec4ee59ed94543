//! Pods of a group with claims on volumes: what one has chosen is not chosen by another, and what they share is chosen once.

use crate::{Scene, group, pod, read};
use evictd_placement::VolumeChoice;
use evictd_scheduling::{Change, Delta, Event, Outcome};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn new<T: serde::de::DeserializeOwned>(value: Value) -> Delta<T> {
    Delta {
        old: None,
        new: Some(read(value)),
    }
}

impl Scene {
    /// A class whose claims wait for their pods; `made` tells whether volumes are made.
    fn class(&mut self, made: bool) {
        let provisioner = if made {
            "example.com/disks"
        } else {
            "kubernetes.io/no-provisioner"
        };
        let class = json!({ "metadata": { "name": "local" }, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer" });
        self.tell(&Event::Change(Change::StorageClass(new(class))));
    }

    fn volume(&mut self, name: &str, node: &str) {
        let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
        let volume = json!({ "metadata": { "name": name }, "spec": { "storageClassName": "local",
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": { "required": { "nodeSelectorTerms": [term] } } },
            "status": { "phase": "Available" } });
        self.tell(&Event::Change(Change::PersistentVolume(new(volume))));
    }

    fn volume_claim(&mut self, name: &str) {
        let claim = json!({ "metadata": { "name": name, "namespace": "default", "uid": format!("uid-of-{name}") },
            "spec": { "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } } }, "status": { "phase": "Pending" } });
        self.tell(&Event::Change(Change::PersistentVolumeClaim(new(claim))));
    }

    fn owner(&mut self, name: &str, claim: &str) {
        let mut owner = pod(name, "train", "1");
        owner["spec"]["volumes"] =
            json!([{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }]);
        self.pod(name, Some(owner));
    }

    /// The pods that are placed now, each with its node and what its claim gets.
    fn chosen(&mut self) -> BTreeMap<String, (String, VolumeChoice)> {
        let attempts = self.attempts().into_iter();
        let placed = attempts.filter_map(|attempt| match attempt.outcome {
            Outcome::Placed { node, pre_bind, .. } => {
                let choice = pre_bind.volumes[0].clone();
                Some((attempt.key.to_string(), (node.to_string(), choice)))
            }
            _ => None,
        });
        placed.collect()
    }
}

fn volume(choice: &VolumeChoice) -> &str {
    match choice {
        VolumeChoice::Bind { volume, .. } => volume,
        VolumeChoice::Provision { .. } => panic!("{choice:?}"),
    }
}

#[test]
fn s5_094_each_pod_of_a_gang_gets_a_volume() {
    let mut scene = Scene::new();
    scene.class(false);
    scene.node("one", "8", "a");
    scene.volume("disk-0", "one");
    scene.group(group("train", 2));
    for index in 0..2 {
        scene.volume_claim(&format!("claim-{index}"));
        scene.owner(&format!("train-{index}"), &format!("claim-{index}"));
    }
    assert!(scene.chosen().is_empty(), "there is one volume for two");
    scene.volume("disk-1", "one");
    let chosen = scene.chosen();
    let volumes: BTreeSet<&str> = chosen.values().map(|(_, choice)| volume(choice)).collect();
    assert_eq!(volumes, BTreeSet::from(["disk-0", "disk-1"]));
}

#[test]
fn s5_094_pods_of_a_gang_that_share_a_claim_are_placed_at_its_volume() {
    for made in [false, true] {
        let mut scene = Scene::new();
        scene.class(made);
        for node in ["one", "two"] {
            scene.node(node, "8", "a");
            if !made {
                scene.volume(&format!("disk-{node}"), node);
            }
        }
        scene.group(group("train", 3));
        scene.volume_claim("shared");
        for index in 0..3 {
            scene.owner(&format!("train-{index}"), "shared");
        }
        let chosen = scene.chosen();
        assert_eq!(chosen.len(), 3);
        let nodes: BTreeSet<&String> = chosen.values().map(|(node, _)| node).collect();
        assert_eq!(nodes.len(), 1, "{chosen:?}");
    }
}
