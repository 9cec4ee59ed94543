//! Reclaims page cache of pods while a soft memory threshold waits for its grace period.
//!
//! The kernel reclaims in a thread of ours, as long as a write to `memory.reclaim` lasts. The main loop never waits for it.

use crate::{
    config::{Effective, MemoryReclaim},
    usage::MemoryFiles,
};
use evictd_kernel::{
    cgroup::{Hierarchies, Reclaim, Version},
    clock::Clock,
    kernel_file::Buffer,
};
use evictd_reclaim::Reclaimed;
use jiff::{SignedDuration, Timestamp};
use std::{io, path::PathBuf, thread};
use tokio::sync::oneshot;

/// Between the beginnings of two rounds.
const PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// A round ends after this, whatever it has reclaimed: pods wait for the kernel meanwhile.
const LONGEST_ROUND: SignedDuration = SignedDuration::from_secs(1);
/// The bytes of one request to the kernel. After each request the result is checked.
const REQUEST: u64 = 16 << 20;

/// The amount to reclaim from one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `namespace/name`.
    pub pod: String,
    /// Its cgroup, relative to the root of its hierarchy.
    pub cgroup: PathBuf,
    /// By how many bytes the working set is to shrink.
    pub bytes: u64,
}

/// Begins rounds of reclaiming; at most one is under way.
pub struct MemoryReclaimer {
    hierarchies: Option<Hierarchies>,
    clock: Clock,
    begun: Option<Timestamp>,
    round: Option<oneshot::Receiver<Reclaimed>>,
    /// The last failures; an old kernel refuses every round.
    problems: Vec<String>,
}

impl MemoryReclaimer {
    /// For this configuration: one that reclaims nothing if that is not asked for, or not possible here, which is logged.
    pub fn new(config: &Effective, hierarchies: &Hierarchies, clock: Clock) -> Self {
        let wanted = config.memory_reclaim == MemoryReclaim::Cold;
        let possible = hierarchies.version() == Version::V2;
        if wanted && !possible {
            tracing::warn!(
                "reclaim.memory: cold needs cgroup v2, which this node has not; no memory is reclaimed"
            );
        }
        Self {
            hierarchies: (wanted && possible).then(|| hierarchies.clone()),
            clock,
            begun: None,
            round: None,
            problems: Vec::new(),
        }
    }

    /// Whether a round may begin.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let recent = |begun: Timestamp| now.duration_since(begun) < PERIOD;
        self.hierarchies.is_some() && self.round.is_none() && !self.begun.is_some_and(recent)
    }

    /// Begins a round that needs `short` bytes.
    pub fn begin(&mut self, now: Timestamp, short: u64, targets: Vec<Target>) {
        self.begun = Some(now);
        let Some(hierarchies) = self.hierarchies.clone().filter(|_| !targets.is_empty()) else {
            return;
        };
        let (send, round) = oneshot::channel();
        let clock = self.clock;
        let run = move || {
            // The receiver is closed if the daemon has ended.
            let _ = send.send(reclaim(&hierarchies, short, &targets, clock));
        };
        let thread = thread::Builder::new().name("memory-reclaim".to_owned());
        match thread.spawn(run) {
            Ok(_) => self.round = Some(round),
            Err(error) => tracing::warn!("no memory is reclaimed: no thread: {error}"),
        }
    }

    /// Whether a round is under way.
    pub const fn is_busy(&self) -> bool {
        self.round.is_some()
    }

    /// The result of the round that has ended, if there is anything to report.
    pub fn finished(&mut self) -> Option<Reclaimed> {
        let reclaimed = match self.round.as_mut()?.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return None,
            ended => ended.ok(),
        };
        self.round = None;
        let done = reclaimed?;
        let is_new_problem = done.failed > 0 && done.problems != self.problems;
        self.problems.clone_from(&done.problems);
        (done.pods > 0 || is_new_problem).then_some(done)
    }
}

fn reclaim(hierarchies: &Hierarchies, short: u64, targets: &[Target], clock: Clock) -> Reclaimed {
    let until = Clock::after(clock.now(), LONGEST_ROUND);
    let is_over = || clock.now() >= until;
    let mut done = Reclaimed::default();
    for target in targets {
        match shrink(hierarchies, target, is_over) {
            Ok(0) => {}
            Ok(bytes) => {
                done.pods += 1;
                done.memory_bytes += bytes;
            }
            Err(error) => {
                done.failed += 1;
                // One is enough: all of them are usually the same.
                if done.problems.is_empty() {
                    done.problems = vec![format!("page cache of {}: {error}", target.pod)];
                }
            }
        }
        if is_over() {
            break;
        }
    }
    done.relieved = done.memory_bytes >= short;
    done
}

/// By how many bytes the working set has shrunk.
fn shrink(
    hierarchies: &Hierarchies,
    target: &Target,
    is_over: impl Fn() -> bool,
) -> io::Result<u64> {
    let mut buffer: Box<Buffer> = Box::new([0; size_of::<Buffer>()]);
    let Some(mut files) = MemoryFiles::new(hierarchies, &target.cgroup) else {
        return Ok(0);
    };
    let mut read = || files.read_twice(&mut buffer).map_err(io::Error::other);
    let before = read()?;
    // The kernel takes cache that is not in active use first, which is not part of the working set.
    let most = target.bytes.saturating_add(before.inactive_file);
    let (mut asked, mut shrunk) = (0, 0);
    while shrunk < target.bytes && asked < most && !is_over() {
        let request = REQUEST.min(most - asked);
        let outcome = hierarchies.reclaim_memory(&target.cgroup, request)?;
        asked += request;
        shrunk = before.working_set.saturating_sub(read()?.working_set);
        if outcome == Reclaim::Less {
            break;
        }
    }
    Ok(shrunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    /// A tree that looks like cgroup v2, where nothing is reclaimed.
    fn tree() -> (tempfile::TempDir, Hierarchies) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "memory").unwrap();
        let pod = root.path().join("pod");
        fs::create_dir(&pod).unwrap();
        for (name, text) in [
            ("memory.current", "104857600\n"),
            ("memory.stat", "anon 0\nshmem 0\ninactive_file 20971520\n"),
            ("memory.swap.current", "0\n"),
            ("memory.reclaim", ""),
        ] {
            fs::write(pod.join(name), text).unwrap();
        }
        let hierarchies = Hierarchies::detect(root.path()).unwrap();
        (root, hierarchies)
    }

    fn target(cgroup: &str) -> Target {
        Target {
            pod: format!("shop/{cgroup}"),
            cgroup: Path::new(cgroup).to_owned(),
            bytes: 30 << 20,
        }
    }

    #[test]
    fn no_more_is_asked_of_the_kernel_than_what_is_wanted_and_what_it_takes_before() {
        let (root, hierarchies) = tree();
        let done = reclaim(&hierarchies, 30 << 20, &[target("pod")], Clock::start());
        assert_eq!(done, Reclaimed::default());
        // A plain file keeps what was last written: of 30 MiB and 20 MiB of inactive cache, after three whole requests.
        let last = fs::read_to_string(root.path().join("pod/memory.reclaim")).unwrap();
        assert_eq!(last, format!("{}{}", 2 << 20, &"16777216"[7..]));
    }

    #[test]
    fn a_removed_pod_is_reported_and_the_others_are_reclaimed() {
        let (_root, hierarchies) = tree();
        let done = reclaim(
            &hierarchies,
            1,
            &[target("gone"), target("pod")],
            Clock::start(),
        );
        assert_eq!((done.failed, done.pods, done.relieved), (1, 0, false));
        assert!(done.problems[0].starts_with("page cache of shop/gone: cannot read"));
    }

    #[test]
    fn a_failure_in_every_round_is_logged_once() {
        let (_root, hierarchies) = tree();
        let text = "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\n\
                    memoryAvailable: workingSet\nreclaim: {memory: cold}";
        let config = crate::config::parse("the test", text).unwrap().effective;
        let mut reclaimer = MemoryReclaimer::new(&config, &hierarchies, Clock::start());
        let mut told = Vec::new();
        for cgroup in ["gone", "gone", "gone, too"] {
            reclaimer.begin(Timestamp::UNIX_EPOCH, 1, vec![target(cgroup)]);
            while reclaimer.is_busy() {
                told.extend(reclaimer.finished());
                thread::yield_now();
            }
        }
        assert_eq!(told.len(), 2, "{told:?}");
    }
}
