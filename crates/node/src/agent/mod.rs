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
mod cluster;
mod departures;
mod left_open;
mod local_storage;
mod news;
mod pause;
mod returning;
mod room;
pub mod start;
mod terminations;
#[cfg(test)]
mod tests;

pub use alarm::Alarm;
pub use cluster::Cluster;
pub use left_open::LeftOpen;
pub use pause::Pauses;
pub use room::Room;

use crate::{
    config::Admission,
    delivery::Notice,
    evict::EvictError,
    fact::{Decided, Fact, Look},
    pace::Pace,
    pause::Pause,
    pods::{LocalPod, PodSet, Roster},
    publish::Publishers,
    server::state::Question,
    usage,
};
use active::Active;
use evictd_eviction::{
    Answer, Decision, Housekeeper, NodeCondition, Observation, Observations, Rules, Signal,
    SignalMap, Step, Usage, UsageNeed,
    departures::{Departure, Purpose, Telling},
    record::{self, Record},
    rules::FilesystemLayout,
};
use evictd_kernel::{
    clock::Clock,
    kill::CgroupEvictor,
    signals::{Layout, Sample, Sampler},
    wake::{Wakers, WokenBy},
};
use jiff::{SignedDuration, Timestamp};
use news::News;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use terminations::Terminations;
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
    /// What keeps it from ending anybody for a while.
    pub pauses: Pauses,
    /// What the world is told.
    pub publishers: Publishers,
    /// What an earlier run has left to be finished.
    pub left_open: Vec<LeftOpen>,
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
    terminations: Terminations,
    /// What the API server is to be told of pods that are about to be set on their way out, by the ids of their decisions.
    notices: BTreeMap<String, Notice>,
    /// Decisions of an earlier run that are taken up, by id.
    left_open: BTreeSet<String>,
    active: Active,
    watched: Vec<(Signal, Observation, i64)>,
    /// For each signal the last look that did not see it crossed.
    clear: SignalMap<Timestamp>,
    news: News,
    layout: Option<Layout>,
    decisions: u64,
    woken_by: WokenBy,
    local_storage: local_storage::Patrol,
    admission: admission::Admission,
}

impl Agent {
    /// An agent that has not looked yet.
    pub fn new(clock: Clock, behaviour: Behaviour, mut ports: Ports) -> Self {
        let now = clock.now();
        ports.sampler.follow(&behaviour.rules.thresholds);
        let left_open = std::mem::take(&mut ports.left_open);
        let mut agent = Self {
            housekeeper: Housekeeper::new(Rules {
                kubelet_is_here: !ports.room.is_machine(),
                ..behaviour.rules.clone()
            }),
            pace: Pace::new(behaviour.housekeeping_interval),
            clock,
            behaviour,
            ports,
            terminations: Terminations::default(),
            notices: BTreeMap::new(),
            left_open: BTreeSet::new(),
            active: Active::default(),
            watched: Vec::new(),
            clear: SignalMap::from_fn(|_| now),
            news: News::default(),
            layout: None,
            decisions: 0,
            woken_by: WokenBy::default(),
            local_storage: local_storage::Patrol::default(),
            admission: admission::Admission::default(),
        };
        agent.take_up(left_open);
        agent
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
                ended = self.terminations.ended() => {
                    self.woken_by = WokenBy::Departure;
                    if let Some(error) = self.note_ended(ended) {
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

    /// One turn of the crank; returns how long to sleep.
    async fn turn(&mut self) -> Duration {
        let now = self.clock.now();
        self.look_at_pause(now);
        self.housekeeper.set_ends_nobody(self.ends_nobody());
        let sample = self.ports.sampler.sample(now);
        self.learn_layout();
        self.look(false);
        let seen = &sample.observations;
        let mut step = self.housekeeper.begin(now, seen);
        self.look_at_departures(now, false);
        self.admission.observe(now, &self.housekeeper, seen);
        let commands = self.housekeeper.take_commands();
        self.obey(commands);
        self.note_crossings(now);
        let ends_nobody = self.ends_nobody();
        self.ports.publishers.publish(&Fact::Observed {
            now,
            housekeeper: &self.housekeeper,
            dry_run: ends_nobody,
        });
        let rung = self.woken_by.is_rung();
        self.ports.wakers.tend(now, rung);
        self.ports.wakers.notify_at(now, &self.housekeeper, seen);
        let pods = &self.active.set().pods;
        self.news.forget_what_is_over(&self.housekeeper, pods);
        while step != Step::Rest {
            step = self.answer_step(now, step).await;
        }
        let sleep = self.sleep(now, &sample);
        self.publish_look(now, &sample, sleep);
        sleep
    }

    /// Fetches what the crank asks for, and carries out what it then decides; what it asks for next.
    async fn answer_step(&mut self, now: Timestamp, step: Step) -> Step {
        match step {
            Step::Rest => Step::Rest,
            Step::LocalStorage => {
                let set = Arc::clone(self.active.set());
                let gauge = &mut self.ports.usage;
                let usage = self.local_storage.usage(now, &self.active, gauge);
                let known = usage.as_ref().map(|usage| (&set.pods[..], usage));
                let answer = Answer::LocalStorage(known);
                self.decide(now, answer, usage.as_ref()).await
            }
            // Nobody frees what can be freed without ending a pod yet.
            Step::Reclaim(_) => self.decide(now, Answer::Reclaimed(None), None).await,
            Step::Watch(need) => {
                let set = Arc::clone(self.active.set());
                let usage = self.usage_of_dying(now, &set);
                let answer = Answer::Watched(need, &set.pods, &usage);
                self.decide(now, answer, None).await
            }
            Step::Rank(need) => self.rank_and_decide(now, need).await,
        }
    }

    async fn decide(
        &mut self,
        now: Timestamp,
        answer: Answer<'_, LocalPod>,
        usage: Option<&Usage>,
    ) -> Step {
        let (next, decisions) = self.housekeeper.answer(now, answer);
        for decision in decisions {
            let measured_at = usage.and_then(|usage| measured_at(&decision, usage));
            self.carry_out(decision, measured_at).await;
        }
        next
    }

    /// Some threshold acts, and nobody has to be waited for: whoever is first must go.
    async fn rank_and_decide(&mut self, seen: Timestamp, need: UsageNeed) -> Step {
        self.look_at_cgroups(seen);
        let set = Arc::clone(self.active.set());
        let thresholds = self.housekeeper.first_observed();
        let of_signal = thresholds.filter(|(threshold, _)| threshold.signal == need.signal);
        let crossed = of_signal.map(|(_, since)| since).min().unwrap_or(seen);
        let gauge = &mut self.ports.usage;
        let Some(mut usage) = gauge.read(seen, need.signal, crossed, &set).await else {
            return self.decide(seen, Answer::NotYet, None).await;
        };
        let (now, fresh) = self.look_again(seen, need);
        let fresh = (need, fresh.as_ref());
        let ranked = self.housekeeper.rank_for(now, fresh, &set.pods, &usage);
        let Some(ranked) = ranked else {
            return self.decide(now, Answer::NotYet, None).await;
        };
        if let Some(first) = ranked.iter().find(|pod| pod.spared.is_none()) {
            self.ports
                .usage
                .read_containers(now, &set, first.index, &mut usage)
                .await;
        }
        let answer = Answer::InOrder {
            need,
            pods: &set.pods,
            usage: &usage,
            ranked,
        };
        self.decide(now, answer, Some(&usage)).await
    }

    /// Usage of many pods may take so long to read that the one before has gone meanwhile: then the node is looked at again.
    /// What a disk has left is asked beside the loop, and is of the last look.
    fn look_again(
        &mut self,
        seen: Timestamp,
        need: UsageNeed,
    ) -> (Timestamp, Option<Observations>) {
        let now = self.clock.now();
        let disk = need.signal.condition() == Some(NodeCondition::DiskPressure);
        if disk || now.duration_since(seen) < STILL_TRUE {
            return (seen, None);
        }
        let sample = self.ports.sampler.sample(now);
        (now, Some(sample.observations))
    }

    /// Whether those on their way out give back what they hold. This reads them alone: they need the processor, too.
    fn usage_of_dying(&mut self, now: Timestamp, set: &PodSet) -> Usage {
        let departures = self.housekeeper.departures();
        let pods = set.pods.iter().enumerate();
        let dying = pods.filter(|(_, pod)| departures.is_terminating(&pod.uid));
        let dying: Vec<usize> = dying.map(|(index, _)| index).collect();
        self.ports.usage.read_these(now, set, dying.into_iter())
    }

    /// What follows is written down, so that it outlives us; then comes the kill, then the telling.
    async fn carry_out(&mut self, decision: Decision, measured_at: Option<Timestamp>) {
        let dry_run = self.ends_nobody();
        if (decision.eviction.is_none() || dry_run) && !self.news.is_new(&decision) {
            return;
        }
        self.decisions += 1;
        let id = format!("{:x}-{}", decision.time.as_millisecond(), self.decisions);
        let leaving = self.departure(&id, &decision).filter(|_| !dry_run);
        let notice = leaving.as_ref().and_then(|(_, notice)| notice.clone());
        let paused = self.paused().cloned();
        let record = Record {
            dry_run,
            paused: paused.as_ref().map(Pause::record),
            woken_by: Some(self.woken_by.as_str().into()),
            boot_id: Some(self.ports.boot_id.clone()),
            publication: notice.map(record::Publication::waiting),
            ..Record::of_decision(id, &decision)
        };
        let acted_at = self.clock.now();
        let decided = Decided {
            decision: &decision,
            record: &record,
            measured_at,
            acted_at,
            paused: paused.as_ref(),
            asked: leaving.as_ref().is_some_and(|(one, _)| one.asked),
        };
        self.ports.publishers.publish(&Fact::Deciding(&decided));
        if let Some((departure, notice)) = leaving {
            self.news.moved(decision.signal);
            self.begin_departure(departure, notice);
            tokio::task::yield_now().await;
        }
        self.ports.publishers.publish(&Fact::Decided(&decided));
    }

    /// Who has to leave by this decision, and what the API server is told of it; `None` where nobody has to.
    fn departure(&self, id: &str, decision: &Decision) -> Option<(Departure, Option<Notice>)> {
        let (now, eviction) = (decision.time, decision.eviction.as_ref()?);
        let set = self.active.set();
        let pod = set.pods.get(eviction.index)?;
        let cgroup = pod.cgroup.as_ref()?;
        let asked = u64::try_from(eviction.grace_period_seconds).unwrap_or(0);
        let grace = Duration::from_secs(asked).max(self.behaviour.least_grace);
        let acting = decision.threshold.as_ref();
        let (crossed_at, clear_at) = acting.map_or((now, now), |acting| {
            (
                acting.first_observed_at,
                self.clear[acting.threshold.signal],
            )
        });
        let purpose = Purpose::Eviction {
            cause: decision.kind,
            signal: decision.signal.to_owned(),
            crossed_at,
            clear_at,
        };
        let name = (id.to_owned(), eviction.pod.clone(), pod.uid.clone());
        let notice = self.notice(id, decision, pod, grace);
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let mut departure = Departure::new(name, purpose, now, grace);
        departure.cgroup = Some(cgroup.relative.clone());
        departure.owner = decision.owner.as_ref().and_then(|counted| {
            let condition = decision.acting_signal()?.condition()?;
            Some((counted.owner.clone(), condition))
        });
        departure.asked = notice.is_none() && self.asks(decision, &pod.uid);
        if notice.is_some() {
            departure.telling = Telling::Owed;
        }
        Some((departure, notice))
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
        rules.kubelet_is_here = self.housekeeper.rules().kubelet_is_here;
        self.ports.sampler.follow(&rules.thresholds);
        self.housekeeper.reconfigure(rules);
        self.pace = Pace::new(behaviour.housekeeping_interval);
        self.behaviour = behaviour;
        self.news = News::default();
    }

    /// Which cgroups came and went, and whether anything of those who have left runs again.
    fn look_at_cgroups(&mut self, now: Timestamp) {
        self.look(true);
        self.look_at_departures(now, true);
    }

    fn take_set(&mut self, set: Arc<PodSet>) {
        let now = self.clock.now();
        self.note_evictions_elsewhere(now, &set);
        self.note_deleted(&set);
        if self.active.take(set, self.have_left()) {
            self.pods_changed();
        }
    }

    /// Somebody may have left, or run again.
    fn refresh(&mut self) {
        if self.active.refresh(self.have_left()) {
            self.pods_changed();
        }
    }

    fn have_left(&self) -> BTreeSet<String> {
        let departures = self.housekeeper.departures().iter();
        let left = departures.filter(|departure| departure.has_left());
        left.map(|departure| departure.uid.clone()).collect()
    }

    fn pods_changed(&mut self) {
        let without = self.active.without_cgroup();
        self.housekeeper.set_without_cgroup(without);
    }

    fn note_crossings(&mut self, now: Timestamp) {
        let met = self.housekeeper.first_observed();
        let crossed: SignalMap<bool> = met.map(|(met, _)| (met.signal, true)).collect();
        let io = crossed[Signal::IoPsi];
        self.ports.usage.count_io(io, self.active.set());
        for (signal, clear) in &mut self.clear {
            if !crossed[signal] {
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
        if self.housekeeper.departures().anybody_leaves() {
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
            dry_run: self.ends_nobody(),
            paused: self.ports.pauses.in_force(),
            admission: self.behaviour.admission,
            took: self.clock.now().duration_since(now),
        };
        self.ports.publishers.publish(&Fact::Looked(&look));
    }

    /// Pods that are being killed are seen off; grace periods are not waited for.
    async fn farewell(mut self) {
        let see_off = async {
            while !self.terminations.is_empty() {
                let ended = self.terminations.ended().await;
                self.note_ended(ended);
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
