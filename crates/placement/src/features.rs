//! Optional features of a kubelet that a pod may need, as Kubernetes 1.36 infers them from its spec.

use evictd_pod::wire::PodSpec;

/// A pod that uses the host network together with a user namespace.
const HOST_NETWORK_WITH_USERS: (u8, &str) = (1, "UserNamespacesHostNetworkSupport");
/// A container whose exit restarts all containers of its pod.
const RESTART_ALL_CONTAINERS: (u8, &str) = (2, "RestartAllContainersOnContainerExits");

/// A set of kubelet features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Features(u8);

impl Features {
    /// The features that a pod needs.
    pub fn of_pod(spec: &PodSpec) -> Self {
        let containers = spec.containers.iter().chain(&spec.init_containers);
        let mut rules = containers.flat_map(|container| &container.restart_policy_rules);
        let needs = [
            (
                spec.host_network && spec.host_users == Some(false),
                HOST_NETWORK_WITH_USERS,
            ),
            (
                rules.any(|rule| rule.action == "RestartAllContainers"),
                RESTART_ALL_CONTAINERS,
            ),
        ];
        let needs = needs.into_iter().filter(|(needed, _)| *needed);
        Self(needs.fold(0, |all, (_, (bit, _))| all | bit))
    }

    /// The features that a node declares.
    pub(crate) fn of_node(declared: &[String]) -> Self {
        let all = [HOST_NETWORK_WITH_USERS, RESTART_ALL_CONTAINERS];
        let has = all
            .into_iter()
            .filter(|(_, name)| declared.iter().any(|feature| feature == name));
        Self(has.fold(0, |all, (bit, _)| all | bit))
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains all features of `other`.
    pub(crate) const fn contain(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
