//! The API server of our own, as clients see it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod apply;
mod custom;
mod eviction;
mod faults;
mod kubectl;
mod kubelet;
mod objects;
mod scheduling;

use evictd_testkit::ApiServer;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::time::Duration;

/// What happens at all happens sooner.
const AT_MOST: Duration = Duration::from_secs(10);

/// A client that asks once.
fn client(api: &ApiServer) -> Client {
    let mut config = Config::new(api.url().parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn client_with_token(api: &ApiServer, token: &str) -> Client {
    let mut config = Config::new(api.url().parse().unwrap());
    config.default_retry = false;
    config.auth_info.token = Some(token.to_owned().into());
    Client::try_from(config).unwrap()
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
    })
}

fn running(name: &str) -> Value {
    let mut pod = pod(name, "one");
    pod["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    pod
}

/// The code and the reason of a refusal.
fn code<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> (u16, String) {
    match answer.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.reason.clone()),
        other => panic!("{other}"),
    }
}
