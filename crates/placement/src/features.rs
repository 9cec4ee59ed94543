//! Optional features of a kubelet that a pod may need, as Kubernetes 1.36 infers them from its spec.

use evictd_pod::wire::PodSpec;

/// A pod with the node's network and users of its own.
const HOST_NETWORK_WITH_USERS: (u8, &str) = (1, "UserNamespacesHostNetworkSupport");
/// A container whose exit restarts all containers of its pod.
const RESTART_ALL_CONTAINERS: (u8, &str) = (2, "RestartAllContainersOnContainerExits");

/// A set of features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Features(u8);

impl Features {
    /// Those that a pod needs.
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

    /// Those that a node declares.
    pub(crate) fn of_node(declared: &[String]) -> Self {
        let all = [HOST_NETWORK_WITH_USERS, RESTART_ALL_CONTAINERS];
        let has = all
            .into_iter()
            .filter(|(_, name)| declared.iter().any(|own| own == name));
        Self(has.fold(0, |all, (bit, _)| all | bit))
    }

    /// Whether none is in it.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of the other's are in it.
    pub(crate) const fn contain(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
