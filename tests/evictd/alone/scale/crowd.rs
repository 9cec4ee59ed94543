//! Every agent of a cluster, each by the daemon's own schedule, through a time in which the API server is away.

use evictd_cluster_client::WATCH_LIFE;
use evictd_cluster_client::{Fleet, Stagger};
use evictd_node::{CALM_HEARTBEAT, HEARTBEAT};
use std::time::Duration;

pub(crate) const NODES: usize = 5000;
/// One percent.
pub(crate) const PRESSED: usize = NODES / 100;

/// What is counted for, from the moment the server goes away.
const WATCHED: Duration = Duration::from_hours(1);

/// Numbers that look random and are the same each time.
struct Chances(u64);

impl Chances {
    fn next(&mut self) -> f64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        f64::from(u32::try_from(number).unwrap()) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Attempts in each second, and when each node was back.
pub(crate) struct Restart {
    watches: Vec<u32>,
    all: Vec<u32>,
    /// Seconds after the server was back, sorted.
    back: Vec<f64>,
}

impl Restart {
    /// The server is away from the beginning on for so long; of all nodes these first ones are under pressure.
    pub(crate) fn play(away: Duration, pressed: usize, seed: u64) -> Self {
        let seconds = usize::try_from(WATCHED.as_secs()).unwrap();
        let mut restart = Self {
            watches: vec![0; seconds],
            all: vec![0; seconds],
            back: Vec::new(),
        };
        let crowd = Fleet::of(NODES as u64);
        for node in 0..NODES {
            let mut chances = Chances(seed * 1_000_003 + node as u64 * 2_654_435_761 + 1);
            chances.next();
            let pressed = node < pressed;
            restart.watch(&crowd, &mut chances, away, pressed);
            restart.report(&crowd, &mut chances, away, pressed);
        }
        restart.back.sort_by(f64::total_cmp);
        restart
    }

    fn note(&mut self, at: Duration, watch: bool) {
        let second = usize::try_from(at.as_secs()).unwrap();
        if let Some(count) = self.all.get_mut(second) {
            *count += 1;
            self.watches[second] += u32::from(watch);
        }
    }

    /// As `pods::Kubernetes` does.
    fn watch(&mut self, crowd: &Fleet, chances: &mut Chances, away: Duration, pressed: bool) {
        let mut stagger = Stagger::default();
        let mut at = Duration::ZERO;
        loop {
            let wait = stagger.after_failure(crowd.spread(), chances.next());
            at += if pressed { wait.urgent } else { wait.normal };
            self.note(at, true);
            if at >= away {
                break;
            }
        }
        self.back.push(at.saturating_sub(away).as_secs_f64());
        while at < WATCHED {
            at += WATCH_LIFE.mul_f64(1.0 + chances.next());
            self.note(at, true);
        }
    }

    /// As `delivery::NodeReporter` does; its heartbeats have their places already.
    fn report(&mut self, crowd: &Fleet, chances: &mut Chances, away: Duration, pressed: bool) {
        let period = if pressed { HEARTBEAT } else { CALM_HEARTBEAT };
        let mut stagger = Stagger::default();
        let mut at = stagger.interval(period, chances.next());
        while at < WATCHED {
            self.note(at, false);
            at += if at >= away {
                stagger.succeeded();
                stagger.interval(period, chances.next())
            } else {
                let wait = stagger.after_failure(crowd.background_spread(), chances.next());
                if pressed { wait.urgent } else { wait.normal }
            };
        }
    }

    /// The most watches that were asked for in one second.
    pub(crate) fn peak_of_watches(&self) -> u32 {
        self.watches.iter().copied().max().unwrap_or(0)
    }

    /// The most requests in one second.
    pub(crate) fn peak(&self) -> u32 {
        self.all.iter().copied().max().unwrap_or(0)
    }

    /// Seconds until this share of the nodes was back.
    pub(crate) fn until(&self, percent: usize) -> f64 {
        self.back[(self.back.len() * percent / 100).min(self.back.len() - 1)]
    }
}

#[test]
fn after_a_restart_fewer_than_one_percent_of_the_nodes_come_back_in_any_second() {
    for away in [0, 1, 30, 120, 300, 1800] {
        for pressed in [0, PRESSED] {
            for seed in 1..=10 {
                let restart = Restart::play(Duration::from_secs(away), pressed, seed);
                let told = format!("away for {away} s, {pressed} under pressure, seed {seed}");
                let (watches, all) = (restart.peak_of_watches(), restart.peak());
                assert!(watches < 50, "{told}: {watches} watches");
                // Heartbeats go on, too.
                assert!(all < 60, "{told}: {all} requests");
                let last = restart.until(100);
                assert!(last <= 301.0, "{told}: {last} s");
            }
        }
    }
}
