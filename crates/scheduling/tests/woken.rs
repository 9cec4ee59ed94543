//! A change of any field that a filter reads wakes the pods that it makes fit: nothing waits for the flush after five minutes.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::Cluster;
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_pod::wire;
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration};
use evictd_scheduling::{Change, Delta, Event, Framework, Outcome, Pool, Scheduler, Settings};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

/// The kinds of objects, how many there are of each, and whether one of them may be absent.
const KINDS: [(&str, usize, bool); 19] = [
    ("Node", 2, true),
    ("Namespace", 2, true),
    ("Pod", 4, true),
    ("PersistentVolumeClaim", 2, true),
    ("PersistentVolume", 1, true),
    ("StorageClass", 1, true),
    ("CSINode", 2, true),
    ("CSIDriver", 1, true),
    ("CSIStorageCapacity", 1, true),
    ("VolumeAttachment", 1, true),
    ("ResourceClaim", 1, true),
    ("ResourceSlice", 2, true),
    ("DeviceClass", 1, true),
    ("DeviceTaintRule", 1, true),
    ("Service", 1, true),
    ("ReplicationController", 1, true),
    ("ReplicaSet", 1, true),
    ("StatefulSet", 1, true),
    ("FailedPod", 1, true),
];

/// Each field of an object has one of its values by such a number.
const FIELDS: usize = 12;
type Draw = [u8; FIELDS];

/// One of the values. The first is the usual one: most numbers choose it.
fn pick<T: Clone>(values: &[T], number: u8) -> T {
    let index = usize::from(number);
    let choice = if index < 4 { 0 } else { index % values.len() };
    values[choice].clone()
}

/// Whether the API allows this change. An object with another value of another field is a new one of the same name.
fn is_mutable(kind: &str, field: usize) -> bool {
    match kind {
        "Pod" => matches!(field, 2 | 3 | 4 | 10),
        "PersistentVolumeClaim" => matches!(field, 2 | 3),
        "StorageClass" => matches!(field, 2 | 3),
        "CSIStorageCapacity" | "Service" | "ReplicationController" => field == 1,
        "ResourceClaim" => matches!(field, 2..=4),
        "VolumeAttachment" | "ReplicaSet" | "StatefulSet" => false,
        _ => true,
    }
}

/// Labels, tolerations and requests of the waiting pod.
const CHANGING: [usize; 3] = [0, 1, 9];

fn labels(app: &str) -> Value {
    json!({ "app": app })
}

fn namespace_of(index: usize) -> &'static str {
    ["default", "other"][index % 2]
}

fn node(index: usize, d: &Draw) -> Value {
    let name = format!("node-{index}");
    let mut labels = json!({ "kubernetes.io/hostname": name });
    if let Some(zone) = pick(&[Some("a"), Some("b"), None], d[0]) {
        labels["zone"] = json!(zone);
        labels["topology.kubernetes.io/zone"] = json!(zone);
    }
    if d[1].is_multiple_of(2) {
        labels["disk"] = json!("ssd");
    }
    let taints = pick(
        &[
            json!([]),
            json!([{ "key": "k", "effect": "NoSchedule" }]),
            json!([{ "key": "k", "effect": "PreferNoSchedule" }]),
            json!([{ "key": "other", "effect": "NoExecute" }]),
        ],
        d[2],
    );
    let pressure = pick(&["False", "True"], d[8]);
    json!({ "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints, "unschedulable": pick(&[false, true], d[3]) },
        "status": {
            "allocatable": { "cpu": pick(&["2", "1", "4"], d[4]), "memory": pick(&["4Gi", "1Gi"], d[5]),
                "pods": pick(&["10", "1", "2"], d[6]), "example.com/gpu": pick(&["1", "0", "2"], d[7]) },
            "conditions": [{ "type": "EvictdMemoryPressure", "status": pressure }] } })
}

fn term(kind: u8) -> Value {
    let of = |app: &str, key: &str, more: Value| {
        let mut term =
            json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } });
        for (name, value) in more.as_object().unwrap() {
            term[name] = value.clone();
        }
        term
    };
    let host = "kubernetes.io/hostname";
    let team = json!({ "namespaceSelector": { "matchLabels": { "team": "red" } } });
    let no_team = json!({ "namespaceSelector": { "matchExpressions": [{ "key": "team", "operator": "DoesNotExist" }] } });
    match kind % 7 {
        0 => of("a", host, json!({})),
        1 => of("b", "zone", json!({})),
        2 => of("a", "zone", team),
        3 => of("a", host, no_team),
        4 => of("b", host, json!({ "namespaces": ["other"] })),
        5 => of("a", "zone", json!({ "namespaceSelector": {} })),
        _ => of("b", "zone", json!({ "mismatchLabelKeys": ["rev"] })),
    }
}

fn affinity(kind: u8, of: u8) -> Value {
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term(of)] });
    pick(
        &[
            json!({}),
            json!({ "podAntiAffinity": required }),
            json!({ "podAffinity": required }),
            json!({ "podAntiAffinity": required }),
        ],
        kind,
    )
}

fn volumes(number: u8) -> Value {
    pick(
        &[
            json!([]),
            json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "claim-0" } }]),
            json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "claim-1" } }]),
            json!([{ "name": "v", "gcePersistentDisk": { "pdName": "disk" } }]),
            json!([{ "name": "v", "csi": { "driver": "csi.example.com" } }]),
        ],
        number,
    )
}

fn containers(cpu: &str, memory: &str, gpu: u8, port: u8) -> Value {
    let mut requests = json!({ "cpu": cpu, "memory": memory });
    if gpu > 12 {
        requests["example.com/gpu"] = json!("1");
    }
    let ports = if port > 11 {
        json!([{ "containerPort": 80, "hostPort": 80 }])
    } else {
        json!([])
    };
    json!([{ "name": "c", "resources": { "requests": requests, "limits": {} }, "ports": ports }])
}

/// A pod that has a node, or is only nominated.
fn running(index: usize, d: &Draw) -> Value {
    let name = format!("pod-{index}");
    let node = format!("node-{}", pick(&[0, 1], d[0]));
    let mut pod = json!({
        "metadata": { "name": name, "uid": name, "namespace": namespace_of(usize::from(d[1] / 4)),
            "labels": labels(pick(&["a", "b"], d[2])) },
        "spec": { "nodeName": node, "affinity": affinity(d[5], d[6]), "volumes": volumes(d[7]),
            "containers": containers(pick(&["100m", "1500m"], d[3]), pick(&["128Mi", "3Gi"], d[4]), d[8], d[9]) } });
    if d[10] > 13 {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    pod
}

fn constraint(kind: u8) -> Value {
    let mut constraint = json!({ "maxSkew": 1, "topologyKey": pick(&["zone", "kubernetes.io/hostname"], kind),
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "a" } } });
    match kind % 5 {
        1 => constraint["nodeTaintsPolicy"] = json!("Honor"),
        2 => constraint["nodeAffinityPolicy"] = json!("Ignore"),
        3 => constraint["minDomains"] = json!(2),
        4 => constraint["matchLabelKeys"] = json!(["rev"]),
        _ => {}
    }
    json!([constraint])
}

/// The pod that waits.
fn pending(d: &Draw) -> Value {
    let tolerations = [json!([]), json!([{ "key": "k", "operator": "Exists" }])];
    let selector = [json!({}), json!({ "disk": "ssd" })];
    let mut affinity = affinity(d[3], d[4]);
    if d[5] > 11 {
        let field = json!({ "key": "metadata.name", "operator": "In", "values": ["node-1"] });
        let zone = json!({ "key": "zone", "operator": "In", "values": ["b"] });
        let term = if d[5] > 13 {
            json!({ "matchFields": [field] })
        } else {
            json!({ "matchExpressions": [zone] })
        };
        affinity["nodeAffinity"] = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
    }
    let spread = if d[6] > 9 {
        constraint(d[6])
    } else {
        json!([])
    };
    let claims = [
        json!([]),
        json!([{ "name": "card", "resourceClaimName": "card" }]),
    ];
    json!({
        "metadata": { "name": "waits", "uid": "waits", "labels": { "app": pick(&["a", "b"], d[0]), "rev": "1" } },
        "spec": { "preemptionPolicy": "Never", "tolerations": pick(&tolerations, d[1]), "affinity": affinity,
            "nodeSelector": pick(&selector, d[2]), "topologySpreadConstraints": spread,
            "volumes": volumes(d[7]), "resourceClaims": pick(&claims, d[8]),
            "containers": containers(pick(&["500m", "1500m", "3"], d[9]), "512Mi", d[10], d[11]) } })
}

fn storage(kind: &str, index: usize, d: &Draw) -> Value {
    let zone = |number| pick(&["a", "b"], number);
    match kind {
        "PersistentVolumeClaim" => {
            let class = pick(&["late", "none"], d[0]);
            let volume = pick(&["", "volume-0"], d[2]);
            let bound = json!({ "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes" });
            json!({ "metadata": { "name": format!("claim-{index}"), "uid": format!("claim-{index}"),
                    "annotations": if volume.is_empty() { json!({}) } else { bound } },
                "spec": { "storageClassName": class, "accessModes": [pick(&["ReadWriteOnce", "ReadWriteOncePod"], d[1])],
                    "volumeName": volume, "resources": { "requests": { "storage": pick(&["2Gi", "20Gi"], d[3]) } } },
                "status": { "phase": if volume.is_empty() { "Pending" } else { "Bound" } } })
        }
        "PersistentVolume" => {
            let expression = json!({ "key": "zone", "operator": "In", "values": [zone(d[0])] });
            let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] });
            let claim = pick(&["", "claim-0", "claim-1"], d[1]);
            let reference = json!({ "namespace": "default", "name": claim, "uid": claim });
            json!({ "metadata": { "name": "volume-0", "labels": { "topology.kubernetes.io/zone": zone(d[2]) } },
                "spec": { "storageClassName": pick(&["late", "none"], d[3]), "capacity": { "storage": pick(&["10Gi", "1Gi"], d[4]) },
                    "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"], "nodeAffinity": { "required": required },
                    "claimRef": if claim.is_empty() { Value::Null } else { reference },
                    "csi": { "driver": "csi.example.com", "volumeHandle": "h" } },
                "status": { "phase": pick(&["Available", "Bound", "Released"], d[5]) } })
        }
        "StorageClass" => {
            let topology =
                json!([{ "matchLabelExpressions": [{ "key": "zone", "values": [zone(d[2])] }] }]);
            json!({ "metadata": { "name": "late" }, "volumeBindingMode": pick(&["WaitForFirstConsumer", "Immediate"], d[0]),
                "provisioner": pick(&["csi.example.com", "kubernetes.io/no-provisioner"], d[1]),
                "allowedTopologies": pick(&[json!([]), topology], d[3]) })
        }
        "CSINode" => {
            let count = pick(&[Value::Null, json!(0), json!(1), json!(2)], d[0]);
            let driver = json!({ "name": "csi.example.com", "nodeID": "n", "allocatable": { "count": count } });
            json!({ "metadata": { "name": format!("node-{index}") }, "spec": { "drivers": [driver] } })
        }
        "CSIDriver" => json!({ "metadata": { "name": "csi.example.com" },
            "spec": { "storageCapacity": pick(&[true, false], d[0]) } }),
        "CSIStorageCapacity" => {
            json!({ "metadata": { "name": "capacity-0", "namespace": "default" },
            "storageClassName": pick(&["late", "none"], d[0]), "capacity": pick(&["10Gi", "1Gi", "30Gi"], d[1]),
            "nodeTopology": { "matchLabels": { "zone": zone(d[2]) } } })
        }
        _ => json!({ "metadata": { "name": "attachment-0" },
            "spec": { "attacher": "csi.example.com", "nodeName": format!("node-{}", pick(&[0, 1], d[0])),
                "source": { "persistentVolumeName": pick(&["else", "volume-0"], d[1]) } },
            "status": { "attached": true } }),
    }
}

fn devices(kind: &str, index: usize, d: &Draw) -> Value {
    match kind {
        "ResourceClaim" => {
            let request = json!([{ "name": "r", "exactly": { "deviceClassName": pick(&["gpu", "none"], d[0]),
                "count": pick(&[1, 2], d[1]) } }]);
            let node = format!("node-{}", pick(&[0, 1], d[2]));
            let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
            let result = json!({ "request": "r", "driver": "gpu.example.com", "pool": node, "device": "gpu-0" });
            let allocation = json!({ "devices": { "results": [result] },
                "nodeSelector": { "nodeSelectorTerms": [{ "matchFields": [field] }] } });
            let others: Vec<Value> = (0..256).map(|index| json!({ "resource": "pods", "name": format!("x-{index}"), "uid": format!("x-{index}") })).collect();
            json!({ "metadata": { "name": "card", "namespace": "default", "uid": "card" },
                "spec": { "devices": { "requests": request } },
                "status": { "allocation": pick(&[Value::Null, allocation], d[3]),
                    "reservedFor": pick(&[json!([]), json!(others)], d[4]) } })
        }
        "ResourceSlice" => {
            let taints = json!([{ "key": "sick", "effect": "NoSchedule" }]);
            let device = |name: &str| {
                json!({ "name": name, "taints": pick(&[json!([]), taints.clone()], d[0]),
                "attributes": { "model": { "string": pick(&["x", "y"], d[1]) } } })
            };
            let name = format!("node-{index}");
            json!({ "metadata": { "name": format!("slice-{index}") },
                "spec": { "driver": "gpu.example.com", "nodeName": name,
                    "pool": { "name": pick(&[&*name, "shared"], d[5]), "generation": pick(&[1, 2], d[4]),
                        "resourceSliceCount": pick(&[1, 2], d[2]) },
                    "devices": pick(&[json!([device("gpu-0")]), json!([device("gpu-0"), device("gpu-1")]), json!([])], d[3]) } })
        }
        "DeviceTaintRule" => {
            let of_pool = json!({ "pool": pick(&["node-0", "node-1", "shared"], d[1]) });
            let of_device =
                json!({ "driver": pick(&["gpu.example.com", "other"], d[2]), "device": "gpu-0" });
            json!({ "metadata": { "name": "rule" }, "spec": {
                "deviceSelector": pick(&[Value::Null, of_pool, of_device], d[3]),
                "taint": { "key": "sick", "effect": pick(&["NoSchedule", "None", "NoExecute"], d[0]) } } })
        }
        _ => {
            let selector = json!([{ "cel": { "expression": "device.attributes[\"gpu.example.com\"].model == \"y\"" } }]);
            json!({ "metadata": { "name": "gpu" }, "spec": { "selectors": pick(&[json!([]), selector], d[0]) } })
        }
    }
}

fn object(kind: &str, index: usize, d: &Draw) -> Value {
    let selected = pick(&["a", "b"], d[1]);
    let metadata = json!({ "name": "web", "namespace": pick(&["default", "other"], d[0]) });
    match kind {
        "Node" => node(index, d),
        "Namespace" => json!({ "metadata": { "name": namespace_of(index), "labels": pick(&[
            json!({}), json!({ "team": "red" }), json!({ "team": "blue" })], d[0]) } }),
        "Pod" => running(index, d),
        "Service" | "ReplicationController" => {
            json!({ "metadata": metadata, "spec": { "selector": labels(selected) } })
        }
        "ReplicaSet" | "StatefulSet" => {
            json!({ "metadata": metadata, "spec": { "selector": { "matchLabels": labels(selected) } } })
        }
        "FailedPod" => {
            json!({ "metadata": { "name": "failed", "uid": "failed", "namespace": "default", "labels": labels("a") },
            "spec": { "nodeName": "node-0" }, "status": { "phase": "Failed", "reason": "Evicted" } })
        }
        "ResourceClaim" | "ResourceSlice" | "DeviceClass" | "DeviceTaintRule" => {
            devices(kind, index, d)
        }
        _ => storage(kind, index, d),
    }
}

fn delta<T: DeserializeOwned>(old: Option<&Value>, new: Option<&Value>) -> Delta<T> {
    let read = |value: &Value| Arc::new(serde_json::from_value(value.clone()).unwrap());
    Delta {
        old: old.map(read),
        new: new.map(read),
    }
}

fn change(kind: &str, old: Option<&Value>, new: Option<&Value>) -> Change {
    match kind {
        "Node" => Change::Node(delta(old, new)),
        "Namespace" => Change::Namespace(delta(old, new)),
        "Pod" => Change::Pod(delta(old, new)),
        "PersistentVolumeClaim" => Change::PersistentVolumeClaim(delta(old, new)),
        "PersistentVolume" => Change::PersistentVolume(delta(old, new)),
        "StorageClass" => Change::StorageClass(delta(old, new)),
        "CSINode" => Change::CsiNode(delta(old, new)),
        "CSIDriver" => Change::CsiDriver(delta(old, new)),
        "CSIStorageCapacity" => Change::CsiStorageCapacity(delta(old, new)),
        "VolumeAttachment" => Change::VolumeAttachment(delta(old, new)),
        "ResourceClaim" => Change::ResourceClaim(delta(old, new)),
        "ResourceSlice" => Change::ResourceSlice(delta(old, new)),
        "DeviceClass" => Change::DeviceClass(delta(old, new)),
        "DeviceTaintRule" => Change::DeviceTaintRule(delta(old, new)),
        "Service" => Change::Service(delta(old, new)),
        "ReplicationController" => Change::ReplicationController(delta(old, new)),
        "ReplicaSet" => Change::ReplicaSet(delta(old, new)),
        "StatefulSet" => Change::StatefulSet(delta(old, new)),
        "FailedPod" => Change::FailedPod(delta(old, new)),
        other => panic!("{other}"),
    }
}

/// The default profile, or one whose default spread constraint is hard and which filters by evictd's agents.
fn framework(cluster: &mut Cluster, of_agents: bool) -> Framework {
    let profile = if of_agents {
        let constraint =
            json!([{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" }]);
        let args = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "PodTopologySpreadArgs",
            "defaultingType": "List", "defaultConstraints": constraint });
        let names = [
            json!({ "name": "EvictdPressure" }),
            json!({ "name": "EvictdReturn" }),
        ];
        json!({ "plugins": { "multiPoint": { "enabled": names } },
            "pluginConfig": [{ "name": "PodTopologySpread", "args": args }] })
    } else {
        json!({})
    };
    let wire: KubeSchedulerConfiguration = serde_json::from_value(json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile] })).unwrap();
    let config = Configuration::new(&wire, &[]).unwrap();
    Framework::new(cluster, &config.profiles[0], &[]).unwrap()
}

/// An object and the numbers that it is made of. `None`: it is absent.
struct Slot {
    kind: &'static str,
    index: usize,
    may_be_absent: bool,
    draw: Draw,
    is_there: bool,
}

impl Slot {
    fn value(&self) -> Option<Value> {
        self.is_there
            .then(|| object(self.kind, self.index, &self.draw))
    }
}

struct World {
    scheduler: Scheduler,
    of_agents: bool,
    now: Timestamp,
    slots: Vec<Slot>,
    waits: Draw,
    pod: Value,
    version: u32,
}

impl World {
    fn new(of_agents: bool, release: Release, draws: &[Draw], waits: Draw) -> Self {
        let scheduler = Scheduler::new(Settings::default(), false, |cluster| {
            cluster.set_compatibility(Compatibility::of(release));
            Ok::<_, String>(vec![framework(cluster, of_agents)])
        });
        let kinds = KINDS.into_iter().flat_map(|(kind, count, may_be_absent)| {
            (0..count).map(move |index| (kind, index, may_be_absent))
        });
        let slots = kinds
            .zip(draws)
            .map(|((kind, index, may_be_absent), draw)| Slot {
                kind,
                index,
                may_be_absent,
                draw: *draw,
                is_there: !may_be_absent || draw[FIELDS - 1] < 11,
            });
        let mut world = Self {
            scheduler: scheduler.unwrap(),
            of_agents,
            now: Timestamp::UNIX_EPOCH,
            slots: slots.collect(),
            waits,
            pod: Value::Null,
            version: 0,
        };
        for index in 0..world.slots.len() {
            let slot = &world.slots[index];
            if let Some(new) = slot.value() {
                world.tell(change(slot.kind, None, Some(&new)));
            }
        }
        world.update_pod();
        world
    }

    fn tell(&mut self, change: Change) {
        self.scheduler.on(self.now, &Event::Change(change));
    }

    fn update_pod(&mut self) {
        self.version += 1;
        let mut new = pending(&self.waits);
        new["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let old = std::mem::replace(&mut self.pod, new.clone());
        self.tell(change("Pod", (!old.is_null()).then_some(&old), Some(&new)));
    }

    /// Waits until the backoff is over and tries the pod if it was woken. Returns whether it has a node.
    fn attempt(&mut self) -> bool {
        self.now = self.now.checked_add(SignedDuration::from_secs(20)).unwrap();
        self.scheduler.flush_backoff(self.now);
        let Some(attempt) = self.scheduler.attempt(self.now) else {
            return false;
        };
        matches!(attempt.outcome, Outcome::Placed { .. })
    }

    /// Whether some node passes every filter.
    fn fits(&mut self) -> bool {
        let of_agents = self.of_agents;
        let pod: wire::Pod = serde_json::from_value(self.pod.clone()).unwrap();
        self.scheduler.with_cluster(|cluster| {
            let framework = framework(cluster, of_agents);
            let pod = cluster.pod(pod).unwrap();
            let feasible = framework.filter(cluster, &pod).feasible;
            cluster.release(pod);
            !feasible.is_empty()
        })
    }

    /// Changes one field of one object, or adds or deletes one. Returns what was changed.
    fn change(&mut self, of: usize, field: usize, number: u8) -> String {
        let Some(slot) = self.slots.get_mut(of) else {
            self.waits[CHANGING[field % CHANGING.len()]] = number;
            self.update_pod();
            return format!("the pod is now {}", self.pod);
        };
        let old = slot.value();
        if slot.may_be_absent && field == FIELDS - 1 {
            slot.is_there = !slot.is_there;
        } else {
            slot.draw[field] = number;
        }
        let (kind, new) = (slot.kind, slot.value());
        let both =
            |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), Value::to_string);
        let what = format!("{kind}: {} is now {}", both(&old), both(&new));
        if old.is_some() && new.is_some() && old != new && !is_mutable(kind, field) {
            self.tell(change(kind, old.as_ref(), None));
            self.tell(change(kind, None, new.as_ref()));
        } else if old != new {
            self.tell(change(kind, old.as_ref(), new.as_ref()));
        }
        what
    }
}

/// Mostly usual values, so that often one thing alone keeps the pod from a node.
fn draw(unusual: u32) -> impl Strategy<Value = Draw> {
    prop::array::uniform12(prop_oneof![10 - unusual => Just(0), unusual => 0..16_u8])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn whatever_change_makes_a_pod_fit_wakes_it(
        of_agents in any::<bool>(),
        is_current in any::<bool>(),
        draws in prop::collection::vec(draw(2), 27),
        waits in draw(5),
        changes in prop::collection::vec((0..31_usize, 0..FIELDS, 0..16_u8), 1..25),
    ) {
        let release = if is_current { Release::V1_37 } else { Release::V1_36 };
        let mut world = World::new(of_agents, release, &draws, waits);
        if world.attempt() {
            return Ok(());
        }
        for (of, field, number) in changes {
            let what = world.change(of, field, number);
            let Some(queued) = world.scheduler.queue().queued_pod("waits") else {
                return Ok(());
            };
            let fits = world.fits();
            if fits {
                prop_assert!(queued.pool != Pool::Unschedulable, "{:?}: {}; {}", queued.rejectors, what, world.pod);
            }
            let is_placed = world.attempt();
            prop_assert!(is_placed || !fits, "it fits, but is not placed: {what}; {}", world.pod);
            if is_placed {
                return Ok(());
            }
        }
    }
}

/// S7-192: the rule taints every device, until it changes or is deleted.
#[test]
fn s7_192_a_rule_that_no_longer_taints_wakes_the_pod_that_waits_for_devices() {
    let kinds = KINDS
        .iter()
        .flat_map(|kind| std::iter::repeat_n(kind.0, kind.1));
    let rule = kinds
        .clone()
        .position(|kind| kind == "DeviceTaintRule")
        .unwrap();
    let mut waits = [0; FIELDS];
    waits[8] = 5;
    // Another effect, another device, and no rule any more.
    for (field, number) in [(0, 4), (3, 5), (FIELDS - 1, 0)] {
        let mut draws = vec![[0; FIELDS]; kinds.clone().count()];
        draws[rule][2] = 5;
        let mut world = World::new(false, Release::V1_37, &draws, waits);
        assert!(!world.attempt() && !world.fits(), "{field}");
        let what = world.change(rule, field, number);
        assert!(world.fits(), "{what}");
        assert!(world.attempt(), "{what}");
    }
}
