//! The table of queues. Pod groups are counted here, because the counters in the status of a queue may be outdated.

use evictd_batch_objects::{PodGroup, PodGroupPhase, Queue};
use evictd_command::{Column, Table, View};
use serde::Serialize;
use std::collections::BTreeMap;

/// The columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Columns {
    /// Those of vcctl.
    All,
    /// Those of `vqueues`, which has neither parents nor completed groups.
    Fewer,
}

#[derive(Debug, Serialize)]
pub(super) struct QueueRow {
    name: String,
    weight: i32,
    state: String,
    parent: String,
    #[serde(flatten)]
    groups: GroupCounts,
}

/// The number of pod groups by phase.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(in crate::cli) struct GroupCounts {
    pub(in crate::cli) inqueue: usize,
    pub(in crate::cli) pending: usize,
    pub(in crate::cli) running: usize,
    pub(in crate::cli) unknown: usize,
    pub(in crate::cli) completed: usize,
}

impl GroupCounts {
    pub(in crate::cli) fn of<'a>(groups: impl IntoIterator<Item = &'a PodGroup>) -> Self {
        let mut counts = Self::default();
        for group in groups {
            counts.add(&group.status.phase);
        }
        counts
    }

    fn add(&mut self, phase: &PodGroupPhase) {
        let count = match phase {
            PodGroupPhase::Inqueue => &mut self.inqueue,
            PodGroupPhase::Pending => &mut self.pending,
            PodGroupPhase::Running => &mut self.running,
            PodGroupPhase::Unknown => &mut self.unknown,
            PodGroupPhase::Completed => &mut self.completed,
            PodGroupPhase::Unset | PodGroupPhase::Other(_) => return,
        };
        *count += 1;
    }
}

impl QueueRow {
    pub(super) fn of(queues: Vec<Queue>, groups: &[PodGroup]) -> Vec<Self> {
        let mut by_queue: BTreeMap<&str, GroupCounts> = BTreeMap::new();
        for group in groups {
            let counts = by_queue.entry(&group.spec.queue).or_default();
            counts.add(&group.status.phase);
        }
        let rows = queues.into_iter().map(|queue| Self {
            groups: by_queue
                .get(queue.metadata.name.as_str())
                .copied()
                .unwrap_or_default(),
            name: queue.metadata.name,
            weight: queue.spec.weight,
            state: queue.status.state.to_string(),
            parent: queue.spec.parent,
        });
        rows.collect()
    }
}

pub(super) fn table(queues: &[QueueRow], columns: Columns, view: View) -> String {
    if queues.is_empty() {
        return "No resources found".to_owned();
    }
    // In a file or a pipe the columns have the widths of vcctl, for scripts that cut by position.
    let mut heads = vec![
        Column::name("Name", 9).filled(25),
        Column::figure("Weight", 6).filled(8),
        Column::words("State", 8).filled(8),
        Column::name("Parent", 5).filled(8),
        Column::figure("Inqueue", 4).filled(8),
        Column::figure("Pending", 7).filled(8),
        Column::figure("Running", 7).filled(8),
        Column::figure("Unknown", 1).filled(8),
        Column::figure("Completed", 2).filled(8),
    ];
    let mut rows: Vec<Vec<String>> = queues.iter().map(cells).collect();
    if columns == Columns::Fewer {
        // The later column first, because the removal moves those after it.
        for at in [8, 3] {
            heads.remove(at);
            for row in &mut rows {
                row.remove(at);
            }
        }
    }
    Table::new(heads, rows).shown(view)
}

fn cells(queue: &QueueRow) -> Vec<String> {
    let QueueRow { groups, .. } = queue;
    vec![
        queue.name.clone(),
        queue.weight.to_string(),
        queue.state.clone(),
        queue.parent.clone(),
        groups.inqueue.to_string(),
        groups.pending.to_string(),
        groups.running.to_string(),
        groups.unknown.to_string(),
        groups.completed.to_string(),
    ]
}
