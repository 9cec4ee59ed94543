//! Usage as this node's kubelet (`/stats/summary`) or container runtime reports it, requested in the background when a
//! decision is near.

use super::cri;
use crate::{logging::chain, pods::PodSet};
use evictd_cluster_client::{KubeletClient, KubeletSettings, on_other_thread};
use evictd_cri::Client;
use evictd_kernel::clock::Clock;
use evictd_signals::{Signal, StarvedResource};
use evictd_usage::{PodUsage, Summary, Usage};
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use tokio::{
    task::JoinHandle,
    time::{Duration, Instant, sleep_until},
};

/// An answer of this age is as good as a new one: the kubelet itself measures a container only every 10 to 15 s.
const FRESH_FOR: SignedDuration = SignedDuration::from_secs(2);
/// Older figures are not used. Normal ones are up to 16 s old.
const MAX_AGE: SignedDuration = SignedDuration::from_secs(30);
/// How long a decision waits for the answer if cgroups can be read instead. A kubelet usually answers in 30 ms.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(50);
/// After a failure the kubelet is not asked again for this time.
const RETRY_PAUSE: SignedDuration = SignedDuration::from_secs(5);
const PATH: &str = "/stats/summary";

/// The server of the figures.
#[derive(Clone)]
enum Server {
    Kubelet {
        settings: KubeletSettings,
        node: String,
    },
    Runtime(Client),
}

/// The answer of the server.
enum Figures {
    Kubelet(Box<Summary>),
    /// By the UID of the pod.
    Runtime(HashMap<String, PodUsage>),
}

/// Asks the kubelet or the container runtime for the usage of pods.
pub struct SummaryUsage {
    server: Server,
    clock: Clock,
    /// A connection to the kubelet.
    client: Option<KubeletClient>,
    pending: Option<PendingRequest>,
    last_answer: Option<SummaryAnswer>,
    /// When it last failed, and why.
    failed: Option<(Timestamp, String)>,
}

struct PendingRequest {
    task: JoinHandle<(Option<KubeletClient>, Result<SummaryAnswer, String>)>,
    wait_until: Instant,
}

/// An answer.
struct SummaryAnswer {
    figures: Figures,
    /// When it was requested.
    asked: Timestamp,
    at: Timestamp,
    /// The machine's own clock at that time; its timestamps are by this clock.
    wall: Timestamp,
}

impl SummaryAnswer {
    /// When a figure with this time was measured, by the daemon's clock. One dated after its arrival was measured before
    /// the clock was set back, one without a time when it arrived at the latest.
    fn measured(&self, time: Option<Timestamp>) -> Timestamp {
        let before = time.map(|time| self.wall.duration_since(time));
        // A time in the future comes from a clock that was set; the figure counts as of its arrival.
        let before = before.unwrap_or_default().max(SignedDuration::ZERO);
        self.at.saturating_sub(before).unwrap_or(self.at)
    }
}

impl SummaryUsage {
    /// For the kubelet that these settings describe.
    pub fn new(settings: KubeletSettings, node: String, clock: Clock) -> Self {
        Self::with(Server::Kubelet { settings, node }, clock)
    }

    /// For this container runtime.
    pub fn of_runtime(runtime: Client, clock: Clock) -> Self {
        Self::with(Server::Runtime(runtime), clock)
    }

    fn with(server: Server, clock: Clock) -> Self {
        Self {
            server,
            clock,
            client: None,
            pending: None,
            last_answer: None,
            failed: None,
        }
    }

    /// Whether it reports the usage that this signal ranks by: the runtime knows nothing of volumes and logs.
    pub(crate) fn tells(&self, signal: Signal) -> bool {
        let on_disk = matches!(
            signal.resource(),
            StarvedResource::EphemeralStorage | StarvedResource::Inodes
        );
        !on_disk || matches!(self.server, Server::Kubelet { .. })
    }

    /// Whether to wait for an answer that is pending. If an answer to a request from `crossed` or later is needed
    /// and there is none, the kubelet is asked.
    pub(crate) fn is_awaited(&mut self, now: Timestamp, crossed: Timestamp) -> bool {
        let recent = |since: Timestamp, within| now.duration_since(since) < within;
        if let Some(pending) = &self.pending {
            return pending.wait_until > Instant::now();
        }
        if self.last_answer.as_ref().is_some_and(|last_answer| {
            recent(last_answer.at, FRESH_FOR) && last_answer.asked >= crossed
        }) || self
            .failed
            .as_ref()
            .is_some_and(|(at, _)| recent(*at, RETRY_PAUSE))
        {
            return false;
        }
        // The client goes into the task and comes back with the answer, which keeps its connection open.
        let (server, clock) = (self.server.clone(), self.clock);
        let client = self.client.take();
        let task = tokio::spawn(async move {
            let (client, answer) = match server {
                Server::Kubelet { settings, node } => {
                    let (client, answer) = ask(client, settings, node).await;
                    (
                        client,
                        answer.map(|summary| Figures::Kubelet(Box::new(summary))),
                    )
                }
                Server::Runtime(runtime) => {
                    (None, cri::usage(&runtime).await.map(Figures::Runtime))
                }
            };
            let last_answer = answer.map(|figures| SummaryAnswer {
                figures,
                asked: now,
                at: clock.now(),
                wall: clock.wall(),
            });
            (client, last_answer)
        });
        self.pending = Some(PendingRequest {
            task,
            wait_until: Instant::now() + ANSWER_TIMEOUT,
        });
        true
    }

    /// Returns when the answer has arrived or the wait for it is over. Cancel safe; waits for ever if nothing was
    /// requested.
    pub async fn answered(&mut self) {
        let Some(pending) = &mut self.pending else {
            return std::future::pending().await;
        };
        let wait_until = pending.wait_until;
        let may_wait = wait_until > Instant::now();
        let answer = tokio::select! {
            answer = &mut pending.task => answer,
            () = sleep_until(wait_until), if may_wait => return,
        };
        self.pending = None;
        let (client, result) = answer.unwrap_or_else(|lost| (None, Err(lost.to_string())));
        self.client = client;
        match result {
            Ok(answer) => {
                if self.failed.take().is_some() {
                    tracing::info!("{} reports the usage of pods", self.name());
                }
                self.last_answer = Some(answer);
            }
            Err(problem) => {
                let is_new = self
                    .failed
                    .as_ref()
                    .is_none_or(|(_, last)| *last != problem);
                self.failed = Some((self.clock.now(), problem));
                if let Some(problem) = self.problem().filter(|_| is_new) {
                    tracing::warn!("{problem}");
                }
            }
        }
    }

    /// Usage of this set's pods by an answer that was requested at `crossed` or later; `None` for pods without
    /// recent figures.
    pub fn usage(&self, now: Timestamp, crossed: Timestamp, set: &PodSet) -> Option<Usage> {
        self.last_answer
            .as_ref()
            .filter(|last_answer| last_answer.asked >= crossed)?;
        self.usage_within(MAX_AGE, now, set)
    }

    /// The same for questions: the last answer however old, while a newer one is pending.
    pub fn last(&self, now: Timestamp, set: &PodSet) -> Option<Usage> {
        let answers = self.is_pending() && self.failed.is_none();
        let age = if answers {
            SignedDuration::MAX
        } else {
            MAX_AGE
        };
        self.usage_within(age, now, set)
    }

    fn usage_within(&self, age: SignedDuration, now: Timestamp, set: &PodSet) -> Option<Usage> {
        let last_answer = self.last_answer.as_ref()?;
        let mut usage = match &last_answer.figures {
            Figures::Kubelet(summary) => summary.usage(&set.pods),
            Figures::Runtime(by_uid) => {
                let pods = set.pods.iter();
                pods.map(|pod| by_uid.get(&pod.uid).cloned()).collect()
            }
        };
        for place in &mut usage.pods {
            let Some(pod) = place else { continue };
            pod.date(|time| Some(last_answer.measured(time)));
            let measured = pod.working_set.and_then(|figure| figure.time);
            if now.duration_since(measured.unwrap_or(last_answer.at)) > age {
                *place = None;
            }
        }
        Some(usage)
    }

    /// Whether an answer is pending.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Why the kubelet's figures are not used.
    pub fn problem(&self) -> Option<String> {
        let (_, problem) = self.failed.as_ref()?;
        Some(format!(
            "{} does not report the usage of pods: {problem}; their cgroups and directories are read instead",
            self.name()
        ))
    }

    fn name(&self) -> &'static str {
        match self.server {
            Server::Kubelet { .. } => "the kubelet",
            Server::Runtime(_) => "the container runtime",
        }
    }
}

/// Asks once. After a failure a new connection is made the next time, because credentials may have been renewed.
async fn ask(
    client: Option<KubeletClient>,
    settings: KubeletSettings,
    node: String,
) -> (Option<KubeletClient>, Result<Summary, String>) {
    let found = match client {
        Some(client) => Ok(client),
        None => on_other_thread(async move { KubeletClient::find(&settings, &node).await }).await,
    };
    let answer = match &found {
        Ok(client) => summary(client).await,
        Err(error) => Err(chain(error)),
    };
    (found.ok().filter(|_| answer.is_ok()), answer)
}

/// Fetches the summary of this kubelet.
pub(crate) async fn summary(kubelet: &KubeletClient) -> Result<Summary, String> {
    let text = kubelet.get(PATH).await.map_err(|error| chain(&error))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{kubelet}{PATH} cannot be parsed: {error}"))
}

#[cfg(test)]
mod tests;
