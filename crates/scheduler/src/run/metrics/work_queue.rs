//! The tasks that write decisions, as metrics of a work queue of Kubernetes.

use super::{Buckets, Counters, Gauges, Histograms, Maker, StabilityLevel::Beta, labels, opts};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The metrics of all queues, by `name`.
#[derive(Debug, Clone)]
pub(crate) struct WorkQueueMetrics {
    adds: Counters<1>,
    retries: Counters<1>,
    depth: Gauges<1>,
    queue_duration: Histograms<1>,
    work_duration: Histograms<1>,
    unfinished_work: Seconds,
    longest_running: Seconds,
}

type Seconds = Family<super::Labels, Gauge<f64, AtomicU64>>;

/// The bounds of client-go: ten powers of ten from 10 ns.
const POWERS_OF_TEN: Buckets = Buckets(1e-8, 10.0, 10);

impl WorkQueueMetrics {
    #[rustfmt::skip]
    pub(super) fn new(make: &mut Maker) -> Self {
        let unfinished_work = Seconds::default();
        make.register(opts("workqueue_unfinished_work_seconds", Beta, "How long the writes under way have taken together"), unfinished_work.clone());
        let longest_running = Seconds::default();
        make.register(opts("workqueue_longest_running_processor_seconds", Beta, "How long the oldest write under way has taken"), longest_running.clone());
        Self {
            adds: make.counters(opts("workqueue_adds", Beta, "Tasks that were added, by queue"), ["name"]),
            retries: make.counters(opts("workqueue_retries", Beta, "Requests of tasks that were repeated, by queue"), ["name"]),
            depth: make.gauges(opts("workqueue_depth", Beta, "Tasks whose write has not begun"), ["name"]),
            queue_duration: make.histograms(opts("workqueue_queue_duration_seconds", Beta, "How long it takes until the write of a task begins: its turn, and PreBind of a binding"), ["name"], POWERS_OF_TEN),
            work_duration: make.histograms(opts("workqueue_work_duration_seconds", Beta, "How long the write of a task takes"), ["name"], POWERS_OF_TEN),
            unfinished_work,
            longest_running,
        }
    }

    /// A queue with this name. All values begin at zero.
    pub(crate) fn queue(&self, name: &'static str) -> WorkQueue {
        let seconds = |family: &Seconds| {
            let gauge = family.get_or_create(&labels(["name"], [name])).clone();
            gauge.set(0.0);
            gauge
        };
        WorkQueue(Arc::new(Shared {
            name,
            depth: self.depth.gauge([name]),
            adds: self.adds.counter([name]),
            retries: self.retries.clone(),
            queue_duration: self.queue_duration.histogram([name]),
            work_duration: self.work_duration.histogram([name]),
            unfinished_work: seconds(&self.unfinished_work),
            longest_running: seconds(&self.longest_running),
            tasks: AtomicU64::new(0),
            running: Mutex::default(),
        }))
    }
}

/// Measures the tasks of one kind. Clones share them.
#[derive(Clone)]
pub(crate) struct WorkQueue(Arc<Shared>);

struct Shared {
    name: &'static str,
    adds: Counter,
    retries: Counters<1>,
    depth: Gauge,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished_work: Gauge<f64, AtomicU64>,
    longest_running: Gauge<f64, AtomicU64>,
    /// How many tasks have begun, which numbers them.
    tasks: AtomicU64,
    running: Mutex<BTreeMap<u64, Instant>>,
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkQueue {
    /// Adds a task, whose write begins with [`WorkItem::begin`].
    pub(crate) fn add(&self) -> WorkItem {
        self.0.adds.inc();
        self.0.depth.inc();
        WorkItem {
            queue: self.clone(),
            added: Instant::now(),
            begun: None,
        }
    }

    /// Counts repeated requests. Before the first call their number is unknown, and not zero.
    pub(crate) fn retried(&self, count: u64) {
        self.0.retries.add([self.0.name], count);
    }

    /// Brings the gauges of durations up to date.
    pub(crate) fn update(&self) {
        let shared = &self.0;
        let running = shared.running();
        let seconds = || running.values().map(|begun| begun.elapsed().as_secs_f64());
        // The sum of no numbers is negative zero.
        shared
            .unfinished_work
            .set(seconds().fold(0.0, |all, more| all + more));
        shared.longest_running.set(seconds().fold(0.0, f64::max));
    }
}

/// A task of a queue. It ends when it is dropped.
pub(crate) struct WorkItem {
    queue: WorkQueue,
    added: Instant,
    begun: Option<(u64, Instant)>,
}

impl WorkItem {
    /// The write of the task begins.
    pub(crate) fn begin(&mut self) {
        let shared = &self.queue.0;
        if self.begun.is_some() {
            return;
        }
        shared.depth.dec();
        let waited = self.added.elapsed().as_secs_f64();
        shared.queue_duration.observe(waited);
        let number = shared.tasks.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        shared.running().insert(number, now);
        self.begun = Some((number, now));
    }

    /// A request of the task is repeated.
    pub(crate) fn retried(&self) {
        self.queue.retried(1);
    }
}

impl Drop for WorkItem {
    fn drop(&mut self) {
        let shared = &self.queue.0;
        match self.begun {
            None => drop(shared.depth.dec()),
            Some((number, begun)) => {
                shared.running().remove(&number);
                shared.work_duration.observe(begun.elapsed().as_secs_f64());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::run::metrics::Metrics;
    use evictd_daemon::metrics::Format;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_task_waits_runs_and_ends() {
        let (metrics, exposition) = Metrics::new(false);
        let queue = metrics.work_queues.queue("binding");
        let mut task = queue.add();
        let cancelled = queue.add();
        let shows = |lines: &[&str]| {
            queue.update();
            let text = exposition.render(Format::Plain).unwrap();
            for line in lines {
                let line = format!("\nworkqueue_{}\n", line.replace('#', "{name=\"binding\"}"));
                assert!(text.contains(&line), "{line} not in\n{text}");
            }
        };
        shows(&[
            "depth# 2",
            "adds_total# 2",
            "queue_duration_seconds_count# 0",
        ]);
        tokio::time::advance(Duration::from_secs(2)).await;
        task.begin();
        drop(cancelled);
        tokio::time::advance(Duration::from_secs(3)).await;
        queue.retried(1);
        shows(&[
            "depth# 0",
            "retries_total# 1",
            "queue_duration_seconds_sum# 2.0",
            "unfinished_work_seconds# 3.0",
            "longest_running_processor_seconds# 3.0",
            "work_duration_seconds_count# 0",
        ]);
        drop(task);
        shows(&[
            "work_duration_seconds_sum# 3.0",
            "unfinished_work_seconds# 0.0",
            "adds_total# 2",
        ]);
    }
}
