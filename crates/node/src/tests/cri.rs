//! Terminations by a container runtime, however it behaves.

use crate::cgroup_support::TestCgroup;
use crate::evict::{Evict, LocalEvictor};
use crate::evictor_support::{evictor, victim};
use evictd_cri::{Client, Settings};
use evictd_kernel::kill::{GraceCut, Method};
use evictd_testkit::cri::{Behaviour, Double, State, wire};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const SLEEPER: &str = "echo ready; exec sleep 600";
/// Longer than every bound.
const NEVER: Duration = Duration::from_mins(10);

fn state(uid: &str) -> State {
    let sandbox = |id: &str, uid: &str| wire::Sandbox {
        id: id.to_owned(),
        metadata: Some(wire::SandboxMetadata {
            uid: uid.to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let container = |id: &str, sandbox: &str, state| wire::Container {
        id: id.to_owned(),
        sandbox_id: sandbox.to_owned(),
        state,
        ..Default::default()
    };
    State {
        sandboxes: vec![sandbox("ours", uid), sandbox("theirs", "another")],
        containers: vec![
            container("main", "ours", 1),
            container("ended", "ours", 2),
            container("other", "theirs", 1),
        ],
        ..State::default()
    }
}

#[tokio::test]
async fn a_runtime_stops_the_pod_and_no_other_and_delays_the_kill_by_no_more_than_its_bound() {
    let test = "a_runtime_stops_the_pod_and_no_other";
    let (second, none) = (Duration::from_secs(1), Duration::ZERO);
    let slow = || Behaviour::Slow(NEVER);
    // The behaviour of a call, the grace period, who ended the pod, and whether SIGKILL was needed.
    let table = [
        (None, second, Some(Method::TornDown), false),
        (Some(("StopContainer", slow())), second, None, true),
        (
            Some(("ListContainers", slow())),
            second,
            Some(Method::Terminated),
            false,
        ),
        (
            Some(("StopContainer", Behaviour::Refuse(2, "no"))),
            second,
            Some(Method::Terminated),
            false,
        ),
        (
            Some(("StopPodSandbox", slow())),
            second,
            Some(Method::TornDown),
            false,
        ),
        (Some(("ListContainers", slow())), none, None, true),
    ];
    for (behaviour, grace, method, killed) in table {
        let Some(mut group) = TestCgroup::new(test, &["memory"]) else {
            return;
        };
        group.script("pod/app", SLEEPER);
        let victim = victim(&group);
        let double = Double::start(state(&victim.uid)).unwrap();
        let named = format!("{behaviour:?} {grace:?}");
        if let Some((call, behaviour)) = behaviour.clone() {
            double.behave(call, behaviour);
        }
        let runtime = Client::new(Settings {
            endpoint: Some(double.socket().display().to_string()),
            ..Settings::default()
        });
        let evictor = LocalEvictor {
            cgroups: Arc::new(evictor(&group)),
            runtime: Some(runtime.unwrap()),
        };
        let began = Instant::now();
        let cut = GraceCut::default();
        let ended = evictor.evict(&victim, grace, &cut).await.unwrap();
        let took = began.elapsed();
        assert!(took < grace + Duration::from_secs(2), "{named}: {took:?}");
        assert!(ended.gone_at.is_some(), "{named}: {ended:?}");
        assert_eq!(ended.killed_at.is_some(), killed, "{named}: {ended:?}");
        if let Some(method) = method {
            assert_eq!(ended.method, method, "{named}");
        }
        if behaviour.is_none() {
            assert_eq!(
                double.change(|state| state.stopped.clone()),
                [("main".to_owned(), 1)]
            );
            let deadline = Instant::now() + Duration::from_secs(20);
            while double.change(|state| state.sandboxes[0].state) == 0 {
                assert!(Instant::now() < deadline, "the sandbox is not stopped");
                tokio::task::yield_now().await;
            }
            assert_eq!(double.change(|state| state.sandboxes[1].state), 0);
        }
    }
}

#[tokio::test]
async fn a_hard_threshold_cuts_the_grace_short_while_the_runtime_stops_the_pod() {
    let test = "a_hard_threshold_cuts_the_grace_short";
    for call in ["ListContainers", "StopContainer"] {
        let Some(mut group) = TestCgroup::new(test, &["memory"]) else {
            return;
        };
        group.script("pod/app", SLEEPER);
        let victim = victim(&group);
        let double = Double::start(state(&victim.uid)).unwrap();
        double.behave(call, Behaviour::Hang);
        let runtime = Client::new(Settings {
            endpoint: Some(double.socket().display().to_string()),
            ..Settings::default()
        });
        let evictor = LocalEvictor {
            cgroups: Arc::new(evictor(&group)),
            runtime: Some(runtime.unwrap()),
        };
        let cut = GraceCut::default();
        let began = Instant::now();
        let (ended, ()) = tokio::join!(evictor.evict(&victim, NEVER, &cut), async {
            while double.calls(call) == 0 {
                tokio::task::yield_now().await;
            }
            cut.cut_grace();
        });
        let ended = ended.unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "{call}");
        assert!(
            ended.killed_at.is_some() && ended.gone_at.is_some(),
            "{call}: {ended:?}"
        );
    }
}
