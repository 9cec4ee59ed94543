use super::*;
use evictd_cri::Settings;
use evictd_pod::{Pod, pod::CONFIG_SOURCE};
use evictd_testkit::cri::{Behaviour, Double, State, wire};
use std::collections::BTreeSet;

fn sandbox(id: &str, (namespace, name, uid): (&str, &str, &str), attempt: u32) -> wire::Sandbox {
    wire::Sandbox {
        id: id.to_owned(),
        metadata: Some(wire::SandboxMetadata {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
            attempt,
        }),
        labels: [
            ("io.kubernetes.pod.name".to_owned(), name.to_owned()),
            ("app".to_owned(), id.to_owned()),
        ]
        .into(),
        ..Default::default()
    }
}

fn gone(mut sandbox: wire::Sandbox) -> wire::Sandbox {
    sandbox.state = 1;
    sandbox
}

fn container(id: &str, sandbox: &str) -> wire::Container {
    wire::Container {
        id: id.to_owned(),
        sandbox_id: sandbox.to_owned(),
        metadata: Some(wire::ContainerMetadata {
            name: "main".to_owned(),
            attempt: 0,
        }),
        state: 1,
        ..Default::default()
    }
}

fn runtime(double: &Double) -> Client {
    Client::new(Settings {
        endpoint: Some(double.socket().display().to_string()),
        question: Duration::from_millis(300),
        ..Settings::default()
    })
    .unwrap()
}

async fn start(double: &Double, directory: &std::path::Path) -> watch::Receiver<Arc<Listing>> {
    let keep = SnapshotFile::new(directory.to_owned(), "n".to_owned(), BTreeSet::new());
    let source = Cri::new(runtime(double), "n".to_owned(), keep, Clock::start());
    source.start().await
}

fn listed(listing: &Listing) -> Vec<String> {
    listing.pods.iter().map(|one| one.pod.full_name()).collect()
}

fn warnings(listing: &Listing) -> String {
    let all: Vec<String> = listing.warnings.iter().map(ToString::to_string).collect();
    all.join("\n")
}

/// The listing as soon as this holds of it, within 20 s.
async fn until(
    listings: &mut watch::Receiver<Arc<Listing>>,
    holds: impl Fn(&Listing) -> bool,
) -> Arc<Listing> {
    let waited = tokio::time::timeout(
        Duration::from_secs(20),
        listings.wait_for(|listing| holds(listing)),
    );
    Arc::clone(&waited.await.unwrap().unwrap())
}

#[tokio::test]
async fn pods_are_listed_from_the_runtimes_labels_and_annotations() {
    let mut state = State {
        sandboxes: vec![
            sandbox("new", ("shop", "web", "u-1"), 1),
            gone(sandbox("old", ("shop", "web", "u-1"), 0)),
            sandbox("static", ("kube-system", "etcd", "cafe"), 0),
            gone(sandbox("left", ("shop", "over", "u-3"), 0)),
        ],
        containers: vec![container("c-1", "new"), container("c-2", "static")],
        ..State::default()
    };
    let source = (CONFIG_SOURCE.to_owned(), "file".to_owned());
    state.sandboxes[2].annotations = [source].into();
    let grace = |text: &str| [(GRACE_PERIOD.to_owned(), text.to_owned())].into();
    state.containers[0].annotations = grace("7");
    state.containers[1].annotations = grace("-1");
    state.statuses = vec![wire::ContainerStatus {
        id: "c-1".to_owned(),
        resources: Some(wire::ContainerResources {
            linux: Some(wire::LinuxResources {
                cpu_shares: 512,
                cpu_period: 100_000,
                cpu_quota: 100_000,
                memory_limit_in_bytes: 64 << 20,
                oom_score_adj: 900,
            }),
        }),
        ..Default::default()
    }];
    let double = Double::start(state).unwrap();
    let place = tempfile::tempdir().unwrap();
    let listings = start(&double, place.path()).await;
    let listing = listings.borrow().clone();
    assert_eq!(
        (listed(&listing), warnings(&listing)),
        (
            vec!["kube-system/etcd".into(), "shop/web".into()],
            String::new()
        )
    );
    assert!(listing.stale.is_none());
    let pod = |uid: &str| -> &Pod {
        let mut pods = listing.pods.iter();
        &pods.find(|one| one.pod.uid == uid).unwrap().pod
    };
    assert!(pod("cafe").is_static() && !pod("u-1").is_static());
    let graces = ["u-1", "cafe"].map(|uid| pod(uid).termination_grace_period_seconds);
    assert_eq!(graces, [Some(7), None]);
    let web = pod("u-1");
    assert_eq!(web.labels.get("app"), Some("new"));
    assert!(!web.labels.contains_key("io.kubernetes.pod.name"));
    assert_eq!(web.containers[0].name, "main");
    assert_eq!(web.request("cpu").milli_value(), 500);
    assert!(web.spec_priority.is_none() && web.critical.is_none());
}

#[tokio::test]
async fn a_sandbox_without_kubelet_labels_is_reported_and_is_no_pod() {
    let far = "x".repeat(300);
    let table = [
        (
            vec![wire::Sandbox::default()],
            "without a name cannot be read (the runtime gives no UID",
        ),
        (
            vec![sandbox("a", ("shop", "we\nb", "u"), 0)],
            "shop/we\\nb cannot be read (\"we\\nb\" is not a name",
        ),
        (
            vec![sandbox("a", ("", "web", "u"), 0)],
            "\"\" is not a namespace",
        ),
        (
            vec![sandbox("a", ("shop", "web", "../u"), 0)],
            "\"../u\" is not a UID",
        ),
        (vec![sandbox("a", ("shop", &far, "u"), 0)], "is not a name"),
        (
            vec![
                sandbox("a", ("shop", "web", "u"), 0),
                sandbox("b", ("kube-system", "dns", "u"), 0),
            ],
            "the runtime has another pod with its UID, u",
        ),
    ];
    for (mut sandboxes, expected) in table {
        sandboxes.push(sandbox("good", ("shop", "good", "good"), 0));
        let double = Double::start(State {
            sandboxes,
            ..State::default()
        })
        .unwrap();
        let place = tempfile::tempdir().unwrap();
        let listing = start(&double, place.path()).await.borrow().clone();
        assert_eq!(listed(&listing), ["shop/good"], "{expected}");
        let said = warnings(&listing);
        assert!(
            said.contains(expected) && !said.contains('\n'),
            "{expected}: {said}"
        );
    }
}

#[tokio::test]
async fn bad_answers_leave_the_last_known_pods_in_use_with_their_age() {
    let table = [
        (Behaviour::Hang, "no answer from"),
        (Behaviour::Huge(64 << 20), ""),
        (Behaviour::Bytes(vec![0xff; 40]), ""),
        (Behaviour::Refuse(14, "not now"), "not now"),
    ];
    let web = State {
        sandboxes: vec![sandbox("a", ("shop", "web", "u"), 0)],
        ..State::default()
    };
    let mut double = Double::start(web).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut listings = start(&double, place.path()).await;
    for (behaviour, expected) in table {
        double.behave("ListContainers", behaviour);
        let listing = until(&mut listings, |listing| listing.stale.is_some()).await;
        let stale = listing.stale.as_ref().unwrap();
        assert!(
            stale.as_of.is_some() && stale.problem.contains(expected),
            "{stale}"
        );
        assert_eq!(listed(&listing), ["shop/web"], "{stale}");
        double.recover("ListContainers");
        until(&mut listings, |listing| listing.stale.is_none()).await;
    }
    let many = (0..100_000).map(|number| container(&number.to_string(), "a"));
    double.change(|state| state.containers = many.collect());
    let listing = until(&mut listings, |listing| listing.stale.is_some()).await;
    assert_eq!(listed(&listing), ["shop/web"]);
    double.change(|state| state.containers.clear());
    until(&mut listings, |listing| listing.stale.is_none()).await;
    double.stop();
    let listing = until(&mut listings, |listing| listing.stale.is_some()).await;
    assert_eq!(listed(&listing), ["shop/web"]);
    double.change(|state| state.sandboxes.push(sandbox("b", ("shop", "next", "v"), 0)));
    double.restart().unwrap();
    let listing = until(&mut listings, |listing| listing.stale.is_none()).await;
    assert_eq!(listed(&listing).len(), 2);
    double.speak("runtime.v1alpha2");
    let listing = until(&mut listings, |listing| listing.stale.is_some()).await;
    let problem = &listing.stale.as_ref().unwrap().problem;
    assert!(problem.contains("v1alpha2"), "{problem}");
    assert_eq!(listed(&listing).len(), 2);
}

#[tokio::test]
async fn a_runtime_event_updates_the_list_at_once_and_a_removed_pod_is_published() {
    let web = State {
        sandboxes: vec![sandbox("a", ("shop", "web", "u"), 0)],
        ..State::default()
    };
    let double = Double::start(web).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut listings = start(&double, place.path()).await;
    double.change(|state| state.sandboxes.clear());
    // Without this event the lists are asked for only every second, at the first one that somebody hears.
    let told = tokio::time::timeout(Duration::from_secs(20), async {
        while !double.tell(&wire::ContainerEvent::default()) {
            tokio::task::yield_now().await;
        }
    });
    told.await.unwrap();
    let listing = until(&mut listings, |listing| listing.pods.is_empty()).await;
    assert_eq!(listing.deleted[0].pod.uid, "u");
}
