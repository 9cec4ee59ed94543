use super::*;
use evictd_cri::Settings;
use evictd_testkit::cri::{Behaviour, Containerd, Double, State, wire};
use tokio::time::Instant;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A container `main` of the pod `u`, made in this second, with a layer counted in second 100.
fn container(id: &str, created: i64, bytes: u64) -> (wire::Container, wire::ContainerStats) {
    let metadata = wire::ContainerMetadata {
        name: "main".to_owned(),
        attempt: 0,
    };
    let container = wire::Container {
        id: id.to_owned(),
        metadata: Some(metadata.clone()),
        created_at: created * 1_000_000_000,
        labels: [(POD_UID.to_owned(), "u".to_owned())].into(),
        ..wire::Container::default()
    };
    let layer = wire::FilesystemUsage {
        timestamp: 100_000_000_000,
        used_bytes: Some(wire::Count { value: bytes }),
        inodes_used: Some(wire::Count { value: 3 }),
        ..wire::FilesystemUsage::default()
    };
    let attributes = wire::ContainerAttributes {
        id: id.to_owned(),
        metadata: Some(metadata),
    };
    let stats = wire::ContainerStats {
        attributes: Some(attributes),
        writable_layer: Some(layer),
        ..wire::ContainerStats::default()
    };
    (container, stats)
}

fn double() -> (Double, Layers) {
    let (containers, container_stats) = [container("old", 10, 7000), container("new", 20, 5000)]
        .into_iter()
        .unzip();
    let double = Double::start(State {
        containers,
        container_stats,
        ..State::default()
    })
    .unwrap();
    let settings = Settings {
        endpoint: Some(double.socket().display().to_string()),
        ..Settings::default()
    };
    let layers = Layers::of(Client::new(settings).unwrap());
    (double, layers)
}

fn usage(layers: &Layers) -> PodUsage {
    let mut usage = PodUsage {
        ephemeral_storage: Some(Figure::bytes(1000)),
        ..PodUsage::default()
    };
    layers.add("u", Timestamp::MIN, &mut usage);
    usage
}

fn total(layers: &Layers) -> Option<i64> {
    usage(layers).ephemeral_storage.map(|bytes| bytes.value)
}

#[tokio::test]
async fn s1_070_the_layer_of_the_newest_container_of_a_name_counts_with_its_age() {
    let (_double, mut layers) = double();
    layers.read(at(107)).await;
    assert_eq!(layers.problem(), None);
    let usage = usage(&layers);
    assert_eq!(total(&layers), Some(6000));
    let FsUsage { bytes, inodes, .. } = usage.containers[0].rootfs;
    let counted = Figure::bytes(5000).measured(Source::Runtime, Some(at(100)));
    assert_eq!(
        (bytes, inodes.map(|inodes| inodes.value)),
        (Some(counted), Some(3))
    );
    let mut other = PodUsage::default();
    layers.add("another", Timestamp::MIN, &mut other);
    assert_eq!(other, PodUsage::default());
}

#[tokio::test]
async fn a_frozen_runtime_leaves_what_it_told_until_that_is_old_and_is_not_asked_each_time() {
    let (double, mut layers) = double();
    layers.read(at(107)).await;
    double.behave("ListContainers", Behaviour::Hang);
    for second in [110, 120] {
        layers.read(at(second)).await;
        assert_eq!(total(&layers), Some(6000));
    }
    assert_eq!(double.calls("ListContainers"), 2);
    let problem = layers.problem().unwrap();
    assert!(problem.ends_with("does not answer within 1s"), "{problem}");
    layers.read(at(230)).await;
    assert_eq!(total(&layers), Some(1000));
    assert_eq!(double.calls("ListContainers"), 3);
}

#[tokio::test]
async fn a_node_without_a_runtime_has_no_layers_and_no_problem() {
    let settings = Settings {
        endpoint: Some("/nowhere/runtime.sock".to_owned()),
        ..Settings::default()
    };
    let mut layers = Layers::of(Client::new(settings).unwrap());
    layers.read(at(1)).await;
    assert_eq!(layers.problem(), None);
    assert_eq!(total(&layers), Some(1000));
    // Where there are containers of one, it is said where it was looked for.
    let missing = layers.missing().unwrap();
    assert!(missing.contains("/nowhere/runtime.sock"), "{missing}");
}

#[tokio::test]
async fn a_real_containerd_tells_what_a_container_has_written() {
    let test = "a_real_containerd_tells_what_a_container_has_written";
    let Some(mut containerd) = Containerd::start(test) else {
        return;
    };
    containerd.image("evictd.test/layers:1", 0).unwrap();
    let pod = containerd.pod("writer").unwrap();
    let script = "dd if=/dev/zero of=/written bs=1M count=5; sleep 100";
    let command = ["sh", "-c", script];
    containerd
        .container(&pod, ("main", 0), "evictd.test/layers:1", &command)
        .unwrap();
    let settings = Settings {
        endpoint: Some(containerd.socket().display().to_string()),
        ..Settings::default()
    };
    let mut layers = Layers::of(Client::new(settings).unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        layers.read(Timestamp::now()).await;
        let bytes = |entry: Entry| (5 << 20..6 << 20).contains(&entry.bytes);
        let images = layers.images().is_some_and(|(images, _)| images > 1 << 20);
        if layers.entries("00000000-writer").any(bytes) && images {
            break;
        }
        let problem = layers.problem();
        assert!(Instant::now() < deadline, "{problem:?}: {:?}", layers.known);
        // containerd counts in the background.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_layer_that_is_larger_than_all_that_its_filesystem_holds_is_unknown() {
    let (double, mut layers) = double();
    let place = tempfile::tempdir().unwrap();
    let mountpoint = place.path().display().to_string();
    for (told, problem) in [(5000, false), (u64::MAX / 4, true)] {
        double.change(|state| {
            let layer = state.container_stats[1].writable_layer.as_mut().unwrap();
            layer.used_bytes = Some(wire::Count { value: told });
            layer.identifier = Some(wire::FilesystemIdentifier {
                mountpoint: mountpoint.clone(),
            });
        });
        layers.read(at(107)).await;
        let told = layers.problem().unwrap_or_default();
        assert_eq!(
            told.contains("in that of container \"main\""),
            problem,
            "{told}"
        );
    }
    // The earlier container of that name is no answer.
    let usage = usage(&layers);
    assert_eq!(total(&layers), Some(1000));
    let unknown = FsUsage {
        extent: Extent::Unknown,
        ..FsUsage::default()
    };
    assert_eq!(usage.containers[0].rootfs, unknown);
}

#[tokio::test]
async fn figures_that_are_too_large_to_be_added_are_no_sum() {
    let (double, mut layers) = double();
    double.change(|state| {
        for stats in &mut state.container_stats {
            let layer = stats.writable_layer.as_mut().unwrap();
            layer.used_bytes = Some(wire::Count {
                value: i64::MAX.cast_unsigned(),
            });
        }
        state.filesystems.images = vec![wire::FilesystemUsage {
            used_bytes: Some(wire::Count { value: 9 }),
            ..wire::FilesystemUsage::default()
        }];
    });
    layers.read(at(107)).await;
    assert_eq!(layers.images(), None);
}

#[tokio::test]
async fn a_figure_without_a_time_is_unknown_and_that_of_an_ended_container_does_not_age() {
    let (double, mut layers) = double();
    let (running, ended) = (1, 2);
    // Of what the runtime has not counted yet it tells zero bytes, and no time.
    let cases = [
        (
            "counted before the crossing",
            running,
            (100, 5000),
            Some(Extent::Unknown),
        ),
        (
            "it had ended by then",
            ended,
            (100, 5000),
            Some(Extent::Counted),
        ),
        ("not counted yet", running, (0, 0), Some(Extent::Unknown)),
        ("it ended uncounted", ended, (0, 0), None),
    ];
    for (case, state, (second, bytes), expected) in cases {
        double.change(|now| {
            now.containers.truncate(1);
            now.container_stats.truncate(1);
            now.containers[0].state = state;
            let layer = now.container_stats[0].writable_layer.as_mut().unwrap();
            layer.timestamp = second * 1_000_000_000;
            layer.used_bytes = Some(wire::Count { value: bytes });
        });
        layers.read(at(107)).await;
        let mut usage = PodUsage::default();
        layers.add("u", at(105), &mut usage);
        let extent = usage.containers.first().map(|one| one.rootfs.extent);
        assert_eq!(extent, expected, "{case}");
    }
}

#[tokio::test]
async fn a_running_container_is_named_before_the_kubelet_has_reported_it() {
    let (double, mut layers) = double();
    let place = ("u".to_owned(), "main".to_owned());
    double.change(|now| now.containers[1].state = 1);
    layers.read(at(107)).await;
    assert_eq!(layers.container(&place), Some("new"));
    double.change(|now| now.containers[1].state = 2);
    layers.read(at(107)).await;
    assert_eq!(layers.container(&place), None, "it has ended");
}
