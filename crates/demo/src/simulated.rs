//! The same play without cgroups: decided by the daemon's own rules, but with simulated pods and figures.

use super::{
    DemoError, LONGEST_PLAY, Report, configuration,
    scenario::{NODE_BYTES, Play},
    scene::Stage,
    worker::Taken,
};
use evictd_decision::{
    Decision,
    record::{Ended, Method, Outcome, Record},
};
use evictd_departures::{Departure, Ending, Event, Purpose};
use evictd_eviction::{Answer, Housekeeper, Step};
use evictd_node::start;
use evictd_node_config::PodsSource;
use evictd_pod::Pod;
use evictd_signals::{Observation, Observations, Signal};
use evictd_usage::{FsUsage, PodUsage, Usage, VolumeUsage, figure::Figure};
use jiff::{SignedDuration, Timestamp};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::sleep;

/// The time between two cycles, and also the time that a pod takes to exit.
const LOOK: Duration = Duration::from_millis(10);

/// Runs at the speed of a real run. `stage` names the requirements of a real one.
pub(super) async fn play(play: &Play, stage: &Stage, calm: Duration) -> Result<Report, DemoError> {
    let mut world = World::new(play, stage)?;
    let mut gone = Vec::new();
    let mut elapsed = Duration::ZERO;
    let mut end = LONGEST_PLAY;
    while elapsed < end {
        let now = world.begin(elapsed, elapsed.saturating_sub(calm));
        if let Some(landing) = world.land(now) {
            if landing.0 == play.expected {
                end = elapsed + calm;
            }
            gone.push(landing);
        }
        world.look(now);
        elapsed += LOOK;
        sleep(LOOK).await;
    }
    let alive = world.cast.iter().filter(|actor| actor.alive);
    let survivors = alive.map(|actor| actor.pod.full_name()).collect();
    Ok(Report::new(stage, &gone, survivors, 0))
}

/// A simulated pod.
struct Actor {
    pod: Pod,
    takes: Taken,
    alive: bool,
}

/// A simulated pod that is terminating.
struct Leaving {
    id: String,
    uid: String,
    pod: String,
    decided: Timestamp,
    crossed: Timestamp,
    clear: Timestamp,
    hard: bool,
}

/// The simulated node.
struct World<'a> {
    play: &'a Play,
    stage: &'a Stage,
    started: Timestamp,
    clear: Timestamp,
    housekeeper: Housekeeper,
    cast: Vec<Actor>,
    leaving: Option<Leaving>,
}

impl<'a> World<'a> {
    fn new(play: &'a Play, stage: &'a Stage) -> Result<Self, DemoError> {
        let config = configuration(Path::new("/demo"), Path::new("demo"), play)?;
        let mut scene = stage.scene();
        let cast = play.players.iter().map(|player| {
            scene.enter(player);
            Actor {
                pod: player.pod("demo", true),
                takes: Taken::default(),
                alive: true,
            }
        });
        Ok(Self {
            cast: cast.collect(),
            started: scene.started,
            clear: scene.started,
            play,
            stage,
            housekeeper: Housekeeper::new(start::behaviour(&config, PodsSource::Manifests).rules),
            leaving: None,
        })
    }

    /// Advances the pods; the hog, which is the last one, was started `hogging` ago.
    fn begin(&mut self, elapsed: Duration, hogging: Duration) -> Timestamp {
        let last = self.cast.len().saturating_sub(1);
        let players = self.cast.iter_mut().zip(&self.play.players);
        for (index, (actor, player)) in players.enumerate() {
            let time = if index == last {
                hogging
            } else {
                Duration::ZERO
            };
            actor.takes = player.role.takes(time);
        }
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        self.started.saturating_add(elapsed).unwrap_or(self.started)
    }

    /// Ends the pod that was chosen in the cycle before.
    fn land(&mut self, now: Timestamp) -> Option<(String, Outcome)> {
        let left = self.leaving.take()?;
        let (uid, ending) = (left.uid.clone(), Ending::Gone { at: now });
        self.housekeeper.on_event(now, Event::Ended { uid, ending });
        for actor in &mut self.cast {
            actor.alive &= actor.pod.uid != left.uid;
        }
        let since = |time: Timestamp| now.duration_since(time).as_secs_f64();
        let until_decided = left.decided.duration_since(left.crossed).as_secs_f64();
        let outcome = Outcome::Ended(Ended {
            first_signal_seconds: Some(0.0),
            killed_seconds: left.hard.then_some(0.0),
            last_process_gone_seconds: Some(since(left.decided)),
            processes: 1,
            method: Method::Simulated,
            crossed_to_decided_seconds: Some(until_decided),
            reaction_seconds: Some(since(left.crossed)),
            reaction_from_last_clear_look_seconds: Some(since(left.clear)),
            ..Ended::default()
        });
        self.stage.scene().terminated(&left.id, &left.pod, &outcome);
        Some((left.pod, outcome))
    }

    fn look(&mut self, now: Timestamp) {
        let observations = self.observe(now);
        let alive: Vec<Pod> = self.alive().map(|actor| actor.pod.clone()).collect();
        let usage = self.usage();
        let mut step = self.housekeeper.begin(now, &observations);
        if self.housekeeper.first_observed().next().is_none() {
            self.clear = now;
        }
        loop {
            let answer = match step {
                Step::Rest => break,
                Step::LocalStorage => Answer::LocalStorage(None),
                Step::Reclaim(_) => Answer::Reclaimed(None),
                Step::Measure(signal) => Answer::Measured(signal, &alive, &usage),
                Step::Watch(need) => Answer::Watched(need, &alive, &usage),
                Step::Rank(need) => Answer::Ranked {
                    need,
                    pods: &alive,
                    usage: &usage,
                    fresh: None,
                },
            };
            let (next, decisions) = self.housekeeper.answer(now, answer);
            for decision in decisions {
                self.carry_out(&decision);
            }
            step = next;
        }
        let mut scene = self.stage.scene();
        let resource = scene.resource();
        for actor in self.alive() {
            let usage = actor.takes.of(resource);
            scene.uses(&actor.pod.full_name(), Some(usage));
        }
        scene.look(now, &observations, &self.housekeeper, LOOK);
    }

    fn carry_out(&mut self, decision: &Decision) {
        let mut scene = self.stage.scene();
        let (Some(eviction), Some(uid)) = (&decision.eviction, &decision.uid) else {
            return;
        };
        let id = format!("simulated-{}", scene.acts.len() + 1);
        let record = Record::of_decision(id.clone(), decision);
        scene.decide(decision, &record);
        let acting = decision.threshold.as_ref();
        let names = (id.clone(), eviction.pod.clone(), uid.clone());
        let purpose = Purpose::Eviction {
            cause: decision.kind,
            signal: decision.signal.to_owned(),
            crossed_at: decision.time,
            clear_at: self.clear,
        };
        let grace = SignedDuration::from_secs(eviction.grace_period_seconds);
        let mut departure = Departure::new(names, purpose, decision.time, grace);
        departure.cgroup = Some(PathBuf::from(&eviction.pod));
        let begin = Event::Begin(Box::new(departure));
        self.housekeeper.on_event(decision.time, begin);
        self.leaving = Some(Leaving {
            id,
            uid: uid.clone(),
            pod: eviction.pod.clone(),
            decided: decision.time,
            crossed: acting.map_or(decision.time, |acting| acting.first_observed_at),
            clear: self.clear,
            hard: acting.is_some_and(|acting| acting.threshold.is_hard()),
        });
    }

    fn alive(&self) -> impl Iterator<Item = &Actor> {
        self.cast.iter().filter(|actor| actor.alive)
    }

    fn observe(&self, now: Timestamp) -> Observations {
        let taken = |what: fn(&Taken) -> i64| self.alive().map(|it| what(&it.takes)).sum::<i64>();
        let disk = self.play.disk_bytes.and_then(|it| i64::try_from(it).ok());
        let watched = [
            (
                Signal::MemoryAvailable,
                Some(NODE_BYTES),
                taken(|it| it.memory),
            ),
            (
                Signal::PidAvailable,
                self.play.most_pids.map(i64::from),
                taken(|it| it.threads),
            ),
            (Signal::NodefsAvailable, disk, taken(|it| it.disk)),
        ];
        watched
            .into_iter()
            .filter_map(|(signal, capacity, taken)| {
                let capacity = capacity?;
                let observation = Observation {
                    available: capacity.saturating_sub(taken).max(0),
                    capacity,
                    time: Some(now),
                };
                Some((signal, observation))
            })
            .collect()
    }

    fn usage(&self) -> Usage {
        let of = |actor: &Actor| {
            let taken = &actor.takes;
            let volumes = actor.pod.volumes.iter().map(|volume| VolumeUsage {
                name: volume.name.clone(),
                usage: FsUsage {
                    bytes: Some(Figure::bytes(taken.disk)),
                    inodes: Some(Figure::inodes(1)),
                    ..FsUsage::default()
                },
                ..VolumeUsage::default()
            });
            Some(PodUsage {
                working_set: Some(Figure::bytes(taken.memory)),
                anon: Some(Figure::bytes(taken.memory)),
                swap: Some(Figure::bytes(0)),
                io: None,
                processes: Some(Figure::processes(taken.threads)),
                ephemeral_storage: Some(Figure::bytes(taken.disk)),
                disk_growth: None,
                containers: Vec::new(),
                volumes: volumes.collect(),
                ..PodUsage::default()
            })
        };
        self.alive().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use clap::ValueEnum;

    #[tokio::test(start_paused = true)]
    async fn every_play_ends_as_expected() {
        for scenario in Scenario::value_variants() {
            let stage = Stage::new(*scenario, Timestamp::UNIX_EPOCH);
            stage.scene().missing = Some("a machine".to_owned());
            let calm = Duration::from_millis(300);
            let report = play(&scenario.play(), &stage, calm).await.unwrap();
            assert!(report.as_expected(), "{report:#?}");
            assert_eq!(report.mode, "simulated");
            let reaction = report.reaction_seconds.unwrap();
            let soft = *scenario == Scenario::Soft;
            assert_eq!(reaction > 1.0, soft, "{scenario:?}: {reaction} s");
        }
    }
}
