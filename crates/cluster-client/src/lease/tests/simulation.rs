//! Candidates with wrong clocks before a server that fails: never two of them lead, and one does when it is back.

use super::*;
use proptest::prelude::*;

const TICK: f64 = 0.25;
const CALL_TIMEOUT: f64 = 5.0;

/// What goes wrong from now on, or what somebody does.
#[derive(Debug, Clone)]
enum Mishap {
    /// Calls take so long, in ticks; the server does them at their begin or at their end.
    Slow { ticks: u32, at_end: bool },
    /// Answers are lost, but not what was asked for.
    Deaf(bool),
    /// No call reaches the server.
    Away(bool),
    /// This candidate is killed and started again.
    Kill(usize),
    /// The same, with time to give its lease up.
    Stop(usize),
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        (0_u32..24, any::<bool>()).prop_map(|(ticks, at_end)| Mishap::Slow { ticks, at_end }),
        any::<bool>().prop_map(Mishap::Deaf),
        any::<bool>().prop_map(Mishap::Away),
        (0_usize..3).prop_map(Mishap::Kill),
        (0_usize..3).prop_map(Mishap::Stop),
    ]
}

/// The Lease and its version.
#[derive(Default)]
struct Server {
    lease: Option<(Record, u64)>,
    ticks: u32,
    at_end: bool,
    deaf: bool,
    away: bool,
}

struct Sent {
    command: Command,
    /// The version that the sender knows.
    version: u64,
    /// When the server does it, until it is done.
    done_at: Option<f64>,
    answer_at: f64,
    answer: Event,
    learned: Option<u64>,
}

struct Candidate {
    election: Election,
    /// How wrong its time of day is, in seconds.
    skew: i64,
    wake: Option<f64>,
    version: u64,
    call: Option<Sent>,
}

impl Server {
    /// The answer, and the version that it tells.
    fn serve(&mut self, command: &Command, version: u64) -> (Event, Option<u64>) {
        let newest = self.lease.as_ref().map(|(_, version)| *version);
        match command {
            Command::Read => {
                let record = self.lease.as_ref().map(|(record, _)| record.clone());
                (Event::Found(Ok(record)), newest)
            }
            Command::Create(record) if newest.is_none() => {
                self.lease = Some((record.clone(), 1));
                (Event::Written(true), Some(1))
            }
            Command::Update(record) if newest == Some(version) => {
                self.lease = Some((record.clone(), version + 1));
                (Event::Written(true), Some(version + 1))
            }
            _ => (Event::Written(false), None),
        }
    }

    fn send(&self, now: f64, command: Command, version: u64) -> Sent {
        let late = f64::from(self.ticks) * TICK;
        let lost = match command {
            Command::Read => Event::Found(Err(Unreachable)),
            _ => Event::Written(false),
        };
        let done_at = if self.at_end { now + late } else { now };
        Sent {
            command,
            version,
            done_at: (!self.away && late < CALL_TIMEOUT).then_some(done_at),
            answer_at: now + late.min(CALL_TIMEOUT),
            answer: lost,
            learned: None,
        }
    }
}

impl Candidate {
    fn new(number: usize, started: u32) -> Self {
        Self {
            election: election(&format!("{number}-{started}")),
            skew: [0, -100_000, 7_000_000][number % 3],
            wake: Some(0.0),
            version: 0,
            call: None,
        }
    }

    fn leads(&self) -> bool {
        *self.election.role() == Role::Leader
    }

    fn event(&mut self, now: f64, event: Event, server: &Server) {
        let elapsed = Duration::from_secs_f64(now);
        let midnight = Timestamp::from_second(1_800_000_000 + self.skew).unwrap();
        let moment = Moment {
            elapsed,
            time: midnight + elapsed,
            chance: (now * 7.3) % 1.0,
        };
        for command in self.election.on_event(moment, event) {
            match command {
                Command::Wake(at) => self.wake = Some(at.as_secs_f64()),
                Command::Role(_) => {}
                call => self.call = Some(server.send(now, call, self.version)),
            }
        }
    }

    fn turn(&mut self, now: f64, server: &mut Server) {
        if let Some(sent) = &mut self.call
            && sent.done_at.is_some_and(|at| at <= now)
        {
            sent.done_at = None;
            let (answer, learned) = server.serve(&sent.command, sent.version);
            if !server.deaf {
                (sent.answer, sent.learned) = (answer, learned);
            }
        }
        if let Some(sent) = self.call.take_if(|sent| sent.answer_at <= now) {
            self.version = sent.learned.unwrap_or(self.version);
            self.event(now, sent.answer, server);
        }
        if self.wake.take_if(|at| *at <= now).is_some() {
            self.event(now, Event::Wake, server);
        }
    }
}

fn over(candidate: &Candidate) -> bool {
    matches!(candidate.election.role(), Role::Lost | Role::Released)
}

/// Lets this many seconds pass; fails when two lead.
fn pass(
    now: &mut f64,
    seconds: f64,
    candidates: &mut [Candidate],
    server: &mut Server,
    started: &mut u32,
) -> Result<(), TestCaseError> {
    let end = *now + seconds;
    while *now < end {
        *now += TICK;
        for (number, candidate) in candidates.iter_mut().enumerate() {
            candidate.turn(*now, server);
            if over(candidate) {
                *started += 1;
                *candidate = Candidate::new(number, *started);
            }
        }
        let leaders = candidates.iter().filter(|candidate| candidate.leads());
        prop_assert!(leaders.count() <= 1, "two lead at {now}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn never_two_lead_and_one_does_in_the_end(
        mishaps in prop::collection::vec((mishap(), 0.0..20.0), 0..20),
    ) {
        let mut server = Server::default();
        let mut candidates = [0, 1, 2].map(|number| Candidate::new(number, 0));
        let (mut now, mut started) = (0.0, 0);
        for (mishap, seconds) in mishaps {
            match mishap {
                Mishap::Slow { ticks, at_end } => (server.ticks, server.at_end) = (ticks, at_end),
                Mishap::Deaf(deaf) => server.deaf = deaf,
                Mishap::Away(away) => server.away = away,
                Mishap::Kill(number) => {
                    started += 1;
                    candidates[number] = Candidate::new(number, started);
                }
                Mishap::Stop(number) => candidates[number].event(now, Event::Stop, &server),
            }
            pass(&mut now, seconds, &mut candidates, &mut server, &mut started)?;
        }
        server = Server { lease: server.lease, ..Server::default() };
        pass(&mut now, 40.0, &mut candidates, &mut server, &mut started)?;
        prop_assert!(candidates.iter().any(Candidate::leads), "nobody leads");
    }
}
