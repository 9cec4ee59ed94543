//! Queues as rows. What waits and runs in a queue is counted by its pod groups, since a queue's own counters may be old.

use evictd_batch::wire::{PodGroup, Queue};
use evictd_command::{Column, Table, View};
use serde::Serialize;
use std::collections::BTreeMap;

/// Which columns a table of queues has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Columns {
    /// vcctl's.
    All,
    /// Those of `vqueues`, which knows neither parents nor completed groups.
    Fewer,
}

/// What is shown of a queue.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    name: String,
    weight: i32,
    state: String,
    parent: String,
    #[serde(flatten)]
    groups: Groups,
}

/// Pod groups by their phase.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Groups {
    inqueue: usize,
    pending: usize,
    running: usize,
    unknown: usize,
    completed: usize,
}

impl Groups {
    fn add(&mut self, phase: &str) {
        let count = match phase {
            "Inqueue" => &mut self.inqueue,
            "Pending" => &mut self.pending,
            "Running" => &mut self.running,
            "Unknown" => &mut self.unknown,
            "Completed" => &mut self.completed,
            _ => return,
        };
        *count += 1;
    }
}

impl Shown {
    pub(super) fn of(queues: Vec<Queue>, groups: &[PodGroup]) -> Vec<Self> {
        let mut by_queue: BTreeMap<&str, Groups> = BTreeMap::new();
        for group in groups {
            let counts = by_queue.entry(&group.spec.queue).or_default();
            counts.add(group.status.phase.as_str());
        }
        let shown = queues.into_iter().map(|queue| Self {
            groups: by_queue
                .get(queue.metadata.name.as_str())
                .copied()
                .unwrap_or_default(),
            name: queue.metadata.name,
            weight: queue.spec.weight,
            state: queue.status.state,
            parent: queue.spec.parent,
        });
        shown.collect()
    }
}

pub(super) fn table(queues: &[Shown], columns: Columns, view: View) -> String {
    if queues.is_empty() {
        return "No resources found".to_owned();
    }
    // In a file or a pipe the columns are as wide as vcctl's, for scripts that cut by position.
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
        for at in [8, 3] {
            heads.remove(at);
            for row in &mut rows {
                row.remove(at);
            }
        }
    }
    Table::new(heads, rows).shown(view)
}

fn cells(queue: &Shown) -> Vec<String> {
    let Shown { groups, .. } = queue;
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
