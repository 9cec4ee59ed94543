//! The source `kubernetes`: this node's pods, from the API server.
//!
//! While the API server does not answer, the last known pods stay. After a restart they come from the file of
//! [`super::SnapshotFile`].

use super::{Listing, PodSource, SnapshotFile, remote::Remote};
use crate::logging::chain;
use evictd_cluster_client::{
    Access, Connect, Credentials, Fleet, Retry, WatchError, Watches, on_other_thread,
};
use evictd_kernel::clock::Clock;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// The longest that the start waits for the first list.
const FIRST_LIST: Duration = Duration::from_secs(3);
const SERVER: &str = "the API server";

/// Pods from the API server.
#[derive(Debug)]
pub(crate) struct Kubernetes {
    settings: Credentials,
    node: String,
    fleet: Fleet,
    keep: SnapshotFile,
    clock: Clock,
    watches: Watches,
}

impl Kubernetes {
    /// The pods of this node, from the API server that these settings describe.
    pub(crate) fn new(
        settings: Credentials,
        node: String,
        fleet: Fleet,
        keep: SnapshotFile,
        (clock, watches): (Clock, Watches),
    ) -> Self {
        Self {
            settings,
            node,
            fleet,
            keep,
            clock,
            watches,
        }
    }
}

impl PodSource for Kubernetes {
    async fn start(self) -> watch::Receiver<Arc<Listing>> {
        let rest = (self.clock, self.watches.budget());
        let reflector = Remote::follow(SERVER, true, &self.keep, rest);
        let sender = reflector.store().sender();
        let mut first = sender.subscribe();
        let fields = format!("spec.nodeName={}", self.node);
        tokio::spawn(self.keep.follow(first.clone(), self.clock));
        let (settings, watches) = (Settings(self.settings), self.watches);
        let retry = Retry::spread(self.fleet);
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = reflector.run(fields, settings, &watches, retry) => {}
            }
        });
        // With or without an answer in time, the known pods are published already.
        let _ = timeout(FIRST_LIST, first.changed()).await;
        first
    }
}

/// Where the API server is.
struct Settings(Credentials);

impl Connect for Settings {
    async fn connect(&self) -> Result<kube::Client, WatchError> {
        let settings = self.0.clone();
        let client = on_other_thread(async move { Access::find(&settings).await?.watch_client() });
        client.await.map_err(|error| WatchError {
            problem: chain(&error),
            code: Some(401),
            ..WatchError::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::Warning;
    use evictd_testkit::ApiServer;
    use serde_json::json;
    use std::{collections::BTreeSet, fs};

    /// The API server sends `<` as six bytes: 9 MB. The other one has more parts than are read.
    #[tokio::test]
    async fn a_pod_that_is_too_long_is_one_of_unknown_specification_and_the_others_are_known() {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        let text = |length: usize| json!({ "name": "TEXT", "value": "<".repeat(length) });
        let pods = [
            ("large", vec![text(1_500_000)]),
            ("giant", vec![text(1); 40_000]),
            ("small", vec![text(1)]),
        ];
        for (name, env) in pods {
            let containers = json!([{ "name": "main", "image": "none", "env": env }]);
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
                "spec": { "nodeName": "one", "containers": containers },
            });
            admin.create(pod).unwrap();
        }
        let place = tempfile::tempdir().unwrap();
        let kubeconfig = place.path().join("kubeconfig");
        fs::write(&kubeconfig, api.kubeconfig()).unwrap();
        let settings = Credentials {
            kubeconfig: Some(kubeconfig),
            context: String::new(),
        };
        let node = "one".to_owned();
        let keep = SnapshotFile::new(place.path().to_owned(), node.clone(), BTreeSet::new());
        let watches = Watches::default();
        let rest = (Clock::start(), watches.clone());
        let source = Kubernetes::new(settings, node, Fleet::of(1), keep, rest);
        let mut listings = source.start().await;
        let known = listings.wait_for(|listing| listing.stale.is_none());
        let known = timeout(Duration::from_mins(1), known).await.unwrap();
        let listing = known.unwrap().clone();
        let names: Vec<String> = listing.pods.iter().map(|one| one.pod.full_name()).collect();
        assert!(
            names.len() == 2 && !names.contains(&"default/giant".to_owned()),
            "{names:?}"
        );
        let mut warnings = listing.warnings.iter();
        let giant = |warning: &Warning| match warning {
            Warning::Pod {
                pod,
                problem,
                earlier_in_use,
            } => pod == "default/giant" && problem.contains("32768 objects") && !earlier_in_use,
            _ => false,
        };
        assert!(warnings.any(giant), "{:?}", listing.warnings);
        assert_eq!(watches.states()[0].skipped, 1);
    }
}
