//! Usage as this node's kubelet tells it: its `/stats/summary`, asked beside the loop when a decision is near.

use crate::{logging::chain, pods::PodSet};
use evictd_cluster_client::{KubeletClient, KubeletSettings, beside_the_loop};
use evictd_eviction::{Summary, Usage};
use evictd_kernel::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::{
    task::JoinHandle,
    time::{Duration, Instant, sleep_until},
};

/// An answer this young is as good as a new one: the kubelet itself looks at a container every 10 to 15 s.
const FRESH: SignedDuration = SignedDuration::from_secs(2);
/// Figures that were measured longer ago are of no use. Ordinary ones are up to 16 s old.
const MAX_AGE: SignedDuration = SignedDuration::from_secs(30);
/// A kubelet answers in 30 ms. A decision for which cgroups can be read waits no longer than this.
const PATIENCE: Duration = Duration::from_millis(50);
/// A kubelet that did not answer is asked again no sooner.
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
    /// When it last did not answer, and why.
    failed: Option<(Timestamp, String)>,
}

struct Asking {
    task: JoinHandle<(Option<KubeletClient>, Result<Told, String>)>,
    patience: Instant,
}

/// An answer.
struct Told {
    summary: Summary,
    /// When it was asked for.
    asked: Timestamp,
    at: Timestamp,
    /// The machine's own clock then, by which the kubelet dates its figures.
    wall: Timestamp,
}

impl SummaryUsage {
    /// Of the kubelet that these settings lead to.
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

    /// Whether an answer is on its way that is worth waiting for; where one is needed that was asked for at this time or later, the
    /// kubelet is asked.
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

    /// The answer is there, or waiting for it is over. Cancel safe; waits for ever where nothing was asked.
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
                    tracing::info!("the kubelet tells the usage of pods");
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

    /// Usage of the pods of this set by an answer that was asked for at this time or later, each `None` where nothing recent is
    /// known of it.
    pub fn usage(&self, now: Timestamp, crossed: Timestamp, set: &PodSet) -> Option<Usage> {
        self.told.as_ref().filter(|told| told.asked >= crossed)?;
        self.usage_within(MAX_AGE, now, set)
    }

    /// The same for whoever only wants to see: while newer figures are on their way, those of before, however old.
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
            // What is dated after its arrival was measured by a clock that has been set back since.
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

    /// Whether an answer is on its way.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Why the kubelet's figures are not in use.
    pub fn problem(&self) -> Option<String> {
        let (_, problem) = self.failed.as_ref()?;
        Some(format!(
            "the kubelet does not tell the usage of pods: {problem}; their cgroups and directories are read instead"
        ))
    }
}

/// Asks once; a way that did not lead to an answer is looked for anew next time, since credentials may be renewed.
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

/// What this kubelet tells now.
pub async fn summary(kubelet: &KubeletClient) -> Result<Summary, String> {
    let text = kubelet.get(PATH).await.map_err(|error| chain(&error))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{kubelet}{PATH} is not understood: {error}"))
}

#[cfg(test)]
mod tests;
