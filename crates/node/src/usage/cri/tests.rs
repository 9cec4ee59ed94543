use super::*;
use evictd_cri::Settings;
use evictd_testkit::cri::{Behaviour, Double, State, wire};

fn count(value: u64) -> Option<wire::Count> {
    Some(wire::Count { value })
}

fn memory(working_set: u64, usage: u64) -> Option<wire::MemoryUsage> {
    Some(wire::MemoryUsage {
        timestamp: 7_000_000_000,
        working_set_bytes: count(working_set),
        usage_bytes: count(usage),
        rss_bytes: None,
    })
}

fn metadata(uid: &str) -> Option<wire::SandboxMetadata> {
    Some(wire::SandboxMetadata {
        uid: uid.to_owned(),
        ..Default::default()
    })
}

fn sandbox(uid: &str, memory: Option<wire::MemoryUsage>) -> wire::SandboxStats {
    wire::SandboxStats {
        attributes: Some(wire::SandboxAttributes {
            id: uid.to_owned(),
            metadata: metadata(uid),
        }),
        linux: Some(wire::LinuxSandboxStats {
            memory,
            ..Default::default()
        }),
    }
}

async fn of(double: &Double) -> Result<Vec<(String, Option<i64>, Option<i64>)>, String> {
    let runtime = Client::new(Settings {
        endpoint: Some(double.socket().display().to_string()),
        ..Settings::default()
    });
    let usage = usage(&runtime.unwrap()).await?;
    let mut all: Vec<_> = usage
        .into_iter()
        .map(|(uid, pod)| (uid, pod.working_set, pod.time.map(|at| at.as_second())))
        .collect();
    all.sort();
    Ok(all)
}

#[tokio::test]
async fn figures_that_contradict_are_left_out() {
    let state = State {
        sandbox_stats: vec![
            sandbox("good", memory(5, 6)),
            sandbox("more than all", memory(7, 6)),
            sandbox("beyond", memory(u64::MAX, u64::MAX)),
            sandbox("twice", memory(5, 6)),
            sandbox("twice", memory(1, 6)),
            sandbox("uncounted", None),
            sandbox("", memory(5, 6)),
        ],
        ..State::default()
    };
    let double = Double::start(state).unwrap();
    assert_eq!(
        of(&double).await,
        Ok(vec![("good".to_owned(), Some(5), Some(7))])
    );
}

#[tokio::test]
async fn without_figures_of_pods_those_of_their_containers_are_added_if_all_are_known() {
    let container = |id: &str, sandbox: &str| wire::Container {
        id: id.to_owned(),
        sandbox_id: sandbox.to_owned(),
        state: 1,
        ..Default::default()
    };
    let stats = |id: &str, working_set| wire::ContainerStats {
        attributes: Some(wire::ContainerAttributes {
            id: id.to_owned(),
            ..Default::default()
        }),
        memory: memory(working_set, 100),
        ..Default::default()
    };
    let pod = |uid: &str| wire::Sandbox {
        id: uid.to_owned(),
        metadata: metadata(uid),
        ..Default::default()
    };
    let state = State {
        sandboxes: vec![pod("whole"), pod("partial")],
        containers: vec![
            container("a", "whole"),
            container("b", "whole"),
            container("c", "partial"),
            container("d", "partial"),
        ],
        container_stats: vec![stats("a", 2), stats("b", 3), stats("c", 4)],
        ..State::default()
    };
    let double = Double::start(state).unwrap();
    double.behave("ListPodSandboxStats", Behaviour::Unimplemented);
    assert_eq!(
        of(&double).await,
        Ok(vec![("whole".to_owned(), Some(5), Some(7))])
    );
    double.behave("ListContainerStats", Behaviour::Unimplemented);
    let problem = of(&double).await.unwrap_err();
    assert_eq!(problem, "it counts neither pods nor containers");
}
