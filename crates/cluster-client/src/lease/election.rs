//! The election as a value: it has no clock and does nothing itself.

use super::record::Record;
use jiff::Timestamp;
use std::time::Duration;

/// How much a candidate's pauses differ.
const JITTER: f64 = 1.2;

/// Who takes part, and how long a lease lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name of this candidate, which no other has.
    pub identity: String,
    /// How long others wait after the last renewal that they saw; whole seconds.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it stops leading; less than the above.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
}

impl Settings {
    /// With the durations that every component of Kubernetes has: 15, 10 and 2 seconds.
    pub fn new(identity: String) -> Self {
        Self {
            identity,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// When something happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Since any fixed moment, by a clock that is never set.
    pub elapsed: Duration,
    /// The time of day, which is only written into the Lease.
    pub time: Timestamp,
    /// A random number of at least 0 and below 1.
    pub chance: f64,
}

/// The Lease could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The time of [`Command::Wake`] has come. The first event of all.
    Wake,
    /// The answer to [`Command::Read`]; `None` if there is no Lease.
    Found(Result<Option<Record>, Unreachable>),
    /// The answer to [`Command::Create`] or [`Command::Update`]: whether it was done.
    Written(bool),
    /// The process ends. Its work as a leader must have ended before.
    Stop,
}

/// The next action of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Read the Lease. A call that is under way is given up, as for the next two.
    Read,
    /// Make the Lease.
    Create(Record),
    /// Replace the record in the Lease as it was read or written last; it must not have changed since.
    Update(Record),
    /// Come back at this time ([`Moment::elapsed`]), instead of any earlier one.
    Wake(Duration),
    /// The role from now on.
    Role(Role),
}

/// The role of this candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It waits for the Lease of another, whose name this is; empty if not known.
    Candidate(String),
    /// It leads.
    Leader,
    /// It led and does not any more: whatever it does as a leader must end at once. The election is over.
    Lost,
    /// It was stopped, does not lead any more and gives its Lease up. The server may have it before it answers, so
    /// another may lead already.
    Releasing,
    /// It was stopped, and others may lead at once. The election is over.
    Released,
}

/// The event that the election waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The next attempt.
    Pause {
        until: Duration,
    },
    /// An answer to a read.
    Reading,
    /// An answer to a write that was begun at this time. `blind`: without reading first.
    Writing {
        since: Duration,
        blind: bool,
    },
    /// The answers to the last calls; once the Lease was not as it was known.
    Releasing {
        again: bool,
    },
    Over,
}

/// One candidate.
#[derive(Debug, Clone)]
pub struct Election {
    settings: Settings,
    step: Step,
    role: Role,
    /// The record as it was seen last, and since when it was seen so.
    observed: Option<(Record, Duration)>,
    /// The record that is being written.
    written: Record,
    /// As a leader: until when it must have renewed.
    deadline: Duration,
}

impl Election {
    /// A candidate that has not begun.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            step: Step::Pause {
                until: Duration::ZERO,
            },
            role: Role::Candidate(String::new()),
            observed: None,
            written: Record::default(),
            deadline: Duration::ZERO,
        }
    }

    /// The present role.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The actions after this event. An answer to an abandoned call changes nothing.
    pub fn on_event(&mut self, now: Moment, event: Event) -> Vec<Command> {
        let leads = self.role == Role::Leader;
        if leads && now.elapsed >= self.deadline {
            return self.lose();
        }
        match (self.step, event) {
            (Step::Pause { until }, Event::Wake) if now.elapsed >= until => self.attempt(now),
            (Step::Pause { until }, Event::Wake) => vec![Command::Wake(until)],
            (Step::Reading, Event::Found(found)) => self.found(now, found),
            (Step::Writing { since, .. }, Event::Written(true)) => self.held(now, since),
            // The record is not as it was thought, or the write was lost.
            (Step::Writing { blind: true, .. }, Event::Written(false)) => self.read(),
            (Step::Writing { .. }, Event::Written(false)) => self.failed(now),
            (Step::Releasing { again }, event) => self.releasing(now, again, &event),
            (Step::Over, _) => Vec::new(),
            (_, Event::Stop) => self.stop(now),
            // A leader wakes at its deadline, whatever it waits for.
            (_, Event::Wake) if leads => vec![Command::Wake(self.deadline)],
            _ => Vec::new(),
        }
    }

    fn attempt(&mut self, now: Moment) -> Vec<Command> {
        let known = self.observed.clone().filter(|_| self.role == Role::Leader);
        match known {
            Some((observed, _)) => self.update(now, &observed, true),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Vec<Command> {
        self.step = Step::Reading;
        self.waiting(Command::Read)
    }

    /// The call, and as a leader the end of the patience for it.
    fn waiting(&self, call: Command) -> Vec<Command> {
        let mut commands = vec![call];
        if self.role == Role::Leader {
            commands.push(Command::Wake(self.deadline));
        }
        commands
    }

    fn found(&mut self, now: Moment, found: Result<Option<Record>, Unreachable>) -> Vec<Command> {
        let found = match found {
            Err(Unreachable) => return self.failed(now),
            Ok(None) => {
                self.written = self.record(now, None);
                self.step = Step::Writing {
                    since: now.elapsed,
                    blind: false,
                };
                return self.waiting(Command::Create(self.written.clone()));
            }
            Ok(Some(found)) => found,
        };
        // Clocks of hosts differ, so the age of a record counts from its first observation here.
        let since = match &self.observed {
            Some((observed, since)) if *observed == found => *since,
            _ => now.elapsed,
        };
        self.observed = Some((found.clone(), since));
        let ours = found.holder == self.settings.identity;
        let valid = since.saturating_add(found.duration()) > now.elapsed;
        // Another host has taken the lease and acts already.
        if self.role == Role::Leader && !ours {
            return self.lose();
        }
        if !found.holder.is_empty() && !ours && valid {
            let mut commands = self.failed(now);
            let role = Role::Candidate(found.holder);
            if self.role != role {
                self.role = role.clone();
                commands.push(Command::Role(role));
            }
            return commands;
        }
        self.update(now, &found, false)
    }

    fn update(&mut self, now: Moment, old: &Record, blind: bool) -> Vec<Command> {
        self.written = self.record(now, Some(old));
        self.step = Step::Writing {
            since: now.elapsed,
            blind,
        };
        self.waiting(Command::Update(self.written.clone()))
    }

    /// Our record, after this one.
    fn record(&self, now: Moment, old: Option<&Record>) -> Record {
        let time = Some(micro_time(now.time));
        let kept = old.filter(|old| old.holder == self.settings.identity);
        let seconds = self.settings.lease_duration.as_secs();
        Record {
            holder: self.settings.identity.clone(),
            duration_seconds: i32::try_from(seconds).unwrap_or(i32::MAX),
            acquire_time: kept.map_or_else(|| time.clone(), |old| old.acquire_time.clone()),
            renew_time: time,
            transitions: match (kept, old) {
                (Some(old), _) => old.transitions,
                (None, Some(old)) => old.transitions.saturating_add(1),
                (None, None) => 0,
            },
        }
    }

    /// The Lease is ours by a write that was begun at `since`.
    fn held(&mut self, now: Moment, since: Duration) -> Vec<Command> {
        let Settings {
            lease_duration,
            renew_deadline,
            retry_period,
            ..
        } = self.settings;
        self.observed = Some((self.written.clone(), now.elapsed));
        let until = now.elapsed.saturating_add(retry_period);
        // Others count from when they saw the write, so not before it was begun.
        let safe = since.saturating_add(lease_duration);
        self.deadline = until.saturating_add(renew_deadline).min(safe);
        if now.elapsed >= self.deadline {
            // The answer was so late that others may have the Lease by now.
            return self.failed(now);
        }
        self.step = Step::Pause { until };
        let mut commands = vec![Command::Wake(until.min(self.deadline))];
        if self.role != Role::Leader {
            self.role = Role::Leader;
            commands.push(Command::Role(Role::Leader));
        }
        commands
    }

    fn failed(&mut self, now: Moment) -> Vec<Command> {
        let period = self.settings.retry_period;
        let until = if self.role == Role::Leader {
            now.elapsed.saturating_add(period).min(self.deadline)
        } else {
            let more = period.mul_f64(JITTER * now.chance.clamp(0.0, 1.0));
            now.elapsed.saturating_add(period + more)
        };
        self.step = Step::Pause { until };
        vec![Command::Wake(until)]
    }

    fn lose(&mut self) -> Vec<Command> {
        self.over(Role::Lost)
    }

    fn over(&mut self, role: Role) -> Vec<Command> {
        self.step = Step::Over;
        self.role = role.clone();
        vec![Command::Role(role)]
    }

    /// Gives up a Lease that it holds, so that others need not wait.
    fn stop(&mut self, now: Moment) -> Vec<Command> {
        let held = self.observed.clone().filter(|_| self.role == Role::Leader);
        let Some((observed, _)) = held else {
            return self.over(Role::Released);
        };
        self.step = Step::Releasing { again: true };
        self.role = Role::Releasing;
        vec![
            Command::Role(Role::Releasing),
            Command::Update(released(now, &observed)),
        ]
    }

    fn releasing(&mut self, now: Moment, again: bool, event: &Event) -> Vec<Command> {
        match event {
            // A renewal that was under way may have been faster.
            Event::Written(false) if again => {
                self.step = Step::Releasing { again: false };
                vec![Command::Read]
            }
            Event::Found(Ok(Some(found))) if found.holder == self.settings.identity => {
                vec![Command::Update(released(now, found))]
            }
            Event::Written(_) | Event::Found(_) => self.over(Role::Released),
            Event::Wake | Event::Stop => Vec::new(),
        }
    }
}

fn released(now: Moment, old: &Record) -> Record {
    let time = Some(micro_time(now.time));
    Record {
        holder: String::new(),
        duration_seconds: 1,
        acquire_time: time.clone(),
        renew_time: time,
        transitions: old.transitions,
    }
}

/// The API's `MicroTime`.
fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
