//! A pinned image is not removed, whoever needs the room.

use super::Site;
use crate::cgroup_support::left_out;
use crate::daemon::Daemon;
use crate::node::Node;
use evictd_testkit::cri::{Double, State, wire};

const COLLECTS: &str = "imageGC: {mode: pressure, minimumAge: 0s}\nevictWithoutRelief: true\n";
const PINNED: &str = "evictd.test/pinned:1";
const UNUSED: &str = "evictd.test/unused:1";
/// Never to be met.
const MUCH: [(&str, &str); 1] = [("nodefs.available", "99%")];

fn has_collected(daemon: &Daemon) {
    daemon.eventually("the reclaim is over", |daemon| {
        daemon.said("reclaim for nodefs.available: removed") > 0
    });
    daemon.some_turns_pass();
}

#[test]
fn a_real_runtime_keeps_its_pinned_image() {
    let test = "a_real_runtime_keeps_its_pinned_image";
    let Some(mut site) = Site::on_disk(test, 300) else {
        return;
    };
    site.containerd.image(PINNED, 1 << 20).unwrap();
    if !site.containerd.pin(PINNED).unwrap() {
        left_out(
            test,
            "this containerd knows no pinned images; a double of one does in the test beside this",
        );
        return;
    }
    site.containerd.image(UNUSED, 1 << 20).unwrap();
    let daemon = site.daemon(&MUCH, COLLECTS);
    has_collected(&daemon);
    let names = site.containerd.image_names().unwrap();
    assert!(names.iter().any(|name| name == PINNED), "{names:?}");
    assert!(!names.iter().any(|name| name == UNUSED), "{names:?}");
}

#[test]
fn a_runtime_that_tells_of_a_pinned_image_keeps_it() {
    let Some(node) = Node::new("a_runtime_that_tells_of_a_pinned_image") else {
        return;
    };
    let image = |id: &str, name: &str, pinned| wire::Image {
        id: id.to_owned(),
        repo_tags: vec![name.to_owned()],
        size: 1 << 20,
        pinned,
        ..wire::Image::default()
    };
    let double = Double::start(State {
        images: vec![
            image("sha256:1", PINNED, true),
            image("sha256:2", UNUSED, false),
        ],
        ..State::default()
    })
    .unwrap();
    let lines = format!(
        "containerRuntimeEndpoint: {}\n{COLLECTS}",
        double.socket().display()
    );
    let daemon = Daemon::start(&node, &MUCH, &lines);
    has_collected(&daemon);
    let left = double.change(|state| state.images.clone());
    let left: Vec<_> = left
        .iter()
        .map(|image| image.repo_tags[0].as_str())
        .collect();
    assert_eq!(left, [PINNED]);
}
