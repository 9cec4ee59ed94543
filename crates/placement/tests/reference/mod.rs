//! A reference model of affinity and spread constraints that scans all pods for every check.

use proptest::sample::Index;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Selector {
    Absent,
    Everything,
    Is(&'static str),
    IsNot(&'static str),
    OneOf([&'static str; 2]),
    Present,
    Missing,
}

impl Selector {
    fn selects(self, value: &str) -> bool {
        match self {
            // Every pod and every namespace has the label.
            Self::Absent | Self::Missing => false,
            Self::Everything | Self::Present => true,
            Self::Is(wanted) => value == wanted,
            Self::IsNot(unwanted) => value != unwanted,
            Self::OneOf(wanted) => wanted.contains(&value),
        }
    }

    fn wire(self, label: &str) -> Value {
        match self {
            Self::Absent => Value::Null,
            Self::Everything => json!({}),
            Self::Is(value) => json!({"matchLabels": {label: value}}),
            Self::IsNot(value) => demand(label, "NotIn", &[value]),
            Self::OneOf(values) => demand(label, "In", &values),
            Self::Present => demand(label, "Exists", &[]),
            Self::Missing => demand(label, "DoesNotExist", &[]),
        }
    }
}

fn demand(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[derive(Debug, Clone)]
pub(crate) struct Term {
    pub(crate) selector: Selector,
    pub(crate) namespaces: Vec<&'static str>,
    pub(crate) namespace_selector: Selector,
    pub(crate) key: &'static str,
}

impl Term {
    /// Whether a term of a pod in namespace `of` selects a pod.
    fn means(&self, of: &str, namespace: &str, app: &str) -> bool {
        let own_namespace =
            self.namespaces.is_empty() && matches!(self.namespace_selector, Selector::Absent);
        let meant = (own_namespace && of == namespace)
            || self.namespaces.contains(&namespace)
            || self.namespace_selector.selects(namespace);
        meant && self.selector.selects(app)
    }

    fn wire(&self) -> Value {
        json!({
            "labelSelector": self.selector.wire("app"),
            "namespaces": self.namespaces,
            "namespaceSelector": self.namespace_selector.wire("kubernetes.io/metadata.name"),
            "topologyKey": self.key,
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Spread {
    pub(crate) max_skew: i64,
    pub(crate) key: &'static str,
    pub(crate) selector: Selector,
    pub(crate) min_domains: usize,
    pub(crate) honors_affinity: bool,
    pub(crate) honors_taints: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) labels: Vec<(&'static str, Option<&'static str>)>,
    pub(crate) ssd: bool,
    pub(crate) tainted: bool,
}

impl Node {
    fn label(&self, key: &str) -> Option<&'static str> {
        let (_, value) = self.labels.iter().find(|(known, _)| *known == key).unwrap();
        *value
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) node: Index,
    pub(crate) namespace: &'static str,
    pub(crate) app: &'static str,
    pub(crate) terminating: bool,
    /// Whether it is nominated to its node.
    pub(crate) coming: bool,
    pub(crate) anti_affinity: Vec<Term>,
}

#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) namespace: &'static str,
    pub(crate) app: &'static str,
    pub(crate) wants_ssd: bool,
    pub(crate) affinity: Vec<Term>,
    pub(crate) anti_affinity: Vec<Term>,
    pub(crate) spreads: Vec<Spread>,
}

#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) incoming: Incoming,
}

type Verdict = Result<(), (&'static str, &'static str)>;

const NEVER: &str = "UnschedulableAndUnresolvable";
const MAYBE: &str = "Unschedulable";

impl Scene {
    fn node_of(&self, pod: &Pod) -> usize {
        pod.node.index(self.nodes.len())
    }

    /// The pods that are not on a node yet.
    pub(crate) fn away(&self) -> Vec<bool> {
        self.pods.iter().map(|pod| pod.coming).collect()
    }

    /// The pods of a node, sorted by name.
    pub(crate) fn pods_of(&self, node: usize) -> Vec<usize> {
        let mut pods: Vec<usize> = (0..self.pods.len())
            .filter(|index| self.node_of(&self.pods[*index]) == node && !self.pods[*index].coming)
            .collect();
        pods.sort_by_key(|index| (self.pods[*index].namespace, *index));
        pods
    }

    /// Checks the pod on a node without the pods that are away, with and without nominated pods.
    pub(crate) fn verdict(&self, node: usize, away: &[bool]) -> Verdict {
        let pods = self.pods.iter().zip(away);
        let with: Vec<bool> = pods
            .map(|(pod, away)| *away && !(pod.coming && self.node_of(pod) == node))
            .collect();
        self.verdict_once(node, &with)?;
        self.verdict_once(node, away)
    }

    fn verdict_once(&self, node: usize, away: &[bool]) -> Verdict {
        self.static_verdict(node)?;
        self.spread_verdict(node, away)?;
        self.neighbours_verdict(node, away)
    }

    /// The result that no pod affects.
    pub(crate) fn static_verdict(&self, node: usize) -> Verdict {
        let node = &self.nodes[node];
        if node.tainted {
            return Err((NEVER, "node(s) had untolerated taint(s)"));
        }
        if self.incoming.wants_ssd && !node.ssd {
            return Err((NEVER, "node(s) didn't match Pod's node affinity/selector"));
        }
        Ok(())
    }

    fn counts(&self, node: &Node, spread: &Spread) -> bool {
        let spreads = &self.incoming.spreads;
        spreads.iter().all(|other| node.label(other.key).is_some())
            && (node.ssd || !self.incoming.wants_ssd || !spread.honors_affinity)
            && (!node.tainted || !spread.honors_taints)
    }

    /// How many pods of a node match a constraint. A terminating pod does not count at first, and removing it subtracts
    /// one. The same holds for all pods of an empty selector.
    fn pods_for(&self, node: usize, spread: &Spread, away: &[bool]) -> i64 {
        let matching = self.pods.iter().zip(away).filter(|(pod, _)| {
            self.node_of(pod) == node
                && pod.namespace == self.incoming.namespace
                && spread.selector.selects(pod.app)
        });
        let all = matches!(spread.selector, Selector::Everything);
        matching
            .map(
                |(pod, away)| match (pod.terminating || all && !pod.coming, away) {
                    (false, false) => 1,
                    (true, true) => -1,
                    _ => 0,
                },
            )
            .sum()
    }

    fn spread_verdict(&self, node: usize, away: &[bool]) -> Verdict {
        const WORDS: &str = "node(s) didn't match pod topology spread constraints";
        for spread in &self.incoming.spreads {
            let Some(here) = self.nodes[node].label(spread.key) else {
                return Err((
                    NEVER,
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let mut domains: Vec<(&str, i64)> = Vec::new();
            for (index, other) in self.nodes.iter().enumerate() {
                if self.counts(other, spread) {
                    let (value, pods) = (
                        other.label(spread.key).unwrap(),
                        self.pods_for(index, spread, away),
                    );
                    match domains.iter_mut().find(|(known, _)| *known == value) {
                        Some((_, sum)) => *sum += pods,
                        None => domains.push((value, pods)),
                    }
                }
            }
            let least = domains.iter().map(|(_, pods)| *pods).min();
            let least = least.filter(|_| domains.len() >= spread.min_domains);
            let matching = domains.iter().find(|(value, _)| *value == here);
            let matching = matching.map_or(0, |(_, pods)| *pods);
            let itself = i64::from(spread.selector.selects(self.incoming.app));
            if matching + itself - least.unwrap_or(0) > spread.max_skew {
                return Err((MAYBE, WORDS));
            }
        }
        Ok(())
    }

    /// Whether two nodes are in one domain.
    fn together(&self, one: usize, other: usize, key: &str) -> bool {
        let label = self.nodes[one].label(key);
        label.is_some() && label == self.nodes[other].label(key)
    }

    fn neighbours_verdict(&self, node: usize, away: &[bool]) -> Verdict {
        let incoming = &self.incoming;
        let pods = || {
            let pods = self.pods.iter().zip(away);
            pods.filter(|(_, away)| !**away).map(|(pod, _)| pod)
        };
        let all = |namespace: &str, app: &str| {
            let mut terms = incoming.affinity.iter();
            terms.all(|term| term.means(incoming.namespace, namespace, app))
        };
        let near = incoming.affinity.iter().all(|term| {
            pods().any(|pod| {
                all(pod.namespace, pod.app) && self.together(node, self.node_of(pod), term.key)
            })
        });
        let labelled = |node: usize, term: &Term| self.nodes[node].label(term.key).is_some();
        let first = all(incoming.namespace, incoming.app)
            && !pods().any(|pod| {
                let of = self.node_of(pod);
                let counted = incoming.affinity.iter().any(|term| labelled(of, term));
                all(pod.namespace, pod.app) && counted
            });
        let everywhere = incoming.affinity.iter().all(|term| labelled(node, term));
        if !(everywhere && (near || first)) {
            return Err((NEVER, "node(s) didn't match pod affinity rules"));
        }
        let placed = || self.pods.iter().filter(|pod| !pod.coming);
        let skipped = incoming.affinity.is_empty()
            && incoming.anti_affinity.is_empty()
            && !placed().any(|pod| {
                pod.anti_affinity.iter().any(|term| {
                    term.means(pod.namespace, incoming.namespace, incoming.app)
                        && labelled(self.node_of(pod), term)
                })
            });
        if skipped {
            return Ok(());
        }
        let apart = incoming.anti_affinity.iter().all(|term| {
            !pods().any(|pod| {
                term.means(incoming.namespace, pod.namespace, pod.app)
                    && self.together(node, self.node_of(pod), term.key)
            })
        });
        if !apart {
            return Err((MAYBE, "node(s) didn't match pod anti-affinity rules"));
        }
        let wanted = pods().all(|pod| {
            !pod.anti_affinity.iter().any(|term| {
                term.means(pod.namespace, incoming.namespace, incoming.app)
                    && self.together(node, self.node_of(pod), term.key)
            })
        });
        if !wanted {
            let words = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Err((MAYBE, words));
        }
        Ok(())
    }

    pub(crate) fn wire_nodes(&self) -> impl Iterator<Item = Value> {
        self.nodes.iter().enumerate().map(|(index, node)| {
            let labels = node.labels.iter().filter(|(_, value)| value.is_some());
            let mut labels: serde_json::Map<String, Value> = labels
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect();
            if node.ssd {
                labels.insert("disk".to_owned(), json!("ssd"));
            }
            let taint = json!({"key": "k", "effect": "NoExecute"});
            let taints: Vec<Value> = node.tainted.then_some(taint).into_iter().collect();
            json!({
                "metadata": {"name": format!("node-{index}"), "labels": labels},
                "spec": {"taints": taints},
                "status": {"allocatable": {"pods": "110"}},
            })
        })
    }

    pub(crate) fn wire_namespace(name: &str) -> Value {
        let labels = json!({"kubernetes.io/metadata.name": name});
        json!({"metadata": {"name": name, "labels": labels}})
    }

    pub(crate) fn wire_pods(&self) -> impl Iterator<Item = Value> {
        self.pods.iter().enumerate().map(|(index, pod)| {
            let terms: Vec<Value> = pod.anti_affinity.iter().map(Term::wire).collect();
            let mut wire = json!({
                "metadata": {
                    "name": format!("pod-{index:02}"),
                    "namespace": pod.namespace,
                    "labels": {"app": pod.app},
                },
                "spec": {
                    "nodeName": format!("node-{}", self.node_of(pod)),
                    "affinity": {"podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": terms,
                    }},
                },
            });
            if pod.coming {
                let node = wire["spec"]["nodeName"].take();
                let tried = json!({"type": "PodScheduled", "status": "False"});
                wire["status"] = json!({"nominatedNodeName": node, "conditions": [tried]});
            }
            if pod.terminating {
                wire["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            wire
        })
    }

    pub(crate) fn wire_incoming(&self) -> Value {
        let incoming = &self.incoming;
        let terms = |terms: &[Term]| terms.iter().map(Term::wire).collect::<Vec<_>>();
        let policy = |honors: bool| if honors { "Honor" } else { "Ignore" };
        let spreads = incoming.spreads.iter().map(|spread| {
            json!({
                "maxSkew": spread.max_skew,
                "topologyKey": spread.key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": spread.selector.wire("app"),
                "minDomains": spread.min_domains,
                "nodeAffinityPolicy": policy(spread.honors_affinity),
                "nodeTaintsPolicy": policy(spread.honors_taints),
            })
        });
        let selector = if incoming.wants_ssd {
            json!({"disk": "ssd"})
        } else {
            json!({})
        };
        json!({
            "metadata": {
                "name": "incoming",
                "namespace": incoming.namespace,
                "labels": {"app": incoming.app},
            },
            "spec": {
                "nodeSelector": selector,
                "topologySpreadConstraints": spreads.collect::<Vec<_>>(),
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": terms(&incoming.affinity),
                    },
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution":
                            terms(&incoming.anti_affinity),
                    },
                },
            },
        })
    }
}
