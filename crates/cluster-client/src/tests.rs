use super::*;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::PathBuf,
    sync::mpsc,
};

/// A server that gives every request this answer, or none; what it was asked arrives in the channel.
fn server(answer: Option<&'static str>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            if asked.send(lines.next().unwrap().unwrap()).is_err() {
                return;
            }
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).unwrap();
            } else {
                open.push(stream);
            }
        }
    });
    (url, requests)
}

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new(text: &str) -> Self {
        let home = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        fs::write(home.path(), text).unwrap();
        home
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    fn find(&self, context: &str) -> Result<Access, ApiError> {
        let settings = Credentials {
            kubeconfig: Some(self.path()),
            context: context.to_owned(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(Access::find(&settings))
    }
}

fn kubeconfig(server: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: a,
          contexts: [{{name: a, context: {{cluster: a, user: u}}}}, {{name: b, context: {{cluster: b, user: u}}}}],
          clusters: [{{name: a, cluster: {{server: '{server}'}}}}, {{name: b, cluster: {{server: 'http://127.0.0.1:9'}}}}],
          users: [{{name: u, user: {{token: t}}}}]}}"
    )
}

#[test]
fn the_context_that_is_named_counts_else_the_current_one() {
    let home = Home::new(&kubeconfig("http://127.0.0.1:8"));
    let server = |context: &str| home.find(context).unwrap().server();
    assert_eq!(server(""), "http://127.0.0.1:8");
    assert_eq!(server("b"), "http://127.0.0.1:9");
    let told = home.find("").unwrap().to_string();
    assert!(
        told.starts_with("http://127.0.0.1:8, by the kubeconfig /"),
        "{told}"
    );
}

#[test]
fn an_error_in_a_kubeconfig_names_the_file() {
    let home = Home::new(&kubeconfig("http://127.0.0.1:8"));
    let wrong = |home: &Home, context: &str| {
        let error = home.find(context).unwrap_err();
        let path = home.path().display().to_string();
        assert_eq!(
            error.to_string(),
            format!("cannot use the kubeconfig {path}")
        );
        error.source().unwrap().to_string()
    };
    assert!(wrong(&home, "c").contains("context: c"));
    assert!(wrong(&Home::new("{a: ["), "").contains("YAML"));
    fs::remove_file(home.path()).unwrap();
    assert!(wrong(&home, "").contains("No such file"));
}

#[tokio::test]
async fn an_action_is_asked_for_once_however_the_server_refuses() {
    let refusal = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests","message":"later"}"#;
    let answer: &'static str = format!(
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{refusal}",
        refusal.len()
    )
    .leak();
    let (url, requests) = server(Some(answer));
    let config = kube::Config::new(url.parse().unwrap());
    let actions = Access::new("a test".into(), config).actions().unwrap();
    let pods: Api<Pod> = Api::namespaced(actions.client(), "shop");
    let get = actions.call("pod shop/web", CALL_TIMEOUT, pods.get("web"));
    let error = get.await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "pod shop/web: 429 TooManyRequests: later"
    );
    assert_eq!(error.status().map(|status| status.code), Some(429));
    assert_eq!(
        requests.try_iter().collect::<Vec<_>>(),
        ["GET /api/v1/namespaces/shop/pods/web HTTP/1.1"]
    );
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for() {
    let (url, requests) = server(None);
    let config = kube::Config::new(url.parse().unwrap());
    let actions = Access::new("a test".into(), config).actions().unwrap();
    let pods: Api<Pod> = Api::namespaced(actions.client(), "shop");
    let within = Duration::from_millis(200);
    let error = actions.call("pod shop/web", within, pods.get("web"));
    assert_eq!(
        error.await.unwrap_err().to_string(),
        "pod shop/web: no answer within 0.2 s"
    );
    assert_eq!(requests.try_iter().count(), 1);
}

#[tokio::test]
async fn an_unreachable_server_is_reported_with_the_kernels_error() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let access = Access::new("a test".into(), kube::Config::new(url.parse().unwrap()));
    let pods: Api<Pod> = Api::namespaced(access.watch_client().unwrap(), "shop");
    let error = pods.get("web").await.unwrap_err();
    assert!(
        message::of(&error, Peer::ApiServer).starts_with("Connection refused"),
        "{error}"
    );
}
