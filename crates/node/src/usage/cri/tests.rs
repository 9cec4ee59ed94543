use super::*;
use evictd_cri::Settings;
use evictd_signals::StarvedResource;
use evictd_testkit::cri::{Behaviour, Double, State, wire};

const fn count(value: u64) -> wire::Count {
    wire::Count { value }
}

fn memory(working_set: u64, usage: u64) -> wire::MemoryUsage {
    wire::MemoryUsage {
        timestamp: 7_000_000_000,
        working_set_bytes: Some(count(working_set)),
        usage_bytes: Some(count(usage)),
        rss_bytes: None,
    }
}

fn metadata(uid: &str) -> wire::SandboxMetadata {
    wire::SandboxMetadata {
        uid: uid.to_owned(),
        ..Default::default()
    }
}

fn sandbox(uid: &str, memory: Option<wire::MemoryUsage>) -> wire::SandboxStats {
    wire::SandboxStats {
        attributes: Some(wire::SandboxAttributes {
            id: uid.to_owned(),
            metadata: Some(metadata(uid)),
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
        .map(|(uid, pod)| {
            (
                uid,
                pod.working_set.map(|bytes| bytes.value),
                pod.measured(StarvedResource::Memory)
                    .map(jiff::Timestamp::as_second),
            )
        })
        .collect();
    all.sort();
    Ok(all)
}

#[tokio::test]
async fn figures_that_contradict_are_left_out() {
    let state = State {
        sandbox_stats: vec![
            sandbox("good", Some(memory(5, 6))),
            sandbox("more than all", Some(memory(7, 6))),
            sandbox("beyond", Some(memory(u64::MAX, u64::MAX))),
            sandbox("beyond this machine", Some(memory(1 << 60, 1 << 61))),
            sandbox("twice", Some(memory(5, 6))),
            sandbox("twice", Some(memory(1, 6))),
            sandbox("uncounted", None),
            sandbox("", Some(memory(5, 6))),
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
    let counted = |id: &str, working_set| wire::ContainerStats {
        attributes: Some(wire::ContainerAttributes {
            id: id.to_owned(),
            ..Default::default()
        }),
        memory: Some(memory(working_set, 100)),
        ..Default::default()
    };
    let pod = |uid: &str| wire::Sandbox {
        id: uid.to_owned(),
        metadata: Some(metadata(uid)),
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
        container_stats: vec![counted("a", 2), counted("b", 3), counted("c", 4)],
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

#[tokio::test]
async fn a_number_of_processes_that_no_kernel_has_is_unknown() {
    for (told, expected) in [(7, Some(7)), (0, None), (u64::MAX, None)] {
        let mut stats = sandbox("pod", Some(memory(5, 6)));
        stats.linux.as_mut().unwrap().process = Some(wire::ProcessUsage {
            process_count: Some(count(told)),
        });
        let double = Double::start(State {
            sandbox_stats: vec![stats],
            ..State::default()
        });
        let double = double.unwrap();
        let runtime = Client::new(Settings {
            endpoint: Some(double.socket().display().to_string()),
            ..Settings::default()
        });
        let usage = usage(&runtime.unwrap()).await.unwrap();
        let processes = usage["pod"].processes.map(|count| count.value);
        assert_eq!(processes, expected, "{told}");
    }
}
