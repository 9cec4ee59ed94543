//! How soon a reflector comes back after a version that the server has no more, as after a compaction of etcd.

use super::*;

/// A server that answers nothing but errors for so long that the backoff has grown.
fn outage() -> Vec<Answer> {
    let outage = std::iter::repeat_with(|| Answer::refusal(503));
    outage.take(8).collect()
}

fn known() -> Answer {
    Answer::events(&[event("ADDED", &thing("a", "1", 1)), bookmark(1, true)])
}

/// The pauses of a script that ends with the new object.
async fn pauses(answers: Vec<Answer>) -> (Vec<String>, Vec<Duration>) {
    let anew = [event("ADDED", &thing("b", "2", 9)), bookmark(9, true)];
    let answers = answers.into_iter().chain([Answer::events(&anew)]);
    let running = run(Script::of(answers));
    running.log.until("new b/2@9").await;
    (running.script.asked(), running.script.pauses())
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_begins_anew_at_once_whatever_failed_before() {
    let mut answers = vec![known().cut()];
    answers.extend(outage());
    answers.push(Answer::refusal(410));
    let (asked, pauses) = pauses(answers).await;
    assert_eq!(asked.last().unwrap(), "stream");
    assert!(pauses[8] > 10 * SECOND, "{pauses:?}");
    assert!(pauses[9] < SECOND / 10, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_with_a_version_that_is_gone_begins_anew_at_once() {
    let gone = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
    let mut watch = known();
    watch.1.push(format!("{}\n", event("ERROR", &gone)).into());
    let (asked, pauses) = pauses(vec![watch]).await;
    assert_eq!(asked, ["stream", "stream"]);
    assert!(pauses[0] < SECOND / 10, "{pauses:?}");
}

/// While its cache is filled again a server refuses requests and says when to come back.
#[tokio::test(start_paused = true)]
async fn a_server_that_says_when_to_come_back_is_asked_then() {
    let mut busy = Answer::refusal(503);
    let status = json!({"kind": "Status", "status": "Failure", "code": 503, "reason": "No", "message": "no",
        "details": {"retryAfterSeconds": 2}});
    busy.1 = vec![status.to_string().into()];
    let mut answers = vec![known().cut()];
    answers.extend(outage());
    // By the header, and by the status.
    answers.extend([
        Answer::refusal(410),
        Answer::refusal(429),
        Answer::refusal(429),
        busy,
    ]);
    let (asked, pauses) = pauses(answers).await;
    assert_eq!(
        asked[9..],
        ["watch 1", "stream", "stream", "stream", "stream"]
    );
    let is_after = |pause: Duration, seconds: u32| {
        (seconds * SECOND..=seconds * SECOND * 3 / 2 + SECOND / 10).contains(&pause)
    };
    assert!(
        is_after(pauses[10], 1) && is_after(pauses[11], 1),
        "{pauses:?}"
    );
    assert!(is_after(pauses[12], 2), "{pauses:?}");
}
