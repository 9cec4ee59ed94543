//! The source `kubelet`: this node's pods, from its kubelet, polled every few seconds. It needs no API server.

use super::{Listing, PodSource, SnapshotFile, remote::Remote};
use crate::logging::chain;
use evictd_cluster_client::{
    Budget, Fleet, Follow, KubeletClient, KubeletSettings, Reflector, Stagger, Store, chance,
    on_other_thread,
};
use evictd_kernel::clock::Clock;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::sleep};

/// How often the kubelet is polled. It answers from memory, in 15 ms for a hundred pods.
const INTERVAL: Duration = Duration::from_secs(3);

/// Pods from the kubelet.
#[derive(Debug)]
pub(crate) struct Kubelet {
    settings: KubeletSettings,
    node: String,
    keep: SnapshotFile,
    clock: Clock,
}

impl Kubelet {
    /// The pods of this node, from the kubelet that these settings describe.
    pub(crate) fn new(
        settings: KubeletSettings,
        node: String,
        keep: SnapshotFile,
        clock: Clock,
    ) -> Self {
        Self {
            settings,
            node,
            keep,
            clock,
        }
    }
}

impl PodSource for Kubelet {
    async fn start(self) -> watch::Receiver<Arc<Listing>> {
        let rest = (self.clock, &Budget::default());
        let remote = Remote::follow("the kubelet", false, &self.keep, rest);
        let receiver = remote.store().sender().subscribe();
        tokio::spawn(self.keep.follow(receiver.clone(), self.clock));
        let mut asker = Poller {
            settings: self.settings,
            node: self.node,
            client: None,
            remote,
            stagger: Stagger::default(),
        };
        let wait = asker.poll().await;
        tokio::spawn(asker.follow(wait));
        receiver
    }
}

/// The task that polls.
struct Poller {
    settings: KubeletSettings,
    node: String,
    client: Option<KubeletClient>,
    remote: Reflector<Remote>,
    stagger: Stagger,
}

impl Poller {
    async fn follow(mut self, mut wait: Duration) {
        let sender = self.remote.store().sender();
        loop {
            tokio::select! {
                () = sender.closed() => return,
                () = sleep(wait) => {}
            }
            wait = self.poll().await;
        }
    }

    /// Polls once; returns when to poll again.
    async fn poll(&mut self) -> Duration {
        let listed = self.list_pods().await;
        match listed {
            Ok(()) => {
                self.stagger.succeeded();
                INTERVAL
            }
            Err(problem) => {
                // A token or certificate may have been renewed, so the next poll reads them again.
                self.client = None;
                self.remote.store_mut().lost(&problem);
                // No other agent polls this kubelet, so the fleet is one.
                self.stagger
                    .after_failure(Fleet::of(1).spread(), chance())
                    .normal
            }
        }
    }

    async fn list_pods(&mut self) -> Result<(), String> {
        let client = if let Some(client) = self.client.take() {
            client
        } else {
            let (settings, node) = (self.settings.clone(), self.node.clone());
            let found = on_other_thread(async move { KubeletClient::find(&settings, &node).await });
            found.await.map_err(|error| chain(&error))?
        };
        let listed = client.list("/pods", &mut self.remote).await;
        self.client = Some(client);
        listed.map_err(|broken| broken.problem)?;
        self.remote.up_to_date();
        Ok(())
    }
}
