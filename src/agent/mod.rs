//! The agent: looks at the node, and where it must, ends one pod, over and over.
//!
//! ```text
//!   signals -> housekeeper -> usage -> housekeeper -> evict      (one turn)
//!                    \________ publish: status, metrics, log, history ________/
//! ```

mod active;
mod admission;
mod alarm;
mod answer;
mod cleanup;
mod cluster;
mod elsewhere;
mod flight;
mod local_storage;
mod news;
mod preemptions;
mod rejections;
mod restarts;
mod returning;
mod room;
mod ruling;
pub mod start;
mod unfinished;

pub use alarm::Alarm;
pub use cluster::Cluster;
pub use flight::{Errand, Flight, Flights, Landing};
pub use room::Room;
pub use ruling::{Act, Ruling};
pub use unfinished::Unfinished;

use crate::{
    clock::Clock,
    config::Admission,
    doors::state::Question,
    evict::{CgroupEvictor, EvictError},
    pace::Pace,
    pods::{PodSet, Roster},
    publish::{Decided, Landed, Look, Publish, ledger::WAITING},
    signals::{Layout, Sample, Sampler},
    usage,
    wake::{Wakers, WokenBy},
};
use active::Active;
use cluster::{Leaving, Stage};
use evictd_eviction::{
    Decision, Housekeeper, NodeCondition, Observation, Rules, Signal, Step, Usage, UsageNeed,
    rules::FilesystemLayout,
};
use jiff::{SignedDuration, Timestamp};
use news::News;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// While somebody is on the way out the loop looks at least this often.
const ALOFT: Duration = Duration::from_millis(50);
/// Where there is a threshold on pressure the loop looks at least this often; the kernel's averages move every two
/// seconds.
const PRESSURE: Duration = Duration::from_secs(1);
/// For this long what a look saw may end a pod.
const STILL_TRUE: SignedDuration = SignedDuration::from_millis(50);
/// How long pods that are being killed are waited for when the agent ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the agent is told from outside.
#[derive(Debug)]
pub enum Order {
    /// Go by other rules from now on.
    Reload(Box<Behaviour>),
    /// End.
    Stop,
}

/// What may change while the agent runs.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The rules; their layout is found out by looking.
    pub rules: Rules,
    /// The longest sleep.
    pub housekeeping_interval: Duration,
    /// Decide and tell, but end nothing.
    pub dry_run: bool,
    /// What is done about pods that should not be here.
    pub admission: Admission,
    /// Priorities of the classes that pods may name besides the built-in ones.
    pub priority_classes: BTreeMap<String, i32>,
    /// The least seconds between SIGTERM and SIGKILL, where a pod gets any notice at all (S1-049).
    pub least_grace: Duration,
}

/// The ports an agent works through.
pub struct Ports {
    /// When to look again.
    pub alarm: Alarm,
    /// Who calls before that.
    pub wakers: Wakers,
    /// What the node has left.
    pub sampler: Sampler,
    /// Which pods are here.
    pub roster: Roster,
    /// What the node has to give to them.
    pub room: Room,
    /// What each uses.
    pub usage: usage::Gauge,
    /// How one leaves.
    pub evictor: Arc<CgroupEvictor>,
    /// Where the cluster is told of it; `None` without one.
    pub cluster: Option<Cluster>,
    /// What the world is told.
    pub publishers: Vec<Box<dyn Publish>>,
    /// What an earlier run has left to be finished.
    pub unfinished: Vec<Unfinished>,
    /// The kernel's name for the time since the machine was started; empty where it has none.
    pub boot_id: String,
}

/// The daemon's one loop and everything it knows.
pub struct Agent {
    clock: Clock,
    behaviour: Behaviour,
    housekeeper: Housekeeper,
    pace: Pace,
    ports: Ports,
    flights: Flights,
    elsewhere: elsewhere::Evictions,
    active: Active,
    watched: Vec<(Signal, Observation, i64)>,
    /// For each signal the last look that did not see it crossed.
    clear: [Timestamp; Signal::ALL.len()],
    news: News,
    layout: Option<Layout>,
    decisions: u64,
    woken_by: WokenBy,
    local_storage: local_storage::Patrol,
    restarts: restarts::Restarts,
    admission: admission::Admission,
    rejections: rejections::Rejections,
    preemptions: preemptions::Preemptions,
    cleanups: cleanup::Cleanups,
}

impl Agent {
    /// An agent that has not looked yet.
    pub fn new(clock: Clock, behaviour: Behaviour, mut ports: Ports) -> Self {
        let now = clock.now();
        ports.sampler.follow(&behaviour.rules.thresholds);
        Self {
            housekeeper: Housekeeper::new(behaviour.rules.clone()),
            pace: Pace::new(behaviour.housekeeping_interval),
            clock,
            behaviour,
            ports,
            flights: Flights::default(),
            elsewhere: elsewhere::Evictions::default(),
            active: Active::default(),
            watched: Vec::new(),
            clear: [now; Signal::ALL.len()],
            news: News::default(),
            layout: None,
            decisions: 0,
            woken_by: WokenBy::default(),
            local_storage: local_storage::Patrol::default(),
            restarts: restarts::Restarts::default(),
            admission: admission::Admission::default(),
            rejections: rejections::Rejections::default(),
            preemptions: preemptions::Preemptions::default(),
            cleanups: cleanup::Cleanups::default(),
        }
    }

    /// Turns until it is told to stop, or finds that it may not do its work here.
    pub async fn run(
        mut self,
        mut questions: mpsc::Receiver<Question>,
        mut orders: mpsc::Receiver<Order>,
    ) -> Result<(), EvictError> {
        loop {
            let sleep = self.turn().await;
            self.woken_by = WokenBy::Request;
            tokio::select! {
                () = self.ports.alarm.after(sleep) => self.woken_by = WokenBy::Sleep,
                by = self.ports.wakers.rung() => self.woken_by = by,
                landing = self.flights.landing() => {
                    self.woken_by = WokenBy::Departure;
                    self.land(&landing);
                    if let Some(error) = landing.result.err().filter(EvictError::is_not_permitted) {
                        return Err(error);
                    }
                }
                publication = cluster::publication(self.ports.cluster.as_mut()) => {
                    self.published(&publication);
                }
                () = self.ports.roster.changed() => self.woken_by = WokenBy::Pods,
                () = self.ports.usage.measured() => {}
                Some(question) = questions.recv() => self.answer(question).await,
                Some(order) = orders.recv() => match order {
                    Order::Reload(behaviour) => self.behave(*behaviour),
                    Order::Stop => break,
                },
            }
        }
        Box::pin(self.farewell()).await;
        Ok(())
    }

    /// One cycle; returns how long to sleep.
    async fn turn(&mut self) -> Duration {
        let now = self.clock.now();
        let sample = self.ports.sampler.sample(now);
        self.learn_layout();
        self.look(false);
        self.take_up(now);
        self.preempt(now);
        self.look_at_cleanups(now);
        let mut step = self.housekeeper.observe(now, &sample.observations);
        self.admission
            .observe(now, &self.housekeeper, &sample.observations);
        self.note_crossings(now);
        for publisher in &mut self.ports.publishers {
            publisher.observed(now, &self.housekeeper, self.behaviour.dry_run);
        }
        let rung = self.woken_by.is_rung();
        self.ports.wakers.tend(now, rung);
        let seen = &sample.observations;
        self.ports.wakers.notify_at(now, &self.housekeeper, seen);
        self.cut_soft_graces(now);
        let pods = &self.active.set().pods;
        self.news.forget_what_is_over(&self.housekeeper, pods);
        if step == Step::LocalStorage {
            step = if self.enforce_local_storage(now).await {
                Step::Rest
            } else {
                self.housekeeper.pressure()
            };
        }
        if matches!(step, Step::Reclaim(_)) {
            step = self.housekeeper.reclaimed(None);
        }
        if let Step::Rank(need) = step {
            self.press(now, need).await;
        }
        self.look_for_restarts(now);
        self.look_after_rejected(now);
        let sleep = self.sleep(now, &sample);
        self.publish_look(now, &sample, sleep);
        sleep
    }

    /// Some threshold acts: whoever is first must go, unless somebody is going already.
    async fn press(&mut self, now: Timestamp, need: UsageNeed) {
        if self.flights.block_others(now) {
            self.watch_dying(now, need.signal);
            return;
        }
        if self.somebody_goes_elsewhere(now)
            || self.cleanups.block(need)
            || self.news.is_quiet(now, need)
        {
            return;
        }
        self.look_at_cgroups();
        if need.hard && self.active.unblock() {
            self.housekeeper.set_unreachable(self.active.unreachable());
        }
        let set = Arc::clone(self.active.set());
        let Some(mut usage) = self.ports.usage.read(now, need.signal, &set).await else {
            return;
        };
        let Some(now) = self.look_again(now, need) else {
            return;
        };
        let ranked = self.housekeeper.rank(need.signal, &set.pods, &usage);
        if let Some(first) = ranked.iter().find(|pod| pod.spared.is_none()) {
            self.ports
                .usage
                .read_containers(now, &set, first.index, &mut usage)
                .await;
        }
        if let Some(decision) = self.housekeeper.decide(now, &set.pods, &usage) {
            let measured_at = measured_at(&decision, &usage);
            self.carry_out(now, decision, measured_at).await;
        }
    }

    /// Usage of many pods may take so long to read that the one before has gone meanwhile: nobody goes for what was seen
    /// before that. The time of the look that still asks for a pod; what a disk has left is asked beside the loop, and
    /// is of the last look.
    fn look_again(&mut self, seen: Timestamp, need: UsageNeed) -> Option<Timestamp> {
        let now = self.clock.now();
        let disk = need.signal.condition() == Some(NodeCondition::DiskPressure);
        if disk || now.duration_since(seen) < STILL_TRUE {
            return Some(seen);
        }
        let sample = self.ports.sampler.sample(now);
        self.housekeeper.observe(now, &sample.observations);
        (self.housekeeper.pressure() == Step::Rank(need)).then_some(now)
    }

    /// Whether those on their way out give back what they hold. This reads them alone: they need the processor, too.
    fn watch_dying(&mut self, now: Timestamp, signal: Signal) {
        let set = Arc::clone(self.active.set());
        let pods = set.pods.iter().enumerate();
        let dying = pods.filter(|(_, pod)| self.flights.contains(&pod.uid));
        let usage = self
            .ports
            .usage
            .read_these(now, &set, dying.map(|(index, _)| index));
        self.housekeeper.watch_dying(now, signal, &set.pods, &usage);
    }

    /// What follows is written down, so that it outlives us; then comes the kill, then the telling.
    async fn carry_out(
        &mut self,
        now: Timestamp,
        decision: Decision,
        measured_at: Option<Timestamp>,
    ) {
        let dry_run = self.behaviour.dry_run;
        if (decision.eviction.is_none() || dry_run) && !self.news.is_new(now, &decision) {
            return;
        }
        self.decisions += 1;
        let id = format!("{:x}-{}", now.as_millisecond(), self.decisions);
        let departure = self.departure(&id, &decision).filter(|_| !dry_run);
        let mut record = serde_json::to_value(&decision).unwrap_or_default();
        record["id"] = json!(id);
        record["dryRun"] = json!(dry_run);
        record["wokenBy"] = json!(self.woken_by);
        record["bootId"] = json!(self.ports.boot_id);
        if let Some(notice) = departure
            .as_ref()
            .and_then(|leaving| leaving.notice.as_ref())
        {
            record["publication"] = json!({ "state": WAITING, "notice": notice });
        }
        let acted_at = self.clock.now();
        let decided = Decided {
            decision: &decision,
            record: &record,
            measured_at,
            acted_at,
            dry_run,
            asked: departure.as_ref().is_some_and(|one| self.asks(one)),
        };
        for publisher in &mut self.ports.publishers {
            publisher.deciding(&decided);
        }
        if let Some(departure) = departure {
            self.news.moved(decision.signal);
            self.launch(departure);
            tokio::task::yield_now().await;
        }
        for publisher in &mut self.ports.publishers {
            publisher.decided(&decided);
        }
    }

    /// Who has to leave by this decision, and how; `None` where nobody has to.
    fn departure(&self, id: &str, decision: &Decision) -> Option<Leaving> {
        let (now, eviction) = (decision.time, decision.eviction.as_ref()?);
        let set = self.active.set();
        let pod = set.pods.get(eviction.index)?;
        let cgroup = set.cgroups.get(eviction.index)?.as_ref()?;
        let asked = u64::try_from(eviction.grace_period_seconds).unwrap_or(0);
        let grace = Duration::from_secs(asked).max(self.behaviour.least_grace);
        let victim = cluster::victim(pod, &cgroup.relative);
        let acting = decision.threshold.as_ref();
        let (crossed_at, clear_at) = acting.map_or((now, now), |acting| {
            (
                acting.first_observed_at,
                self.clear[acting.threshold.signal as usize],
            )
        });
        let errand = Errand::Eviction {
            kind: decision.kind,
            signal: decision.signal.to_owned(),
            crossed_at,
            clear_at,
        };
        let name = (id.to_owned(), eviction.pod.clone(), pod.uid.clone());
        let mut flight = Flight::new(name, errand, now, grace);
        flight.owner = decision.owner.as_ref().and_then(|counted| {
            let condition = decision.acting_signal()?.condition()?;
            Some((counted.owner.clone(), condition))
        });
        Some(Leaving {
            flight,
            victim,
            grace,
            notice: self.notice(id, decision, pod, grace),
            patience: self.patience(decision),
            stage: Stage::New,
        })
    }

    fn land(&mut self, landing: &Landing) {
        let now = self.clock.now();
        let uid = &landing.flight.uid;
        self.note_preempted(landing);
        match &landing.result {
            Ok(departure) if departure.gone_at.is_some() => {
                self.evicted_is_gone(now, &landing.flight);
                self.restarts.gone(now, &landing.flight.id);
                match landing.flight.errand {
                    Errand::Eviction { .. } => {
                        self.let_go();
                        self.active.evicted(uid);
                    }
                    Errand::Preemption { .. } => self.active.evicted(uid),
                    // It may be let in later.
                    Errand::Rejection => {}
                }
            }
            Err(EvictError::Blocked { again, .. }) => {
                self.housekeeper.not_dying(uid);
                self.blocked(now, uid, *again);
            }
            Ok(_) | Err(_) => {
                self.housekeeper.not_dying(uid);
                self.active.set_aside(uid, now);
            }
        }
        self.active.refresh(now);
        self.housekeeper.set_unreachable(self.active.unreachable());
        self.news.think_again();
        let landed = Landed { now, landing };
        for publisher in &mut self.ports.publishers {
            publisher.landed(&landed);
        }
        self.note_return(landing);
    }

    /// The layout is found out once, by looking (S1-025); a hanging filesystem delays it.
    fn learn_layout(&mut self) {
        if self.layout.is_some() {
            return;
        }
        let Some(layout) = self.ports.sampler.layout() else {
            return;
        };
        let found = FilesystemLayout {
            dedicated_image_fs: layout.dedicated_image_fs,
            split_container_fs: layout.split_container_fs,
        };
        tracing::info!("{layout}");
        self.layout = Some(layout);
        if self.housekeeper.rules().layout != found {
            let mut rules = self.housekeeper.rules().clone();
            rules.layout = found;
            self.housekeeper.reconfigure(rules);
        }
    }

    fn behave(&mut self, behaviour: Behaviour) {
        let mut rules = behaviour.rules.clone();
        rules.layout = self.housekeeper.rules().layout;
        self.ports.sampler.follow(&rules.thresholds);
        self.housekeeper.reconfigure(rules);
        self.pace = Pace::new(behaviour.housekeeping_interval);
        self.behaviour = behaviour;
        self.news = News::default();
    }

    fn look_at_cgroups(&mut self) {
        self.look(true);
        if self.active.revive(&self.ports.evictor.hierarchies) {
            self.active.refresh(self.clock.now());
            self.housekeeper.set_unreachable(self.active.unreachable());
        }
    }

    fn take_set(&mut self, set: Arc<PodSet>) {
        let now = self.clock.now();
        self.note_evictions_elsewhere(now, &set);
        if self.active.take(set, now) {
            self.housekeeper.set_unreachable(self.active.unreachable());
            self.news.think_again();
        }
    }

    /// A hard threshold that comes to act while soft victims are still asked politely ends their grace, before anybody
    /// else is chosen.
    fn cut_soft_graces(&mut self, now: Timestamp) {
        let Some(hard_since) = self.housekeeper.hard_since() else {
            return;
        };
        for flight in self.flights.cut_soft_graces(now, hard_since) {
            tracing::warn!(
                EVICTD_DECISION_ID = flight.id,
                EVICTD_POD = flight.pod,
                EVICTD_POD_UID = flight.uid,
                "a hard threshold is crossed: {} has no grace any more",
                flight.pod
            );
            self.housekeeper.dying(&flight.uid, now);
        }
    }

    fn note_crossings(&mut self, now: Timestamp) {
        let mut crossed = [false; Signal::ALL.len()];
        for (threshold, _) in self.housekeeper.first_observed() {
            crossed[threshold.signal as usize] = true;
        }
        let io = crossed[Signal::IoPsi as usize];
        self.ports.usage.count_io(io, self.active.set());
        for (clear, crossed) in self.clear.iter_mut().zip(crossed) {
            if !crossed {
                *clear = now;
            }
        }
    }

    /// Until the next look that could matter: a threshold near, a grace period ending, somebody on the way out.
    fn sleep(&mut self, now: Timestamp, sample: &Sample) -> Duration {
        self.watched.clear();
        let thresholds = self.housekeeper.thresholds();
        let foreseen = thresholds.filter(|threshold| !threshold.signal.is_pressure());
        let seen = foreseen.filter_map(|threshold| {
            let seen = *sample.observations.get(threshold.signal)?;
            Some((
                threshold.signal,
                seen,
                threshold.value.at(seen.capacity).value(),
            ))
        });
        self.watched.extend(seen);
        let mut sleep = self.pace.next(now, &self.watched);
        if sample
            .observations
            .iter()
            .any(|(signal, _)| signal.is_pressure())
        {
            sleep = sleep.min(PRESSURE);
        }
        if !self.flights.is_empty() {
            sleep = sleep.min(ALOFT);
        }
        for (threshold, first) in self.housekeeper.first_observed() {
            let left = threshold.acts_after() - now.duration_since(first);
            if left.is_positive() {
                sleep = sleep.min(left.unsigned_abs());
            }
        }
        sleep
    }

    fn publish_look(&mut self, now: Timestamp, sample: &Sample, sleep: Duration) {
        let usage_problem = self.ports.usage.problem();
        let look = Look {
            now,
            woken_by: self.woken_by,
            usage_problem: usage_problem.as_deref(),
            sample,
            housekeeper: &self.housekeeper,
            layout: self.layout.as_ref(),
            pods: self.active.set(),
            sleep,
            dry_run: self.behaviour.dry_run,
            admission: self.behaviour.admission,
            took: self.clock.now().duration_since(now),
        };
        for publisher in &mut self.ports.publishers {
            publisher.looked(&look);
        }
    }

    /// Pods that are being killed are seen off; grace periods are not waited for.
    async fn farewell(mut self) {
        let see_off = async {
            while !self.flights.is_empty() {
                let landing = self.flights.landing().await;
                self.land(&landing);
            }
        };
        if tokio::time::timeout(FAREWELL, see_off).await.is_err() {
            tracing::warn!(
                "stopping while pods are still on their way out; they are left as they are"
            );
        }
        self.close_cluster().await;
    }
}

/// When what decided about the victim was measured.
fn measured_at(decision: &Decision, usage: &Usage) -> Option<Timestamp> {
    usage.of(decision.eviction.as_ref()?.index)?.time
}
