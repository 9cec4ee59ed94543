//! The API server and the kubelet over TLS: certificates, authorities and tokens, good and bad.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use crate::run_daemon::kubelet::Kubelet;
use evictd_testkit::{Authority, TlsProxy};
use serde_json::{Value, json};
use std::fs;

const CALM: &str = "1Mi";
/// A pod that holds 90 MiB of the node's 192 crosses it, and one of 8 MiB does not.
const LOW: &str = "110Mi";
const HERE: &str = "127.0.0.1";

impl Cluster {
    /// Lines of a configuration that asks the kubelet behind this proxy.
    fn kubelet_lines(&self, proxy: &TlsProxy, more: &str) -> String {
        let token = self.write("token", "good");
        let place = self.node.directory.path().display();
        format!(
            "pods: {{source: kubelet}}\nruntimeDirectory: {place}/run\n\
             kubelet: {{url: '{}', tokenFile: {token}, {more}}}",
            proxy.url()
        )
    }
}

#[test]
fn a_client_certificate_opens_the_api_server_for_pods_and_for_what_is_told() {
    let Some(cluster) = Cluster::new("a_client_certificate_opens") else {
        return;
    };
    let [servers, clients] = ["servers", "clients"].map(|name| Authority::new(name).unwrap());
    let identity = servers.sign(&[HERE]).unwrap();
    let proxy = TlsProxy::start(&cluster.api.url(), &identity, Some(&clients)).unwrap();
    let us = clients.sign(&["evictd"]).unwrap();
    let user = json!({
        "client-certificate": cluster.write("client.crt", &us.certificate()),
        "client-key": cluster.write("client.key", &us.key()),
    });
    cluster.use_proxy(&proxy, &servers, &user);
    let mut small = cluster.pod("small", "--hold 8Mi");
    let mut hog = cluster.pod("hog", "--hold 90Mi");
    let daemon = cluster.daemon(LOW);
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(small.lives() && !hog.lives());
    daemon.eventually("the API server knows", |_| {
        let pod = cluster.admin.get("pods", "shop/hog").unwrap();
        pod["status"]["reason"] == "Evicted"
    });
    drop(daemon);

    cluster.use_proxy(&proxy, &servers, &json!({}));
    let daemon = cluster.daemon(CALM);
    daemon.eventually("it says what is missing", |daemon| {
        daemon.warns("requires a client certificate")
    });
}

#[test]
fn a_bad_certificate_of_the_api_server_is_told_with_what_to_do() {
    let Some(cluster) = Cluster::new("a_bad_certificate_of_the_api_server") else {
        return;
    };
    cluster.create("first", &Value::Null);
    let names = ["kubernetes", "kubernetes", "somebody"];
    let [known, of_another_cluster, unknown] = names.map(|name| Authority::new(name).unwrap());
    let table = [
        (known.sign(&[HERE]), None),
        (
            of_another_cluster.sign(&[HERE]),
            Some("certificate-authority in the kubeconfig is outdated"),
        ),
        (
            unknown.sign(&[HERE]),
            Some("the API server's certificate is signed by an authority that is not trusted here"),
        ),
        (
            known.sign_expired(&[HERE]),
            Some("or set this machine's clock"),
        ),
        (
            known.sign(&["elsewhere"]),
            Some("is for other names: use one of them"),
        ),
    ];
    for (identity, words) in table {
        let proxy = TlsProxy::start(&cluster.api.url(), &identity.unwrap(), None).unwrap();
        cluster.use_proxy(&proxy, &known, &json!({}));
        let daemon = cluster.daemon(CALM);
        match words {
            None => daemon.eventually_knows(&["first"]),
            Some(words) => daemon.eventually(words, |daemon| daemon.warns(words)),
        }
    }
}

#[test]
fn a_token_that_is_rotated_in_its_file_is_read_anew() {
    let Some(cluster) = Cluster::new("a_token_that_is_rotated") else {
        return;
    };
    let authority = Authority::new("kubernetes").unwrap();
    let identity = authority.sign(&[HERE]).unwrap();
    let proxy = TlsProxy::start(&cluster.api.url(), &identity, None).unwrap();
    cluster.api.require_tokens();
    cluster.api.grant("old", "evictd", None);
    let file = cluster.write("api-token", "old");
    cluster.use_proxy(&proxy, &authority, &json!({"tokenFile": file}));
    cluster.create("first", &Value::Null);
    let daemon = cluster.daemon(CALM);
    daemon.eventually_knows(&["first"]);
    cluster.api.grant("new", "evictd", None);
    cluster.write("api-token", "new");
    cluster.api.expire("old");
    cluster.api.cut_watches();
    cluster.create("second", &Value::Null);
    daemon.eventually_knows(&["first", "second"]);
}

#[test]
fn a_kubelet_is_verified_by_what_it_signed_for_itself_or_by_nothing_where_that_is_said() {
    let Some(cluster) = Cluster::new("a_kubelet_is_verified_by_what_it_signed") else {
        return;
    };
    let kubelet = Kubelet::start();
    kubelet.set(
        "/pods",
        &json!({"items": [{"metadata": {"name": "x", "uid": "1", "namespace": "shop"}}]}),
    );
    let [itself, other] = ["test-ca@1", "test-ca@2"].map(|name| Authority::new(name).unwrap());
    // As a kubelet makes it: for its node's name, and with its authority in the same file.
    let identity = itself.sign(&["test"]).unwrap();
    let own = cluster.write("kubelet.crt", &(identity.certificate() + &itself.pem()));
    let others = cluster.write("other.crt", &other.pem());
    let elsewhere = itself.sign(&["elsewhere"]).unwrap();
    let untrusted = "this kubelet's certificate is signed by an authority that is not trusted here: set \
                     kubelet.certificateAuthority to /var/lib/kubelet/pki/kubelet.crt, where a kubelet keeps its \
                     self-signed one";
    let table = [
        (&identity, format!("certificateAuthority: {own}"), None),
        (
            &identity,
            format!("certificateAuthority: {others}"),
            Some(untrusted),
        ),
        // As an agent on the host is that nobody has told whom to trust.
        (
            &identity,
            "certificateAuthority: ''".to_owned(),
            Some(untrusted),
        ),
        (
            &elsewhere,
            format!("certificateAuthority: {own}"),
            Some("is for other names than nodeName"),
        ),
        (&elsewhere, "insecure: true".to_owned(), None),
    ];
    for (identity, lines, words) in table {
        let proxy = TlsProxy::start(&kubelet.url, identity, None).unwrap();
        let lines = cluster.kubelet_lines(&proxy, &lines);
        let daemon = Daemon::start(&cluster.node, &[("memory.available", CALM)], &lines);
        match words {
            None => daemon.eventually_knows(&["x"]),
            Some(words) => daemon.eventually(words, |daemon| daemon.warns(words)),
        }
        assert_eq!(daemon.said("failed to verify"), 0, "said by a library, too");
        drop(daemon);
        let _ = fs::remove_dir_all(cluster.node.path("run"));
    }
}
