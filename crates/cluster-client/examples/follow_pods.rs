//! Lists the nodes of a cluster and follows its pods for ten seconds.
//!
//! `cargo run -p evictd-cluster-client --example follow_pods -- CONTEXT` asks the cluster of a kubeconfig's context; without
//! one an API server of the test kit stands in, with two pods.

use evictd_cluster_client::{Access, Credentials, Follow, Parsed, Watch, Watches};
use evictd_testkit::{ApiServer, Status};
use serde_json::{Value, json};
use std::{error::Error, io::Write, time::Duration};

/// Prints one line for each change.
struct Printer;

impl Printer {
    fn tell(what: &str, pod: Parsed<Value>) {
        let pod = match pod {
            Ok(pod) => pod,
            Err(wrong) => return Self::line(&format!("is not understood: {}", wrong.problem)),
        };
        let (namespace, name) = (&pod["metadata"]["namespace"], &pod["metadata"]["name"]);
        Self::line(&format!("{what} {namespace}/{name}").replace('"', ""));
    }

    fn line(text: &str) {
        // Whoever reads may have gone away.
        let _ = writeln!(std::io::stdout(), "{text}");
    }
}

impl Follow for Printer {
    /// Whatever is to be known of an object; a daemon reads no more than it keeps.
    type Object = Value;

    fn version(pod: &Value) -> &str {
        pod["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
    }

    fn begin(&mut self) {
        Self::line("the list begins");
    }

    fn applied(&mut self, pod: Parsed<Value>, _bytes: usize) {
        Self::tell("is there:", pod);
    }

    fn deleted(&mut self, pod: Parsed<Value>) {
        Self::tell("is gone:", pod);
    }

    fn up_to_date(&mut self) {
        Self::line("everything was told");
    }
}

/// An API server with two pods, and its kubeconfig in a file.
fn stand_in() -> Result<(ApiServer, tempfile::NamedTempFile), Box<dyn Error>> {
    let api = ApiServer::start()?;
    let admin = api.actor("example");
    let create = |object: Value| -> Result<Value, Status> { admin.create(object) };
    create(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "one" } }))?;
    for name in ["web", "db"] {
        create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "nodeName": "one", "containers": [{ "name": "main", "image": "none" }] },
        }))?;
    }
    let mut kubeconfig = tempfile::NamedTempFile::new()?;
    kubeconfig.write_all(api.kubeconfig().as_bytes())?;
    Ok((api, kubeconfig))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let context = std::env::args().nth(1);
    // Both live until the end.
    let stand_in = context.is_none().then(stand_in).transpose()?;
    let kubeconfig = stand_in.as_ref().map(|(_, file)| file.path().to_owned());
    let credentials = Credentials {
        kubeconfig,
        context: context.unwrap_or_default(),
    };
    let access = Access::find(&credentials).await?;
    Printer::line(&access.to_string());

    // One answer, as the text that came. Where a right is missing the error names it.
    let mut pages = access
        .reader(Duration::from_secs(10))?
        .pages("/api/v1/nodes");
    while let Some(page) = pages.next().await? {
        let page: Value = serde_json::from_str(&page)?;
        let nodes = page["items"].as_array().map_or(0, Vec::len);
        Printer::line(&format!("a page of {nodes} nodes"));
    }

    // One connection; a daemon would follow again when it ends, for ever.
    let client = access.watch_client()?;
    let mut watch = Watch::new("/api/v1/pods", String::new(), &Watches::default());
    let ten_seconds = Duration::from_secs(10);
    let ended = watch.follow(&client, ten_seconds, &mut Printer).await;
    ended.map_err(|broken| broken.problem.into())
}
