//! The source `kubernetes`: this node's pods as the API server tells them.
//!
//! While it is away the pods last known stay; those of before a restart come from the file that they are kept in.

use super::{Keep, Listing, PodSource, remote::Remote};
use crate::logging::chain;
use evictd_cluster_client::{
    Access, Broken, Credentials, Crowd, Turn, Watch, beside_the_loop, chance,
};
use evictd_kernel::clock::Clock;
use jiff::SignedDuration;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// The start waits for the first list no longer than this.
const FIRST_LIST: Duration = Duration::from_secs(3);
/// A watch that lasted this long was one.
const STEADY: SignedDuration = SignedDuration::from_secs(5);
/// A watch lives for at least this long, and for twice as long at most: no two agents renew theirs in step.
pub const WATCH_LIFE: Duration = Duration::from_mins(5);
/// The server's clock need not run as ours does.
const SLACK: SignedDuration = SignedDuration::from_secs(1);
const SERVER: &str = "the API server";

/// Pods from the API server.
#[derive(Debug)]
pub struct Kubernetes {
    settings: Credentials,
    node: String,
    crowd: Crowd,
    keep: Keep,
    clock: Clock,
}

impl Kubernetes {
    /// The pods of this node, from the API server that these settings lead to.
    pub fn new(
        settings: Credentials,
        node: String,
        crowd: Crowd,
        keep: Keep,
        clock: Clock,
    ) -> Self {
        Self {
            settings,
            node,
            crowd,
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
            crowd: self.crowd,
            clock: self.clock,
            remote,
        };
        tokio::spawn(self.keep.follow(first.clone(), self.clock));
        tokio::spawn(follower.follow());
        // Either way what is known is published already.
        let _ = timeout(FIRST_LIST, first.changed()).await;
        first
    }
}

/// The task that watches.
struct Follower {
    settings: Credentials,
    watch: Watch,
    client: Option<kube::Client>,
    crowd: Crowd,
    clock: Clock,
    remote: Remote,
}

impl Follower {
    async fn follow(mut self) {
        let sender = self.remote.sender();
        let mut turn = Turn::default();
        loop {
            let begun = self.clock.now();
            let life = WATCH_LIFE.mul_f64(1.0 + chance());
            let ended = tokio::select! {
                () = sender.closed() => return,
                ended = self.connect(life) => ended,
            };
            let lasted = self.clock.now().duration_since(begun);
            if lasted >= STEADY {
                turn = Turn::default();
            }
            match ended {
                Ok(()) if (lasted + SLACK).unsigned_abs() >= life => continue,
                // All others may have been cut off, too.
                Ok(()) => self.remote.lost("the connection was cut".to_owned()),
                Err(broken) => {
                    // A token or certificate may have been renewed meanwhile.
                    if broken.code.is_none_or(|code| code == 401) {
                        self.client = None;
                    }
                    self.remote.lost(broken.problem);
                }
            }
            let wait = turn.wait(self.crowd.spread(), chance());
            let rest = async {
                sleep(wait.least).await;
                tokio::select! {
                    () = sleep(wait.whole.saturating_sub(wait.least)) => {}
                    () = self.crowd.in_a_hurry() => {}
                }
            };
            tokio::select! {
                () = sender.closed() => return,
                () = rest => {}
            }
        }
    }

    async fn connect(&mut self, life: Duration) -> Result<(), Broken> {
        let client = if let Some(client) = &self.client {
            client.clone()
        } else {
            let client = self.new_client().await?;
            self.client.insert(client).clone()
        };
        self.watch.follow(&client, life, &mut self.remote).await
    }

    async fn new_client(&self) -> Result<kube::Client, Broken> {
        let settings = self.settings.clone();
        let client = beside_the_loop(async move { Access::find(&settings).await?.watch_client() });
        client.await.map_err(|error| Broken {
            problem: chain(&error),
            code: Some(401),
        })
    }
}
