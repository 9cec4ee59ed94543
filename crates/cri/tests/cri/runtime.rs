//! A real containerd: the private one that the testkit starts, or the one that `EVICTD_CRI_SOCKET` names.

use crate::client;
use evictd_cri::{Client, ContainerState, Error};
use evictd_testkit::cri::Containerd;
use nix::sys::signal::Signal;
use std::time::Duration;
use tokio::time::Instant;

fn patient(containerd: &Containerd) -> Client {
    client(containerd.socket(), Duration::from_secs(30))
}

/// The image of most tests.
const APP: &str = "evictd.test/app:1";

/// Polls until there is an answer, for 20 s at most.
async fn until<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            Instant::now() < deadline,
            "waited 20 s in vain until {what}"
        );
    }
}

async fn image(client: &Client, tag: &str) -> Option<evictd_cri::Image> {
    let images = client.images().await.unwrap();
    images
        .into_iter()
        .find(|image| image.tags.iter().any(|own| own == tag))
}

#[tokio::test]
async fn pods_and_containers_are_listed() {
    let Some(mut containerd) = Containerd::start("pods_and_containers_are_listed") else {
        return;
    };
    let client = patient(&containerd);
    let version = client.version().await.unwrap();
    assert!(!version.runtime.is_empty() && !version.version.is_empty());
    let conditions = client.status().await.unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition.kind == "RuntimeReady" && condition.holds)
    );
    // `None` with containerd 1.6.
    client.cgroup_driver().await.unwrap();

    containerd.image(APP, 0).unwrap();
    let pod = containerd.pod("web").unwrap();
    let id = containerd
        .container(&pod, ("main", 1), APP, &["sleep", "1000"])
        .unwrap();

    let sandboxes = client.sandboxes().await.unwrap();
    let sandbox = sandboxes
        .iter()
        .find(|sandbox| sandbox.id == pod.id)
        .unwrap();
    assert_eq!(
        (&*sandbox.pod.name, &*sandbox.pod.namespace, sandbox.ready),
        ("web", "default", true)
    );
    assert_eq!(sandbox.labels["io.kubernetes.pod.name"], "web");
    assert_eq!(sandbox.annotations["evictd.test/made-by"], "driver");
    assert_eq!(
        client.sandbox(&pod.id).await.unwrap().as_ref(),
        Some(sandbox)
    );
    assert_eq!(client.sandbox("none").await.unwrap(), None);

    let all = client.containers().await.unwrap();
    let container = all.iter().find(|container| container.id == id).unwrap();
    assert_eq!(
        (&*container.name, container.attempt, container.state),
        ("main", 1, ContainerState::Running)
    );
    assert_eq!((&container.sandbox, &*container.image), (&pod.id, APP));
    let of_image = image(&client, APP).await.unwrap();
    assert!(of_image.bytes > 100_000);
    assert_eq!(container.image_ref, of_image.id);

    assert_eq!(client.container("none").await.unwrap(), None);
}

#[tokio::test]
async fn exits_and_usage_are_reported() {
    let Some(mut containerd) = Containerd::start("exits_and_usage_are_reported") else {
        return;
    };
    let client = patient(&containerd);
    containerd.image(APP, 0).unwrap();
    let pod = containerd.pod("counted").unwrap();
    let writes = "dd if=/dev/zero of=/tmp/full bs=1048576 count=3; exec sleep 1000";
    let id = containerd
        .container(&pod, ("main", 0), APP, &["sh", "-c", writes])
        .unwrap();
    let dead = containerd
        .container(&pod, ("once", 0), APP, &["sh", "-c", "exit 3"])
        .unwrap();
    let status = until("the container ends", async || {
        client
            .container(&dead)
            .await
            .unwrap()
            .filter(|status| status.finished.is_some())
    })
    .await;
    assert_eq!(
        (status.exit_code, status.container.state),
        (3, ContainerState::Exited)
    );
    // The order of the two is open: containerd records the start when it is confirmed.
    assert!(status.started.is_some());

    // The runtime counts writable layers every second.
    let layer = until("the layer is counted", async || {
        let all = client.container_stats().await.unwrap().unwrap();
        let own = all.into_iter().find(|stats| stats.id == id)?;
        own.writable_layer
            .filter(|layer| layer.bytes >= Some(3 << 20))
    })
    .await;
    assert!(layer.inodes > Some(0));
    let pods = client.sandbox_stats().await.unwrap().unwrap();
    assert!(pods.iter().any(|stats| stats.id == pod.id));
    let filesystems = client.filesystems().await.unwrap().unwrap();
    assert!(!filesystems.images[0].mountpoint.is_empty());
}

#[tokio::test]
async fn containers_and_pods_are_stopped_and_removed() {
    let Some(mut containerd) = Containerd::start("containers_and_pods_are_stopped") else {
        return;
    };
    let client = patient(&containerd);
    containerd.image(APP, 0).unwrap();
    let pod = containerd.pod("leaving").unwrap();
    let start = |name| containerd.container(&pod, (name, 0), APP, &["sleep", "1000"]);
    let (id, other) = (start("main").unwrap(), start("other").unwrap());
    client.stop_container(&id, Duration::ZERO).await.unwrap();
    let stopped = client.container(&id).await.unwrap().unwrap();
    assert_eq!(
        (stopped.container.state, stopped.exit_code),
        (ContainerState::Exited, 137)
    );
    client.remove_container(&id).await.unwrap();
    client.remove_container(&id).await.unwrap();
    assert_eq!(client.container(&id).await.unwrap(), None);
    client.stop_sandbox(&pod.id).await.unwrap();
    assert!(!client.sandbox(&pod.id).await.unwrap().unwrap().ready);
    client.remove_sandbox(&pod.id).await.unwrap();
    client.remove_sandbox(&pod.id).await.unwrap();
    assert_eq!(client.sandbox(&pod.id).await.unwrap(), None);
    assert_eq!(client.container(&other).await.unwrap(), None);
    client.remove_image(APP).await.unwrap();
}

#[tokio::test]
async fn an_image_is_removed_by_its_id_with_all_its_names() {
    let Some(mut containerd) = Containerd::start("an_image_goes_by_its_id") else {
        return;
    };
    let client = patient(&containerd);
    containerd.image("evictd.test/unused:1", 1 << 20).unwrap();
    let unused = until("the image is known", async || {
        image(&client, "evictd.test/unused:1").await
    })
    .await;
    client.remove_image(&unused.id).await.unwrap();
    assert_eq!(image(&client, "evictd.test/unused:1").await, None);
    // Removing it again has no effect.
    client.remove_image(&unused.id).await.unwrap();

    containerd.image("evictd.test/used:1", 0).unwrap();
    let pod = containerd.pod("user").unwrap();
    let id = containerd
        .container(&pod, ("main", 0), "evictd.test/used:1", &["sleep", "1000"])
        .unwrap();
    let used = image(&client, "evictd.test/used:1").await.unwrap();
    // containerd does not check whether an image is in use, so the caller must. The container keeps running.
    client.remove_image(&used.id).await.unwrap();
    assert_eq!(image(&client, "evictd.test/used:1").await, None);
    let status = client.container(&id).await.unwrap().unwrap();
    assert_eq!(status.container.state, ContainerState::Running);
}

#[tokio::test]
async fn a_runtime_may_be_frozen_killed_and_started_again() {
    const TEST: &str = "a_runtime_may_be_frozen_killed_and_started_again";
    let Some(mut containerd) = Containerd::start(TEST) else {
        return;
    };
    if !containerd.is_own() {
        return evictd_testkit::testing::left_out(TEST, "the given runtime is not to be stopped");
    }
    let patient = patient(&containerd);
    let hasty = client(containerd.socket(), Duration::from_millis(200));
    containerd.image(APP, 0).unwrap();
    let pod = containerd.pod("web").unwrap();
    let id = containerd
        .container(&pod, ("main", 0), APP, &["sleep", "1000"])
        .unwrap();
    assert_eq!(hasty.containers().await.unwrap().len(), 1);

    containerd.signal(Signal::SIGSTOP).unwrap();
    let fresh = client(containerd.socket(), Duration::from_millis(200));
    for client in [&hasty, &hasty, &fresh] {
        let error = client.containers().await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    }
    containerd.signal(Signal::SIGCONT).unwrap();
    assert_eq!(patient.containers().await.unwrap().len(), 1);
    until("the hasty one is served again", async || {
        hasty.containers().await.ok()
    })
    .await;

    containerd.stop();
    let error = patient.containers().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    containerd.restart().unwrap();
    let after = until("the container is known again", async || {
        patient.container(&id).await.ok().flatten()
    })
    .await;
    assert_eq!(after.container.state, ContainerState::Running);
    patient.stop_container(&id, Duration::ZERO).await.unwrap();
    patient.remove_sandbox(&pod.id).await.unwrap();
}

#[test]
fn a_panicking_test_leaves_no_process() {
    const TEST: &str = "a_panicking_test_leaves_no_process";
    let Some(mut containerd) = Containerd::start(TEST) else {
        return;
    };
    if !containerd.is_own() {
        return evictd_testkit::testing::left_out(TEST, "the given runtime stays");
    }
    containerd.image(APP, 0).unwrap();
    let pod = containerd.pod("web").unwrap();
    containerd
        .container(&pod, ("main", 0), APP, &["sleep", "1000"])
        .unwrap();
    // Only the clean-up can then end the container.
    containerd.stop();
    let directory = containerd.socket().parent().unwrap().display().to_string();
    let group = format!("/{}", containerd.group());
    let traces = || {
        let mut found = Vec::new();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |file| std::fs::read(process.path().join(file)).unwrap_or_default();
            let (line, groups) = (read("cmdline"), read("cgroup"));
            let (line, groups) = (
                String::from_utf8_lossy(&line),
                String::from_utf8_lossy(&groups),
            );
            // A process without a command line has exited and waits for its parent.
            if line.contains(&directory) || groups.contains(&group) && !line.is_empty() {
                found.push(line.into_owned());
            }
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let ours = mounts.lines().filter(|line| line.contains(&directory));
        found.extend(ours.map(str::to_owned));
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            let left = hierarchy.path().join(&group[1..]);
            found.extend(left.exists().then(|| left.display().to_string()));
        }
        found
    };
    assert!(traces().len() > 2, "{:?}", traces());
    let panic = std::thread::spawn(move || {
        let _kept = containerd;
        std::panic::resume_unwind(Box::new("as a failed test"));
    });
    panic.join().unwrap_err();
    assert_eq!(traces(), Vec::<String>::new());
    assert!(!std::path::Path::new(&directory).exists());
}
