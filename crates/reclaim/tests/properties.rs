//! What a reclaim never removes, whatever the runtime lists and answers.
#![allow(clippy::unwrap_used, reason = "tests")]

use evictd_reclaim::{
    Command, Container, Event, Image, Inventory, Policy, Reclaiming, Removal, Sandbox,
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn name() -> impl Strategy<Value = String> {
    select(&NAMES[..]).prop_map(str::to_owned)
}

/// Of a container or a sandbox: none is of no pod.
fn pod() -> impl Strategy<Value = String> {
    select(vec!["", "web", "job", "gone"]).prop_map(str::to_owned)
}

fn container() -> impl Strategy<Value = Container> {
    // By its id, by a tag, by a digest, or by nothing that any image has.
    let image = prop_oneof![
        name().prop_map(|name| format!("sha256:{name}")),
        name(),
        name().prop_map(|name| format!("mirror.test/x@sha256:{name}0")),
        Just("elsewhere:5".to_owned()),
    ];
    let images = prop::collection::vec(image, 0..3);
    let ended = prop::option::of(0_i64..1000);
    (name(), pod(), name(), name(), ended, images).prop_map(
        |(id, pod, sandbox, name, ended, image)| Container {
            id: format!("container-{id}"),
            sandbox: format!("sandbox-{sandbox}"),
            pod,
            name,
            exited: ended.is_some(),
            ended: ended.map(at),
            image,
            layer: None,
        },
    )
}

fn sandbox() -> impl Strategy<Value = Sandbox> {
    let created = prop::option::of((0_i64..1000).prop_map(at));
    (name(), pod(), any::<bool>(), created).prop_map(|(id, pod, ready, created)| Sandbox {
        id: format!("sandbox-{id}"),
        pod,
        ready,
        created,
    })
}

fn image() -> impl Strategy<Value = Image> {
    let times = (0_i64..1000, 0_i64..1000);
    let kept = (prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (name(), kept, times).prop_map(|(id, (pinned, of_sandboxes), (seen, used))| Image {
        names: vec![
            format!("docker.io/library/{id}:latest"),
            format!("docker.io/library/{id}@sha256:{id}0"),
        ],
        id: format!("sha256:{id}"),
        bytes: 1 << 20,
        pinned,
        of_sandboxes,
        first_seen: at(seen),
        last_used: at(used),
    })
}

fn inventory() -> impl Strategy<Value = Inventory> {
    let lists = (
        prop::collection::vec(container(), 0..6),
        prop::collection::vec(sandbox(), 0..5),
        prop::collection::vec(image(), 0..6),
    );
    lists.prop_map(|(mut containers, mut sandboxes, images)| {
        containers.sort_by(|a: &Container, b| a.id.cmp(&b.id));
        containers.dedup_by(|a, b| a.id == b.id);
        sandboxes.sort_by(|a: &Sandbox, b| a.id.cmp(&b.id));
        sandboxes.dedup_by(|a, b| a.id == b.id);
        Inventory {
            containers,
            sandboxes,
            images,
            images_on_disk: None,
        }
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    let active = prop::option::of(subsequence(vec!["web", "job"], 0..=2));
    let minimum = (0_i64..600).prop_map(SignedDuration::from_secs);
    (any::<[bool; 2]>(), minimum, active).prop_map(|([containers, images], minimum_age, active)| {
        Policy {
            dead_containers: containers,
            unused_images: images,
            minimum_age,
            active_pods: active.map(|pods| pods.into_iter().map(str::to_owned).collect()),
            ..Policy::default()
        }
    })
}

/// What must hold of a removal that follows from this inventory.
fn check(removal: &Removal, inventory: &Inventory, policy: &Policy, now: Timestamp) {
    let active = |pod: &str| {
        let mut own = inventory.sandboxes.iter().filter(|one| one.pod == pod);
        let listed = policy.active_pods.as_ref();
        own.any(|one| one.ready) || listed.is_none_or(|active| active.contains(pod))
    };
    match removal {
        Removal::Container { id, .. } => {
            assert!(policy.dead_containers);
            let found = |one: &&Container| one.id == *id && one.exited && !one.pod.is_empty();
            let one = inventory.containers.iter().find(found).unwrap();
            let others = inventory.containers.iter().filter(|other| {
                other.exited && other.pod == one.pod && other.name == one.name && other.id != *id
            });
            let newer = others.filter(|other| other.ended >= one.ended).count();
            assert!(!active(&one.pod) || newer > 0, "the last of its name");
        }
        Removal::Sandbox { id } => {
            assert!(policy.dead_containers);
            let mut own = inventory.containers.iter();
            assert!(own.all(|one| one.sandbox != *id), "it has containers");
            let mut found = inventory.sandboxes.iter();
            assert!(found.any(|one| one.id == *id && !one.ready));
        }
        Removal::Image { id, .. } => {
            assert!(policy.unused_images);
            for image in inventory.images.iter().filter(|one| one.id == *id) {
                assert!(!image.pinned && !image.of_sandboxes);
                assert!(now.duration_since(image.first_seen) >= policy.minimum_age);
                for text in inventory.containers.iter().flat_map(|one| &one.image) {
                    assert!(!Inventory::is_named(image, text), "{text} is used");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn used_pinned_and_young_objects_stay_and_every_reclaim_ends(
        inventories in prop::collection::vec(inventory(), 1..8),
        policy in policy(),
        answers in prop::collection::vec(any::<(bool, bool)>(), 64),
    ) {
        let mut now = 1000;
        let (mut machine, mut command) = Reclaiming::start(at(now), policy.clone(), Some(0));
        let mut lists = inventories.iter().cycle();
        let mut answers = answers.into_iter().cycle();
        let mut listed = Inventory::default();
        let mut listed_at = at(now);
        for _ in 0..2000 {
            let (good, relieved) = answers.next().unwrap();
            let event = match &command {
                Command::Done(_) => return Ok(()),
                Command::List => {
                    listed = lists.next().unwrap().clone();
                    listed_at = at(now);
                    Event::Listed(listed.clone())
                }
                Command::Remove(removal) => {
                    check(removal, &listed, &policy, listed_at);
                    if good { Event::Removed } else { Event::Failed("no".to_owned()) }
                }
                Command::Wait => {
                    now += 1;
                    Event::Observed { time: at(now), available: Some(now), relieved: relieved && good }
                }
            };
            if let Some(next) = machine.on_event(at(now), event) {
                command = next;
            }
        }
        prop_assert!(false, "it does not end: {command:?}");
    }
}
