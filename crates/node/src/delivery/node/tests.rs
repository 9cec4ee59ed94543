use super::*;
use evictd_cluster_client::Access;
use evictd_testkit::{Actor, ApiServer, Fault};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(20);

/// A Node, its API server, and a reporter under way.
struct Report {
    api: ApiServer,
    admin: Actor,
    wanted: watch::Sender<Option<Pressure>>,
    settles: watch::Sender<bool>,
    settled: watch::Receiver<bool>,
    _stop: oneshot::Sender<()>,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn pressure(raised: ConditionMap<bool>, second: i64) -> Pressure {
    Pressure {
        raised,
        since: ConditionMap::from_fn(|_| at(second)),
        taints: raised,
        close: NONE,
    }
}

/// Disk, memory, process ids.
const MEMORY: ConditionMap<bool> = ConditionMap::from_array([false, true, false]);
const NONE: ConditionMap<bool> = ConditionMap::from_array([false; 3]);

impl Report {
    fn new(taints: &Value, conditions: &Value) -> Self {
        Self::of(ConditionTypes::Own, taints, conditions)
    }

    fn of(types: ConditionTypes, taints: &Value, conditions: &Value) -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "one" },
            "spec": { "taints": taints }, "status": { "conditions": conditions },
        });
        admin.create(node).unwrap();
        let config = kube::Config::new(api.url().parse().unwrap());
        let actions = Access::new("a test".into(), config).actions().unwrap();
        let reporter = NodeReporter::new("one".into(), types, actions, Clock::start());
        let (wanted, pressure) = watch::channel(None);
        let (settles, settled) = watch::channel(false);
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(reporter.run(pressure, settles.clone(), stopped));
        Self {
            api,
            admin,
            wanted,
            settles,
            settled,
            _stop: stop,
        }
    }

    fn node(&self) -> Value {
        self.admin.get("nodes", "one").unwrap()
    }

    fn taints(&self) -> Vec<String> {
        let node = self.node();
        let taints = node["spec"]["taints"].as_array().cloned();
        let word = |taint: Value| {
            let text = |key: &str| taint[key].as_str().unwrap_or_default().to_owned();
            format!("{}:{}", text("key"), text("effect"))
        };
        taints.unwrap_or_default().into_iter().map(word).collect()
    }

    fn condition(&self, kind: &str) -> Value {
        let node = self.node();
        let conditions = node["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions
            .find(|one| one["type"] == kind)
            .unwrap_or_default()
    }

    /// Sends it and waits until the Node is so.
    async fn tell(&mut self, pressure: Pressure) {
        self.settles.send_replace(false);
        self.wanted.send_replace(Some(pressure));
        let settled = self.settled.wait_for(|settled| *settled);
        let settled = tokio::time::timeout(WAIT, settled).await;
        settled.expect("the taints are as they should be").unwrap();
        let shown = |_: &Actor| {
            let shows = |(condition, raised): (NodeCondition, bool)| {
                let of_kubelet = self.condition(condition.as_str());
                let ours = self.condition(condition.own_type());
                let status = if raised { "True" } else { "False" };
                ours["status"] == status || of_kubelet["status"] == status
            };
            let mut all = pressure.raised.into_iter();
            all.all(shows).then_some(())
        };
        let shown = self.admin.wait(WAIT, shown).await;
        shown.expect("the conditions are as they should be");
    }
}

#[tokio::test]
async fn s1_077_s1_078_conditions_of_our_own_stand_beside_the_kubelets() {
    let kubelets = json!({ "type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory" });
    let mut report = Report::new(&Value::Null, &json!([kubelets]));
    report.tell(pressure(NONE, 0)).await;
    let table = [
        ("EvictdMemoryPressure", "KubeletHasSufficientMemory"),
        ("EvictdDiskPressure", "KubeletHasNoDiskPressure"),
        ("EvictdPIDPressure", "KubeletHasSufficientPID"),
    ];
    for (kind, reason) in table {
        let condition = report.condition(kind);
        assert_eq!(condition["status"], "False", "{condition}");
        assert_eq!(condition["reason"], reason);
        assert_eq!(condition["lastTransitionTime"], "2027-01-15T08:00:00Z");
    }
    report.tell(pressure(MEMORY, 5)).await;
    let memory = report.condition("EvictdMemoryPressure");
    assert_eq!(memory["status"], "True");
    assert_eq!(memory["reason"], "KubeletHasInsufficientMemory");
    assert_eq!(memory["lastTransitionTime"], "2027-01-15T08:00:05Z");
    assert!(memory["lastHeartbeatTime"].as_str().unwrap() < "2027");
    let disk = report.condition("EvictdDiskPressure");
    assert_eq!(
        disk["lastTransitionTime"], "2027-01-15T08:00:00Z",
        "it did not change"
    );
    assert_eq!(report.condition("MemoryPressure"), kubelets);
}

#[tokio::test]
async fn a_near_threshold_is_in_an_annotation_while_it_is_near() {
    let mut report = Report::new(&json!([]), &json!([]));
    let close_to = |report: &Report| report.node()["metadata"]["annotations"][CLOSE_TO].clone();
    report.tell(pressure(NONE, 1)).await;
    assert!(close_to(&report).is_null(), "a calm node has none");
    for (close, shown) in [
        (
            ConditionMap::from_array([true, true, false]),
            json!("DiskPressure,MemoryPressure"),
        ),
        (MEMORY, json!("MemoryPressure")),
        (NONE, Value::Null),
    ] {
        let pressure = Pressure {
            close,
            ..pressure(NONE, 1)
        };
        report.tell(pressure).await;
        let found = |_: &Actor| (close_to(&report) == shown).then_some(());
        let found = report.admin.wait(WAIT, found).await;
        found.unwrap_or_else(|| panic!("{} in place of {shown}", close_to(&report)));
    }
    assert_eq!(report.taints(), [""; 0]);
}

#[tokio::test]
async fn taints_come_and_go_and_those_of_others_stay() {
    let foreign = json!({ "key": "team", "value": "a", "effect": "NoExecute" });
    let mut report = Report::new(&json!([foreign]), &Value::Null);
    report
        .tell(pressure(ConditionMap::from_fn(|_| true), 0))
        .await;
    let ours =
        ["disk", "memory", "pid"].map(|what| format!("evictd.dev/{what}-pressure:NoSchedule"));
    assert_eq!(report.taints()[0], "team:NoExecute");
    assert_eq!(report.taints()[1..], ours);
    report.tell(pressure(NONE, 1)).await;
    assert_eq!(report.node()["spec"]["taints"], json!([foreign]));
    let dry = Pressure {
        taints: NONE,
        ..pressure(MEMORY, 2)
    };
    report.tell(dry).await;
    assert_eq!(report.taints(), ["team:NoExecute"]);
}

#[tokio::test]
async fn a_taint_that_somebody_adds_between_our_reading_and_writing_stays() {
    let mut report = Report::new(&Value::Null, &Value::Null);
    let slow = Fault::delay(Duration::from_millis(500));
    report.api.fault(slow.on("patch", "nodes").times(1));
    report.wanted.send_replace(Some(pressure(MEMORY, 0)));
    // It has read the list, and its write is on the way.
    let read = |_: &Actor| {
        let log = report.api.log();
        log.iter().any(|entry| entry.verb == "get").then_some(())
    };
    report.admin.wait(WAIT, read).await.expect("it reads");
    let foreign = json!([{ "key": "team", "effect": "NoSchedule" }]);
    report
        .admin
        .merge("nodes", "one", json!({ "spec": { "taints": foreign } }))
        .unwrap();
    let settled = report.settled.wait_for(|settled| *settled);
    tokio::time::timeout(WAIT, settled).await.unwrap().unwrap();
    assert_eq!(
        report.taints(),
        ["team:NoSchedule", "evictd.dev/memory-pressure:NoSchedule"]
    );
    let conflicts = report.api.log();
    let conflicts = conflicts.iter().filter(|entry| entry.status == 422);
    assert_eq!(conflicts.count(), 1);
}

#[tokio::test]
async fn a_taint_stands_before_its_condition_and_needs_one_request() {
    let foreign = json!({ "key": "team", "effect": "NoSchedule" });
    for taints in [Value::Null, json!([foreign])] {
        let mut report = Report::new(&taints, &Value::Null);
        report.tell(pressure(NONE, 0)).await;
        // As a kubelet, which changes the Node's version.
        let labels = json!({ "metadata": { "labels": { "by": "the-kubelet" } } });
        report.admin.merge("nodes", "one", labels).unwrap();
        let hang = Fault::delay(Duration::from_mins(10));
        report.api.fault(hang.on("patch", "nodes/status"));
        let before = report.api.log().len();
        report.settles.send_replace(false);
        report.wanted.send_replace(Some(pressure(MEMORY, 1)));
        let settled = report.settled.wait_for(|settled| *settled);
        tokio::time::timeout(WAIT, settled).await.unwrap().unwrap();
        let ours = "evictd.dev/memory-pressure:NoSchedule".to_owned();
        assert_eq!(report.taints().last(), Some(&ours), "{taints}");
        assert_eq!(report.condition("EvictdMemoryPressure")["status"], "False");
        let log = report.api.log();
        // Nodes are counted beside it; and the conditions told first stand a moment before their request is in the log.
        let ours = log[before..]
            .iter()
            .filter(|entry| entry.what == "nodes" && entry.verb != "list");
        let asked: Vec<_> = ours.map(|entry| entry.verb).collect();
        assert_eq!(asked, ["patch"], "{taints}");
    }
}

#[tokio::test]
async fn the_conditions_that_a_crash_left_behind_are_corrected() {
    let stale = json!([
        { "key": "evictd.dev/memory-pressure", "effect": "NoSchedule" },
        { "key": "evictd.dev/disk-pressure", "effect": "NoSchedule" },
    ]);
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let conditions = json!([
        condition("EvictdMemoryPressure"),
        condition("EvictdDiskPressure")
    ]);
    let mut report = Report::new(&stale, &conditions);
    report.tell(pressure(MEMORY, 0)).await;
    assert_eq!(report.taints(), ["evictd.dev/memory-pressure:NoSchedule"]);
    let memory = report.condition("EvictdMemoryPressure");
    assert_eq!(
        memory["lastTransitionTime"], "2026-01-01T00:00:00Z",
        "it still holds"
    );
    let disk = report.condition("EvictdDiskPressure");
    assert_eq!(
        (&disk["status"], &disk["lastTransitionTime"]),
        (&json!("False"), &json!("2027-01-15T08:00:00Z"))
    );
}

#[tokio::test]
async fn a_failed_report_is_repeated_later() {
    let mut report = Report::new(&Value::Null, &Value::Null);
    report.api.fault(Fault::answer(500).times(4));
    report.tell(pressure(MEMORY, 0)).await;
    assert_eq!(report.condition("EvictdMemoryPressure")["status"], "True");
    assert_eq!(report.taints().len(), 1);
}

#[tokio::test]
async fn the_standard_types_are_refused_while_a_kubelet_lives() {
    let now = format!("{:.0}", Clock::start().now());
    let ready = |status: &str, heartbeat: &str| json!([{ "type": "Ready", "status": status, "lastHeartbeatTime": heartbeat }]);
    let lease = |renewed: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "one", "namespace": "kube-node-lease" },
            "spec": { "renewTime": renewed },
        })
    };
    let long_ago = "2026-01-01T00:00:00.000000Z";
    let table = [
        (ready("True", &now), None, true),
        (ready("Unknown", &now), Some(now.as_str()), true),
        (ready("Unknown", &now), Some(long_ago), false),
        (ready("True", long_ago), None, false),
        (Value::Null, None, false),
    ];
    for (conditions, renewed, refused) in table {
        let case = format!("{conditions} {renewed:?}");
        let mut report = Report::of(ConditionTypes::Standard, &Value::Null, &conditions);
        if let Some(renewed) = renewed {
            report.admin.create(lease(renewed)).unwrap();
        }
        if refused {
            report.wanted.send_replace(Some(pressure(MEMORY, 0)));
            let asked = |_: &Actor| (report.api.log().len() >= 3).then_some(());
            report
                .admin
                .wait(WAIT, asked)
                .await
                .expect("it asks, and asks again");
            assert_eq!(report.condition("MemoryPressure"), Value::Null, "{case}");
        } else {
            report.tell(pressure(MEMORY, 0)).await;
            assert_eq!(
                report.condition("MemoryPressure")["status"],
                "True",
                "{case}"
            );
        }
        assert!(report.taints().is_empty(), "{case}");
    }
}

#[test]
fn only_a_list_that_differs_is_written() {
    let ours = json!({ "key": "evictd.dev/pid-pressure", "effect": "NoSchedule" });
    let foreign = json!({ "key": "evictd.dev/other", "effect": "NoSchedule" });
    let list = [foreign.clone(), ours.clone()];
    assert_eq!(changed(&list, &["evictd.dev/pid-pressure"]), None);
    assert_eq!(changed(&list, &[]), Some(vec![foreign.clone()]));
    let wrong = json!({ "key": "evictd.dev/pid-pressure", "effect": "NoExecute" });
    assert_eq!(
        changed(&[wrong], &["evictd.dev/pid-pressure"]),
        Some(vec![ours])
    );
}

/// A reporter whose every step the test takes itself.
fn by_hand(api: &ApiServer, fleet: &Fleet) -> NodeReporter {
    let config = kube::Config::new(api.url().parse().unwrap());
    let actions = Access::new("a test".into(), config).actions().unwrap();
    NodeReporter::new("one".into(), ConditionTypes::Own, actions, Clock::start())
        .sharing(fleet.clone(), NodeHeartbeat::default())
}

#[tokio::test]
async fn a_heartbeat_is_one_request_and_still_puts_taints_right() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let node =
        |name: &str| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    for name in ["one", "three", "two"] {
        admin.create(node(name)).unwrap();
    }
    let fleet = Fleet::default();
    let mut reporter = by_hand(&api, &fleet);
    let asked = |since: usize| -> Vec<&'static str> {
        api.log()[since..].iter().map(|entry| entry.verb).collect()
    };
    let calm = pressure(NONE, 0);
    reporter.report(&calm, || {}).await.unwrap();
    let first = reporter.next_write(calm, Ok(()));
    assert!(first < CALM_HEARTBEAT, "at any moment of the first period");
    reporter.count().await;
    assert_eq!(fleet.spread(), Fleet::of(3).spread());

    let before = api.log().len();
    reporter.report(&calm, || {}).await.unwrap();
    assert_eq!(reporter.next_write(calm, Ok(())), CALM_HEARTBEAT);
    reporter.count().await;
    assert_eq!(
        asked(before),
        ["patch"],
        "and nodes are counted once an hour"
    );

    let stale = json!([{ "key": "evictd.dev/disk-pressure", "effect": "NoSchedule" }]);
    admin
        .merge("nodes", "one", json!({ "spec": { "taints": stale } }))
        .unwrap();
    let before = api.log().len();
    reporter.report(&calm, || {}).await.unwrap();
    assert_eq!(asked(before), ["patch", "patch"]);
    let node = admin.get("nodes", "one").unwrap();
    assert_eq!(node["spec"]["taints"], json!([]));
}

#[tokio::test]
async fn a_calm_node_waits_its_turn_and_one_under_pressure_does_not() {
    let api = ApiServer::start().unwrap();
    let mut reporter = by_hand(&api, &Fleet::of(5000));
    let failed = || Err(ReportError::Kubelet("one".into()));
    let turn = Duration::from_mins(10);
    let calm = pressure(NONE, 0);
    reporter.next_write(calm, Ok(()));
    assert_eq!(reporter.next_write(calm, failed()), turn);
    let short = |wait: Duration| wait <= Duration::from_secs(30);
    assert!(short(reporter.next_write(pressure(MEMORY, 1), failed())));
    reporter.next_write(pressure(MEMORY, 1), Ok(()));
    assert!(
        short(reporter.next_write(calm, failed())),
        "what was raised is to be taken back"
    );
    reporter.next_write(calm, Ok(()));
    assert_eq!(reporter.next_write(calm, failed()), turn);
}

#[tokio::test]
async fn the_nodes_annotation_pauses_as_long_as_it_is_there() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let node = |reason: Value| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "one", "annotations": { "evictd.dev/paused": reason } },
        })
    };
    admin.create(node(json!("true"))).unwrap();
    let mut reporter = by_hand(&api, &Fleet::default());
    let paused = reporter.paused();
    let reason = || paused.borrow().as_ref().map(|pause| pause.reason.clone());
    // What is read at the start, ...
    reporter.report(&pressure(NONE, 0), || {}).await.unwrap();
    assert_eq!(reason().as_deref(), Some(""));
    // ... while nothing is written, ...
    admin.merge("nodes", "one", node(json!("a drill"))).unwrap();
    reporter.read_annotations().await;
    assert_eq!(reason().as_deref(), Some("a drill"));
    // ... and what a heartbeat is answered with.
    admin.merge("nodes", "one", node(Value::Null)).unwrap();
    reporter.report(&pressure(NONE, 0), || {}).await.unwrap();
    assert_eq!(reason(), None);
    // A server that is away takes nothing back.
    admin.merge("nodes", "one", node(json!("a drill"))).unwrap();
    reporter.read_annotations().await;
    api.go_away();
    reporter.read_annotations().await;
    assert_eq!(reason().as_deref(), Some("a drill"));
}
