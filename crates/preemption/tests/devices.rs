//! Preemption that frees devices: only where no other eviction helps, and never a victim that frees nothing.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::{Checks, Cluster, Pod};
use evictd_preemption::{Extender, ExtenderError, Offer, Options, Plan, VictimRules, plan};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, from_value, json};

/// A pod of a node: its priority, and the devices that its claim has.
#[derive(Debug, Clone)]
struct Holder {
    priority: i32,
    devices: Vec<usize>,
}

/// One node with devices, and pods that hold some of them.
#[derive(Debug, Clone)]
struct Scene {
    devices: usize,
    holders: Vec<Holder>,
    wanted: usize,
}

fn claim(name: &str, count: usize, devices: &[usize]) -> Value {
    let results: Vec<Value> = devices
        .iter()
        .map(|index| json!({ "request": "r", "driver": "d", "pool": "n", "device": format!("d{index}") }))
        .collect();
    let mut claim = json!({ "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": { "devices": { "requests": [{ "name": "r",
            "exactly": { "deviceClassName": "gpu", "count": count } }] } } });
    if !devices.is_empty() {
        claim["status"] = json!({ "allocation": { "devices": { "results": results } },
            "reservedFor": [{ "resource": "pods", "name": name, "uid": format!("uid-{name}") }] });
    }
    claim
}

fn pod(name: &str, priority: i32, node: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}") },
        "spec": { "priority": priority, "nodeName": node, "containers": [{ "name": "c" }],
            "resourceClaims": [{ "name": "r", "resourceClaimName": name }] },
        "status": { "phase": if node.is_empty() { "Pending" } else { "Running" } } })
}

/// The plan for a pod. `frees_devices`: whether victims may give back their devices.
fn plan_for(
    cluster: &Cluster,
    new: &Pod,
    frees_devices: bool,
    extenders: &mut [&mut dyn Extender],
) -> Plan {
    let options = Options {
        frees_devices,
        ..Options::default()
    };
    let rules = VictimRules::default();
    plan(cluster, rules, new, options, extenders, &|_| false).unwrap()
}

/// The names of the victims; empty if none were found.
fn names_of_victims(cluster: &Cluster, plan: &Plan) -> Vec<String> {
    let victims = plan.choice().into_iter();
    let victims = victims.flat_map(|choice| plan.victims(choice));
    victims
        .map(|victim| victim.pod(cluster).name().to_owned())
        .collect()
}

/// The pod without a node, with the claim `new`.
fn new_pod(cluster: &mut Cluster) -> Pod {
    let new = from_value(pod("new", 10, "")).unwrap();
    cluster.pod(new).unwrap()
}

impl Scene {
    /// The cluster without some of the holders, whose claims are deallocated.
    fn cluster(&self, without: &[usize]) -> Cluster {
        let mut cluster = Cluster::new();
        let node =
            json!({ "metadata": { "name": "n" }, "status": { "allocatable": { "pods": "110" } } });
        cluster.add_node(&Deserialize::deserialize(node).unwrap());
        let class = json!({ "metadata": { "name": "gpu" }, "spec": {} });
        cluster.put_device_class(from_value(class).unwrap());
        let devices: Vec<Value> = (0..self.devices)
            .map(|index| json!({ "name": format!("d{index}") }))
            .collect();
        let slice = json!({ "metadata": { "name": "n" }, "spec": { "driver": "d", "nodeName": "n",
            "pool": { "name": "n", "generation": 1, "resourceSliceCount": 1 }, "devices": devices } });
        cluster.devices_mut().put_slice(from_value(slice).unwrap());
        for (index, holder) in self.holders.iter().enumerate() {
            if without.contains(&index) {
                continue;
            }
            let name = format!("p{index}");
            let held = claim(&name, holder.devices.len().max(1), &holder.devices);
            cluster.devices_mut().put_claim(from_value(held).unwrap());
            cluster
                .add_pod(from_value(pod(&name, holder.priority, "n")).unwrap())
                .unwrap();
        }
        let wants = claim("new", self.wanted, &[]);
        cluster.devices_mut().put_claim(from_value(wants).unwrap());
        cluster
    }

    fn plan(&self, frees_devices: bool) -> (Plan, Vec<usize>) {
        let mut cluster = self.cluster(&[]);
        let new = new_pod(&mut cluster);
        let found = plan_for(&cluster, &new, frees_devices, &mut []);
        let names = names_of_victims(&cluster, &found);
        let victims = names.iter().map(|name| name[1..].parse().unwrap());
        (found, victims.collect())
    }

    fn fits_without(&self, without: &[usize]) -> bool {
        let mut cluster = self.cluster(without);
        let new = new_pod(&mut cluster);
        let node = cluster.find_node("n").unwrap();
        Checks::new(&cluster, &new).fits(node).is_ok()
    }
}

fn scenes() -> impl Strategy<Value = Scene> {
    let holders = prop::collection::vec((0..20_i32, 0..3_usize), 0..6);
    (1..7_usize, holders, 1..5_usize).prop_map(|(devices, holders, wanted)| {
        let mut next = 0;
        let holders = holders.into_iter().map(|(priority, count)| {
            let held = next..(next + count).min(devices);
            next = held.end.max(next);
            Holder {
                priority,
                devices: held.collect(),
            }
        });
        Scene {
            devices,
            holders: holders.collect(),
            wanted,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_victim_frees_nothing_and_every_way_is_found(scene in scenes()) {
        let (found, victims) = scene.plan(true);
        let lower: Vec<usize> = (0..scene.holders.len())
            .filter(|index| scene.holders[*index].priority < 10)
            .collect();
        prop_assert_eq!(found.fits(), scene.fits_without(&[]));
        if found.fits() {
            prop_assert!(victims.is_empty());
            return Ok(());
        }
        prop_assert_eq!(!victims.is_empty(), scene.fits_without(&lower));
        for victim in &victims {
            prop_assert!(lower.contains(victim));
            prop_assert!(!scene.holders[*victim].devices.is_empty(), "{victim} has no devices");
            let others: Vec<usize> = victims.iter().copied().filter(|other| other != victim).collect();
            prop_assert!(!scene.fits_without(&others), "{victim} is not needed");
        }
        if !victims.is_empty() {
            prop_assert!(scene.fits_without(&victims));
        }
        // kube-scheduler's form never evicts for devices.
        let (upstream, none) = scene.plan(false);
        prop_assert!(none.is_empty() && upstream.chosen.is_none());
    }
}

/// The claim of a pod that has ended is about to be deallocated, so no pod is evicted.
#[test]
fn devices_of_ended_pods_are_awaited() {
    let scene = Scene {
        devices: 2,
        holders: vec![
            Holder {
                priority: 0,
                devices: vec![0],
            },
            Holder {
                priority: 0,
                devices: vec![1],
            },
        ],
        wanted: 1,
    };
    assert_eq!(scene.plan(true).1.len(), 1);
    let mut cluster = scene.cluster(&[0]);
    let ended = claim("p0", 1, &[0]);
    cluster.devices_mut().put_claim(from_value(ended).unwrap());
    let new = new_pod(&mut cluster);
    let found = plan_for(&cluster, &new, true, &mut []);
    assert!(!found.fits() && found.chosen.is_none());
}

impl Scene {
    /// One node with two devices, of which a pod of low priority has the second.
    fn with_first_free() -> Self {
        Self {
            devices: 2,
            holders: vec![Holder {
                priority: 0,
                devices: vec![1],
            }],
            wanted: 1,
        }
    }
}

/// The names of the victims for the pod `new`, which has the claims of these names.
fn victims(cluster: &mut Cluster, claims: &[&str]) -> Vec<String> {
    let mut new = pod("new", 10, "");
    let claims = claims
        .iter()
        .map(|name| json!({ "name": name, "resourceClaimName": name }));
    new["spec"]["resourceClaims"] = claims.collect();
    let new = cluster.pod(from_value(new).unwrap()).unwrap();
    let found = plan_for(cluster, &new, true, &mut []);
    assert!(!found.fits() && found.frees_devices());
    names_of_victims(cluster, &found)
}

/// A claim of the pod with devices is no reason to wait for these devices.
#[test]
fn devices_of_the_pod_itself_are_not_free() {
    let mut cluster = Scene::with_first_free().cluster(&[]);
    let mut mine = claim("mine", 1, &[0]);
    let consumer = json!([{ "resource": "pods", "name": "new", "uid": "uid-new" }]);
    mine["status"]["reservedFor"] = consumer;
    cluster.devices_mut().put_claim(from_value(mine).unwrap());
    assert_eq!(victims(&mut cluster, &["mine", "new"]), ["p0"]);
}

/// A pod may have reserved its devices before it has a node: another scheduler is about to bind it, or its binding failed.
#[test]
fn devices_of_pods_without_a_node_are_not_free() {
    let held = || from_value(claim("other", 1, &[0])).unwrap();
    let other: evictd_pod::wire::Pod = from_value(pod("other", 10, "")).unwrap();
    let mut cluster = Scene::with_first_free().cluster(&[]);
    cluster.devices_mut().put_claim(held());
    assert!(victims(&mut cluster, &["new"]).is_empty(), "it has ended");
    cluster.add_pod(other.clone()).unwrap();
    assert_eq!(victims(&mut cluster, &["new"]), ["p0"]);
    // An assumption comes and goes, and the pod still exists.
    let node = cluster.find_node("n").unwrap();
    let assumed = cluster.pod(other.clone()).unwrap();
    cluster.assume(assumed, node);
    assert_eq!(victims(&mut cluster, &["new"]), ["p0"]);
    assert!(cluster.forget_pod(&other.metadata));
    assert_eq!(victims(&mut cluster, &["new"]), ["p0"]);
    // So does a nomination.
    let mut nominated = other.clone();
    "n".clone_into(&mut nominated.status.nominated_node_name);
    cluster.add_pod(nominated).unwrap();
    assert!(cluster.remove_nominated(&other.metadata));
    assert_eq!(victims(&mut cluster, &["new"]), ["p0"]);
    cluster.remove_pod(&other.metadata);
    assert!(victims(&mut cluster, &["new"]).is_empty(), "it is deleted");
    cluster.note_pod(&other);
    assert_eq!(victims(&mut cluster, &["new"]), ["p0"]);
    let mut ended = pod("other", 10, "");
    ended["status"]["phase"] = json!("Failed");
    cluster.note_pod(&from_value(ended).unwrap());
    assert!(victims(&mut cluster, &["new"]).is_empty(), "it has failed");
}

/// An extender that accepts no candidate, and counts its requests.
#[derive(Default)]
struct Refuses(usize);

impl Extender for Refuses {
    fn name(&self) -> &'static str {
        "refuses"
    }

    fn is_interested(&self, _cluster: &Cluster, _preemptor: &Pod) -> bool {
        true
    }

    fn is_ignorable(&self) -> bool {
        false
    }

    fn process(
        &mut self,
        _cluster: &Cluster,
        _preemptor: &Pod,
        _offers: &[Offer],
    ) -> Result<Vec<Offer>, ExtenderError> {
        self.0 += 1;
        Ok(Vec::new())
    }
}

/// Freeing devices cannot help a pod that needs none.
#[test]
fn a_pod_that_needs_no_devices_is_tried_once() {
    let mut cluster = Cluster::new();
    let node = json!({ "metadata": { "name": "n" }, "status": { "allocatable": { "pods": "1" } } });
    cluster.add_node(&Deserialize::deserialize(node).unwrap());
    let mine = claim("new", 1, &[0]);
    cluster.devices_mut().put_claim(from_value(mine).unwrap());
    cluster
        .add_pod(from_value(pod("low", 0, "n")).unwrap())
        .unwrap();
    let mut without = pod("new", 10, "");
    without["spec"]["resourceClaims"] = json!([]);
    // All claims of the second one have devices.
    for new in [without, pod("new", 10, "")] {
        let new = cluster.pod(from_value(new).unwrap()).unwrap();
        let mut extender = Refuses::default();
        let found = plan_for(&cluster, &new, true, &mut [&mut extender]);
        assert!(found.chosen.is_none() && !found.frees_devices());
        assert_eq!(extender.0, 1);
    }
}
