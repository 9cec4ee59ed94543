//! The condition `PodScheduled` of pods that are bound soon after a failed attempt.

use super::{AT_MOST, Limits, Shop, unschedulable};
use evictd_testkit::{Actor, Fault};
use std::time::Duration;

/// The status and the message of the condition.
fn condition(admin: &Actor, pod: &str) -> Option<(String, String)> {
    let pod = admin.get("pods", pod)?;
    let conditions = pod["status"]["conditions"].as_array()?.clone();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == "PodScheduled")?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("message")))
}

/// A condition is being written, and another one waits behind it. Neither may replace that of the binding.
#[tokio::test]
async fn s7_229_a_bound_pod_does_not_keep_the_condition_of_an_earlier_attempt() {
    let mut shop = Shop::open().await;
    let pod = shop.pod("a", None);
    let slow = Fault::delay(Duration::from_millis(300)).on("patch", "pods/status");
    shop.api.fault(slow.times(1));
    shop.writer.status(pod.clone(), unschedulable("first"));
    shop.writer.status(pod.clone(), unschedulable("second"));
    // The worker has taken the first one, so that it is under way.
    let sent = |_: &Actor| (shop.writer.statuses_under_way() == 1).then_some(());
    shop.admin.wait(AT_MOST, sent).await.unwrap();
    shop.writer.status(pod.clone(), unschedulable("third"));
    assert_eq!(shop.bind(&pod).await, Ok(()));
    assert_eq!(condition(&shop.admin, "a").unwrap().0, "True");
    // A later write shows that no earlier one is left.
    let other = shop.pod("b", None);
    shop.writer.status(other, unschedulable("other"));
    let written = |admin: &Actor| condition(admin, "b");
    shop.admin.wait(AT_MOST, written).await.unwrap();
    assert_eq!(condition(&shop.admin, "a").unwrap().0, "True");
}

/// The condition waits behind those of other pods when its pod is bound.
#[tokio::test]
async fn s7_229_a_condition_that_is_not_sent_yet_is_dropped() {
    let limits = Limits {
        statuses: 1,
        ..Limits::default()
    };
    let mut shop = Shop::with(limits).await;
    let (first, pod) = (shop.pod("first", None), shop.pod("a", None));
    let slow = Fault::delay(Duration::from_millis(300)).on("patch", "pods/status");
    shop.api.fault(slow.times(1));
    shop.writer.status(first, unschedulable("first"));
    let mut patch = unschedulable("late");
    patch.nominated_node = Some(Some("one".to_owned()));
    shop.writer.status(pod.clone(), patch);
    assert_eq!(shop.bind(&pod).await, Ok(()));
    // The rest of the patch is still written.
    let nominated = |admin: &Actor| {
        let pod = admin.get("pods", "a")?;
        (pod["status"]["nominatedNodeName"] == "one").then_some(())
    };
    shop.admin.wait(AT_MOST, nominated).await.unwrap();
    assert_eq!(condition(&shop.admin, "a").unwrap().0, "True");
}
