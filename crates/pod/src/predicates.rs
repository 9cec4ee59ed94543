//! Whether one pod may run on one node, one predicate per function. The kubelet's check calls them one after the other. A
//! scheduler checks thousands of nodes, so it compiles its filters from the same parts.
//!
//! ```
//! use evictd_pod::{Node, Pod, predicates};
//!
//! let wants_ssd = r#"{"spec": {"nodeSelector": {"disk": "ssd"}}}"#;
//! let pod = Pod::from_wire(serde_json::from_str(wants_ssd)?);
//! let node: Node = serde_json::from_str(r#"{"metadata": {"labels": {"disk": "hdd"}}}"#)?;
//! assert!(!predicates::matches_affinity(&pod, &node));
//! # Ok::<(), serde_json::Error>(())
//! ```

use crate::{
    Node, Pod,
    resources::{self, is_sidecar},
    selector::NodeTerm,
    wire::{PodSpec, Taint},
};

pub use crate::toleration::Toleration;

/// Whether the node has every label of the pod's node selector, and meets its required node affinity. An invalid term
/// matches no node.
pub fn matches_affinity(pod: &Pod, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let spec = pod.spec();
    let mut selector = spec.node_selector.iter();
    let affinity = spec.affinity.as_deref();
    let required = affinity.and_then(|affinity| affinity.node_affinity.required.as_ref());
    selector.all(|(key, value)| labels.get(key) == Some(value))
        && required.is_none_or(|required| {
            let mut terms = required.node_selector_terms.iter();
            // Terms are alternatives, and the requirements within a term are not.
            terms.any(|term| {
                let term = NodeTerm::new(term, &mut |text| text);
                term.is_ok_and(|term| term.matches(node.metadata.name.as_str(), &labels))
            })
        })
}

/// Whether the pod names no node or this one. A handwritten node without a name matches every name.
pub fn matches_name(pod: &Pod, node: &Node) -> bool {
    let name = &node.metadata.name;
    pod.node_name.is_empty() || name.is_empty() || pod.node_name == *name
}

/// The first taint with one of these effects that the pod does not tolerate.
pub fn untolerated_taint<'n>(pod: &Pod, node: &'n Node, effects: &[&str]) -> Option<&'n Taint> {
    let mut taints = node.spec.taints.iter();
    taints.find(|taint| {
        effects.contains(&taint.effect.as_str()) && !taint.is_tolerated(&pod.tolerations)
    })
}

/// Whether no other pod has taken one of the host ports that the pod needs.
pub fn ports_are_free<'p>(pod: &Pod, others: impl IntoIterator<Item = &'p Pod>) -> bool {
    let wanted: Vec<_> = host_ports(pod.spec(), |text| text).collect();
    let mut others = others.into_iter();
    // Few pods need a host port, so the others are rarely read.
    wanted.is_empty()
        || !others.any(|other| {
            let mut taken = host_ports(other.spec(), |text| text);
            taken.any(|taken| wanted.iter().any(|wanted| wanted.conflicts(&taken)))
        })
}

/// Too little of a resource is free. Amounts are millicores of cpu, whole units of anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The pod's request.
    pub requested: i64,
    /// The requests of the other pods.
    pub used: i64,
    /// The node's allocatable amount.
    pub capacity: i64,
}

/// The shortage of this resource for the pod beside the others; `None` if it fits. Sums wrap around, as in Kubernetes.
pub fn shortage(pod: &Pod, others: &[&Pod], node: &Node, resource: &str) -> Option<Shortage> {
    let units = |quantity| resources::units(resource, quantity);
    let requested = units(pod.fit_request(resource));
    let used = others
        .iter()
        .map(|other| units(other.fit_request(resource)))
        .fold(0_i64, i64::wrapping_add);
    let allocatable = node.status.allocatable.get(resource).copied();
    let capacity = units(allocatable.unwrap_or_default());
    resources::is_short(requested, capacity, used).then_some(Shortage {
        requested,
        used,
        capacity,
    })
}

/// The shortage if the node takes no further pod beside this many. A node without a limit on pods, which only a handwritten
/// one can be, takes any number.
pub fn too_many_pods(others: usize, node: &Node) -> Option<Shortage> {
    let capacity = node.status.allocatable.get(resources::PODS)?.value();
    let used = i64::try_from(others).unwrap_or(i64::MAX);
    (used >= capacity).then_some(Shortage {
        requested: 1,
        used,
        capacity,
    })
}

/// A host port that a pod takes. `T` is a text, or a number that represents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostPort<T> {
    /// The address on the node; `None` means all addresses.
    pub address: Option<T>,
    /// `TCP`, ...
    pub protocol: T,
    /// Number of the port on the node.
    pub port: i32,
}

impl<T: Copy + PartialEq> HostPort<T> {
    /// Whether both cannot be taken on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        let same = self.protocol == other.protocol && self.port == other.port;
        // A pod that listens on all addresses conflicts with one on any of them.
        let any = self.address.is_none() || other.address.is_none();
        same && (any || self.address == other.address)
    }
}

/// The host ports that the containers and sidecars of a pod take.
pub fn host_ports<'w, T>(
    spec: &'w PodSpec,
    mut of: impl FnMut(&'w str) -> T,
) -> impl Iterator<Item = HostPort<T>> {
    // Other init containers have ended when the pod listens.
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|container| is_sidecar(container));
    let containers = spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container| &container.ports);
    ports.filter(|port| port.host_port > 0).map(move |port| {
        let any = matches!(port.host_ip.as_str(), "" | "0.0.0.0");
        let protocol = match port.protocol.as_str() {
            "" => "TCP",
            protocol => protocol,
        };
        HostPort {
            address: (!any).then(|| of(&port.host_ip)),
            protocol: of(protocol),
            port: port.host_port,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &str) -> Pod {
        Pod::from_wire(serde_json::from_str(&format!(r#"{{"spec":{spec}}}"#)).unwrap())
    }

    fn affinity(terms: &str) -> Pod {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        pod(&format!(
            r#"{{"affinity":{{"nodeAffinity":{{"{required}":{{"nodeSelectorTerms":{terms}}}}}}}}}"#
        ))
    }

    #[test]
    fn which_nodes_required_affinity_means() {
        let node = r#"{"metadata":{"name":"n","labels":{"disk":"ssd","cores":"8"}}}"#;
        let node: Node = serde_json::from_str(node).unwrap();
        let label = |key: &str, operator: &str, values: &str| {
            format!(
                r#"{{"matchExpressions":[{{"key":"{key}","operator":"{operator}","values":[{values}]}}]}}"#
            )
        };
        let field = |operator: &str, name: &str| {
            format!(
                r#"{{"matchFields":[{{"key":"metadata.name","operator":"{operator}","values":["{name}"]}}]}}"#
            )
        };
        let table = [
            (vec![], false),
            (vec!["{}".to_owned()], false),
            (vec![label("disk", "In", r#""hdd","ssd""#)], true),
            (vec![label("disk", "In", r#""hdd""#)], false),
            (vec![label("gpu", "NotIn", r#""a""#)], true),
            (vec![label("disk", "NotIn", r#""ssd""#)], false),
            (vec![label("disk", "Exists", "")], true),
            (vec![label("gpu", "Exists", "")], false),
            (vec![label("gpu", "DoesNotExist", "")], true),
            (vec![label("cores", "Gt", r#""7""#)], true),
            (vec![label("cores", "Lt", r#""8""#)], false),
            (vec![label("disk", "Gt", r#""7""#)], false),
            (vec![field("In", "n")], true),
            (vec![field("In", "m")], false),
            (vec![field("NotIn", "m")], true),
            // One that makes no sense means no node and leaves the others alone.
            (vec![label("disk", "Is", r#""ssd""#)], false),
            (
                vec![label("disk", "Is", r#""ssd""#), field("In", "n")],
                true,
            ),
        ];
        for (terms, matches) in table {
            let terms = format!("[{}]", terms.join(","));
            let found = matches_affinity(&affinity(&terms), &node);
            assert_eq!(found, matches, "{terms}");
        }
        let both = r#"{"nodeSelector":{"disk":"ssd","cores":"8"}}"#;
        assert!(matches_affinity(&pod(both), &node));
        assert!(!matches_affinity(&pod(&both.replace('8', "9")), &node));
    }

    #[test]
    fn which_ports_a_node_cannot_give_twice() {
        let with = |ports: &str| pod(&format!(r#"{{"containers":[{{"ports":[{ports}]}}]}}"#));
        let (any, one) = (
            r#"{"hostPort":80}"#,
            r#"{"hostPort":80,"hostIP":"10.0.0.1"}"#,
        );
        let table = [
            (any, any, false),
            (any, one, false),
            (one, r#"{"hostPort":80,"hostIP":"0.0.0.0"}"#, false),
            (one, one, false),
            (one, r#"{"hostPort":80,"hostIP":"10.0.0.2"}"#, true),
            (any, r#"{"hostPort":80,"protocol":"TCP"}"#, false),
            (any, r#"{"hostPort":80,"protocol":"UDP"}"#, true),
            (any, r#"{"hostPort":81}"#, true),
            (r#"{"containerPort":80}"#, r#"{"containerPort":80}"#, true),
        ];
        for (one, other, free) in table {
            for (one, other) in [(one, other), (other, one)] {
                let found = ports_are_free(&with(one), [&with(other)]);
                assert_eq!(found, free, "{one} {other}");
            }
        }
        let sidecar = |policy: &str| {
            pod(&format!(
                r#"{{"initContainers":[{{"restartPolicy":"{policy}","ports":[{any}]}}]}}"#
            ))
        };
        assert!(!ports_are_free(&with(any), [&sidecar("Always")]));
        assert!(ports_are_free(&with(any), [&sidecar("")]));
    }
}
