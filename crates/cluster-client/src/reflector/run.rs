//! Follows a collection for ever: connects, watches, and waits after failures.

use super::watch::answering;
use super::{Follow, Reflector, Store, Watch, WatchError, Watches};
use crate::backoff::Backoff;
use crate::stagger::{Fleet, Stagger, chance};
use crate::{Access, Actions, discovery};
use kube::Client;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

/// A watch ends after at least this long and at most twice as long, at random: programs that were started together do not
/// all renew theirs at the same time.
pub const WATCH_LIFE: Duration = Duration::from_mins(5);
/// A watch that lasted this long counts as a success.
const STABLE_AFTER: Duration = Duration::from_secs(5);
/// The server's clock may differ from ours by this much.
const CLOCK_SKEW: Duration = Duration::from_secs(1);
/// A known kind counts as deleted only after this long: a restarted server may not know it at once.
const GONE_AFTER: Duration = Duration::from_mins(1);
/// The first and the longest pause between two attempts of a program with few instances.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The shortest pause while the server has no such kind: it is installed seldom, and no object is missed.
const ABSENT_PAUSE: Duration = Duration::from_secs(10);

/// Finds the API server anew.
pub trait Connect: Send + Sync + 'static {
    /// A client for watches. Credentials on disk may have been renewed since the last call.
    fn connect(&self) -> impl Future<Output = Result<Client, WatchError>> + Send;
}

impl Connect for Access {
    async fn connect(&self) -> Result<Client, WatchError> {
        self.watch_client().map_err(|error| WatchError {
            problem: error.to_string(),
            code: Some(401),
            ..WatchError::default()
        })
    }
}

/// How long to wait after a failure.
#[derive(Debug)]
pub enum Retry {
    /// A program with few instances in a cluster: it comes back soon.
    Soon(Backoff),
    /// One of many agents, which come back one after the other.
    Spread(Fleet, Box<Stagger>),
}

impl Retry {
    /// For a program with few instances in a cluster.
    pub const fn soon() -> Self {
        Self::Soon(Backoff::new(FIRST_PAUSE, LONGEST_PAUSE))
    }

    /// For one of these agents.
    pub fn spread(fleet: Fleet) -> Self {
        Self::Spread(fleet, Box::default())
    }

    /// The connection has ended after this time. Agents must not take a server that cuts all of them for one that works.
    fn ended(&mut self, well: bool, lasted: Duration) {
        match self {
            Self::Soon(backoff) if well || lasted >= STABLE_AFTER => backoff.reset(),
            Self::Spread(_, stagger) if lasted >= STABLE_AFTER => **stagger = Stagger::default(),
            Self::Soon(_) | Self::Spread(..) => {}
        }
    }

    /// `least`: the shortest pause. `asked`: the pause that the server has asked for.
    async fn wait(&mut self, least: Duration, asked: Option<Duration>) {
        match self {
            Self::Soon(backoff) => {
                let pause = match asked {
                    // A server that says how long works again. The pause that grew while it did not must not delay us.
                    Some(asked) => {
                        backoff.reset();
                        asked.min(LONGEST_PAUSE).mul_f64(1.0 + chance() / 2.0)
                    }
                    None => backoff.next(chance()),
                };
                sleep(pause.max(least)).await;
            }
            Self::Spread(fleet, stagger) => {
                let wait = stagger.after_failure(fleet.spread(), chance());
                sleep(wait.urgent).await;
                tokio::select! {
                    () = sleep(wait.normal.saturating_sub(wait.urgent)) => {}
                    () = fleet.until_urgent() => {}
                }
            }
        }
    }
}

/// The collection that a reflector follows, and its settings.
struct Run<S: Store, C> {
    reflector: Reflector<S>,
    watch: Watch,
    connect: C,
    client: Option<Client>,
    retry: Retry,
    /// Whether a list was complete, and since when the server has said that it has no such kind.
    listed: bool,
    absent_since: Option<Instant>,
}

impl<S: Store> Reflector<S> {
    /// Follows the objects that match the field selector until it is dropped.
    pub async fn run(self, fields: String, connect: impl Connect, watches: &Watches, retry: Retry) {
        let mut run = Run {
            watch: Watch::new(self.path(), fields, watches),
            reflector: self,
            connect,
            client: None,
            retry,
            listed: false,
            absent_since: None,
        };
        loop {
            let begun = Instant::now();
            let life = WATCH_LIFE.mul_f64(1.0 + chance());
            let ended = run.follow(life).await;
            run.retry.ended(ended.is_ok(), begun.elapsed());
            let asked = ended.as_ref().err().and_then(|error| error.retry_after);
            match ended {
                Ok(()) => {
                    (run.listed, run.absent_since) = (true, None);
                    if begun.elapsed() + CLOCK_SKEW >= life {
                        continue;
                    }
                    // The connections of all others may have been cut, too.
                    run.reflector.store_mut().lost("the connection was cut");
                }
                Err(error) => run.failed(error).await,
            }
            let is_absent = run.absent_since.is_some() && !run.listed;
            let least = if is_absent {
                ABSENT_PAUSE
            } else {
                Duration::ZERO
            };
            answering(&mut run.reflector, run.retry.wait(least, asked)).await;
        }
    }
}

impl<S: Store, C: Connect> Run<S, C> {
    async fn follow(&mut self, life: Duration) -> Result<(), WatchError> {
        let client = if let Some(client) = &self.client {
            client.clone()
        } else {
            let client = self.connect.connect().await;
            let client = client.inspect_err(|error| self.watch.failed(&error.problem))?;
            self.client.insert(client).clone()
        };
        self.watch.follow(&client, life, &mut self.reflector).await
    }

    async fn failed(&mut self, error: WatchError) {
        let path = self.reflector.path();
        if is_absent(path, &error, self.client.clone()).await {
            let since = *self.absent_since.get_or_insert_with(|| {
                info!("{path}: the server has no such kind, which counts as an empty list");
                Instant::now()
            });
            if !self.listed || since.elapsed() >= GONE_AFTER {
                self.watch.is_absent();
                self.reflector.begin();
                self.reflector.up_to_date();
            }
            return;
        }
        self.absent_since = None;
        warn!("cannot watch {path}: {}", error.problem);
        // A token or certificate may have been renewed, so the next connection reads them again.
        if error.code.is_none_or(|code| code == 401) {
            self.client = None;
        }
        self.reflector.store_mut().lost(&error.problem);
    }
}

/// Whether the server has no such kind. A server that looks for the right to watch it first answers with 403.
async fn is_absent(path: &str, error: &WatchError, client: Option<Client>) -> bool {
    match (error.code, client) {
        (Some(404), _) => true,
        (Some(403), Some(client)) => {
            let served = discovery::serves(&Actions::new(client), path).await;
            served.ok() == Some(false)
        }
        _ => false,
    }
}
