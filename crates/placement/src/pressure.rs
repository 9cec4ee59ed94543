//! Pressure of a node by its conditions, taints and evictd's annotation.

use evictd_pod::pressure::{CLOSE_TO, DISK, MEMORY, Names, PID};
use evictd_pod::wire;

/// A condition's bit is its index.
pub(crate) const CONDITIONS: [Names; 3] = [MEMORY, DISK, PID];

/// Pressure of a node, a bit each for memory, disk and PIDs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// evictd's condition or taint.
    pub(crate) agent: u8,
    /// The kubelet's condition.
    pub(crate) kubelet: u8,
    /// evictd reports that a threshold is close.
    pub(crate) close: u8,
}

impl Pressure {
    /// Reads the pressure of a `Node` object.
    pub(crate) fn of(node: &evictd_pod::Node) -> Self {
        let holds = |kind: &str| {
            let mut conditions = node.status.conditions.iter();
            conditions.any(|condition| condition.holds(kind))
        };
        let tainted = |key: &str| node.spec.taints.iter().any(|taint| taint.key == key);
        let close = node.metadata.annotations.get(CLOSE_TO);
        let close = close.unwrap_or_default();
        let mut pressure = Self::default();
        for (index, names) in CONDITIONS.into_iter().enumerate() {
            let Names {
                kubelet,
                agent,
                taint,
            } = names;
            let bit = |is: bool| u8::from(is) << index;
            pressure.kubelet |= bit(holds(kubelet));
            pressure.agent |= bit(holds(agent) || tainted(taint));
            pressure.close |= bit(close.split(',').any(|resource| resource.trim() == kubelet));
        }
        pressure
    }

    /// Converts back to the conditions and annotation that [`Pressure::of`] reads.
    pub(crate) fn to_wire(self) -> (Vec<wire::Condition>, Option<String>) {
        let holding = |kind: &'static str| wire::Condition {
            kind: kind.into(),
            status: true.into(),
            ..wire::Condition::default()
        };
        let (mut conditions, mut close) = (Vec::new(), Vec::new());
        for (index, Names { kubelet, agent, .. }) in CONDITIONS.into_iter().enumerate() {
            let has = |bits: u8| bits >> index & 1 == 1;
            conditions.extend(has(self.kubelet).then(|| holding(kubelet)));
            conditions.extend(has(self.agent).then(|| holding(agent)));
            close.extend(has(self.close).then_some(kubelet));
        }
        (conditions, (!close.is_empty()).then(|| close.join(",")))
    }
}
