//! The rows of behaviour of the queue controller.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "so that JSON is written where it is used"
)]

use evictd_batch_jobs::queue::{Procedure, Wanted, procedure};
use evictd_batch_jobs::reconcile::QueueCase;
use evictd_batch_objects::QueueState;
use evictd_batch_objects::bus::Action;
use proptest::prelude::*;
use serde_json::{Value, json};

fn queue(name: &str, parent: &str, state: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"state": state}})
}

fn marked(mut queue: Value) -> Value {
    queue["metadata"]["annotations"] = json!({"volcano.sh/closed-by-parent": "true"});
    queue
}

fn group(name: &str, phase: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ml"}, "spec": {"queue": "q"}, "status": {"phase": phase}})
}

fn answer(case: Value) -> Value {
    let case: QueueCase = serde_json::from_value(case).unwrap();
    serde_json::to_value(case.answer().unwrap()).unwrap()
}

/// A request to `q`.
fn asked(queues: Value, groups: Value, action: &str) -> Value {
    let request = json!({"queueName": "q", "event": "OutOfSync", "action": action});
    answer(json!({"queues": queues, "podGroups": groups, "request": request}))
}

fn tree(state: &str) -> Value {
    json!([queue("root", "", "Open"), queue("q", "root", state)])
}

fn state<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer["queues"][name]["state"].as_str().unwrap()
}

fn handled(handler: &str, old: Value, new: Value) -> Value {
    let groups = json!([group("first", "Running")]);
    answer(
        json!({"queues": tree("Open"), "podGroups": groups, "handler": handler, "old": old, "new": new}),
    )
}

#[test]
fn s6_063_queues_and_groups_that_change_ask_for_a_synchronisation() {
    let sync = json!([{"queueName": "q", "event": "OutOfSync", "action": "SyncQueue"}]);
    let (old, new) = (queue("q", "root", "Open"), queue("q", "other", "Open"));
    assert_eq!(
        handled("addQueue", Value::Null, old.clone())["requests"],
        sync
    );
    assert_eq!(handled("updateQueue", old.clone(), new)["requests"], sync);
    assert_eq!(
        handled("updateQueue", old.clone(), queue("q", "root", "Closed"))["requests"],
        json!([])
    );
    let deleted = handled("deleteQueue", old, Value::Null);
    assert_eq!(deleted, json!({"requests": [], "podGroupsOfQueue": {}}));
    let added = handled("addPodGroup", Value::Null, group("second", "Pending"));
    assert_eq!(
        added,
        json!({"requests": sync, "podGroupsOfQueue": {"q": ["ml/first", "ml/second"]}})
    );
    let changed = handled(
        "updatePodGroup",
        group("first", "Pending"),
        group("first", "Running"),
    );
    assert_eq!(changed["requests"], sync);
    let same = handled(
        "updatePodGroup",
        group("first", "Running"),
        group("first", "Running"),
    );
    assert_eq!(same["requests"], json!([]));
    assert_eq!(
        handled("deletePodGroup", group("first", "Running"), Value::Null)["requests"],
        sync
    );
}

fn table(from: QueueState, open: Procedure, close: Procedure, others: Procedure) {
    assert_eq!(procedure(from, &Action::OpenQueue), open);
    assert_eq!(procedure(from, &Action::CloseQueue), close);
    for name in ["SyncQueue", "SyncJob", "AbortJob", "Dance"] {
        assert_eq!(procedure(from, &Action::of(name)), others, "{name}");
    }
}

fn sync(state: QueueState) -> Procedure {
    Procedure::Sync(Wanted::Just(state))
}

#[test]
fn s6_064_an_open_queue_closes_and_stays_open_otherwise() {
    table(
        QueueState::Open,
        sync(QueueState::Open),
        Procedure::Close,
        sync(QueueState::Open),
    );
    assert_eq!(state(&asked(tree(""), json!([]), "SyncQueue"), "q"), "Open");
}

#[test]
fn s6_065_a_closed_queue_opens_and_stays_closed_otherwise() {
    table(
        QueueState::Closed,
        Procedure::Open,
        sync(QueueState::Closed),
        sync(QueueState::Closed),
    );
    assert_eq!(
        state(&asked(tree("Closed"), json!([]), "OpenQueue"), "q"),
        "Open"
    );
}

#[test]
fn s6_066_a_closing_queue_is_closed_once_it_has_no_groups() {
    let closing = Procedure::Sync(Wanted::ClosedWhenEmpty);
    table(QueueState::Closing, Procedure::Open, closing, closing);
}

#[test]
fn s6_067_an_unknown_state_stays_and_one_that_is_none_is_an_error() {
    table(
        QueueState::Unknown,
        Procedure::Open,
        Procedure::Close,
        sync(QueueState::Unknown),
    );
    let answer = asked(tree("Strange"), json!([]), "SyncQueue");
    assert_eq!(answer["error"], "queue q state Strange is invalid");
}

#[test]
fn s6_068_a_queue_closes_at_once_or_when_its_last_group_is_gone() {
    assert_eq!(
        state(&asked(tree("Open"), json!([]), "CloseQueue"), "q"),
        "Closed"
    );
    for phase in ["Completed", "Running", "Pending", ""] {
        let answer = asked(tree("Open"), json!([group("g", phase)]), "CloseQueue");
        assert_eq!(state(&answer, "q"), "Closing");
    }
    // One that is gone unseen counts this time.
    let request = json!({"queueName": "q", "action": "SyncQueue"});
    let stale = json!({"queues": tree("Closing"), "stalePodGroups": [group("g", "Running")], "request": request});
    assert_eq!(state(&answer(stale), "q"), "Closing");
}

#[test]
fn s6_069_a_sync_keeps_a_queue_closing_until_it_is_empty() {
    let answer = asked(tree("Closing"), json!([group("g", "Running")]), "SyncQueue");
    assert_eq!(
        (state(&answer, "q"), &answer["writes"]),
        ("Closing", &json!([]))
    );
    assert_eq!(
        state(&asked(tree("Closing"), json!([]), "SyncQueue"), "q"),
        "Closed"
    );
}

#[test]
fn s6_070_only_a_state_that_changes_is_written_and_a_missing_parent_becomes_root() {
    let queues = json!([queue("root", "", "Open"), queue("q", "", "")]);
    let answer = asked(queues, json!([]), "SyncQueue");
    let writes = answer["writes"].as_array().unwrap();
    assert_eq!(
        writes[0],
        "q  [{\"op\":\"add\",\"path\":\"/spec/parent\",\"value\":\"root\"}]"
    );
    assert!(
        writes[1]
            .as_str()
            .unwrap()
            .ends_with("\"status\":{\"state\":\"Open\"}}")
    );
    assert_eq!(
        (writes.len(), &answer["queues"]["q"]["parent"]),
        (2, &json!("root"))
    );
    assert_eq!(
        asked(tree("Open"), json!([]), "SyncQueue")["writes"],
        json!([])
    );
}

#[test]
fn s6_071_only_a_close_that_changes_the_state_is_told() {
    let events = |state: &str, action: &str| asked(tree(state), json!([]), action)["events"].take();
    assert_eq!(
        events("Open", "CloseQueue"),
        json!(["/q Normal CloseQueue Close queue succeed"])
    );
    assert_eq!(events("Closed", "OpenQueue"), json!([]));
    assert_eq!(events("Closing", "CloseQueue"), json!([]));
}

#[test]
fn s6_072_a_queue_closes_and_opens_with_the_one_above_it() {
    let below = |state: &str| queue("below", "q", state);
    let request =
        |action: &str, name: &str| json!([{"queueName": name, "event": "", "action": action}]);
    // Closing marks those that are open.
    let queues = json!([
        queue("root", "", "Open"),
        queue("q", "root", "Open"),
        below("Open"),
        queue("shut", "q", "Closed")
    ]);
    let closed = asked(queues, json!([]), "CloseQueue");
    assert_eq!(closed["enqueued"], request("CloseQueue", "below"));
    assert_eq!(
        closed["queues"]["below"]["annotations"]["volcano.sh/closed-by-parent"],
        "true"
    );
    assert_eq!(closed["queues"]["shut"]["annotations"], Value::Null);
    // Opening opens those that were marked, and takes back its own mark.
    let queues = json!([
        queue("root", "", "Open"),
        marked(queue("q", "root", "Closed")),
        marked(below("Closed")),
        queue("shut", "q", "Closed")
    ]);
    let opened = asked(queues, json!([]), "OpenQueue");
    assert_eq!(opened["enqueued"], request("OpenQueue", "below"));
    assert_eq!(
        opened["queues"]["q"]["annotations"]["volcano.sh/closed-by-parent"],
        "false"
    );
    // A sync follows the queue above.
    let above = |above: &str, own: Value| {
        let queues = json!([queue("root", "", "Open"), queue("up", "root", above), own]);
        asked(queues, json!([]), "SyncQueue")
    };
    let followed = above("Closing", queue("q", "up", "Open"));
    assert_eq!(followed["enqueued"], request("CloseQueue", "q"));
    assert_eq!(
        above("Open", marked(queue("q", "up", "Closed")))["enqueued"],
        request("OpenQueue", "q")
    );
    assert_eq!(
        above("Open", queue("q", "up", "Closed"))["enqueued"],
        json!([])
    );
    // Not below one that is closed, and never root.
    let queues = json!([queue("up", "root", "Closed"), queue("q", "up", "Closed")]);
    let refused = asked(queues, json!([]), "OpenQueue");
    let why = "sync queue q failed for Failed to open queue q because its parent queue up is closing or closed. Open the parent queue first., event is OutOfSync, action is OpenQueue";
    assert_eq!(refused["error"], why);
    let root = json!({"queueName": "root", "action": "CloseQueue"});
    let root = answer(json!({"queues": tree("Open"), "request": root}));
    assert_eq!((state(&root, "root"), root.get("error")), ("Open", None));
    let lost = asked(json!([queue("q", "gone", "Open")]), json!([]), "SyncQueue");
    assert!(
        lost["error"]
            .as_str()
            .unwrap()
            .contains("queue.scheduling.volcano.sh \"gone\" not found")
    );
}

#[test]
fn s6_073_the_end_of_the_last_group_closes_a_closing_queue() {
    let deleted = handled("deletePodGroup", group("first", "Running"), Value::Null);
    assert_eq!(deleted["requests"][0]["action"], "SyncQueue");
    assert_eq!(deleted["podGroupsOfQueue"], json!({"q": []}));
    assert_eq!(
        state(&asked(tree("Closing"), json!([]), "SyncQueue"), "q"),
        "Closed"
    );
}

proptest! {
    /// Whatever the queues and the request are: an answer, and nothing written that stands there already.
    #[test]
    fn every_request_ends_and_writes_nothing_twice(
        states in prop::collection::vec(0_usize..6, 4),
        parents in prop::collection::vec(0_usize..6, 4),
        action in 0_usize..5,
        marks in prop::collection::vec(any::<bool>(), 4),
    ) {
        let known = ["Open", "Closed", "Closing", "Unknown", "", "Odd"];
        let names = ["root", "q", "a", "b", "", "gone"];
        let actions = ["OpenQueue", "CloseQueue", "SyncQueue", "SyncJob", "x"];
        let queues: Vec<Value> = (0..4).map(|index| {
            let queue = queue(names[index], names[parents[index]], known[states[index]]);
            if marks[index] { marked(queue) } else { queue }
        }).collect();
        let first = asked(json!(queues), json!([]), actions[action]);
        let writes = first["writes"].as_array().unwrap();
        for (index, write) in writes.iter().enumerate() {
            prop_assert!(!writes[..index].contains(write));
        }
    }
}
