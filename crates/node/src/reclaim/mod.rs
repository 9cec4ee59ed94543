//! The port "reclaim without evicting a pod": dead containers and unused images of the container runtime.
//!
//! ```text
//!   the main loop: Step::Reclaim, observations      Reclaimer            Runtime (CRI)
//!                                           ->   turns a Reclaiming  ->  lists, removes, in tasks of their own
//!                       wakes the main loop <-   (the pure plan)     <-  answers
//! ```
//!
//! The main loop never waits for the runtime: while a reclaim is under way, other signals act as usual. A runtime that
//! does nothing for 10 s ends the reclaim, and pods are ranked (S1-037).

mod cri;
mod memory;
mod tracker;
mod uses;

pub(crate) use crate::runtime::Places;
pub(crate) use cri::CriRuntime;
pub(crate) use memory::{MemoryReclaimer, Target};

use crate::{
    config::{Effective, ImageGc, ImageGcMode, PodsSource},
    usage::ledger::Reclaimable,
};
use evictd_eviction::Reclaim;
use evictd_kernel::clock::Clock;
use evictd_reclaim::{
    Command, Event, Inventory, Outlook, Policy, Reclaimed, Reclaiming, Removal, Size, all_removals,
};
use evictd_signals::{Observations, Signal, SignalMap};
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeSet, pin::Pin, sync::Arc};
use tokio::sync::mpsc;
use tracker::Tracker;

/// A reclaim that could remove nothing is not tried again for this time, the kubelet's own period (S1-017). It doubles
/// each time. An object that has become removable since is tried at once.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// The most doublings: up to 5 min 20 s.
const DOUBLINGS: u32 = 5;
/// The kubelet's period of image collection, for `imageGC.mode: full`.
const COLLECTION_PERIOD: SignedDuration = SignedDuration::from_mins(5);

/// An answer of the container runtime; the error names the request and the runtime.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// The container runtime: it lists and removes.
pub trait Runtime: Send + Sync {
    /// Everything that it holds, with the times of the images.
    fn list(&self) -> Answer<'_, Inventory>;
    /// Removes this.
    fn remove<'a>(&'a self, removal: &'a Removal) -> Answer<'a, ()>;
    /// Where it keeps its files; `None` if it does not tell.
    fn places(&self) -> Answer<'_, Option<Places>> {
        Box::pin(async { Ok(None) })
    }
}

/// The mode that `auto` stands for.
fn mode(config: &Effective, pods: PodsSource) -> ImageGcMode {
    match (config.image_gc.mode, pods) {
        (ImageGcMode::Auto, PodsSource::Manifests) => ImageGcMode::Off,
        (ImageGcMode::Auto, _) => ImageGcMode::Pressure,
        (chosen, _) => chosen,
    }
}

/// Where the container runtime may listen.
pub(crate) fn sockets(config: &Effective) -> Vec<String> {
    let configured = config.container_runtime_endpoint.as_str();
    match configured {
        "" => evictd_cri::usual_sockets()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        one => vec![one.strip_prefix("unix://").unwrap_or(one).to_owned()],
    }
}

fn is_any_there(sockets: &[String]) -> bool {
    let there = |path: &String| std::fs::exists(path).unwrap_or(true);
    sockets.iter().any(there)
}

/// Why nothing can be reclaimed although it should be: no socket of a container runtime is there.
pub(crate) fn missing_socket(config: &Effective, pods: PodsSource) -> Option<String> {
    let sockets = sockets(config);
    if mode(config, pods) == ImageGcMode::Off || is_any_there(&sockets) {
        return None;
    }
    Some(format!(
        "dead containers and unused images cannot be removed first, because no container runtime is at {}; \
         set containerRuntimeEndpoint, or imageGC.mode: off to evict pods at once",
        sockets.join(", ")
    ))
}

/// The state of the main loop when it advances a reclaim.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the node"
)]
pub struct Situation<'a> {
    /// The available amount of each signal.
    pub seen: &'a Observations,
    /// Whether no threshold is met that a reclaim can lift, minimum reclaim included.
    pub relieved: bool,
    /// Whether any threshold is on a disk signal.
    pub watched: bool,
    /// Whether a disk is near one of its thresholds.
    pub near: bool,
    /// Remove nothing.
    pub dry_run: bool,
}

/// The progress of a [`Reclaim`] step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing can be reclaimed on this node.
    Off,
    /// It continues beside the main loop, and may free this much yet.
    UnderWay(Outlook),
    /// It is over for now.
    Over,
}

/// A reclaim that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The signal that it was for.
    pub signal: Signal,
    /// The removed objects and the freed bytes.
    pub reclaimed: Reclaimed,
}

/// An event of the reclaim with this number.
#[derive(Debug)]
pub struct Answered(u64, Event);

/// Why a reclaim was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A threshold on a disk signal.
    Pressure,
    /// The images' filesystem is fuller than the high threshold of `imageGC`.
    Full,
    /// The maximum age of images.
    Age,
}

struct Job {
    machine: Reclaiming,
    want: Reclaim,
    cause: Cause,
}

#[derive(Debug, Clone, Default)]
struct BackOff {
    until: Option<Timestamp>,
    in_vain: u32,
    /// The objects that could not be removed; `None` if the runtime did not answer.
    tried: Option<BTreeSet<String>>,
}

/// Turns reclaims; at most one is under way.
pub struct Reclaimer {
    runtime: Option<Arc<dyn Runtime>>,
    settings: ImageGc,
    /// Where the container runtime may listen.
    sockets: Vec<String>,
    job: Option<Job>,
    /// How many were begun.
    number: u64,
    back_off: SignalMap<BackOff>,
    collected: Option<Timestamp>,
    /// The last published result, so that a futile reclaim is not published again and again.
    published: SignalMap<Option<Reclaimed>>,
    send: mpsc::UnboundedSender<Answered>,
    answers: mpsc::UnboundedReceiver<Answered>,
    tracker: Tracker,
    /// The objects that could be removed by the last list, and the number of that list.
    reclaimable: Option<(u64, Reclaimable)>,
}

impl Reclaimer {
    /// One that removes nothing.
    pub fn off(config: &Effective, clock: Clock) -> Self {
        let (send, answers) = mpsc::unbounded_channel();
        Self {
            runtime: None,
            settings: ImageGc {
                mode: ImageGcMode::Off,
                ..config.image_gc
            },
            sockets: sockets(config),
            job: None,
            number: 0,
            back_off: SignalMap::default(),
            collected: None,
            published: SignalMap::default(),
            send,
            answers,
            tracker: Tracker::new(clock),
            reclaimable: None,
        }
    }

    /// For this configuration.
    pub fn start(
        config: &Effective,
        pods: PodsSource,
        runtime: Arc<dyn Runtime>,
        clock: Clock,
    ) -> Self {
        let mut reclaimer = Self::off(config, clock);
        let mode = mode(config, pods);
        if mode != ImageGcMode::Off {
            reclaimer.settings.mode = mode;
            reclaimer.runtime = Some(runtime);
        }
        reclaimer
    }

    /// The objects that could be removed without evicting a pod, by the last list. `None` if this node removes none, or
    /// if they are unknown. `active` as in [`Reclaimer::ask`].
    pub fn reclaimable(
        &mut self,
        now: Timestamp,
        active: impl FnOnce() -> Option<BTreeSet<String>>,
    ) -> Option<Reclaimable> {
        let (age, inventory) = self.tracker.inventory(now)?;
        let lists = self.tracker.lists();
        // Computed once for each list of the runtime, since the status asks for it in every cycle.
        let known = self.reclaimable.filter(|(known, _)| *known == lists);
        let (_, mut found) = known.unwrap_or_else(|| {
            let policy = Policy {
                dead_containers: true,
                unused_images: true,
                minimum_age: self.settings.minimum_age,
                active_pods: active(),
                ..Policy::default()
            };
            let all = all_removals(now, Inventory::clone(&inventory), &policy);
            (lists, Reclaimable::of(&inventory, &all))
        });
        self.reclaimable = Some((lists, found));
        found.age_seconds = age.as_secs();
        Some(found)
    }

    /// The disk usage of all images, and the age of that figure.
    pub fn images_on_disk(&self, now: Timestamp) -> Option<(Size, SignedDuration)> {
        let (age, inventory) = self.tracker.inventory(now)?;
        Some((inventory.images_on_disk?, age))
    }

    /// Where the runtime keeps its files, if it has reported that.
    pub fn places(&self) -> Option<Places> {
        self.tracker.places()
    }

    /// The purpose of the reclaim that is under way.
    pub fn under_way(&self) -> Option<Reclaim> {
        self.job.as_ref().map(|job| job.want)
    }

    /// Whether a container runtime's socket is there by now.
    pub fn is_socket_there(&self) -> bool {
        is_any_there(&self.sockets)
    }

    /// The next reclaim may begin at once, whatever came of earlier ones.
    pub fn retry(&mut self) {
        self.back_off = SignalMap::default();
    }

    /// Whether a reclaim is under way.
    pub const fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Waits for the next answer of the runtime; pass it to [`Reclaimer::on_answer`].
    pub async fn answered(&mut self) -> Answered {
        match self.answers.recv().await {
            Some(answered) => answered,
            None => std::future::pending().await,
        }
    }

    /// Applies an answer of the runtime.
    pub fn on_answer(&mut self, now: Timestamp, answered: Answered) -> Option<Finished> {
        let Answered(number, event) = answered;
        if let Event::Listed(inventory) = &event {
            self.tracker.take(now, inventory.clone());
        }
        // An answer to a reclaim that was given up.
        let current = self.job.is_some() && number == self.number;
        current.then(|| self.turn(now, event)).flatten()
    }

    /// To be called in every cycle: reports the available space to a reclaim under way, and begins those that are due
    /// without pressure.
    pub fn observe(&mut self, now: Timestamp, situation: &Situation<'_>) -> Option<Finished> {
        if let Some(runtime) = &self.runtime
            && (situation.watched || self.settings.mode == ImageGcMode::Full)
        {
            self.tracker.track(runtime, situation.near);
        }
        let Some(job) = &self.job else {
            self.collect(now, situation);
            return None;
        };
        let (seen, cause) = (situation.seen.get(bytes_of(job.want.signal)), job.cause);
        let relieved = match cause {
            Cause::Pressure => situation.relieved,
            Cause::Full => {
                used_percent(situation.seen) <= Some(self.settings.low_threshold_percent)
            }
            // Unused images are removed until none is too old, whatever the disk has left.
            Cause::Age => false,
        };
        let event = Event::Observed {
            time: seen.and_then(|seen| seen.time).unwrap_or(now),
            available: seen.map(|seen| seen.available),
            relieved,
        };
        self.turn(now, event)
    }

    /// For a step that asks for a reclaim: begins one, or says how far it is. `active` are the pods that run or are about
    /// to, if they are known.
    pub fn ask(
        &mut self,
        now: Timestamp,
        want: Reclaim,
        situation: &Situation<'_>,
        active: impl FnOnce() -> Option<BTreeSet<String>>,
    ) -> Progress {
        if self.runtime.is_none() {
            return Progress::Off;
        }
        let policy = Policy {
            dead_containers: want.dead_containers,
            unused_images: want.unused_images,
            minimum_age: self.settings.minimum_age,
            unused_for: None,
            active_pods: active(),
            dry_run: situation.dry_run,
        };
        if self.job.is_none() {
            if self.is_backed_off(now, want.signal, &policy) {
                return Progress::Over;
            }
            self.begin(now, (want, Cause::Pressure), policy.clone(), situation);
        }
        Progress::UnderWay(self.outlook(now, &policy))
    }

    /// The amount that this policy may still free while a reclaim is under way.
    fn outlook(&self, now: Timestamp, policy: &Policy) -> Outlook {
        let Some(job) = &self.job else {
            return Outlook::unknown(now);
        };
        let (age, inventory) = self.tracker.inventory(now).unzip();
        let outlook = job.machine.outlook(now, inventory.as_deref(), policy);
        Tracker::with_age(age, outlook)
    }

    /// Whether the last reclaim for this signal removed nothing, and nothing has become removable since.
    fn is_backed_off(&mut self, now: Timestamp, signal: Signal, policy: &Policy) -> bool {
        let back_off = &mut self.back_off[signal];
        let Some(until) = back_off.until else {
            return false;
        };
        if now.duration_since(until) > COLLECTION_PERIOD {
            *back_off = BackOff::default();
        }
        // An image whose last container has ended since is worth a try before the back-off is over.
        let is_new = |tried: &BTreeSet<String>| {
            let inventory = self.tracker.inventory(now).map(|(_, inventory)| inventory);
            let all = inventory.map(|held| all_removals(now, Inventory::clone(&held), policy));
            all.is_some_and(|all| all.iter().any(|one| !tried.contains(one.id())))
        };
        now < until && !back_off.tried.as_ref().is_some_and(is_new)
    }

    /// In place of the kubelet: images above the high threshold, and those that were not used for too long.
    fn collect(&mut self, now: Timestamp, situation: &Situation<'_>) {
        let recent = |last: Timestamp| now.duration_since(last) < COLLECTION_PERIOD;
        let settings = self.settings;
        if settings.mode != ImageGcMode::Full || self.collected.is_some_and(recent) {
            return;
        }
        // While it is not known how full the filesystem is, nothing is removed for that.
        let Some(used) = used_percent(situation.seen) else {
            return;
        };
        self.collected = Some(now);
        let high = settings.high_threshold_percent;
        // A high threshold of 100 switches it off, as in the kubelet.
        let (cause, unused_for) = if high < 100 && used >= high {
            (Cause::Full, None)
        } else if settings.maximum_age.is_positive() {
            (Cause::Age, Some(settings.maximum_age))
        } else {
            return;
        };
        let policy = Policy {
            unused_images: true,
            minimum_age: settings.minimum_age,
            unused_for,
            dry_run: situation.dry_run,
            ..Policy::default()
        };
        let want = Reclaim {
            signal: Signal::ImagefsAvailable,
            dead_containers: false,
            unused_images: true,
        };
        self.begin(now, (want, cause), policy, situation);
    }

    fn begin(
        &mut self,
        now: Timestamp,
        (want, cause): (Reclaim, Cause),
        policy: Policy,
        situation: &Situation<'_>,
    ) {
        let seen = situation.seen.get(bytes_of(want.signal));
        let available = seen.map(|seen| seen.available);
        let (machine, command) = Reclaiming::start(now, policy, available);
        self.number += 1;
        self.job = Some(Job {
            machine,
            want,
            cause,
        });
        self.carry_out(command);
    }

    fn turn(&mut self, now: Timestamp, event: Event) -> Option<Finished> {
        let command = self.job.as_mut()?.machine.on_event(now, event)?;
        match command {
            Command::Done(reclaimed) => self.finish(now, reclaimed),
            command => {
                self.carry_out(command);
                None
            }
        }
    }

    /// Asks the runtime beside the main loop.
    fn carry_out(&self, command: Command) {
        let Some(runtime) = self.runtime.clone() else {
            return;
        };
        let (send, number) = (self.send.clone(), self.number);
        tokio::spawn(async move {
            let event = match command {
                Command::List => runtime.list().await.map(Event::Listed),
                Command::Remove(removal) => {
                    let removed = runtime.remove(&removal).await;
                    removed.map(|()| Event::Removed)
                }
                Command::Wait | Command::Done(_) => return,
            };
            // The receiver is closed only if the agent has ended.
            let _ = send.send(Answered(number, event.unwrap_or_else(Event::Failed)));
        });
    }

    fn finish(&mut self, now: Timestamp, reclaimed: Reclaimed) -> Option<Finished> {
        let Job {
            machine,
            want,
            cause,
        } = self.job.take()?;
        let signal = want.signal;
        let tried = machine.into_tried();
        if tried.is_none() {
            self.tracker.forget();
        }
        if cause == Cause::Pressure {
            let back_off = &mut self.back_off[signal];
            if reclaimed.is_any() {
                *back_off = BackOff::default();
            } else {
                let doublings = back_off.in_vain.min(DOUBLINGS);
                *back_off = BackOff {
                    until: Some(Clock::after(now, REPEAT_AFTER * (1 << doublings))),
                    in_vain: back_off.in_vain + 1,
                    tried,
                };
            }
        }
        let last = self.published[signal].as_ref();
        let nothing = !reclaimed.is_any() && reclaimed.is_without_words();
        // That nothing is left to remove is published unless the reclaim before it has removed something.
        let follows = reclaimed.relieved || last.is_some_and(Reclaimed::is_any);
        let uneventful = nothing && (cause != Cause::Pressure || follows);
        let nothing_new = !reclaimed.is_any() && last == Some(&reclaimed);
        self.published[signal] = Some(reclaimed.clone());
        let tell = !nothing_new && !uneventful;
        tell.then_some(Finished { signal, reclaimed })
    }
}

/// The signal with the bytes of the same filesystem.
const fn bytes_of(signal: Signal) -> Signal {
    match signal {
        Signal::NodefsInodesFree => Signal::NodefsAvailable,
        Signal::ImagefsInodesFree => Signal::ImagefsAvailable,
        Signal::ContainerfsInodesFree => Signal::ContainerfsAvailable,
        other => other,
    }
}

/// Of the images' filesystem, as the kubelet computes it.
fn used_percent(seen: &Observations) -> Option<u32> {
    let images = seen.get(Signal::ImagefsAvailable)?;
    let left = i128::from(images.available) * 100;
    let left = left.checked_div(i128::from(images.capacity))?;
    u32::try_from(100 - left).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn a_socket_is_missed_only_where_something_is_to_be_reclaimed() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("cri.sock");
        let missed = |mode: &str, pods| {
            let text = format!(
                "kind: EvictionConfiguration\napiVersion: evictd.dev/v1alpha1\n\
                 containerRuntimeEndpoint: unix://{}\nimageGC: {{mode: {mode}}}\n",
                socket.display()
            );
            missing_socket(&config::parse("the test", &text).unwrap().effective, pods)
        };
        let why = missed("auto", PodsSource::Kubernetes).unwrap();
        let names_it = why.contains(&format!("no container runtime is at {};", socket.display()));
        assert!(names_it, "{why}");
        assert!(missed("full", PodsSource::Manifests).is_some());
        assert_eq!(missed("auto", PodsSource::Manifests), None);
        assert_eq!(missed("off", PodsSource::Kubernetes), None);
        std::fs::write(&socket, "").unwrap();
        assert_eq!(missed("auto", PodsSource::Kubernetes), None);
    }
}
