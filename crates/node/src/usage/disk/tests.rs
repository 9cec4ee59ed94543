use super::*;
use crate::pods::{LocalPod, trim::trim};
use evictd_pod::{Pod, wire};
use evictd_usage::FsUsage;
use serde_json::json;
use std::{collections::BTreeSet, fs, path::Path};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn set(specs: &[&str]) -> PodSet {
    let pods = specs.iter().enumerate().map(|(index, spec)| {
        let mut pod: wire::Pod = serde_json::from_str(&format!(r#"{{"spec":{spec}}}"#)).unwrap();
        pod.metadata.name = format!("p{index}");
        pod.metadata.uid = format!("u{index}").into();
        LocalPod::new(Pod::from_wire(pod), None)
    });
    PodSet {
        pods: pods.collect(),
        ..PodSet::default()
    }
}

fn meter(top: &Path) -> DiskMeter {
    DiskMeter::new(DiskRoots {
        kubelet: top.join("kubelet"),
        logs: top.join("logs"),
        proc: "/proc".into(),
    })
}

fn write(path: &Path, kibibytes: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![1; kibibytes << 10]).unwrap();
}

fn kibibytes(usage: FsUsage) -> Option<i64> {
    usage.bytes.map(|bytes| bytes.value >> 10)
}

#[tokio::test]
async fn s1_067_local_volumes_and_logs_are_found_where_the_kubelet_puts_them() {
    let top = tempfile::tempdir().unwrap();
    let volumes = top.path().join("kubelet/pods/u0/volumes");
    write(&volumes.join("kubernetes.io~empty-dir/scratch/a"), 200);
    write(&volumes.join("kubernetes.io~configmap/config/a"), 100);
    write(&volumes.join("kubernetes.io~secret/secret/a"), 100);
    write(&top.path().join("logs/default_p0_u0/web/0.log"), 300);
    write(&top.path().join("host/a"), 400);
    let spec = format!(
        r#"{{"containers":[{{"name":"web"}},{{"name":"quiet"}}],"volumes":[
        {{"name":"scratch","emptyDir":{{}}}},{{"name":"config","configMap":{{}}}},{{"name":"secret","secret":{{}}}},
        {{"name":"ram","emptyDir":{{"medium":"Memory"}}}},{{"name":"gone","emptyDir":{{}}}},
        {{"name":"host","hostPath":{{"path":"{}"}}}}]}}"#,
        top.path().join("host").display()
    );
    let mut usage = Usage::default();
    let warnings = meter(top.path())
        .measure(NOW, &set(&[&spec, "{}"]), &[0], Method::Walk, &mut usage)
        .await;
    assert!(warnings.is_empty());
    let pod = usage.of(0).unwrap();
    let names: Vec<_> = pod
        .volumes
        .iter()
        .map(|volume| volume.name.as_str())
        .collect();
    // A directory of the node is not the pod's own.
    assert_eq!(names, ["scratch", "config"]);
    for (volume, least) in pod.volumes.iter().zip([200, 100]) {
        assert!(
            (least..least + 20).contains(&kibibytes(volume.usage).unwrap()),
            "{volume:?}"
        );
        assert_eq!(volume.usage.inodes.map(|found| found.value), Some(2));
    }
    let [web] = pod.containers.as_slice() else {
        panic!("{pod:?}")
    };
    assert_eq!((web.name.as_str(), web.rootfs), ("web", FsUsage::default()));
    assert!(kibibytes(web.logs).unwrap() >= 300);
    assert!((600..700).contains(&(pod.ephemeral_storage.unwrap().value >> 10)));
    assert_eq!(usage.of(1), None);
}

#[tokio::test]
async fn the_directory_that_holds_most_of_a_volume_is_found_where_it_is_walked() {
    let top = tempfile::tempdir().unwrap();
    let volume = "kubelet/pods/u0/volumes/kubernetes.io~empty-dir/scratch";
    let long = "x".repeat(100);
    write(
        &top.path().join(volume).join("models").join(&long).join("a"),
        400,
    );
    write(&top.path().join(volume).join("b"), 100);
    let spec = r#"{"containers":[{"name":"c"}],"volumes":[{"name":"scratch","emptyDir":{}}]}"#;
    for (method, expected) in [(Method::Walk, true), (Method::Changes, false)] {
        let mut usage = Usage::default();
        meter(top.path())
            .measure(NOW, &set(&[spec]), &[0], method, &mut usage)
            .await;
        let found = usage.of(0).unwrap().volumes[0].directories.clone();
        assert_eq!(found.is_some(), expected);
        if let Some(found) = found.and_then(|found| found.by_bytes) {
            let shown = format!("models/{}..{}", &long[..32], &long[..39]);
            assert_eq!((found.path, found.amount >> 10 >= 400), (shown, true));
        }
    }
}

#[tokio::test]
async fn a_pod_with_too_many_volumes_to_keep_counts_with_all_of_each_kind() {
    let top = tempfile::tempdir().unwrap();
    let volumes = top.path().join("kubelet/pods/u0/volumes");
    write(&volumes.join("kubernetes.io~empty-dir/first/a"), 200);
    write(&volumes.join("kubernetes.io~empty-dir/last/a"), 100);
    let mut pod: wire::Pod = serde_json::from_value(json!({
        "metadata": {"name": "p0", "namespace": "default", "uid": "u0"},
        "spec": {
            "containers": [{"name": "main"}],
            "volumes": vec![json!({"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}); 10_000],
        },
    }))
    .unwrap();
    trim(&mut pod, &BTreeSet::new());
    let set = PodSet {
        pods: vec![LocalPod::new(Pod::from_wire(pod), None)],
        ..PodSet::default()
    };
    let mut usage = Usage::default();
    let mut meter = meter(top.path());
    meter
        .measure(NOW, &set, &[0], Method::Walk, &mut usage)
        .await;
    let found = usage.of(0).unwrap();
    assert!((300..350).contains(&(found.ephemeral_storage.unwrap().value >> 10)));
    assert!(found.volumes.len() == 1 && set.pods[0].volumes[0].local);
}

#[tokio::test]
async fn what_the_limits_cut_is_a_lower_bound_with_a_warning() {
    let top = tempfile::tempdir().unwrap();
    for name in 0..20 {
        write(
            &top.path().join(format!(
                "kubelet/pods/u0/volumes/kubernetes.io~empty-dir/v/{name}"
            )),
            1,
        );
    }
    let mut meter = meter(top.path());
    meter.limits.entries = 10;
    let mut usage = Usage::default();
    let spec = r#"{"volumes":[{"name":"v","emptyDir":{}}]}"#;
    let warnings = meter
        .measure(NOW, &set(&[spec]), &[0], Method::Walk, &mut usage)
        .await;
    assert_eq!(
        usage.of(0).unwrap().volumes[0]
            .usage
            .inodes
            .map(|found| found.value),
        Some(11)
    );
    let said = warnings[0].to_string();
    assert!(
        said.starts_with("disk usage of pod default/p0 is at least what was counted in "),
        "{said}"
    );
    assert!(
        said.ends_with("/v: it holds more files than are counted"),
        "{said}"
    );
}

/// Stands for a walk whose filesystem does not answer.
fn hang(meter: &mut DiskMeter, uid: &str) -> std::sync::mpsc::Sender<()> {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let hangs = move || {
        let _ = wait.recv();
        None
    };
    let walk = meter.threads.run(hangs).unwrap();
    meter.hanging.insert(uid.to_owned(), walk);
    release
}

#[tokio::test]
async fn a_hanging_filesystem_costs_only_its_pod_the_figure() {
    let top = tempfile::tempdir().unwrap();
    write(&top.path().join("logs/default_p1_u1/c/0.log"), 1);
    for uid in ["u0", "u1"] {
        fs::create_dir_all(top.path().join("kubelet/pods").join(uid)).unwrap();
    }
    let set = set(&[
        r#"{"containers":[{"name":"c"}]}"#,
        r#"{"containers":[{"name":"c"}]}"#,
    ]);
    let mut meter = meter(top.path());
    let release = hang(&mut meter, "u0");
    let mut usage = Usage::default();
    let warnings = meter
        .measure(NOW, &set, &[0, 1], Method::Walk, &mut usage)
        .await;
    assert_eq!(warnings.len(), 1);
    assert_eq!(
        warnings[0].to_string(),
        "disk usage of pod default/p0 is unknown: its filesystem still does not answer"
    );
    assert_eq!(usage.of(0), Some(&PodUsage::not_walked()));
    assert!(
        usage
            .of(1)
            .is_some_and(|known| *known != PodUsage::not_walked())
    );

    let others: Vec<_> = ["u2", "u3", "u4"].map(|uid| hang(&mut meter, uid)).into();
    let warnings = meter
        .measure(NOW, &set, &[1], Method::Walk, &mut usage)
        .await;
    assert!(
        warnings[0]
            .to_string()
            .ends_with("too many filesystems do not answer")
    );

    drop((release, others));
    for walk in meter.hanging.values_mut() {
        walk.await.unwrap();
    }
    assert!(
        meter
            .measure(NOW, &set, &[0, 1], Method::Walk, &mut usage)
            .await
            .is_empty()
    );
    assert_eq!(meter.hanging.len(), 0);
}

#[tokio::test]
async fn pods_for_which_no_time_is_left_are_not_walked() {
    let top = tempfile::tempdir().unwrap();
    let set = set(&["{}"]);
    let mut all = Box::pin(sleep(Duration::ZERO));
    all.as_mut().await;
    let walked = meter(top.path())
        .walk(
            NOW,
            &set.pods[0],
            (Method::Walk, Projects::ForAll),
            all.as_mut(),
        )
        .await;
    assert_eq!(walked.unwrap_err(), NotWalked::NoTime);
}

#[tokio::test]
async fn a_missing_directory_is_unknown_usage_and_not_zero() {
    let top = tempfile::tempdir().unwrap();
    write(&top.path().join("logs/default_p0_u0/c/0.log"), 8);
    write(&top.path().join("host/a"), 4);
    let kubelets = r#"{"containers":[{"name":"c"}],"volumes":[{"name":"v","emptyDir":{}}]}"#;
    let host = format!(
        r#"{{"volumes":[{{"name":"h","hostPath":{{"path":"{}"}}}}]}}"#,
        top.path().join("host").display()
    );
    let known = |usage: &Usage| -> Vec<bool> { usage.pods.iter().map(Option::is_some).collect() };
    let mut set = set(&[kubelets, &host]);
    let mut meter = meter(top.path());
    let mut usage = Usage::default();
    let warnings = meter
        .measure(NOW, &set, &[0, 1], Method::Walk, &mut usage)
        .await;
    assert!(warnings.is_empty());
    assert_eq!(known(&usage), [false, false]);
    let problem = meter.problem().unwrap();
    assert!(
        problem.contains("kubelet/pods") && problem.contains("kubelet.rootDir"),
        "{problem}"
    );

    // A manifest's pod needs no kubelet, but for volumes that the kubelet makes.
    for pod in &mut set.pods {
        pod.manifest = Some(Path::new("m.yaml").into());
    }
    usage = Usage::default();
    meter
        .measure(NOW, &set, &[0, 1], Method::Walk, &mut usage)
        .await;
    assert_eq!(known(&usage), [false, true]);
    assert_eq!(meter.problem(), None);

    fs::create_dir_all(top.path().join("kubelet/pods/u0")).unwrap();
    meter
        .measure(NOW, &set, &[0, 1], Method::Walk, &mut usage)
        .await;
    assert_eq!(known(&usage), [true, true]);
}

#[tokio::test]
async fn containers_whose_runtime_is_not_there_have_unknown_layers() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir_all(top.path().join("kubelet/pods/u0")).unwrap();
    let settings = evictd_cri::Settings {
        endpoint: Some("/nowhere/runtime.sock".to_owned()),
        ..evictd_cri::Settings::default()
    };
    let mut meter = meter(top.path());
    meter.ask(Client::new(settings).unwrap());
    for (id, missing) in [("", false), ("containerd://1f", true)] {
        let pod = serde_json::json!({
            "metadata": {"name": "p0", "uid": "u0"},
            "spec": {"containers": [{"name": "c"}]},
            "status": {"containerStatuses": [{"name": "c", "containerID": id}]},
        });
        let pod: wire::Pod = serde_json::from_value(pod).unwrap();
        let set = PodSet {
            pods: vec![LocalPod::new(Pod::from_wire(pod), None)],
            ..PodSet::default()
        };
        let mut usage = Usage::default();
        meter
            .measure(NOW, &set, &[0], Method::Walk, &mut usage)
            .await;
        let problem = meter.problem().unwrap_or_default();
        assert_eq!(
            problem.contains("/nowhere/runtime.sock"),
            missing,
            "{id}: {problem}"
        );
    }
}

#[tokio::test]
async fn before_any_walk_it_is_found_out_whether_layers_can_be_walked_here() {
    use evictd_testkit::cri::{Double, State, wire::Container, wire::ContainerMetadata};
    let top = tempfile::tempdir().unwrap();
    let at = |path: &str, text: &str| {
        let path = top.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let upper = top.path().join("upper");
    let overlay = format!(
        "overlay overlay rw,lowerdir=/l,upperdir={},workdir=/w\n",
        upper.display()
    );
    at("cgroup/cgroup.controllers", "memory");
    at("cgroup/pod/cgroup.procs", "");
    at("cgroup/pod/1f/cgroup.procs", "7\n");
    at(
        "proc/self/mountinfo",
        &format!("22 20 0:41 / /run/1f/rootfs rw - {overlay}"),
    );
    at(
        "proc/7/mountinfo",
        &format!("90 80 0:41 / / rw - {overlay}"),
    );
    let running = Container {
        id: "1f".to_owned(),
        metadata: Some(ContainerMetadata {
            name: "c".to_owned(),
            attempt: 0,
        }),
        state: 1,
        created_at: 1,
        labels: [("io.kubernetes.pod.uid".to_owned(), "u0".to_owned())].into(),
        ..Container::default()
    };
    let runtime = Double::start(State {
        containers: vec![running],
        ..State::default()
    })
    .unwrap();
    let mut set = set(&[r#"{"containers":[{"name":"c"}]}"#]);
    set.pods[0].cgroup = Some(crate::pods::BoundCgroup {
        relative: "pod".into(),
        by_annotation: false,
    });
    // In a container of its own the daemon may not see the runtime's directory.
    for is_mounted in [false, true] {
        if is_mounted {
            fs::create_dir(&upper).unwrap();
        }
        let roots = DiskRoots {
            kubelet: top.path().join("kubelet"),
            logs: top.path().join("logs"),
            proc: top.path().join("proc"),
        };
        let mut meter = DiskMeter::new(roots);
        meter.find_layers(Hierarchies::detect(&top.path().join("cgroup")).unwrap());
        meter.ask(
            Client::new(evictd_cri::Settings {
                endpoint: Some(runtime.socket().display().to_string()),
                ..evictd_cri::Settings::default()
            })
            .unwrap(),
        );
        meter.look_for_layers(NOW, &set).await;
        let problem = meter.problem().unwrap_or_default();
        let told = problem.contains("are not found here");
        assert_eq!(told, !is_mounted, "{problem}");
    }
}
