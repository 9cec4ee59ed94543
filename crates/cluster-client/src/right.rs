//! The right that a request needs.

use std::fmt;

/// A verb on a resource, as rules of RBAC name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// `get` or `list`.
    pub verb: &'static str,
    /// With its subresource: `nodes/proxy`; or a path that is no resource's: `/v1/pending`.
    pub resource: String,
    /// Empty for the core group.
    pub group: String,
    /// `None` for a right in the whole cluster.
    pub namespace: Option<String>,
}

impl Right {
    /// The right to read this path: `get nodes/proxy` for `/api/v1/nodes/one/proxy/stats/summary`.
    pub fn to_read(path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            other => ("", other),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (verb, resource) = match rest {
            // A path outside the API, as /healthz, is a right by itself.
            _ if !path.starts_with("/api") => ("get", path.to_owned()),
            [] => ("get", path.to_owned()),
            [resource] => ("list", (*resource).to_owned()),
            [resource, _] => ("get", (*resource).to_owned()),
            [resource, _, subresource, ..] => ("get", format!("{resource}/{subresource}")),
        };
        Self {
            verb,
            resource,
            group: group.to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }
}

impl Right {
    /// In the form that `kubectl auth can-i` takes: `get nodes/proxy`, `get leases.coordination.k8s.io -n kube-node-lease`.
    pub fn brief(&self) -> String {
        let Self { verb, resource, .. } = self;
        let group = match self.group.as_str() {
            "" => String::new(),
            group => format!(".{group}"),
        };
        let namespace = self.namespace.as_ref();
        let place = namespace.map_or_else(String::new, |name| format!(" -n {name}"));
        format!("{verb} {resource}{group}{place}")
    }
}

/// `the RBAC verb list on poddisruptionbudgets is needed cluster-wide (API group policy)`
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, .. } = self;
        if resource.starts_with('/') {
            return write!(f, "the RBAC verb {verb} on the path {resource} is needed");
        }
        write!(f, "the RBAC verb {verb} on {resource} is needed ")?;
        match &self.namespace {
            None => f.write_str("cluster-wide")?,
            Some(namespace) => write!(f, "in the namespace {namespace}")?,
        }
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, " (API group {})", self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_to_read_a_path_is_reported_in_the_form_of_a_rule() {
        let table = [
            (
                "/api/v1/nodes",
                "the RBAC verb list on nodes is needed cluster-wide",
            ),
            (
                "/api/v1/pods?fieldSelector=spec.nodeName%3Da/b",
                "the RBAC verb list on pods is needed cluster-wide",
            ),
            (
                "/v1/pending?pod=a/b",
                "the RBAC verb get on the path /v1/pending is needed",
            ),
            (
                "/api/v1/nodes/one/proxy/stats/summary",
                "the RBAC verb get on nodes/proxy is needed cluster-wide",
            ),
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/one",
                "the RBAC verb get on leases is needed in the namespace kube-node-lease (API group coordination.k8s.io)",
            ),
            (
                "/api/v1/namespaces/shop",
                "the RBAC verb get on namespaces is needed cluster-wide",
            ),
            (
                "/apis/policy/v1/poddisruptionbudgets",
                "the RBAC verb list on poddisruptionbudgets is needed cluster-wide (API group policy)",
            ),
        ];
        for (path, expected) in table {
            assert_eq!(Right::to_read(path).to_string(), expected, "{path}");
        }
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/one";
        assert_eq!(
            Right::to_read(lease).brief(),
            "get leases.coordination.k8s.io -n kube-node-lease"
        );
    }
}
