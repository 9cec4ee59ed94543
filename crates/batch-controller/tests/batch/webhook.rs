//! `evictd-batch webhook` as the API server sees it.

use crate::served::{Connection, KINDS, Webhook, bundle, cluster, connect, job};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evictd_batch_admission::{MOST_CONTAINERS, MOST_TASKS};
use evictd_testkit::rights::{granted, packaged, used};
use evictd_testkit::{Actor, ApiServer, Authority, Fault};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Who the webhook is.
const ACCOUNT: &str = "system:serviceaccount:volcano-system:evictd-batch-webhook";
const JSON: &str = "application/json";

/// A webhook and its cluster.
pub(crate) struct Scene {
    api: ApiServer,
    admin: Actor,
    pub(crate) webhook: Webhook,
}

impl Scene {
    /// One that is about to start, with the rights of the packaged manifests.
    fn start(flags: &[&str]) -> Self {
        let api = cluster();
        api.grant(
            "token",
            ACCOUNT,
            Some(packaged("batch/webhook-rights.yaml")),
        );
        Self {
            webhook: Webhook::start(&api.kubeconfig_of("token"), flags),
            admin: api.actor("test"),
            api,
        }
    }

    /// One that can decide.
    pub(crate) async fn ready(flags: &[&str]) -> Self {
        let scene = Self::start(flags);
        scene
            .until("is never ready", async || scene.webhook.is_ready().await)
            .await;
        scene
    }

    /// Waits until it holds; what the webhook said is shown if it never does.
    pub(crate) async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds().await {
            let said = self.webhook.log.lock().unwrap().clone();
            assert!(Instant::now() < deadline, "{what}\n{said}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A connection as the API server makes it.
    pub(crate) async fn connect(&self) -> Connection {
        connect(self.webhook.address, &bundle(&self.admin).unwrap())
            .await
            .unwrap()
    }

    /// What is said of a new job in this queue.
    async fn said(&self, queue: &str) -> String {
        let mut connection = self.connect().await;
        let answer = connection
            .review("/jobs/validate", "CREATE", &job("a", queue))
            .await;
        answer["status"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

#[tokio::test]
async fn s6_074_jobs_get_defaults_and_are_decided_by_the_watched_queues() {
    let scene = Scene::ready(&[]).await;
    let mut connection = scene.connect().await;
    let made = connection
        .review("/jobs/mutate", "CREATE", &job("a", "default"))
        .await;
    assert_eq!(
        (&made["allowed"], &made["patchType"]),
        (&json!(true), &json!("JSONPatch"))
    );
    let patch = BASE64_STANDARD
        .decode(made["patch"].as_str().unwrap())
        .unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let set: Vec<_> = patch
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        set,
        [
            "/spec/schedulerName",
            "/spec/maxRetry",
            "/spec/tasks/0/minAvailable",
            "/spec/tasks/0/maxRetry",
            "/spec/minAvailable"
        ]
    );
    let right = connection
        .review("/jobs/validate", "CREATE", &job("a", "default"))
        .await;
    assert_eq!(right, json!({"uid": "42", "allowed": true}));
    let wrong = connection
        .review("/jobs/validate", "CREATE", &job("a", "team"))
        .await;
    let message = "unable to find job queue: queue.scheduling.volcano.sh \"team\" not found;";
    assert_eq!(
        wrong,
        json!({"uid": "42", "allowed": false, "status": {"message": message}})
    );
    let denied = "denied: /jobs/validate CREATE /a: unable to find job queue";
    scene
        .until("the denial is never logged", async || {
            scene.webhook.log.lock().unwrap().contains(denied)
        })
        .await;

    // A queue that comes, closes and goes.
    let queue = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"},
        "spec": {"parent": "root"}, "status": {"state": "Open"}});
    scene.admin.create(queue).unwrap();
    scene
        .until("the queue is never open", async || {
            scene.said("team").await.is_empty()
        })
        .await;
    scene.api.cut_watches();
    let closed = json!({"status": {"state": "Closed"}});
    scene.admin.merge("queues/status", "team", closed).unwrap();
    scene
        .until("the queue is never closed", async || {
            scene.said("team").await.contains("`Closed`")
        })
        .await;
    scene.admin.delete("queues", "team", json!({})).unwrap();
    scene
        .until("the queue is never gone", async || {
            scene.said("team").await == message
        })
        .await;

    // A namespace that names a queue.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns1",
        "annotations": {"scheduling.volcano.sh/queue-name": "team"}}});
    scene.admin.create(namespace).unwrap();
    let group =
        json!({"metadata": {"name": "g", "namespace": "ns1"}, "spec": {"queue": "default"}});
    scene
        .until("the namespace's queue is never known", async || {
            let mut connection = scene.connect().await;
            let answer = connection
                .review("/podgroups/mutate", "CREATE", &group)
                .await;
            answer["patchType"] == "JSONPatch"
        })
        .await;
}

#[tokio::test]
async fn malformed_and_too_large_requests_are_refused_and_the_next_one_is_answered() {
    let scene = Scene::ready(&["--enabled-admission=/jobs/validate,/queues/validate"]).await;
    let mut connection = scene.connect().await;
    for (path, kind, body, code, message) in [
        (
            "/jobs/validate",
            JSON,
            "garbage".to_owned(),
            400,
            "the body is no AdmissionReview: expected value",
        ),
        (
            "/jobs/validate",
            JSON,
            String::new(),
            400,
            "the body is no AdmissionReview: EOF",
        ),
        (
            "/jobs/validate",
            JSON,
            "{}".to_owned(),
            400,
            "the AdmissionReview has no request",
        ),
        (
            "/jobs/validate",
            JSON,
            "[".repeat(100_000),
            400,
            "the body is no AdmissionReview: ",
        ),
        (
            "/jobs/validate",
            "text/yaml",
            "{}".to_owned(),
            415,
            "an AdmissionReview is application/json",
        ),
        (
            "/jobs/mutate",
            JSON,
            "{}".to_owned(),
            404,
            "404 page not found",
        ),
        (
            "/elsewhere",
            JSON,
            "{}".to_owned(),
            404,
            "404 page not found",
        ),
    ] {
        let (found, text) = connection.post(path, kind, body).await;
        assert_eq!(found, code, "{path}: {text}");
        assert!(text.starts_with(message), "{path}: {text}");
    }
    assert_eq!(connection.get("/jobs/validate").await.0, 405);
    assert_eq!(connection.get("/livez").await, (200, "ok".to_owned()));
    assert_eq!(
        connection.get("/readyz?verbose").await,
        (
            200,
            "[+]ping ok\n[+]queues ok\n[+]namespaces ok\n[+]certificate ok\n[+]bundle ok\n[+]shutdown ok\n[+]watches-work ok\nreadyz check passed\n"
                .to_owned()
        )
    );

    let large = vec![b' '; (3 << 20) + 1];
    let (code, text) = connection.post("/jobs/validate", JSON, large).await;
    assert_eq!((code, text.as_str()), (413, "request body too large\n"));
    let mut largest =
        json!({"request": {"uid": "42", "operation": "CREATE", "object": job("a", "default")}})
            .to_string();
    largest.push_str(&" ".repeat((3 << 20) - largest.len()));
    let mut connection = scene.connect().await;
    assert_eq!(
        connection.post("/jobs/validate", JSON, largest).await.0,
        200
    );
}

/// What takes the longest to look at: as many names as a review can hold.
#[tokio::test]
async fn the_largest_reviews_are_decided_in_time() {
    let scene = Scene::ready(&[]).await;
    let mut connection = scene.connect().await;
    let many = MOST_TASKS;
    let containers: Vec<_> = (0..MOST_CONTAINERS)
        .map(|index| json!({"name": format!("c{index}"), "image": "i"}))
        .collect();
    let mut object = job("a", "default");
    object["spec"]["tasks"][0]["template"]["spec"]["containers"] = containers.into();
    assert_eq!(
        connection.review("/jobs/validate", "CREATE", &object).await["allowed"],
        true
    );
    let tasks: Vec<_> = (0..many)
        .map(|index| {
            let mut task = job("a", "default")["spec"]["tasks"][0].take();
            task["name"] = json!(format!("t{index}"));
            task["dependsOn"] = json!({"name": [format!("t{}", index + 1)]});
            task
        })
        .collect();
    object["spec"]["tasks"] = tasks.into();
    let answer = connection.review("/jobs/validate", "CREATE", &object).await;
    assert!(
        answer["status"]["message"]
            .as_str()
            .unwrap()
            .contains("directed acyclic graph")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_at_once_are_all_answered_right() {
    let scene = Scene::ready(&[]).await;
    let (address, bundle) = (scene.webhook.address, bundle(&scene.admin).unwrap());
    // The clients share this machine's processors: not all handshakes at once are done within the time for a head.
    let (handshakes, all_connected) = (Arc::new(Semaphore::new(32)), Arc::new(Barrier::new(1000)));
    let one = |index: usize| {
        let bundle = bundle.clone();
        let (handshakes, all_connected) = (Arc::clone(&handshakes), Arc::clone(&all_connected));
        async move {
            let queue = if index.is_multiple_of(2) {
                "default"
            } else {
                "nope"
            };
            let turn = handshakes.acquire().await.unwrap();
            let mut connection = connect(address, &bundle).await.unwrap();
            assert_eq!(connection.get("/livez").await.0, 200);
            drop(turn);
            all_connected.wait().await;
            let answer = connection
                .review("/jobs/validate", "CREATE", &job("a", queue))
                .await;
            assert_eq!(answer["allowed"], index.is_multiple_of(2));
        }
    };
    let all: Vec<_> = (0..1000).map(|index| tokio::spawn(one(index))).collect();
    for answered in all {
        answered.await.unwrap();
    }
}

/// What is open has a bound in time, and others are answered meanwhile.
#[tokio::test]
async fn a_request_that_stalls_gets_a_timeout() {
    let scene = Scene::ready(&["--request-timeout=1", "--max-in-flight=1"]).await;
    let mut slow = scene.connect().await;
    let (code, text) = slow.post_endlessly("/jobs/validate").await;
    assert_eq!(
        (code, text.as_str()),
        (503, "no decision within the time limit\n")
    );
    let mut next = scene.connect().await;
    assert_eq!(
        next.review("/jobs/validate", "CREATE", &job("a", "default"))
            .await["allowed"],
        true
    );
}

/// What strangers may do: hundreds of connections without a request, of heads and of bodies that do not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_silent_connections_and_slow_bodies_delay_no_review_and_no_probe() {
    let scene = Scene::ready(&["--max-in-flight=1"]).await;
    let bundle = bundle(&scene.admin).unwrap();
    let mut silent = Vec::new();
    for address in [scene.webhook.address, scene.webhook.probes] {
        for _ in 0..300 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The begin of a handshake or of a head. The connection may be closed already.
            let _ = stream.write_all(&[22, 3, 1]).await;
            silent.push(stream);
        }
    }
    let mut slow = JoinSet::new();
    for _ in 0..200 {
        let mut connection = connect(scene.webhook.address, &bundle).await.unwrap();
        slow.spawn(async move { connection.post_endlessly("/jobs/validate").await });
    }
    // With one turn for all, a review that waited for slow bodies would not be decided in time.
    for _ in 0..20 {
        assert_eq!(scene.said("default").await, "");
        assert!(scene.webhook.is_ready().await);
    }
    let refused = "the request body took too long\n";
    while let Some(answer) = slow.join_next().await {
        assert_eq!(answer.unwrap(), (408, refused.to_owned()));
    }
}

/// The authorities in the Secret.
fn shared(admin: &Actor) -> String {
    let secret = admin
        .get("secrets", "volcano-system/evictd-batch-webhook")
        .unwrap();
    let authorities = BASE64_STANDARD
        .decode(secret["data"]["ca.crt"].as_str().unwrap())
        .unwrap();
    String::from_utf8(authorities).unwrap()
}

#[tokio::test]
async fn replicas_share_the_certificate_and_keep_the_ca_bundle_up_to_date() {
    let scene = Scene::ready(&[]).await;
    let authorities = shared(&scene.admin);
    assert_eq!(bundle(&scene.admin).as_ref(), Some(&authorities));

    let second = Webhook::start(&scene.api.kubeconfig_of("token"), &[]);
    scene
        .until("the second is never ready", async || {
            second.is_ready().await
        })
        .await;
    assert_eq!(shared(&scene.admin), authorities);
    let mut connection = connect(second.address, &authorities).await.unwrap();
    assert_eq!(connection.get("/livez").await.0, 200);

    // Somebody applies manifests without it.
    let hook = json!({"name": "a.evictd.dev", "clientConfig": {"url": "https://localhost"}});
    scene
        .admin
        .merge(KINDS[0].1, "evictd-batch", json!({"webhooks": [hook]}))
        .unwrap();
    assert_eq!(bundle(&scene.admin), None);
    scene
        .until("the bundle is never right again", async || {
            bundle(&scene.admin).as_ref() == Some(&authorities)
        })
        .await;
}

#[tokio::test]
async fn a_certificate_is_renewed_in_time_and_the_rights_that_are_granted_are_all_used() {
    let scene = Scene::ready(&[]).await;
    let before = shared(&scene.admin);
    let mut open = scene.connect().await;
    assert_eq!(open.get("/livez").await.0, 200);
    let soon = json!({"metadata": {"annotations": {"batch.evictd.dev/certificate-until": "2020-01-01T00:00:00Z"}}});
    scene
        .admin
        .merge("secrets", "volcano-system/evictd-batch-webhook", soon)
        .unwrap();
    scene
        .until("it is never renewed", async || {
            shared(&scene.admin) != before
        })
        .await;
    let both = shared(&scene.admin);
    assert_eq!(both.matches("BEGIN").count(), 2);
    assert!(both.ends_with(before.trim_end()));
    let end =
        both.find("-----END CERTIFICATE-----\n").unwrap() + "-----END CERTIFICATE-----\n".len();
    let new = both[..end].to_owned();
    scene
        .until("the new one is never shown", async || {
            connect(scene.webhook.address, &new).await.is_ok()
        })
        .await;
    assert_eq!(bundle(&scene.admin), Some(both));
    // What is open goes on.
    assert_eq!(open.get("/livez").await.0, 200);

    let used = used(&scene.api.log(), ACCOUNT);
    let granted = granted(&packaged("batch/webhook-rights.yaml"));
    let unused: Vec<_> = granted.difference(&used).cloned().collect();
    // A server that streams lists is not asked for one.
    assert_eq!(
        unused,
        ["list namespaces ", "list queues scheduling.volcano.sh"]
    );
}

#[tokio::test]
async fn a_certificate_from_files_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let write = |authority: &Authority| {
        let certificate = authority
            .sign(&["evictd-batch-webhook.volcano-system.svc"])
            .unwrap();
        fs::write(at("ca.crt"), authority.pem()).unwrap();
        fs::write(at("tls.crt"), certificate.certificate()).unwrap();
        fs::write(at("tls.key"), certificate.key()).unwrap();
    };
    let one = Authority::new("one").unwrap();
    write(&one);
    let flags = [
        format!("--tls-cert-file={}", at("tls.crt")),
        format!("--tls-private-key-file={}", at("tls.key")),
        format!("--ca-cert-file={}", at("ca.crt")),
    ];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let scene = Scene::ready(&flags).await;
    assert_eq!(bundle(&scene.admin), Some(one.pem()));
    assert_eq!(scene.said("default").await, "");
    let other = Authority::new("other").unwrap();
    write(&other);
    let shown = async || connect(scene.webhook.address, &other.pem()).await.is_ok();
    scene.until("the new one is never shown", shown).await;
    assert_eq!(bundle(&scene.admin), Some(other.pem()));
    assert!(scene.admin.list("secrets").is_empty());
}

#[tokio::test]
async fn nothing_is_decided_before_queues_are_listed_and_decisions_go_on_without_the_api_server() {
    let api = cluster();
    for verb in ["watch", "list"] {
        api.fault(Fault::answer(503).on(verb, "queues"));
    }
    let scene = Scene {
        webhook: Webhook::start(&api.kubeconfig(), &[]),
        admin: api.actor("test"),
        api,
    };
    scene
        .until("there is never a certificate", async || {
            match bundle(&scene.admin) {
                Some(bundle) => connect(scene.webhook.address, &bundle).await.is_ok(),
                None => false,
            }
        })
        .await;
    let review =
        json!({"request": {"uid": "1", "operation": "CREATE", "object": job("a", "default")}});
    let mut connection = scene.connect().await;
    let (code, text) = connection
        .post("/jobs/validate", JSON, review.to_string())
        .await;
    assert_eq!(
        (code, text.as_str()),
        (503, "queues and namespaces are not listed yet\n")
    );
    assert!(!scene.webhook.is_ready().await);
    scene.api.clear_faults();
    scene
        .until("is never ready", async || scene.webhook.is_ready().await)
        .await;
    scene.api.go_away();
    assert_eq!(scene.said("default").await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_stop_it_ends_what_is_under_way_and_exits_well() {
    let mut scene = Scene::ready(&["--request-timeout=1"]).await;
    let mut slow = scene.connect().await;
    let under_way = tokio::spawn(async move { slow.post_endlessly("/jobs/validate").await });
    // The request has arrived when a second one is answered that came after it.
    assert_eq!(scene.said("default").await, "");
    let pid = Pid::from_raw(scene.webhook.program.id().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(under_way.await.unwrap().0, 503);
    let status = tokio::task::block_in_place(|| scene.webhook.program.wait().unwrap());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn invalid_options_of_the_webhook_are_errors() {
    use crate::batch;
    use evictd_testkit::program::{self, refusal};
    for (flags, message) in [
        (&["--tls-cert-file", "x"][..], "--tls-private-key-file"),
        (
            &["--enabled-admission", "/nodes/validate"],
            "the paths are /jobs/mutate",
        ),
        (&[], "the namespace of the Service is not known"),
        (
            &["--webhook-namespace", "x", "--kubeconfig", "/nowhere"],
            "cannot use the kubeconfig /nowhere",
        ),
    ] {
        let mut command = batch();
        command
            .arg("webhook")
            .args(flags)
            .env_remove("KUBECONFIG")
            .env("HOME", "/nowhere");
        let said = refusal(&program::run(&mut command, ""), 2);
        assert!(said.contains(message), "{flags:?}: {said}");
    }
}
