//! Candidates against an API server, with durations as short as a Lease can have them.

use super::*;
use crate::{Access, Actions};
use evictd_testkit::{ApiServer, Fault};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// What happens at all happens sooner.
const AT_MOST: Duration = Duration::from_secs(20);
const AT: &str = "kube-system/kube-scheduler";

struct Candidate {
    role: watch::Receiver<Role>,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
    memo: Memo,
}

fn actions(api: &ApiServer) -> Actions {
    let config = kube::Config::new(api.url().parse().unwrap());
    Access::new("a test".into(), config).actions().unwrap()
}

impl Candidate {
    fn start(api: &ApiServer, identity: &str) -> Self {
        let settings = Settings {
            lease_duration: Duration::from_secs(1),
            renew_deadline: Duration::from_millis(600),
            retry_period: Duration::from_millis(50),
            ..Settings::new(identity.to_owned())
        };
        let election = Election::new(settings);
        let within = Duration::from_millis(300);
        let lock = LeaseLock::new(actions(api), "kube-system", "kube-scheduler", within);
        let (lock, memo) = lock.with_memo("example.com/memo");
        let (roles, role) = watch::channel(Role::Candidate(String::new()));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stop = async {
                // A test that forgets the sender has not stopped it.
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            run(election, lock, &roles, stop, Timestamp::now).await;
        });
        Self {
            role,
            stop: Some(stop),
            task,
            memo,
        }
    }

    async fn is(&mut self, role: Role) {
        let reached = self.role.wait_for(|now| *now == role);
        timeout(AT_MOST, reached).await.unwrap().unwrap();
    }
}

fn lease(api: &ApiServer) -> Value {
    api.actor("test").get("leases", AT).unwrap()
}

#[tokio::test]
async fn the_second_takes_over_when_the_first_has_died() {
    let api = ApiServer::start().unwrap();
    let mut first = Candidate::start(&api, "first");
    first.is(Role::Leader).await;
    let mut second = Candidate::start(&api, "second");
    second.is(Role::Candidate("first".to_owned())).await;
    first.task.abort();
    second.is(Role::Leader).await;
    let spec = lease(&api)["spec"].clone();
    assert_eq!(spec["holderIdentity"], "second");
    assert_eq!(
        (&spec["leaseTransitions"], &spec["leaseDurationSeconds"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn the_next_leader_finds_the_text_of_the_one_before() {
    let api = ApiServer::start().unwrap();
    let mut first = Candidate::start(&api, "first");
    first.is(Role::Leader).await;
    assert_eq!(first.memo.found(), None);
    first.memo.write("so far".to_owned());
    let kept = |admin: &evictd_testkit::Actor| {
        let lease = admin.get("leases", AT)?;
        let text = &lease["metadata"]["annotations"]["example.com/memo"];
        (*text == "so far").then_some(())
    };
    api.actor("test").wait(AT_MOST, kept).await.unwrap();
    first.task.abort();
    let mut second = Candidate::start(&api, "second");
    second.is(Role::Leader).await;
    assert_eq!(second.memo.found().as_deref(), Some("so far"));
}

#[tokio::test]
async fn a_clean_stop_hands_over_and_leaves_the_rest_of_the_lease_alone() {
    let api = ApiServer::start().unwrap();
    let mut first = Candidate::start(&api, "first");
    first.is(Role::Leader).await;
    let label = json!({"metadata": {"labels": {"of": "another"}}});
    api.actor("test").merge("leases", AT, label).unwrap();
    let mut second = Candidate::start(&api, "second");
    second.is(Role::Candidate("first".to_owned())).await;
    first.stop.take().unwrap().send(()).unwrap();
    first.is(Role::Released).await;
    second.is(Role::Leader).await;
    assert_eq!(lease(&api)["metadata"]["labels"]["of"], "another");
}

#[tokio::test]
async fn a_leader_without_a_server_is_lost_in_time() {
    let api = ApiServer::start().unwrap();
    let mut leader = Candidate::start(&api, "first");
    leader.is(Role::Leader).await;
    api.go_away();
    leader.is(Role::Lost).await;
    api.come_back();
    Candidate::start(&api, "second").is(Role::Leader).await;
}

#[tokio::test]
async fn a_leader_survives_refused_and_hanging_renewals_and_no_thief() {
    let api = ApiServer::start().unwrap();
    let mut leader = Candidate::start(&api, "first");
    leader.is(Role::Leader).await;
    let before = lease(&api)["spec"]["renewTime"].clone();
    api.fault(Fault::answer(409).on("update", "leases").times(2));
    api.fault(Fault::delay(AT_MOST * 10).on("update", "leases").times(1));
    let renewed = |admin: &evictd_testkit::Actor| {
        let lease = admin.get("leases", AT)?;
        (lease["spec"]["renewTime"] != before).then_some(())
    };
    api.actor("test").wait(AT_MOST, renewed).await.unwrap();
    assert_eq!(*leader.role.borrow(), Role::Leader);
    let stolen = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}});
    api.actor("test").merge("leases", AT, stolen).unwrap();
    leader.is(Role::Lost).await;
    assert_eq!(lease(&api)["spec"]["holderIdentity"], "thief");
}

#[tokio::test]
async fn a_lease_that_makes_no_sense_is_taken() {
    let api = ApiServer::start().unwrap();
    let senseless = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": {"leaseDurationSeconds": -5, "holderIdentity": null, "leaseTransitions": null},
    });
    api.actor("test").create(senseless).unwrap();
    Candidate::start(&api, "first").is(Role::Leader).await;
    assert_eq!(lease(&api)["spec"]["leaseTransitions"], 1);
}
