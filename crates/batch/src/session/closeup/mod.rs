//! A close look at one job while a session decides: what holds it back, who comes before it, and where its pods would find
//! room. Nothing is decided here; the session is asked.

mod holds;
mod line;
mod places;
mod stand;

pub use holds::{Hold, Lack};
pub use line::Ahead;
pub use places::{NearNode, Places, RolePlaces, Scarce};
pub use stand::{QueueStand, Stand};

use super::Session;
use super::task::Status;
use super::watch::Watch;
use crate::conf::Action;
use evictd_pod::Quantity;
use serde::Serialize;
use std::collections::BTreeMap;

/// What is seen of one job in one session.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Closeup {
    /// So many pods start at once or none.
    pub min_member: i32,
    /// The priority of its class.
    pub priority: i32,
    /// Its pods before the session, by status: `Pending`, `Running`, ...
    pub pods: BTreeMap<&'static str, i32>,
    /// Pods with scheduling gates, `namespace/name`.
    pub gated: Vec<String>,
    /// How many pods its gang lacks before the session.
    pub missing: i32,
    /// Its queue before the session.
    pub queue: QueueStand,
    /// The jobs that wait in the same queue and come before it, the first first.
    pub ahead: Vec<Ahead>,
    /// What keeps it from getting room at all, in the order in which a session asks.
    pub holds: Vec<Hold>,
    /// Where its pods that wait would find room after the session.
    pub places: Places,
}

/// Looks at the job with this index.
pub(crate) struct Seen {
    job: usize,
    closeup: Closeup,
}

impl Seen {
    pub(super) fn of(job: usize) -> Self {
        Self {
            job,
            closeup: Closeup::default(),
        }
    }

    pub(super) fn into_closeup(self) -> Closeup {
        self.closeup
    }
}

impl Watch for Seen {
    fn opened(&mut self, session: &Session<'_>) {
        let own = &session.model.jobs[self.job];
        let counts = Status::ALL.map(|status| (status.as_str(), own.count(status)));
        let gated = own.tasks.iter().map(|task| &session.model.tasks[*task]);
        let gated = gated.filter(|task| task.gated && task.status == Status::Pending);
        self.closeup = Closeup {
            min_member: own.min_member,
            priority: own.priority,
            pods: counts.into_iter().filter(|(_, count)| *count > 0).collect(),
            gated: gated.map(|task| task.key.to_string()).collect(),
            missing: own.min_member.saturating_sub(own.ready()).max(0),
            queue: session.stand_of(own.queue),
            ahead: session.ahead_of(self.job),
            ..Closeup::default()
        };
    }

    fn acted(&mut self, session: &Session<'_>, action: Action) {
        let holds = match action {
            Action::Enqueue => session.kept_out(self.job),
            Action::Allocate => session.share_used(self.job),
            _ => None,
        };
        self.closeup.holds.extend(holds);
    }

    fn closed(&mut self, session: &mut Session<'_>) {
        let holds = &mut self.closeup.holds;
        holds.extend(session.too_few(self.job));
        holds.extend(session.limited(self.job));
        self.closeup.places = session.places_of(self.job);
    }
}

/// An amount of a resource as people write it.
fn written(name: &str, amount: f64) -> Quantity {
    use super::objects::quantity;
    use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
    #[expect(
        clippy::cast_possible_truncation,
        reason = "amounts came as whole numbers"
    )]
    let whole = amount.ceil() as i64;
    match name {
        CPU | MEMORY | PODS => quantity(name, amount.ceil()),
        // They count in thousandths.
        EPHEMERAL_STORAGE => Quantity::bytes(whole / 1000),
        name if name.starts_with("hugepages-") => Quantity::bytes(whole / 1000),
        _ => Quantity::milli(whole),
    }
}
