//! `NodeResourcesFit`: the node has enough of every requested resource and room for one more pod.

use super::{Code, Filter, Here, Reason, Rejection, UNKNOWN_REQUESTS};
use crate::cluster::Cluster;
use crate::extended_resources::is_served;
use crate::pod::Pod;
use crate::resources::{Amounts, ScalarsId, find};
use crate::symbol::Symbol;
use evictd_pod::Quantity;
use evictd_pod::quantity::Format;
use evictd_pod::resources::is_short;

const TOO_MANY: u64 = 1;
const CPU: u64 = 1 << 1;
const MEMORY: u64 = 1 << 2;
const EPHEMERAL_STORAGE: u64 = 1 << 3;
/// The bit of the first scalar resource.
const FIRST_SCALAR: usize = 4;

struct Fit {
    wanted: Amounts,
    /// Scalar resources: requested, allocatable and used amounts.
    scalars: Box<[ScalarResource]>,
    requests_nothing: bool,
    allowed_pods: i64,
    allocatable: Amounts,
    pods: i64,
    taken: Amounts,
}

struct ScalarResource {
    name: Symbol,
    /// The request of the pod.
    requested: i64,
    /// Whether devices serve it on nodes that have none of their own.
    by_devices: bool,
    /// The amount that counts on the entered node.
    wanted: i64,
    allocatable: i64,
    taken: i64,
}

/// Extended resources that the filter ignores, because a scheduler extender manages them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Resource names.
    pub resources: Vec<String>,
    /// Prefixes of resource names, up to the slash.
    pub groups: Vec<String>,
}

impl Ignored {
    fn contains(&self, name: &str) -> bool {
        let Some((group, _)) = name.split_once('/') else {
            return false;
        };
        let any = |list: &[String], name: &str| list.iter().any(|ignored| ignored == name);
        any(&self.resources, name) || any(&self.groups, group)
    }
}

#[allow(clippy::unnecessary_wraps, reason = "one signature for every filter")]
pub(crate) fn new(cluster: &Cluster, pod: &Pod, ignored: &Ignored) -> Option<Box<dyn Filter>> {
    let wanted = pod.amounts;
    let scalars: Box<[_]> = by_name(cluster, pod)
        .into_iter()
        .map(|(name, wanted)| ScalarResource {
            name,
            // A zero request never exceeds the free amount.
            requested: if ignored.contains(cluster.symbols().text(name)) {
                0
            } else {
                wanted
            },
            by_devices: is_served(cluster, name),
            wanted: 0,
            allocatable: 0,
            taken: 0,
        })
        .collect();
    let common = [wanted.cpu, wanted.memory, wanted.ephemeral_storage];
    Some(Box::new(Fit {
        wanted,
        requests_nothing: common == [0; 3] && scalars.is_empty(),
        scalars,
        allowed_pods: 0,
        allocatable: Amounts::default(),
        pods: 0,
        taken: Amounts::default(),
    }))
}

/// The scalar resources that a pod requests, sorted by name.
fn by_name(cluster: &Cluster, pod: &Pod) -> Vec<(Symbol, i64)> {
    let mut scalars = cluster.scalars(pod.amounts.scalars).to_vec();
    scalars.sort_by_key(|(name, _)| cluster.symbols().text(*name));
    scalars
}

/// The bit of a scalar resource. The last bit stands for all resources that exceed the word.
fn bit(index: usize) -> u64 {
    1 << (FIRST_SCALAR + index).min(63)
}

/// The messages of all set bits.
pub(super) fn messages(cluster: &Cluster, pod: &Pod, bits: u64) -> Vec<String> {
    let common = [
        (TOO_MANY, "Too many pods"),
        (CPU, "Insufficient cpu"),
        (MEMORY, "Insufficient memory"),
        (EPHEMERAL_STORAGE, "Insufficient ephemeral-storage"),
    ];
    let common = common.into_iter().filter(|(bit, _)| bits & bit != 0);
    let common = common.map(|(_, message)| message.to_owned());
    let scalars = by_name(cluster, pod).into_iter().enumerate();
    let scalars = scalars.filter(|(index, _)| bits & bit(*index) != 0);
    let scalars =
        scalars.map(|(_, (name, _))| format!("Insufficient {}", cluster.symbols().text(name)));
    common.chain(scalars).collect()
}

/// A resource's amount in a list.
fn amount(cluster: &Cluster, list: ScalarsId, name: Symbol) -> i64 {
    find(cluster.scalars(list), name)
}

impl Fit {
    /// Each resource's bit, requested, allocatable and used amount.
    fn resources(&self) -> impl Iterator<Item = (u64, i64, i64, i64)> {
        let (wanted, there, taken) = (&self.wanted, &self.allocatable, &self.taken);
        let common = [
            (CPU, wanted.cpu, there.cpu, taken.cpu),
            (MEMORY, wanted.memory, there.memory, taken.memory),
            (
                EPHEMERAL_STORAGE,
                wanted.ephemeral_storage,
                there.ephemeral_storage,
                taken.ephemeral_storage,
            ),
        ];
        let scalars = self.scalars.iter().enumerate();
        let scalars = scalars
            .map(|(index, scalar)| (bit(index), scalar.wanted, scalar.allocatable, scalar.taken));
        common.into_iter().chain(scalars)
    }

    fn too_many(&self) -> bool {
        self.pods + 1 > self.allowed_pods
    }

    /// Whether all requests fit. This runs most often, so it takes as few steps as possible.
    fn is_enough(&self) -> bool {
        let enough = |wanted: i64, there: i64, taken: i64| !is_short(wanted, there, taken);
        let (wanted, there, taken) = (&self.wanted, &self.allocatable, &self.taken);
        let mut scalars = self.scalars.iter();
        !self.too_many()
            && (self.requests_nothing
                || enough(wanted.cpu, there.cpu, taken.cpu)
                    && enough(wanted.memory, there.memory, taken.memory)
                    && enough(
                        wanted.ephemeral_storage,
                        there.ephemeral_storage,
                        taken.ephemeral_storage,
                    )
                    && scalars
                        .all(|scalar| enough(scalar.wanted, scalar.allocatable, scalar.taken)))
    }

    /// The resources that the node lacks.
    fn short(&self) -> impl Iterator<Item = (u64, i64, i64, i64)> {
        let resources = self.resources().take_while(|_| !self.requests_nothing);
        resources.filter(|(_, wanted, there, taken)| is_short(*wanted, *there, *taken))
    }
}

impl Filter for Fit {
    fn is_local(&self) -> bool {
        true
    }

    fn changes(&self) -> bool {
        true
    }

    fn keeps_state(&self) -> bool {
        false
    }

    fn enter(&mut self, here: Here<'_>) {
        let node = here.node;
        self.allowed_pods = node.allowed_pods;
        self.allocatable = node.allocatable;
        self.pods = i64::try_from(node.pods.len()).unwrap_or(i64::MAX);
        self.taken = node.requested;
        for scalar in &mut self.scalars {
            scalar.allocatable = amount(here.cluster, node.allocatable.scalars, scalar.name);
            scalar.wanted = if scalar.by_devices && scalar.allocatable == 0 {
                0
            } else {
                scalar.requested
            };
            scalar.taken = node.requested_scalars.get(scalar.name);
        }
    }

    fn change(&mut self, here: Here<'_>, pod: &Pod, times: i64) {
        self.pods += times;
        self.taken.add(&pod.amounts, times);
        for scalar in &mut self.scalars {
            let taken = amount(here.cluster, pod.amounts.scalars, scalar.name);
            scalar.taken = scalar.taken.wrapping_add(taken.wrapping_mul(times));
        }
    }

    fn accepts(&self, here: Here<'_>) -> bool {
        here.node.unknown_pods == 0 && self.is_enough()
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        if here.node.unknown_pods > 0 {
            // No eviction helps, because the pod's own requests are unknown.
            return Err(Rejection::unresolvable(UNKNOWN_REQUESTS));
        }
        if self.is_enough() {
            return Ok(());
        }
        let mut bits = if self.too_many() { TOO_MANY } else { 0 };
        let mut code = Code::Unschedulable;
        for (bit, wanted, there, _) in self.short() {
            bits |= bit;
            if wanted > there {
                code = Code::UnschedulableAndUnresolvable;
            }
        }
        Err(Rejection {
            code,
            reason: Reason::Insufficient(bits),
        })
    }

    /// The missing amounts: "insufficient memory by 1.2Gi, cpu by 300m".
    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        let missing = |(bit, wanted, there, taken): (u64, i64, i64, i64)| {
            let missing = wanted.wrapping_sub(there.wrapping_sub(taken));
            let (name, missing) = match bit {
                CPU => ("cpu", Quantity::milli(missing).to_string()),
                MEMORY => ("memory", in_bytes(missing)),
                EPHEMERAL_STORAGE => ("ephemeral-storage", in_bytes(missing)),
                _ => {
                    let mut scalars = self.scalars.iter().enumerate();
                    let found = scalars.find(|(index, _)| self::bit(*index) == bit);
                    let name =
                        found.map_or("", |(_, scalar)| here.cluster.symbols().text(scalar.name));
                    (name, Quantity::new(missing, Format::DecimalSi).to_string())
                }
            };
            format!("{name} by {missing}")
        };
        let many = self.too_many().then(|| {
            let (pods, allowed) = (self.pods, self.allowed_pods);
            format!("too many pods ({pods} of {allowed} remain)")
        });
        let short: Vec<String> = self.short().map(missing).collect();
        let short = (!short.is_empty()).then(|| format!("insufficient {}", short.join(", ")));
        let parts: Vec<String> = many.into_iter().chain(short).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Formats bytes with one decimal place in the largest fitting binary unit.
fn in_bytes(bytes: i64) -> String {
    const UNITS: [(i64, &str); 4] = [
        (1 << 40, "Ti"),
        (1 << 30, "Gi"),
        (1 << 20, "Mi"),
        (1 << 10, "Ki"),
    ];
    let unit = UNITS.into_iter().find(|(size, _)| bytes >= *size);
    let Some((size, name)) = unit else {
        return bytes.to_string();
    };
    // Rounds up, so that freeing the named amount is enough.
    let tenths = (i128::from(bytes) * 10 + i128::from(size) - 1) / i128::from(size);
    match tenths % 10 {
        0 => format!("{}{name}", tenths / 10),
        tenth => format!("{}.{tenth}{name}", tenths / 10),
    }
}
