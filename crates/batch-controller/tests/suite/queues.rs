//! What queues share, and what becomes of one that is closed.

use crate::ground::{Batch, STAYS, bound};
use serde_json::{Value, json};

/// A job of a queue that has four pods, and runs with as few as this.
fn greedy(batch: &Batch, name: &str, queue: &str, min: u32) -> Value {
    let mut job = batch.job(name, 4, STAYS);
    job["spec"]["queue"] = queue.into();
    job["spec"]["minAvailable"] = json!(min);
    job
}

#[tokio::test]
async fn two_queues_share_by_weight_and_one_reclaims_its_deserved_share() {
    let Some(mut batch) = Batch::start("share", 4).await else {
        return;
    };
    let small = batch.queue("small", 1).await;
    let large = batch.queue("large", 3).await;
    batch.create(greedy(&batch, "early", &small, 1)).await;
    let all = |pods: &[Value]| bound(pods) == 4;
    batch.pods_are("early", "bound", all).await;
    batch.job_is("early", "Running").await;
    batch.create(greedy(&batch, "late", &large, 3)).await;
    let three = |pods: &[Value]| bound(pods) == 3;
    batch
        .pods_are("late", "bound as their share is", three)
        .await;
    let shared = async || {
        let early = bound(&batch.pods(Some("early")).await);
        let late = bound(&batch.pods(Some("late")).await);
        (early, late) == (1, 3)
    };
    batch.meanwhile("each queue holds its share", shared).await;
}

#[tokio::test]
async fn a_closed_queue_accepts_no_job_until_it_is_opened() {
    let Some(mut batch) = Batch::start("closed", 2).await else {
        return;
    };
    let queue = batch.queue("closes", 1).await;
    batch.batch(&["queue", "operate", "-n", &queue, "-a", "close"]);
    batch.queue_is(&queue, "Closed").await;
    batch.create(greedy(&batch, "late", &queue, 1)).await;
    batch.job_is("late", "Pending").await;
    batch
        .meanwhile("no pod of the job is bound", async || {
            bound(&batch.pods(Some("late")).await) == 0
        })
        .await;
    batch.batch(&["queue", "operate", "-n", &queue, "-a", "open"]);
    batch.queue_is(&queue, "Open").await;
    batch.job_is("late", "Running").await;
}
