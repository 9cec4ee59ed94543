//! Action shuffle: evicts running tasks that plugins want elsewhere (S6-204).

use crate::session::Session;
use crate::session::eviction_kind::EvictionKind;
use crate::session::plugins::Budgets;
use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::task::Status;
use crate::session::transaction::Operations;
use evictd_batch_objects::Difference;

pub(crate) fn shuffle(session: &mut Session<'_>) {
    let snapshot = &session.tx.snapshot;
    let jobs = snapshot.live.iter();
    let running = jobs.flat_map(|job| snapshot.tasks_of(*job, Status::Running));
    let mut running: Vec<TaskId> = running.collect();
    running.sort_unstable_by_key(|task| &snapshot.tasks[*task].key);
    let (mut victims, asked) = session.tx.tiers().shuffled(&running);
    if session.tx.compat.has(Difference::SpareProtectedPods) {
        victims.retain(|task| !session.tx.snapshot.tasks[*task].critical);
        let budgets = Budgets::open(&session.tx.snapshot, session.tx.cluster);
        victims = budgets.kept_by(&victims);
    }
    let now = session.tx.snapshot.clock();
    for plugin in asked {
        session.tx.snapshot.shuffled_at.insert(plugin, now);
    }
    let mut operations = Operations::default();
    for victim in victims {
        session
            .tx
            .evict(&mut operations, victim, EvictionKind::Shuffle);
    }
    session.tx.commit(operations);
}
