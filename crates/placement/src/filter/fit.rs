//! `NodeResourcesFit`: enough of every resource that the pod asks for, and a place among the node's pods.

use super::{Code, Filter, Here, Reason, Rejection, UNKNOWN_REQUESTS};
use crate::cluster::Cluster;
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
/// The bit of the first rarer resource.
const RARER: usize = 4;

struct Fit {
    wanted: Amounts,
    /// Rarer resources: how much of it is wanted, is there, and is taken.
    rarer: Box<[Rarer]>,
    asks_for_nothing: bool,
    allowed_pods: i64,
    allocatable: Amounts,
    pods: i64,
    taken: Amounts,
}

struct Rarer {
    name: Symbol,
    wanted: i64,
    allocatable: i64,
    taken: i64,
}

/// Extended resources that do not keep a pod off a node, because somebody else looks after them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignored {
    /// By name.
    pub resources: Vec<String>,
    /// By what stands before the slash.
    pub groups: Vec<String>,
}

impl Ignored {
    fn contains(&self, name: &str) -> bool {
        let Some((group, _)) = name.split_once('/') else {
            return false;
        };
        let any = |list: &[String], name: &str| list.iter().any(|own| own == name);
        any(&self.resources, name) || any(&self.groups, group)
    }
}

#[allow(clippy::unnecessary_wraps, reason = "one signature for every filter")]
pub(crate) fn new(cluster: &Cluster, pod: &Pod, ignored: &Ignored) -> Option<Box<dyn Filter>> {
    let wanted = pod.amounts;
    let rarer: Box<[_]> = by_name(cluster, pod)
        .into_iter()
        .map(|(name, wanted)| Rarer {
            name,
            // Nothing is ever short of what nothing is wanted of.
            wanted: if ignored.contains(cluster.symbols().text(name)) {
                0
            } else {
                wanted
            },
            allocatable: 0,
            taken: 0,
        })
        .collect();
    let common = [wanted.cpu, wanted.memory, wanted.ephemeral_storage];
    Some(Box::new(Fit {
        wanted,
        asks_for_nothing: common == [0; 3] && rarer.is_empty(),
        rarer,
        allowed_pods: 0,
        allocatable: Amounts::default(),
        pods: 0,
        taken: Amounts::default(),
    }))
}

/// The rarer resources that a pod asks for, in the order of their names.
fn by_name(cluster: &Cluster, pod: &Pod) -> Vec<(Symbol, i64)> {
    let mut rarer = cluster.scalars(pod.amounts.scalars).to_vec();
    rarer.sort_by_key(|(name, _)| cluster.symbols().text(*name));
    rarer
}

/// The bit of a rarer resource; those that a word has no more bits for share the last one.
fn bit(index: usize) -> u64 {
    1 << (RARER + index).min(63)
}

/// The words of every bit.
pub(super) fn words(cluster: &Cluster, pod: &Pod, bits: u64) -> Vec<String> {
    let common = [
        (TOO_MANY, "Too many pods"),
        (CPU, "Insufficient cpu"),
        (MEMORY, "Insufficient memory"),
        (EPHEMERAL_STORAGE, "Insufficient ephemeral-storage"),
    ];
    let common = common.into_iter().filter(|(own, _)| bits & own != 0);
    let common = common.map(|(_, words)| words.to_owned());
    let rarer = by_name(cluster, pod).into_iter().enumerate();
    let rarer = rarer.filter(|(index, _)| bits & bit(*index) != 0);
    let rarer =
        rarer.map(|(_, (name, _))| format!("Insufficient {}", cluster.symbols().text(name)));
    common.chain(rarer).collect()
}

/// How much of a resource a list holds.
fn amount(cluster: &Cluster, list: ScalarsId, name: Symbol) -> i64 {
    find(cluster.scalars(list), name)
}

impl Fit {
    /// Of each resource: its bit, how much is wanted, is there, is taken.
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
        let rarer = self.rarer.iter().enumerate();
        let rarer = rarer.map(|(index, own)| (bit(index), own.wanted, own.allocatable, own.taken));
        common.into_iter().chain(rarer)
    }

    fn too_many(&self) -> bool {
        self.pods + 1 > self.allowed_pods
    }

    /// Whether nothing is short: what is asked most often, in as few steps as possible.
    fn is_enough(&self) -> bool {
        let enough = |wanted: i64, there: i64, taken: i64| !is_short(wanted, there, taken);
        let (wanted, there, taken) = (&self.wanted, &self.allocatable, &self.taken);
        let mut rarer = self.rarer.iter();
        !self.too_many()
            && (self.asks_for_nothing
                || enough(wanted.cpu, there.cpu, taken.cpu)
                    && enough(wanted.memory, there.memory, taken.memory)
                    && enough(
                        wanted.ephemeral_storage,
                        there.ephemeral_storage,
                        taken.ephemeral_storage,
                    )
                    && rarer.all(|own| enough(own.wanted, own.allocatable, own.taken)))
    }

    /// Resources of which there is too little now.
    fn short(&self) -> impl Iterator<Item = (u64, i64, i64, i64)> {
        let resources = self.resources().take_while(|_| !self.asks_for_nothing);
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

    fn remembers(&self) -> bool {
        false
    }

    fn enter(&mut self, here: Here<'_>) {
        let node = here.node;
        self.allowed_pods = node.allowed_pods;
        self.allocatable = node.allocatable;
        self.pods = i64::try_from(node.pods.len()).unwrap_or(i64::MAX);
        self.taken = node.requested;
        for own in &mut self.rarer {
            own.allocatable = amount(here.cluster, node.allocatable.scalars, own.name);
            own.taken = node.requested_scalars.get(own.name);
        }
    }

    fn change(&mut self, here: Here<'_>, pod: &Pod, times: i64) {
        self.pods += times;
        self.taken.add(&pod.amounts, times);
        for own in &mut self.rarer {
            let taken = amount(here.cluster, pod.amounts.scalars, own.name);
            own.taken = own.taken.wrapping_add(taken.wrapping_mul(times));
        }
    }

    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        if here.node.unknown_pods > 0 {
            // No pod that leaves helps: it is not known what this one asks for.
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

    /// How much is missing of each: "insufficient memory by 1.2Gi, cpu by 300m".
    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        let missing = |(bit, wanted, there, taken): (u64, i64, i64, i64)| {
            let missing = wanted.wrapping_sub(there.wrapping_sub(taken));
            let (name, missing) = match bit {
                CPU => ("cpu", Quantity::milli(missing).to_string()),
                MEMORY => ("memory", in_bytes(missing)),
                EPHEMERAL_STORAGE => ("ephemeral-storage", in_bytes(missing)),
                _ => {
                    let own = self.rarer.iter().enumerate();
                    let mut own = own.filter(|(index, _)| self::bit(*index) == bit);
                    let name = own
                        .next()
                        .map_or("", |(_, own)| here.cluster.symbols().text(own.name));
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

/// Bytes to one decimal place of the largest binary unit that they fill.
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
    // Rounded up, so that what is named would really do.
    let tenths = (i128::from(bytes) * 10 + i128::from(size) - 1) / i128::from(size);
    match tenths % 10 {
        0 => format!("{}{name}", tenths / 10),
        tenth => format!("{}.{tenth}{name}", tenths / 10),
    }
}
