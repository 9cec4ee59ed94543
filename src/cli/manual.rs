//! The text of `evictd man` beyond the command line itself.

use clap::Command;
use evictd_command::{Manual, Page};
use evictd_node::config::documented;

/// The paths in the packages, which are also the defaults of the configuration.
const FILES: [(&str, &str); 8] = [
    (
        "/etc/evictd/evictd.yaml",
        "The configuration: evictd.yaml(5).",
    ),
    (
        "/etc/evictd/conf.d/*.yaml",
        "What comes on top of it, in the order of the names, key by key.",
    ),
    (
        "/etc/evictd/manifests",
        "Manifests of this node's pods, where they come from no cluster (pods.source: manifests).",
    ),
    ("/usr/share/evictd/presets", "Configurations to begin with."),
    (
        "/run/evictd/evictd.sock",
        "Where the running daemon is asked; the group evictd may.",
    ),
    (
        "/run/evictd",
        "The pods last known, a pause, and decisions that no disk has yet.",
    ),
    ("/var/lib/evictd", "The history of decisions."),
    (
        "$KUBECONFIG, ~/.kube/config",
        "How to reach the API server, where kubernetes.kubeconfig says nothing else.",
    ),
];

/// Every page of this command line, and that of the configuration.
pub(super) fn manual(command: Command) -> Manual {
    Manual::new(command).files(&FILES).page(configuration())
}

/// evictd.yaml(5), from the table of keys.
fn configuration() -> Page {
    let settings: Vec<_> = documented()
        .map(|setting| {
            let meaning = format!("{} Default: {}", setting.why, setting.default);
            (setting.key.to_owned(), meaning)
        })
        .collect();
    let paragraphs = [
        "YAML that begins with apiVersion: evictd.dev/v1alpha1 and kind: EvictionConfiguration. Every key may be left out. \
         A key with a point is written below the one before the point.",
        "Files in /etc/evictd/conf.d come on top, in the order of their names, key by key; maps by signal are merged.",
        "A KubeletConfiguration is taken in its place: then evictd decides as the kubelet does.",
        "`evictd check-config FILE` tells every mistake, what takes effect, and where each setting came from; \
         `systemctl reload evictd` takes a changed file over.",
    ];
    Page::of_settings(
        "evictd.yaml",
        "the configuration of evictd",
        &paragraphs,
        &settings,
    )
}
