//! The source `kubernetes`: this node's pods, from the API server.
//!
//! While the API server does not answer, the last known pods stay. After a restart they come from the file of
//! [`super::SnapshotFile`].

use super::{Listing, PodSource, SnapshotFile, remote::Remote};
use crate::logging::chain;
use evictd_cluster_client::{
    Access, Credentials, Fleet, Stagger, Watch, WatchError, chance, on_other_thread,
};
use evictd_kernel::clock::Clock;
use jiff::SignedDuration;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// The longest that the start waits for the first list.
const FIRST_LIST: Duration = Duration::from_secs(3);
/// A watch that lasted this long counts as a success.
const STABLE_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// A watch ends after at least this long and at most twice as long, at random, so that agents do not all renew
/// theirs at the same time.
pub const WATCH_LIFE: Duration = Duration::from_mins(5);
/// The server's clock may differ from ours by this much.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(1);
const SERVER: &str = "the API server";

/// Pods from the API server.
#[derive(Debug)]
pub struct Kubernetes {
    settings: Credentials,
    node: String,
    fleet: Fleet,
    keep: SnapshotFile,
    clock: Clock,
}

impl Kubernetes {
    /// The pods of this node, from the API server that these settings describe.
    pub fn new(
        settings: Credentials,
        node: String,
        fleet: Fleet,
        keep: SnapshotFile,
        clock: Clock,
    ) -> Self {
        Self {
            settings,
            node,
            fleet,
            keep,
            clock,
        }
    }
}

impl PodSource for Kubernetes {
    async fn start(self) -> watch::Receiver<Arc<Listing>> {
        let remote = Remote::new(SERVER, true, &self.keep, self.clock);
        let mut first = remote.sender().subscribe();
        let fields = format!("spec.nodeName={}", self.node);
        let follower = Follower {
            settings: self.settings,
            watch: Watch::new("/api/v1/pods", fields),
            client: None,
            fleet: self.fleet,
            clock: self.clock,
            remote,
        };
        tokio::spawn(self.keep.follow(first.clone(), self.clock));
        tokio::spawn(follower.follow());
        // With or without an answer in time, what is known is published already.
        let _ = timeout(FIRST_LIST, first.changed()).await;
        first
    }
}

/// The task that watches.
struct Follower {
    settings: Credentials,
    watch: Watch,
    client: Option<kube::Client>,
    fleet: Fleet,
    clock: Clock,
    remote: Remote,
}

impl Follower {
    async fn follow(mut self) {
        let sender = self.remote.sender();
        let mut stagger = Stagger::default();
        loop {
            let begun = self.clock.now();
            let life = WATCH_LIFE.mul_f64(1.0 + chance());
            let ended = tokio::select! {
                () = sender.closed() => return,
                ended = self.connect(life) => ended,
            };
            let lasted = self.clock.now().duration_since(begun);
            if lasted >= STABLE_AFTER {
                stagger = Stagger::default();
            }
            match ended {
                Ok(()) if (lasted + CLOCK_SKEW).unsigned_abs() >= life => continue,
                // The connections of all other agents may have been cut, too.
                Ok(()) => self.remote.lost("the connection was cut".to_owned()),
                Err(broken) => {
                    // A token or certificate may have been renewed, so the next connection reads them again.
                    if broken.code.is_none_or(|code| code == 401) {
                        self.client = None;
                    }
                    self.remote.lost(broken.problem);
                }
            }
            let wait = stagger.after_failure(self.fleet.spread(), chance());
            let rest = async {
                sleep(wait.urgent).await;
                tokio::select! {
                    () = sleep(wait.normal.saturating_sub(wait.urgent)) => {}
                    () = self.fleet.until_urgent() => {}
                }
            };
            tokio::select! {
                () = sender.closed() => return,
                () = rest => {}
            }
        }
    }

    async fn connect(&mut self, life: Duration) -> Result<(), WatchError> {
        let client = if let Some(client) = &self.client {
            client.clone()
        } else {
            let client = self.new_client().await?;
            self.client.insert(client).clone()
        };
        self.watch.follow(&client, life, &mut self.remote).await
    }

    async fn new_client(&self) -> Result<kube::Client, WatchError> {
        let settings = self.settings.clone();
        let client = on_other_thread(async move { Access::find(&settings).await?.watch_client() });
        client.await.map_err(|error| WatchError {
            problem: chain(&error),
            code: Some(401),
        })
    }
}
