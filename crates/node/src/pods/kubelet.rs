//! The source `kubelet`: this node's pods, from its kubelet, polled every few seconds. It needs no API server.

use super::{Listing, PodSource, SnapshotFile, remote::Remote};
use crate::logging::chain;
use evictd_cluster_client::{
    Fleet, Follow, KubeletClient, KubeletSettings, Turn, beside_the_loop, chance,
};
use evictd_kernel::clock::Clock;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::sleep};

/// How often the kubelet is polled. It answers from memory, in 15 ms for a hundred pods.
const INTERVAL: Duration = Duration::from_secs(3);

/// Pods from the kubelet.
#[derive(Debug)]
pub struct Kubelet {
    settings: KubeletSettings,
    node: String,
    keep: SnapshotFile,
    clock: Clock,
}

impl Kubelet {
    /// The pods of this node, from the kubelet that these settings describe.
    pub fn new(settings: KubeletSettings, node: String, keep: SnapshotFile, clock: Clock) -> Self {
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
        let remote = Remote::new("the kubelet", false, &self.keep, self.clock);
        let receiver = remote.sender().subscribe();
        tokio::spawn(self.keep.follow(receiver.clone(), self.clock));
        let mut asker = Asker {
            settings: self.settings,
            node: self.node,
            door: None,
            remote,
            turn: Turn::default(),
        };
        let wait = asker.ask().await;
        tokio::spawn(asker.follow(wait));
        receiver
    }
}

/// The task that polls.
struct Asker {
    settings: KubeletSettings,
    node: String,
    door: Option<KubeletClient>,
    remote: Remote,
    turn: Turn,
}

impl Asker {
    async fn follow(mut self, mut wait: Duration) {
        let sender = self.remote.sender();
        loop {
            tokio::select! {
                () = sender.closed() => return,
                () = sleep(wait) => {}
            }
            wait = self.ask().await;
        }
    }

    /// Polls once; returns when to poll again.
    async fn ask(&mut self) -> Duration {
        let told = self.listen().await;
        match told {
            Ok(()) => {
                self.turn.answered();
                INTERVAL
            }
            Err(problem) => {
                // A token or certificate may have been renewed, so the next poll reads them again.
                self.door = None;
                self.remote.lost(problem);
                // No other agent polls this kubelet, so the fleet is one.
                self.turn.wait(Fleet::of(1).spread(), chance()).whole
            }
        }
    }

    async fn listen(&mut self) -> Result<(), String> {
        let door = if let Some(door) = self.door.take() {
            door
        } else {
            let (settings, node) = (self.settings.clone(), self.node.clone());
            let found = beside_the_loop(async move { KubeletClient::find(&settings, &node).await });
            found.await.map_err(|error| chain(&error))?
        };
        let listed = door.list("/pods", &mut self.remote).await;
        self.door = Some(door);
        listed.map_err(|broken| broken.problem)?;
        self.remote.up_to_date();
        Ok(())
    }
}
