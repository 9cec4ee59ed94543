//! Every call and every error, against a runtime in memory.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_cri::{
    CgroupDriver, Client, Code, ContainerState, Error, EventKind, Settings, USUAL_SOCKETS,
};
use evictd_testkit::cri::{Behaviour, Double, State, wire};
use std::path::Path;
use std::time::Duration;

/// Short where the runtime is to be waited for in vain.
fn client(socket: &Path, question: Duration) -> Client {
    Client::new(Settings {
        endpoint: Some(socket.display().to_string()),
        question,
        change: question,
        ..Settings::default()
    })
    .unwrap()
}

/// Long enough for a busy machine.
fn patient(double: &Double) -> Client {
    client(&double.socket(), Duration::from_secs(30))
}

const SOON: Duration = Duration::from_millis(100);

fn count(value: u64) -> wire::Count {
    wire::Count { value }
}

fn text(words: &[(&str, &str)]) -> wire::Words {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    words.iter().map(pair).collect()
}

fn layer() -> wire::FilesystemUsage {
    wire::FilesystemUsage {
        timestamp: 1_000_000_000,
        identifier: Some(wire::FilesystemIdentifier {
            mountpoint: "/var/lib/x".to_owned(),
        }),
        used_bytes: Some(count(4096)),
        inodes_used: Some(count(3)),
    }
}

fn container_stats() -> wire::ContainerStats {
    wire::ContainerStats {
        attributes: Some(wire::ContainerAttributes {
            id: "c1".to_owned(),
            metadata: Some(wire::ContainerMetadata {
                name: "main".to_owned(),
                attempt: 2,
            }),
        }),
        cpu: Some(wire::CpuUsage {
            timestamp: 1,
            usage_core_nano_seconds: Some(count(7)),
        }),
        memory: Some(wire::MemoryUsage {
            timestamp: 1,
            working_set_bytes: Some(count(100)),
            usage_bytes: Some(count(200)),
            rss_bytes: None,
        }),
        writable_layer: Some(layer()),
    }
}

fn state() -> State {
    let metadata = Some(wire::SandboxMetadata {
        name: "web\n0".to_owned(),
        uid: "u1".to_owned(),
        namespace: "shop".to_owned(),
        attempt: 1,
    });
    State {
        version: wire::VersionResponse {
            runtime_name: "double".to_owned(),
            runtime_version: "1.2".to_owned(),
            runtime_api_version: "v1".to_owned(),
        },
        conditions: vec![wire::RuntimeCondition {
            kind: "NetworkReady".to_owned(),
            status: false,
            reason: "NoPlugin".to_owned(),
            message: "no plugin".to_owned(),
        }],
        config: wire::RuntimeConfigResponse {
            linux: Some(wire::LinuxRuntimeConfiguration { cgroup_driver: 1 }),
        },
        sandboxes: vec![wire::Sandbox {
            id: "s1".to_owned(),
            metadata: metadata.clone(),
            created_at: 1_500_000_000,
            labels: text(&[("app", "web")]),
            annotations: text(&[("note", "a\nb")]),
            runtime_handler: "runsc".to_owned(),
            state: 0,
        }],
        containers: vec![wire::Container {
            id: "c1".to_owned(),
            sandbox_id: "s1".to_owned(),
            metadata: Some(wire::ContainerMetadata {
                name: "main".to_owned(),
                attempt: 2,
            }),
            image: Some(wire::ImageSpec {
                image: "shop/web:1".to_owned(),
            }),
            image_ref: "sha256:ref".to_owned(),
            image_id: "sha256:id".to_owned(),
            state: 1,
            created_at: 2_000_000_000,
            labels: text(&[("l", "1")]),
            annotations: text(&[("a", "2")]),
        }],
        statuses: vec![wire::ContainerStatus {
            id: "c1".to_owned(),
            started_at: 3,
            finished_at: 4,
            exit_code: 137,
            reason: "OOMKilled".to_owned(),
            message: "killed".to_owned(),
            log_path: "/var/log/pods/x/0.log".to_owned(),
            resources: Some(wire::ContainerResources {
                linux: Some(wire::LinuxResources {
                    cpu_period: 100_000,
                    cpu_quota: -1,
                    cpu_shares: 512,
                    memory_limit_in_bytes: 1 << 20,
                    oom_score_adj: 900,
                }),
            }),
            ..Default::default()
        }],
        sandbox_stats: vec![wire::SandboxStats {
            attributes: Some(wire::SandboxAttributes {
                id: "s1".to_owned(),
                metadata,
            }),
            linux: Some(wire::LinuxSandboxStats {
                cpu: None,
                memory: None,
                process: Some(wire::ProcessUsage {
                    process_count: Some(count(5)),
                }),
                containers: vec![container_stats()],
            }),
        }],
        container_stats: vec![container_stats()],
        images: vec![wire::Image {
            id: "sha256:id".to_owned(),
            repo_tags: vec!["shop/web:1".to_owned()],
            repo_digests: vec!["shop/web@sha256:d".to_owned()],
            size: 5_000_000_000,
            uid: Some(wire::Uid { value: 0 }),
            username: String::new(),
            pinned: true,
        }],
        filesystems: wire::ImageFsInfo {
            images: vec![layer()],
            containers: vec![],
        },
        stopped: vec![],
    }
}

#[tokio::test]
async fn every_question_is_answered_with_all_that_was_said() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    let version = client.version().await.unwrap();
    assert_eq!(
        (&*version.runtime, &*version.version, &*version.api),
        ("double", "1.2", "v1")
    );
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
async fn what_is_stopped_and_removed_is_gone() {
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
async fn what_an_old_runtime_lacks_is_none() {
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
    // What every runtime must have is an error.
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
        // Told until somebody listens.
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
    // A wait that is given up loses nothing.
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
async fn a_runtime_that_does_not_answer_is_given_up_and_may_come_back() {
    let double = Double::start(state()).unwrap();
    for (behaviour, call) in [
        (Behaviour::Hang, "ListContainers"),
        (Behaviour::Slow(Duration::from_mins(1)), "ListContainers"),
    ] {
        double.behave(call, behaviour);
        let client = client(&double.socket(), SOON);
        let error = client.containers().await.unwrap_err();
        let named = |after| after == SOON;
        assert!(
            matches!(&error, Error::TimedOut { call: "ListContainers", after, .. } if named(*after)),
            "{error}"
        );
        assert!(error.to_string().contains("cri.sock"), "{error}");
    }
    double.recover("ListContainers");
    assert_eq!(patient(&double).containers().await.unwrap().len(), 1);
    // The wait for a stop is longer by the grace period.
    double.behave("StopContainer", Behaviour::Slow(Duration::from_millis(300)));
    let hasty = client(&double.socket(), SOON);
    hasty
        .stop_container("c1", Duration::from_secs(30))
        .await
        .unwrap();
    let error = hasty
        .stop_container("c1", Duration::ZERO)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn the_runtimes_refusal_is_told_in_its_words() {
    let double = Double::start(state()).unwrap();
    double.behave("RemoveImage", Behaviour::Refuse(9, "image is in use"));
    double.behave("ListImages", Behaviour::Refuse(7, "not you"));
    let client = patient(&double);
    let error = client.remove_image("shop/web:1").await.unwrap_err();
    assert!(
        matches!(&error, Error::Runtime { code: Code::FailedPrecondition, message, .. } if message == "image is in use"),
        "{error}"
    );
    let words = error.to_string();
    assert!(
        words.starts_with("RemoveImage: the runtime at /"),
        "{words}"
    );
    assert_eq!(double.calls("RemoveImage"), 1);
    let error = client.images().await.unwrap_err();
    assert!(matches!(error, Error::NotPermitted { .. }), "{error}");
}

#[tokio::test]
async fn too_much_is_refused_before_it_is_kept() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    double.behave("ListContainers", Behaviour::Huge(64 << 20));
    let error = client.containers().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                limit: 16_777_216,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("16777216 bytes"), "{error}");
    // 8 million containers without any field, in 16 MB.
    double.behave(
        "ListContainers",
        Behaviour::Bytes([0x0a, 0].repeat(8_000_000)),
    );
    let error = client.containers().await.unwrap_err();
    assert!(
        matches!(error, Error::TooMany { limit: 20_000, .. }),
        "{error}"
    );
    double.recover("ListContainers");
    double.change(|state| state.containers = vec![state.containers[0].clone(); 100_000]);
    let error = client.containers().await.unwrap_err();
    assert!(matches!(error, Error::TooMany { .. }), "{error}");
    double.change(|state| state.containers.truncate(20_000));
    assert_eq!(client.containers().await.unwrap().len(), 20_000);
}

#[tokio::test]
async fn what_is_empty_or_odd_is_kept_as_it_is() {
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

#[tokio::test]
async fn a_runtime_from_before_v1_is_called_old() {
    let double = Double::start(state()).unwrap();
    double.speak("runtime.v1alpha2");
    let client = patient(&double);
    for error in [
        client.version().await.unwrap_err(),
        client.containers().await.unwrap_err(),
        client.cgroup_driver().await.unwrap_err(),
        client.events().next().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::OldVersion { .. }), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_runtime_is_told_so() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    double.speak("containerd.services.v1");
    let error = client.version().await.unwrap_err();
    assert!(
        matches!(&error, Error::NotCri { why, .. } if why.contains("plugin")),
        "{error}"
    );
    double.speak("runtime.v1");
    for status in [200, 400, 404, 500] {
        double.behave("Version", Behaviour::Http(status));
        let error = client.version().await.unwrap_err();
        assert!(matches!(error, Error::NotCri { .. }), "{status}: {error}");
    }
    double.behave("Version", Behaviour::Bytes(vec![0xff; 20]));
    let error = client.version().await.unwrap_err();
    assert!(matches!(error, Error::NotCri { .. }), "{error}");
}

#[tokio::test]
async fn what_speaks_no_http2_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let answers: [&'static [u8]; 3] = [
        b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        b"220 mail ESMTP ready\r\n",
    ];
    for (index, bytes) in answers.into_iter().enumerate() {
        let socket = directory.path().join(index.to_string());
        let _impostor = Double::impostor(&socket, bytes).unwrap();
        let error = client(&socket, Duration::from_secs(30))
            .version()
            .await
            .unwrap_err();
        assert!(matches!(error, Error::NotCri { .. }), "{index}: {error:?}");
    }
    let socket = directory.path().join("silent");
    let _silent = Double::impostor(&socket, b"").unwrap();
    let error = client(&socket, SOON).version().await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn a_socket_that_is_not_there_or_nobodys_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("none.sock");
    let missing = client(&socket, SOON);
    let error = missing.version().await.unwrap_err();
    assert!(matches!(error, Error::NotThere { .. }), "{error}");
    assert!(error.to_string().contains("none.sock"), "{error}");
    // A file that is no socket, as one whose runtime is gone: nobody listens.
    std::fs::write(&socket, "").unwrap();
    let error = missing.version().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    // The runtime may be started later.
    std::fs::remove_file(&socket).unwrap();
    let error = missing.version().await.unwrap_err();
    assert!(matches!(error, Error::NotThere { .. }), "{error}");
}

#[tokio::test]
async fn without_a_configured_socket_all_usual_ones_are_named() {
    if USUAL_SOCKETS.iter().any(|path| Path::new(path).exists()) {
        return evictd_testkit::testing::left_out("usual_sockets", "a container runtime is here");
    }
    let client = Client::new(Settings::default()).unwrap();
    assert_eq!(client.socket(), None);
    let words = client.version().await.unwrap_err().to_string();
    assert!(
        USUAL_SOCKETS.iter().all(|path| words.contains(path)),
        "{words}"
    );
}
