//! The `PreFilter` point: which nodes the filters run on, and the filters of a pod.

use crate::config::Point;
use crate::framework::{Framework, SharedPlugin};
use crate::recorder::{SKIP, SUCCESS, run_plugin, timed};
use evictd_placement::{Cluster, Code, Filter, Pod, PreFilter, Symbol};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The result of the `PreFilter` plugins (S5-043).
#[derive(Debug, Clone, Default)]
pub(crate) struct PreFilterResult {
    pub(crate) rejection: Option<PreFilterRejection>,
    pub(crate) allowed: Option<AllowedNodes>,
    /// How many plugins have run.
    pub(crate) run: usize,
}

/// A `PreFilter` plugin that rejected every node.
#[derive(Debug, Clone)]
pub(crate) struct PreFilterRejection {
    pub(crate) plugin: String,
    pub(crate) code: Code,
    pub(crate) reason: String,
}

/// The only nodes that the filters need to run on.
#[derive(Debug, Clone)]
pub(crate) struct AllowedNodes {
    names: BTreeSet<Symbol>,
    /// The plugins that restricted the nodes.
    plugins: Vec<String>,
}

/// The preparation of the filters for a pod.
pub(crate) struct Prepared {
    pub(crate) result: PreFilterResult,
    /// The filters that have something to check, with their indices in the profile.
    pub(crate) filters: Vec<(usize, Box<dyn Filter>)>,
}

impl Prepared {
    /// Runs the `PreFilter` plugins and compiles the filters.
    pub(crate) fn new(framework: &Framework, cluster: &Cluster, pod: &Pod) -> Self {
        let mut filters = Vec::new();
        let (result, took) = timed(&*framework.recorder, || {
            run_pre_filter(framework, cluster, pod, &mut filters)
        });
        let rejection = result.rejection.as_ref();
        let status = rejection.map_or(SUCCESS, |rejection| rejection.code.as_str());
        framework.record(Point::PreFilter, status, took);
        if rejection.is_none() {
            let others = framework.filters.iter().enumerate();
            let others = others.filter(|(_, plugin)| !contains(&framework.pre_filters, plugin));
            filters.extend(
                others.filter_map(|(index, plugin)| Some((index, plugin.filter(cluster, pod)?))),
            );
            filters.sort_unstable_by_key(|(index, _)| *index);
        }
        Self { result, filters }
    }

    /// Whether the `PreFilter` plugins leave every node to the filters.
    pub(crate) const fn leaves_all_nodes(&self) -> bool {
        self.result.rejection.is_none() && self.result.allowed.is_none()
    }
}

impl PreFilterResult {
    /// Adds the answer of a plugin. Returns whether the others need not run.
    fn add(&mut self, plugin: &str, answer: PreFilter) -> bool {
        match answer {
            PreFilter::Pass => false,
            PreFilter::Rejected(code, reason) => {
                self.rejection = Some(PreFilterRejection {
                    plugin: plugin.to_owned(),
                    code,
                    reason,
                });
                // As kube-scheduler: after a rejection that a preemption could resolve, the others still run.
                code == Code::UnschedulableAndUnresolvable
            }
            PreFilter::Nodes(names) => {
                let names = BTreeSet::from_iter(names);
                let allowed = self.allowed.get_or_insert_with(|| AllowedNodes {
                    names: names.clone(),
                    plugins: Vec::new(),
                });
                allowed.names.retain(|node| names.contains(node));
                allowed.plugins.push(plugin.to_owned());
                let is_empty = allowed.names.is_empty();
                if is_empty {
                    self.rejection = Some(PreFilterRejection {
                        plugin: plugin.to_owned(),
                        code: Code::UnschedulableAndUnresolvable,
                        reason: no_node_allowed(&allowed.plugins),
                    });
                }
                is_empty
            }
        }
    }

    pub(crate) fn allows(&self, node: Symbol) -> bool {
        self.allowed
            .as_ref()
            .is_none_or(|allowed| allowed.names.contains(&node))
    }

    /// The plugins that rejected the pod before the filters ran. As in kube-scheduler, a plugin that named nodes counts even
    /// if it excluded none. Only a plugin that no preemption could help stands alone.
    pub(crate) fn rejectors(&self) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        if let Some(allowed) = &self.allowed {
            named.extend(allowed.plugins.iter().cloned());
            // No node is left, which no single plugin decided.
            if allowed.names.is_empty() {
                return named;
            }
        }
        if let Some(rejection) = &self.rejection {
            if rejection.code == Code::UnschedulableAndUnresolvable {
                named.clear();
            }
            named.insert(rejection.plugin.clone());
        }
        named
    }

    pub(crate) fn restricting_plugins(&self, separator: &str) -> String {
        self.allowed
            .as_ref()
            .map_or(String::new(), |allowed| allowed.plugins.join(separator))
    }
}

/// Runs the `PreFilter` plugins, and compiles those of their filters that have something to check. In kube-scheduler, too,
/// `PreFilter` prepares the filter of its plugin.
fn run_pre_filter(
    framework: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    filters: &mut Vec<(usize, Box<dyn Filter>)>,
) -> PreFilterResult {
    let mut result = PreFilterResult::default();
    for plugin in &framework.pre_filters {
        result.run += 1;
        let mut checked = framework.filters.iter();
        let index = checked.position(|filter| Arc::ptr_eq(filter, plugin));
        let run = || {
            let answer = plugin.pre_filter(cluster, pod);
            (answer, index.and_then(|_| plugin.filter(cluster, pod)))
        };
        let status = |(answer, filter): &(PreFilter, Option<_>)| match answer {
            PreFilter::Rejected(code, _) => code.as_str(),
            PreFilter::Pass if index.is_some() && filter.is_none() => SKIP,
            PreFilter::Pass | PreFilter::Nodes(_) => SUCCESS,
        };
        let of_plugin = (plugin.name(), Point::PreFilter);
        let ran = run_plugin(&*framework.recorder, of_plugin, run, status);
        if status(&ran) != SKIP {
            framework.count(plugin.name(), Point::PreFilter, 1);
        }
        let (answer, filter) = ran;
        filters.extend(index.zip(filter));
        if result.add(plugin.name(), answer) {
            break;
        }
    }
    result
}

/// Whether one of them is this very plugin.
fn contains(plugins: &[SharedPlugin], plugin: &SharedPlugin) -> bool {
    plugins.iter().any(|other| Arc::ptr_eq(other, plugin))
}

fn no_node_allowed(plugins: &[String]) -> String {
    match plugins {
        [plugin] => format!("node(s) didn't satisfy plugin {plugin}"),
        plugins => format!(
            "node(s) didn't satisfy plugin(s) [{}] simultaneously",
            plugins.join(" ")
        ),
    }
}
