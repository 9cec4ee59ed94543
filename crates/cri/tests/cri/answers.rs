//! Tests every call and the conversion of its answer.

use crate::state::{state, text};
use crate::{SOON, patient};
use evictd_cri::{CgroupDriver, Code, ContainerState, Error, EventKind};
use evictd_testkit::cri::{Behaviour, Double, wire};
use std::time::Duration;

#[tokio::test]
async fn every_question_is_answered_with_all_that_was_said() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    let version = client.version().await.unwrap();
    assert_eq!(
        (&*version.runtime, &*version.version, &*version.api),
        ("double", "1.2", "v1")
    );
    assert_eq!(client.info().await.unwrap()["config"], "{}");
    let conditions = client.status().await.unwrap();
    assert_eq!(
        (&*conditions[0].kind, conditions[0].holds),
        ("NetworkReady", false)
    );
    assert_eq!(
        (&*conditions[0].reason, &*conditions[0].message),
        ("NoPlugin", "no plugin")
    );
    assert_eq!(
        client.cgroup_driver().await.unwrap(),
        Some(CgroupDriver::Cgroupfs)
    );

    let sandboxes = client.sandboxes().await.unwrap();
    let sandbox = &sandboxes[0];
    assert_eq!((&*sandbox.id, sandbox.ready), ("s1", true));
    let pod = &sandbox.pod;
    assert_eq!(
        (&*pod.name, &*pod.namespace, &*pod.uid, pod.attempt),
        ("web\n0", "shop", "u1", 1)
    );
    assert_eq!(sandbox.created.unwrap().as_millisecond(), 1500);
    assert_eq!(sandbox.labels, text(&[("app", "web")]));
    assert_eq!(sandbox.annotations, text(&[("note", "a\nb")]));
    assert_eq!(sandbox.runtime_handler, "runsc");
    assert_eq!(client.sandbox("s1").await.unwrap().as_ref(), Some(sandbox));
    assert_eq!(client.sandbox("s2").await.unwrap(), None);

    let containers = client.containers().await.unwrap();
    let container = &containers[0];
    assert_eq!(
        (&*container.id, &*container.sandbox, &*container.name),
        ("c1", "s1", "main")
    );
    assert_eq!(
        (container.attempt, container.state),
        (2, ContainerState::Running)
    );
    assert_eq!(
        (&*container.image, &*container.image_ref),
        ("shop/web:1", "sha256:ref")
    );
    assert_eq!(container.image_id, "sha256:id");
    assert_eq!(container.created.unwrap().as_second(), 2);
    assert_eq!(container.labels, text(&[("l", "1")]));
    assert_eq!(container.annotations, text(&[("a", "2")]));

    let status = client.container("c1").await.unwrap().unwrap();
    let mut listed = container.clone();
    listed.sandbox.clear();
    assert_eq!(status.container, listed);
    assert_eq!(status.started.unwrap().as_nanosecond(), 3);
    assert_eq!(status.finished.unwrap().as_nanosecond(), 4);
    assert_eq!(
        (status.exit_code, &*status.reason, &*status.message),
        (137, "OOMKilled", "killed")
    );
    assert_eq!(status.log_path, "/var/log/pods/x/0.log");
    let resources = status.resources.unwrap();
    assert_eq!(
        (resources.memory_limit, resources.cpu_shares),
        (Some(1 << 20), Some(512))
    );
    assert_eq!(
        (resources.cpu_quota, resources.cpu_period),
        (None, Some(100_000))
    );
    assert_eq!(resources.oom_score_adj, 900);
    assert_eq!(client.container("c2").await.unwrap(), None);
}

#[tokio::test]
async fn figures_that_are_missing_are_not_zero() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    let stats = client.container_stats().await.unwrap().unwrap();
    let memory = stats[0].memory.unwrap();
    assert_eq!((&*stats[0].id, &*stats[0].name), ("c1", "main"));
    assert_eq!(
        (memory.working_set, memory.usage, memory.rss),
        (Some(100), Some(200), None)
    );
    assert_eq!(stats[0].cpu_nanoseconds, Some(7));
    let layer = stats[0].writable_layer.as_ref().unwrap();
    assert_eq!(
        (layer.bytes, layer.inodes, &*layer.mountpoint),
        (Some(4096), Some(3), "/var/lib/x")
    );

    let pods = client.sandbox_stats().await.unwrap().unwrap();
    assert_eq!(
        (&*pods[0].id, &*pods[0].pod.uid, pods[0].processes),
        ("s1", "u1", Some(5))
    );
    assert_eq!((pods[0].memory, pods[0].cpu_nanoseconds), (None, None));
    assert_eq!(pods[0].containers, stats);

    let filesystems = client.filesystems().await.unwrap().unwrap();
    assert_eq!(filesystems.images, std::slice::from_ref(layer));
    assert_eq!(filesystems.containers, []);
    let images = client.images().await.unwrap();
    assert_eq!(
        (&*images[0].id, images[0].bytes, images[0].pinned),
        ("sha256:id", 5_000_000_000, true)
    );
    assert_eq!(images[0].tags, ["shop/web:1"]);
    assert_eq!(images[0].digests, ["shop/web@sha256:d"]);
    assert_eq!(images[0].user.as_deref(), Some("0"));
}

#[tokio::test]
async fn stopped_and_removed_objects_disappear() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    client
        .stop_container("c1", Duration::from_millis(1500))
        .await
        .unwrap();
    assert_eq!(
        double.change(|state| state.stopped.clone()),
        [("c1".to_owned(), 2)]
    );
    let stopped = client.containers().await.unwrap();
    assert_eq!(stopped[0].state, ContainerState::Exited);
    client.stop_container("c1", Duration::MAX).await.unwrap();
    assert_eq!(
        double.change(|state| state.stopped[1].1),
        100 * 365 * 86_400
    );
    let gone = client
        .stop_container("c2", Duration::ZERO)
        .await
        .unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
    client.stop_sandbox("s1").await.unwrap();
    assert!(!client.sandboxes().await.unwrap()[0].ready);
    client.remove_container("c1").await.unwrap();
    assert_eq!(client.containers().await.unwrap(), []);
    client.remove_sandbox("s1").await.unwrap();
    assert_eq!(client.sandboxes().await.unwrap(), []);
    client.remove_image("shop/web:1").await.unwrap();
    assert_eq!(client.images().await.unwrap(), []);
}

#[tokio::test]
async fn features_that_an_old_runtime_lacks_are_none() {
    let double = Double::start(state()).unwrap();
    let lacks = [
        "RuntimeConfig",
        "ListPodSandboxStats",
        "ListContainerStats",
        "ImageFsInfo",
    ];
    for call in lacks
        .into_iter()
        .chain(["GetContainerEvents", "ListImages"])
    {
        double.behave(call, Behaviour::Unimplemented);
    }
    let client = patient(&double);
    assert_eq!(client.cgroup_driver().await.unwrap(), None);
    assert_eq!(client.sandbox_stats().await.unwrap(), None);
    assert_eq!(client.container_stats().await.unwrap(), None);
    assert_eq!(client.filesystems().await.unwrap(), None);
    assert_eq!(client.events().next().await.unwrap(), None);
    // An unsupported mandatory call is an error.
    let error = client.images().await.unwrap_err();
    let unimplemented = |code| code == Code::Unimplemented;
    assert!(
        matches!(error, Error::Runtime { code, .. } if unimplemented(code)),
        "{error}"
    );
}

#[tokio::test]
async fn events_come_as_they_happen() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    let mut events = client.events();
    let event = wire::ContainerEvent {
        container_id: "c1".to_owned(),
        kind: 2,
        created_at: 5_000_000_000,
        sandbox: Some(wire::SandboxStatus {
            id: "s1".to_owned(),
            ..Default::default()
        }),
        containers: vec![wire::ContainerStatus::default()],
    };
    let following = async {
        // Sends until a client listens.
        while !double.tell(&event) {
            tokio::task::yield_now().await;
        }
    };
    let (first, ()) = tokio::join!(events.next(), following);
    let first = first.unwrap().unwrap();
    assert_eq!((&*first.container, first.kind), ("c1", EventKind::Stopped));
    assert_eq!(first.at.unwrap().as_second(), 5);
    assert_eq!(
        (&*first.sandbox.unwrap().id, first.containers.len()),
        ("s1", 1)
    );
    // Dropping the wait loses no event.
    assert!(tokio::time::timeout(SOON, events.next()).await.is_err());
    assert!(double.tell(&wire::ContainerEvent { kind: 9, ..event }));
    assert_eq!(
        events.next().await.unwrap().unwrap().kind,
        EventKind::Other(9)
    );
}

#[tokio::test]
async fn a_stream_that_breaks_is_opened_anew() {
    let mut double = Double::start(state()).unwrap();
    let client = patient(&double);
    let mut events = client.events();
    let event = wire::ContainerEvent::default();
    let tell = async {
        while !double.tell(&event) {
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(async { events.next().await.unwrap().unwrap() }, tell);
    double.restart().unwrap();
    let error = events.next().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let tell = async {
        while !double.tell(&event) {
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(async { events.next().await.unwrap().unwrap() }, tell);
}

#[tokio::test]
async fn a_restart_is_not_noticed() {
    let mut double = Double::start(state()).unwrap();
    let client = patient(&double);
    for _ in 0..5 {
        assert_eq!(client.containers().await.unwrap().len(), 1);
        double.restart().unwrap();
    }
    double.stop();
    let error = client.containers().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    double.restart().unwrap();
    assert_eq!(client.containers().await.unwrap().len(), 1);
}

#[tokio::test]
async fn empty_and_unusual_strings_are_kept() {
    let mut odd = state();
    odd.sandboxes = vec![wire::Sandbox {
        created_at: -1,
        state: 7,
        ..Default::default()
    }];
    odd.containers = vec![wire::Container {
        created_at: i64::MIN,
        state: -3,
        ..Default::default()
    }];
    odd.images = vec![wire::Image::default()];
    odd.container_stats = vec![wire::ContainerStats::default()];
    odd.sandbox_stats = vec![wire::SandboxStats::default()];
    odd.filesystems.images = vec![wire::FilesystemUsage::default()];
    let double = Double::start(odd).unwrap();
    let client = patient(&double);
    let sandbox = client.sandboxes().await.unwrap().remove(0);
    assert_eq!(
        (&*sandbox.pod.name, sandbox.ready, sandbox.created),
        ("", false, None)
    );
    assert!(sandbox.labels.is_empty());
    let container = client.containers().await.unwrap().remove(0);
    assert_eq!(
        (container.state, container.created),
        (ContainerState::Unknown, None)
    );
    let image = client.images().await.unwrap().remove(0);
    assert_eq!((image.tags.len(), image.user), (0, None));
    assert_eq!(
        client.container_stats().await.unwrap().unwrap()[0].writable_layer,
        None
    );
    assert_eq!(
        client.sandbox_stats().await.unwrap().unwrap()[0].containers,
        []
    );
    assert_eq!(
        client.filesystems().await.unwrap().unwrap().images[0].bytes,
        None
    );
}
