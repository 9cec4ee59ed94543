//! Usage from this node's kubelet: its `/stats/summary`, requested in the background when a decision is near.

use crate::{logging::chain, pods::PodSet};
use evictd_cluster_client::{KubeletClient, KubeletSettings, beside_the_loop};
use evictd_eviction::{Summary, Usage};
use evictd_kernel::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::{
    task::JoinHandle,
    time::{Duration, Instant, sleep_until},
};

/// An answer of this age is as good as a new one: the kubelet itself measures a container only every 10 to 15 s.
const FRESH: SignedDuration = SignedDuration::from_secs(2);
/// Older figures are not used. Normal ones are up to 16 s old.
const MAX_AGE: SignedDuration = SignedDuration::from_secs(30);
/// How long a decision waits for the answer if cgroups can be read instead. A kubelet usually answers in 30 ms.
const PATIENCE: Duration = Duration::from_millis(50);
/// After a failure the kubelet is not asked again for this time.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);
const PATH: &str = "/stats/summary";

/// Asks the kubelet what pods use.
pub struct SummaryUsage {
    settings: KubeletSettings,
    node: String,
    clock: Clock,
    door: Option<KubeletClient>,
    asking: Option<Asking>,
    told: Option<Told>,
    /// When it last failed, and why.
    failed: Option<(Timestamp, String)>,
}

struct Asking {
    task: JoinHandle<(Option<KubeletClient>, Result<Told, String>)>,
    patience: Instant,
}

/// An answer of the kubelet.
struct Told {
    summary: Summary,
    /// When it was requested.
    asked: Timestamp,
    at: Timestamp,
    /// The machine's own clock at that time; the kubelet's timestamps are by this clock.
    wall: Timestamp,
}

impl SummaryUsage {
    /// For the kubelet that these settings describe.
    pub fn new(settings: KubeletSettings, node: String, clock: Clock) -> Self {
        Self {
            settings,
            node,
            clock,
            door: None,
            asking: None,
            told: None,
            failed: None,
        }
    }

    /// Whether to wait for an answer that is pending. If an answer to a request from `crossed` or later is needed
    /// and there is none, the kubelet is asked.
    pub fn is_awaited(&mut self, now: Timestamp, crossed: Timestamp) -> bool {
        let recent = |since: Timestamp, within| now.duration_since(since) < within;
        if let Some(asking) = &self.asking {
            return asking.patience > Instant::now();
        }
        if self
            .told
            .as_ref()
            .is_some_and(|told| recent(told.at, FRESH) && told.asked >= crossed)
            || self
                .failed
                .as_ref()
                .is_some_and(|(at, _)| recent(*at, AGAIN))
        {
            return false;
        }
        let (settings, node, clock) = (self.settings.clone(), self.node.clone(), self.clock);
        let door = self.door.take();
        let task = tokio::spawn(async move {
            let (door, answer) = ask(door, settings, node).await;
            let told = answer.map(|summary| Told {
                summary,
                asked: now,
                at: clock.now(),
                wall: clock.wall(),
            });
            (door, told)
        });
        self.asking = Some(Asking {
            task,
            patience: Instant::now() + PATIENCE,
        });
        true
    }

    /// Returns when the answer has arrived or the wait for it is over. Cancel safe; waits for ever if nothing was
    /// requested.
    pub async fn answered(&mut self) {
        let Some(asking) = &mut self.asking else {
            return std::future::pending().await;
        };
        let patience = asking.patience;
        let impatient = patience > Instant::now();
        let answer = tokio::select! {
            answer = &mut asking.task => answer,
            () = sleep_until(patience), if impatient => return,
        };
        self.asking = None;
        let (door, told) = answer.unwrap_or_else(|lost| (None, Err(lost.to_string())));
        self.door = door;
        match told {
            Ok(told) => {
                if self.failed.take().is_some() {
                    tracing::info!("the kubelet reports the usage of pods");
                }
                self.told = Some(told);
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
        self.told.as_ref().filter(|told| told.asked >= crossed)?;
        self.usage_within(MAX_AGE, now, set)
    }

    /// The same for questions: the last answer however old, while a newer one is pending.
    pub fn last(&self, now: Timestamp, set: &PodSet) -> Option<Usage> {
        let answers = self.is_asking() && self.failed.is_none();
        let age = if answers {
            SignedDuration::MAX
        } else {
            MAX_AGE
        };
        self.usage_within(age, now, set)
    }

    fn usage_within(&self, age: SignedDuration, now: Timestamp, set: &PodSet) -> Option<Usage> {
        let told = self.told.as_ref()?;
        let mut usage = told.summary.usage(&set.pods);
        for place in &mut usage.pods {
            let Some(pod) = place else { continue };
            // A figure dated after its arrival was measured before the clock was set back.
            let before = pod.time.map(|time| told.wall.duration_since(time));
            let before = before.unwrap_or_default().max(SignedDuration::ZERO);
            let measured = told.at.saturating_sub(before).unwrap_or(told.at);
            pod.time = Some(measured);
            if now.duration_since(measured) > age {
                *place = None;
            }
        }
        Some(usage)
    }

    /// Whether an answer is pending.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Why the kubelet's figures are not used.
    pub fn problem(&self) -> Option<String> {
        let (_, problem) = self.failed.as_ref()?;
        Some(format!(
            "the kubelet does not report the usage of pods: {problem}; their cgroups and directories are read instead"
        ))
    }
}

/// Asks once. After a failure the connection is made anew the next time, because credentials may have been renewed.
async fn ask(
    door: Option<KubeletClient>,
    settings: KubeletSettings,
    node: String,
) -> (Option<KubeletClient>, Result<Summary, String>) {
    let found = match door {
        Some(door) => Ok(door),
        None => beside_the_loop(async move { KubeletClient::find(&settings, &node).await }).await,
    };
    let answer = match &found {
        Ok(door) => summary(door).await,
        Err(error) => Err(chain(error)),
    };
    (found.ok().filter(|_| answer.is_ok()), answer)
}

/// Fetches the summary of this kubelet.
pub async fn summary(kubelet: &KubeletClient) -> Result<Summary, String> {
    let text = kubelet.get(PATH).await.map_err(|error| chain(&error))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{kubelet}{PATH} cannot be parsed: {error}"))
}

#[cfg(test)]
mod tests;
