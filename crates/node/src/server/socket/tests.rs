use super::*;
use crate::history::History;
use crate::server::state::Question;
use crate::server::tests::{Answered, request, shared};
use axum::http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

struct OpenSocket {
    directory: TempDir,
    path: PathBuf,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl OpenSocket {
    /// A daemon whose loop answers every question with what it was asked.
    async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("evictd.sock");
        let (shared, mut questions) = shared(directory.path().join("history"));
        let socket = bind(&path).await.unwrap();
        let task = tokio::spawn(socket.serve(Arc::clone(&shared)));
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                let (answer, told) = match question {
                    Question::Ranking { signal, answer } => (answer, json!({ "signal": signal })),
                    Question::Disk { answer } => (answer, json!({ "filesystems": [] })),
                    Question::NearMisses { answer } => (answer, json!({ "days": [] })),
                    Question::Admit { pod, answer } => {
                        let allowed = pod["metadata"]["name"] == "welcome";
                        let told = json!({ "allowed": allowed, "reason": "OutOfcpu", "message": "no", "preempt": ["a/b"] });
                        (answer, told)
                    }
                    Question::StopNodeReports { answer } => (answer, json!({})),
                    Question::Pause { pause, answer } => (answer, json!({ "paused": pause })),
                    Question::Resume { answer } => (answer, json!({ "paused": null })),
                };
                let _ = answer.send(Ok(told));
            }
        });
        Self {
            directory,
            path,
            shared,
            task,
        }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Answered {
        let stream = UnixStream::connect(&self.path).await.unwrap();
        request(stream, method, path, body.to_string()).await
    }

    async fn get(&self, path: &str) -> Answered {
        self.ask("GET", path, &Value::Null).await
    }
}

fn review(kind: &str, name: &str, operation: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": operation, "userInfo": {},
            "kind": { "group": "", "version": "v1", "kind": kind },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "object": { "apiVersion": "v1", "kind": kind, "metadata": { "name": name }, "spec": {} },
        },
    })
}

#[tokio::test]
async fn the_status_is_answered() {
    let socket = OpenSocket::open().await;
    let answered = socket.get("/v1/status").await;
    assert_eq!(answered.code, StatusCode::OK);
    assert_eq!(answered.json()["node"], "node-1");
}

#[tokio::test]
async fn the_ranking_is_asked_of_the_loop() {
    let socket = OpenSocket::open().await;
    let answered = socket.get("/v1/ranking?signal=pid.available").await;
    assert_eq!(answered.json(), json!({ "signal": "pid.available" }));
    assert_eq!(
        socket.get("/v1/ranking").await.json(),
        json!({ "signal": null })
    );
    let unknown = socket.get("/v1/ranking?signal=memory.free").await;
    assert_eq!(unknown.code, StatusCode::BAD_REQUEST);
    let told = unknown.json()["error"].as_str().unwrap().to_owned();
    assert!(
        told.contains("memory.free") && told.contains("memory.available"),
        "{told}"
    );
}

#[tokio::test]
async fn the_history_is_sent_whole() {
    let socket = OpenSocket::open().await;
    assert_eq!(socket.get("/v1/history").await.json(), json!([]));
    let mut history = History::open(socket.shared.history(), 1 << 20).unwrap();
    history.append(&json!({ "id": "d-0" })).unwrap();
    assert_eq!(
        socket.get("/v1/history").await.json(),
        json!([{ "id": "d-0" }])
    );
    let large = json!({ "id": "d-1", "text": "x".repeat(200_000) });
    history.append(&large).unwrap();
    assert_eq!(
        socket.get("/v1/history").await.json(),
        json!([{ "id": "d-0" }, large])
    );
}

#[tokio::test]
async fn admission_answers_the_review() {
    let socket = OpenSocket::open().await;
    let answered = socket
        .ask("POST", "/v1/admit", &review("Pod", "welcome", "CREATE"))
        .await
        .json();
    assert_eq!(answered["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answered["kind"], "AdmissionReview");
    assert_eq!(answered["response"]["uid"], "u-1");
    assert_eq!(answered["response"]["allowed"], true);
    let whole = answered["response"]["auditAnnotations"][ANSWER_ANNOTATION]
        .as_str()
        .unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(whole).unwrap()["preempt"],
        json!(["a/b"])
    );

    let answered = socket
        .ask("POST", "/v1/admit", &review("Pod", "stranger", "CREATE"))
        .await
        .json();
    assert_eq!(answered["response"]["allowed"], false);
    assert_eq!(answered["response"]["status"]["reason"], "OutOfcpu");
    assert_eq!(answered["response"]["status"]["message"], "no");
}

#[tokio::test]
async fn admission_has_no_say_over_anything_but_new_pods() {
    let socket = OpenSocket::open().await;
    for (kind, operation) in [("Pod", "DELETE"), ("Pod", "UPDATE"), ("Service", "CREATE")] {
        let answered = socket
            .ask("POST", "/v1/admit", &review(kind, "stranger", operation))
            .await
            .json();
        assert_eq!(answered["response"]["allowed"], true, "{operation} {kind}");
    }
}

#[tokio::test]
async fn a_malformed_review_is_answered_by_a_refusal() {
    let socket = OpenSocket::open().await;
    for body in [
        json!(5),
        json!({}),
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview" }),
    ] {
        let answered = socket.ask("POST", "/v1/admit", &body).await;
        assert_eq!(answered.code, StatusCode::BAD_REQUEST, "{body}");
        let answer = answered.json();
        assert_eq!(answer["response"]["allowed"], false);
        assert!(
            answer["response"]["status"]["message"]
                .as_str()
                .unwrap()
                .contains("AdmissionReview")
        );
    }
}

#[tokio::test]
async fn only_owner_and_group_may_ask_and_the_socket_goes_with_the_daemon() {
    let socket = OpenSocket::open().await;
    assert_eq!(
        fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777,
        0o660
    );
    assert_eq!(
        fs::read_dir(socket.directory.path()).unwrap().count(),
        1,
        "nothing half done is left"
    );
    socket.task.abort();
    assert!(socket.task.await.unwrap_err().is_cancelled());
    assert!(!socket.path.exists());
}

#[tokio::test]
async fn a_living_daemon_keeps_its_socket() {
    let socket = OpenSocket::open().await;
    let error = bind(&socket.path).await.unwrap_err();
    let own = i32::try_from(std::process::id()).unwrap();
    assert!(
        matches!(error, SocketError::Taken { pid: Some(pid), .. } if pid == own),
        "{error}"
    );
    assert_eq!(socket.get("/v1/status").await.code, StatusCode::OK);
}

#[tokio::test]
async fn a_stuck_daemon_with_a_full_backlog_is_alive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evictd.sock");
    let _stuck = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut knocking = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, UnixStream::connect(&path)).await {
        knocking.push(stream);
    }
    let error = bind(&path).await.unwrap_err();
    assert!(matches!(error, SocketError::Taken { .. }), "{error}");
}

#[tokio::test]
async fn a_dead_daemons_socket_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evictd.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "as kill -9 leaves it");
    let _socket = bind(&path).await.unwrap();
    assert!(UnixStream::connect(&path).await.is_ok());
}

#[tokio::test]
async fn whatever_else_lies_there_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link, &directory.path().to_owned()] {
        let error = bind(path).await.unwrap_err();
        assert!(matches!(error, SocketError::NotASocket { .. }), "{error}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "precious");
}

#[tokio::test]
async fn only_a_directory_directly_below_run_is_made() {
    let run = tempfile::tempdir().unwrap();
    let made = run.path().join("evictd/evictd.sock");
    assert!(matches!(
        bind(&made).await,
        Err(SocketError::NoDirectory { .. })
    ));
    let socket = bind_below(&made, run.path()).await.unwrap();
    assert!(made.exists());
    drop(socket);
    let deeper = run.path().join("a/b/evictd.sock");
    assert!(matches!(
        bind_below(&deeper, run.path()).await,
        Err(SocketError::NoDirectory { .. })
    ));
}

#[tokio::test]
async fn a_path_that_is_too_long_is_an_error_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x".repeat(200));
    let error = bind(&path).await.unwrap_err();
    assert!(error.to_string().contains("xxx"), "{error}");
}

#[tokio::test]
async fn a_successors_socket_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evictd.sock");
    let old = bind(&path).await.unwrap();
    fs::remove_file(&path).unwrap();
    let _successor = bind(&path).await.unwrap();
    drop(old);
    assert!(path.exists());
}

#[tokio::test]
async fn a_pause_is_asked_for_with_its_length_and_its_reason() {
    let socket = OpenSocket::open().await;
    let asked = json!({ "seconds": 90, "reason": "a\u{7}drill\n" });
    let answer = socket.ask("POST", "/v1/pause", &asked).await;
    let paused = &answer.json()["paused"];
    assert_eq!(
        (&paused["reason"], &paused["by"]),
        (&json!("a drill"), &json!("command"))
    );
    let moment = |key: &str| {
        paused[key]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    assert_eq!(
        moment("until").duration_since(moment("since")).as_secs(),
        90
    );
    let without_end = socket.ask("POST", "/v1/pause", &json!({})).await;
    assert_eq!(without_end.json()["paused"]["until"], Value::Null);
    let wrong = socket
        .ask("POST", "/v1/pause", &json!({ "for": "1h" }))
        .await;
    assert_eq!(wrong.code, StatusCode::BAD_REQUEST);
    let resumed = socket.ask("POST", "/v1/resume", &json!({})).await;
    assert_eq!(resumed.json()["paused"], Value::Null);
}
