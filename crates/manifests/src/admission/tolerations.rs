//! The plugin `DefaultTolerationSeconds`: pods stay five minutes on a node that is lost.

use evictd_pod::wire::Toleration;

const LOST: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];
const NO_EXECUTE: &str = "NoExecute";
const SECONDS: i64 = 300;

pub(super) fn tolerate_lost_nodes(tolerations: &mut Vec<Toleration>) {
    for key in LOST {
        let covers = |known: &Toleration| {
            let effect = known.effect.is_empty() || known.effect == NO_EXECUTE;
            effect && (known.key.is_empty() || known.key == key)
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                effect: NO_EXECUTE.to_owned(),
                toleration_seconds: Some(SECONDS),
                ..Toleration::default()
            });
        }
    }
}
