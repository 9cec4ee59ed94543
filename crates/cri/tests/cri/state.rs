//! The state of the runtime in memory: one object of every kind, with all fields set.

use evictd_testkit::cri::{State, wire};

pub(crate) fn count(value: u64) -> wire::Count {
    wire::Count { value }
}

pub(crate) fn text(words: &[(&str, &str)]) -> wire::Words {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    words.iter().map(pair).collect()
}

pub(crate) fn layer() -> wire::FilesystemUsage {
    wire::FilesystemUsage {
        timestamp: 1_000_000_000,
        identifier: Some(wire::FilesystemIdentifier {
            mountpoint: "/var/lib/x".to_owned(),
        }),
        used_bytes: Some(count(4096)),
        inodes_used: Some(count(3)),
    }
}

pub(crate) fn container_stats() -> wire::ContainerStats {
    wire::ContainerStats {
        attributes: Some(wire::ContainerAttributes {
            id: "c1".to_owned(),
            metadata: Some(wire::ContainerMetadata {
                name: "main".to_owned(),
                attempt: 2,
            }),
        }),
        cpu: Some(wire::CpuUsage {
            timestamp: 1,
            usage_core_nano_seconds: Some(count(7)),
        }),
        memory: Some(wire::MemoryUsage {
            timestamp: 1,
            working_set_bytes: Some(count(100)),
            usage_bytes: Some(count(200)),
            rss_bytes: None,
        }),
        writable_layer: Some(layer()),
    }
}

pub(crate) fn state() -> State {
    let metadata = Some(wire::SandboxMetadata {
        name: "web\n0".to_owned(),
        uid: "u1".to_owned(),
        namespace: "shop".to_owned(),
        attempt: 1,
    });
    State {
        version: wire::VersionResponse {
            runtime_name: "double".to_owned(),
            runtime_version: "1.2".to_owned(),
            runtime_api_version: "v1".to_owned(),
        },
        conditions: vec![wire::RuntimeCondition {
            kind: "NetworkReady".to_owned(),
            status: false,
            reason: "NoPlugin".to_owned(),
            message: "no plugin".to_owned(),
        }],
        info: text(&[("config", "{}")]),
        config: wire::RuntimeConfigResponse {
            linux: Some(wire::LinuxRuntimeConfiguration { cgroup_driver: 1 }),
        },
        sandboxes: vec![wire::Sandbox {
            id: "s1".to_owned(),
            metadata: metadata.clone(),
            created_at: 1_500_000_000,
            labels: text(&[("app", "web")]),
            annotations: text(&[("note", "a\nb")]),
            runtime_handler: "runsc".to_owned(),
            state: 0,
        }],
        containers: vec![wire::Container {
            id: "c1".to_owned(),
            sandbox_id: "s1".to_owned(),
            metadata: Some(wire::ContainerMetadata {
                name: "main".to_owned(),
                attempt: 2,
            }),
            image: Some(wire::ImageSpec {
                image: "shop/web:1".to_owned(),
            }),
            image_ref: "sha256:ref".to_owned(),
            image_id: "sha256:id".to_owned(),
            state: 1,
            created_at: 2_000_000_000,
            labels: text(&[("l", "1")]),
            annotations: text(&[("a", "2")]),
        }],
        statuses: vec![wire::ContainerStatus {
            id: "c1".to_owned(),
            started_at: 3,
            finished_at: 4,
            exit_code: 137,
            reason: "OOMKilled".to_owned(),
            message: "killed".to_owned(),
            log_path: "/var/log/pods/x/0.log".to_owned(),
            resources: Some(wire::ContainerResources {
                linux: Some(wire::LinuxResources {
                    cpu_period: 100_000,
                    cpu_quota: -1,
                    cpu_shares: 512,
                    memory_limit_in_bytes: 1 << 20,
                    oom_score_adj: 900,
                }),
            }),
            ..Default::default()
        }],
        sandbox_stats: vec![wire::SandboxStats {
            attributes: Some(wire::SandboxAttributes {
                id: "s1".to_owned(),
                metadata,
            }),
            linux: Some(wire::LinuxSandboxStats {
                cpu: None,
                memory: None,
                process: Some(wire::ProcessUsage {
                    process_count: Some(count(5)),
                }),
                containers: vec![container_stats()],
            }),
        }],
        container_stats: vec![container_stats()],
        images: vec![wire::Image {
            id: "sha256:id".to_owned(),
            repo_tags: vec!["shop/web:1".to_owned()],
            repo_digests: vec!["shop/web@sha256:d".to_owned()],
            size: 5_000_000_000,
            uid: Some(wire::Uid { value: 0 }),
            username: String::new(),
            pinned: true,
        }],
        filesystems: wire::ImageFsInfo {
            images: vec![layer()],
            containers: vec![],
        },
        stopped: vec![],
    }
}
