//! The text of `evictd man` beyond the command line itself.

use clap::Command;
use evictd_command::{Manual, Page};
use evictd_node_config::documented;

/// The paths in the packages, which are also the defaults of the configuration.
const FILES: [(&str, &str); 8] = [
    (
        "/etc/evictd/evictd.yaml",
        "The configuration: evictd.yaml(5).",
    ),
    (
        "/etc/evictd/conf.d/*.yaml",
        "Drop-ins: they override it key by key, in the order of their names.",
    ),
    (
        "/etc/evictd/manifests",
        "Manifests of this node's pods, for pods.source: manifests.",
    ),
    ("/usr/share/evictd/presets", "Example configurations."),
    (
        "/run/evictd/evictd.sock",
        "The socket of the running daemon, for root and the group evictd.",
    ),
    (
        "/run/evictd",
        "The last known pods, a pause, and decisions that are not on disk yet.",
    ),
    ("/var/lib/evictd", "The history of decisions."),
    (
        "$KUBECONFIG, ~/.kube/config",
        "Access to the API server, unless kubernetes.kubeconfig names another.",
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
         A key with a dot is nested: pods.source is written as source below pods.",
        "Files in /etc/evictd/conf.d override it key by key, in the order of their names; maps by signal are merged.",
        "A KubeletConfiguration can be used instead; evictd then decides as the kubelet does.",
        "`evictd check-config FILE` reports every mistake, the settings in force, and where each came from; \
         `systemctl reload evictd` applies a changed file.",
    ];
    Page::of_settings(
        "evictd.yaml",
        "the configuration of evictd",
        &paragraphs,
        &settings,
    )
}
