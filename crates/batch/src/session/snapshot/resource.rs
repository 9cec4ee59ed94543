//! Amounts of resources as Volcano counts them (S6-091): floating point, compared with a tolerance of a tenth of a
//! unit. A resource that an amount does not name differs from one with the amount zero.

use evictd_pod::Quantity;
use evictd_pod::resources::{CPU, MEMORY, PODS};
use evictd_pod::wire::ResourceList;
use hashbrown::HashMap;

/// Amounts that differ by less are equal.
pub(crate) const EPSILON: f64 = 0.1;

/// A kind of resource, as an index into [`Dims`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Dim(u32);

impl Dim {
    /// Thousandths of a core.
    pub(crate) const CPU: Self = Self(0);
    /// Bytes.
    pub(crate) const MEMORY: Self = Self(1);
    /// How many pods.
    pub(crate) const PODS: Self = Self(2);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Lists of up to so many names are added name by name.
const SHORT: usize = 8;

/// The number of names before the first sweep of unused ones.
const FIRST_SWEEP: usize = 1024;

/// The names of resources in objects. Tenants choose names, so unused ones are swept.
#[derive(Debug)]
pub(crate) struct Dims {
    /// By index; a free place holds an empty name.
    names: Vec<Box<str>>,
    by_name: HashMap<Box<str>, Dim>,
    free: Vec<Dim>,
    /// The number of names before the next sweep.
    sweep_at: usize,
}

impl Default for Dims {
    fn default() -> Self {
        let mut dims = Self {
            names: Vec::new(),
            by_name: HashMap::new(),
            free: Vec::new(),
            sweep_at: FIRST_SWEEP,
        };
        for name in [CPU, MEMORY, PODS] {
            dims.intern(name);
        }
        dims
    }
}

impl Dims {
    pub(crate) fn name(&self, dim: Dim) -> &str {
        &self.names[dim.index()]
    }

    /// The kind of that name, if an object mentions it.
    pub(crate) fn find(&self, name: &str) -> Option<Dim> {
        self.by_name.get(name).copied()
    }

    /// Every kind that an object mentions.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Dim, &str)> {
        self.by_name.iter().map(|(name, dim)| (*dim, &**name))
    }

    /// A quantity of a kind, in the unit of its amounts.
    pub(crate) fn amount(dim: Dim, quantity: &Quantity) -> f64 {
        number(match dim {
            Dim::MEMORY | Dim::PODS => quantity.value(),
            _ => quantity.milli_value(),
        })
    }

    fn intern(&mut self, name: &str) -> Dim {
        if let Some(dim) = self.find(name) {
            return dim;
        }
        let dim = self.free.pop().unwrap_or_else(|| {
            self.names.push(Box::default());
            // Four thousand million names do not fit into memory.
            Dim(u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX))
        });
        self.names[dim.index()] = name.into();
        self.by_name.insert(name.into(), dim);
        dim
    }

    /// Whether names have become so many that it pays to look for unused ones.
    pub(crate) fn is_due_for_sweep(&self) -> bool {
        self.by_name.len() > self.sweep_at
    }

    /// Forgets the names that none of these amounts mentions.
    pub(crate) fn sweep<'r>(&mut self, amounts: impl Iterator<Item = &'r Resource>) {
        let mut used = vec![false; self.names.len()];
        for dim in [Dim::CPU, Dim::MEMORY, Dim::PODS] {
            used[dim.index()] = true;
        }
        for (dim, _) in amounts.flat_map(Resource::iter) {
            used[dim.index()] = true;
        }
        let free = &mut self.free;
        let names = &mut self.names;
        self.by_name.retain(|_, dim| {
            if !used[dim.index()] {
                names[dim.index()] = Box::default();
                free.push(*dim);
            }
            used[dim.index()]
        });
        self.sweep_at = FIRST_SWEEP.max(2 * self.by_name.len());
    }

    /// The amounts of an object. Quotas that count objects and names that are no resources of pods are left out; a resource
    /// other than cpu, memory and pods counts in thousandths.
    pub(crate) fn read(&mut self, list: &ResourceList) -> Resource {
        let mut read = Resource::default();
        for (name, quantity) in list.iter() {
            match name {
                CPU => read.cpu = number(quantity.milli_value()),
                MEMORY => read.memory = number(quantity.value()),
                PODS => read.scalars.push((Dim::PODS, number(quantity.value()))),
                // Quotas and other names would make a node lack what no node has.
                _ if is_scalar(name) => {
                    let dim = self.intern(name);
                    read.scalars.push((dim, number(quantity.milli_value())));
                }
                _ => {}
            }
        }
        // Names are unique, but reused slots are not in order.
        read.scalars.sort_unstable_by_key(|(dim, _)| *dim);
        read
    }
}

/// Whether a name is a resource of pods other than cpu, memory and pods.
pub(crate) fn is_scalar(name: &str) -> bool {
    if name.starts_with("count/") {
        return false;
    }
    let prefixed = name.contains("kubernetes.io/");
    let extended = name.contains('/') && !prefixed && !name.starts_with("requests.");
    let known = name == "ephemeral-storage"
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-");
    extended || prefixed || known
}

#[expect(
    clippy::cast_precision_loss,
    reason = "amounts are floating point in Volcano"
)]
pub(crate) const fn number(amount: i64) -> f64 {
    amount as f64
}

/// The value of a resource that one side of a comparison does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unnamed {
    Zero,
    Infinity,
}

/// An amount of each resource. Cpu and memory are always named.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Resource {
    pub(crate) cpu: f64,
    pub(crate) memory: f64,
    /// The others that it names, in their order.
    scalars: Vec<(Dim, f64)>,
}

/// Whether one amount is at most another.
pub(crate) fn at_most(left: f64, right: f64) -> bool {
    left < right || (left - right).abs() < EPSILON
}

/// Merges both lists in one pass, because an insertion into a list moves its rest.
fn merged(
    left: &[(Dim, f64)],
    right: &[(Dim, f64)],
    join: impl Fn(Option<f64>, Option<f64>) -> Option<f64>,
) -> Vec<(Dim, f64)> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let mut put = |dim, left, right| merged.extend(join(left, right).map(|amount| (dim, amount)));
    let mut left = left.iter().copied().peekable();
    for (dim, amount) in right {
        while let Some((before, left_amount)) = left.next_if(|(known, _)| known < dim) {
            put(before, Some(left_amount), None);
        }
        let same = left.next_if(|(known, _)| known == dim);
        put(*dim, same.map(|(_, amount)| amount), Some(*amount));
    }
    for (dim, amount) in left {
        put(dim, Some(amount), None);
    }
    merged
}

/// A part of a whole; of nothing nothing is 0 and something is 1.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 {
        return if part == 0.0 { 0.0 } else { 1.0 };
    }
    part / whole
}

impl Resource {
    pub(crate) fn get(&self, dim: Dim) -> f64 {
        self.named(dim).unwrap_or(0.0)
    }

    pub(crate) fn named(&self, dim: Dim) -> Option<f64> {
        match dim {
            Dim::CPU => Some(self.cpu),
            Dim::MEMORY => Some(self.memory),
            _ => {
                let at = self.scalars.binary_search_by_key(&dim, |(known, _)| *known);
                at.ok().map(|at| self.scalars[at].1)
            }
        }
    }

    /// The named resources, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Dim, f64)> {
        let common = [(Dim::CPU, self.cpu), (Dim::MEMORY, self.memory)];
        common.into_iter().chain(self.scalars.iter().copied())
    }

    /// The resources with a positive amount.
    pub(crate) fn some(&self) -> impl Iterator<Item = (Dim, f64)> {
        self.iter().filter(|(_, amount)| *amount >= EPSILON)
    }

    /// Sets every amount to zero and names only cpu and memory. The list keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.cpu = 0.0;
        self.memory = 0.0;
        self.scalars.clear();
    }

    pub(crate) fn set(&mut self, dim: Dim, amount: f64) {
        match dim {
            Dim::CPU => self.cpu = amount,
            Dim::MEMORY => self.memory = amount,
            _ => match self.scalars.binary_search_by_key(&dim, |(known, _)| *known) {
                Ok(at) => self.scalars[at].1 = amount,
                Err(at) => self.scalars.insert(at, (dim, amount)),
            },
        }
    }

    /// Adds to the dimension of that name, if resources of pods can have it.
    pub(crate) fn add_scalar(&mut self, dims: &mut Dims, name: &str, amount: f64) {
        if is_scalar(name) {
            self.add_to(dims.intern(name), amount);
        }
    }

    pub(crate) fn add_to(&mut self, dim: Dim, amount: f64) {
        self.set(dim, self.get(dim) + amount);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.add_scalars(&other.scalars, 1.0);
    }

    /// Adds `times` times these amounts.
    fn add_scalars(&mut self, other: &[(Dim, f64)], times: f64) {
        if other.len() <= SHORT {
            for (dim, amount) in other {
                self.add_to(*dim, times * *amount);
            }
            return;
        }
        self.scalars = merged(&self.scalars, other, |amount, other| match other {
            Some(other) => Some(amount.unwrap_or(0.0) + times * other),
            None => amount,
        });
    }

    /// Subtracts. An amount that names only cpu and memory gets no further resources.
    pub(crate) fn sub(&mut self, other: &Self) {
        self.cpu -= other.cpu;
        self.memory -= other.memory;
        // As in Volcano, where nothing is subtracted from a missing map.
        if self.scalars.is_empty() {
            return;
        }
        self.add_scalars(&other.scalars, -1.0);
    }

    pub(crate) fn scale(&mut self, by: f64) {
        self.cpu *= by;
        self.memory *= by;
        for (_, amount) in &mut self.scalars {
            *amount *= by;
        }
    }

    /// Nothing, however many pods it is for.
    pub(crate) fn is_empty(&self) -> bool {
        let mut amounts = self.iter().filter(|(dim, _)| *dim != Dim::PODS);
        amounts.all(|(_, amount)| amount < EPSILON)
    }

    /// Whether it is at most the other in each dimension that it names.
    pub(crate) fn within(&self, other: &Self, unnamed: Unnamed) -> bool {
        self.iter().all(|(dim, amount)| {
            let Some(limit) = other.named(dim) else {
                return unnamed == Unnamed::Infinity || at_most(amount, 0.0);
            };
            at_most(amount, limit)
        })
    }

    /// The dimensions that `request` asks for in which it exceeds the other, the number of pods aside.
    pub(crate) fn exceeded<'r>(
        &'r self,
        other: &'r Self,
        request: &'r Self,
    ) -> impl Iterator<Item = Dim> + 'r {
        let asked = request.iter();
        let asked = asked.filter(|(dim, amount)| *amount > 0.0 && *dim != Dim::PODS);
        asked.filter_map(|(dim, _)| (self.get(dim) > other.get(dim)).then_some(dim))
    }

    /// Whether it exceeds the other in none of the dimensions that `request` asks for.
    pub(crate) fn within_for(&self, other: &Self, request: &Self) -> bool {
        self.exceeded(other, request).next().is_none()
    }

    /// Lowers each dimension to that of the other.
    pub(crate) fn lower_to(&mut self, other: &Self, unnamed: Unnamed) {
        self.cpu = self.cpu.min(other.cpu);
        self.memory = self.memory.min(other.memory);
        for (dim, amount) in &mut self.scalars {
            match other.named(*dim) {
                Some(limit) => *amount = amount.min(limit),
                None if unnamed == Unnamed::Infinity => {}
                None => *amount = 0.0,
            }
        }
    }

    /// Raises each dimension to that of the other.
    pub(crate) fn raise_to(&mut self, other: &Self) {
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        self.scalars = merged(&self.scalars, &other.scalars, |amount, other| {
            amount.map_or(other, |amount| Some(amount.max(other.unwrap_or(amount))))
        });
    }

    /// The excess over the other, naming only exceeded resources.
    pub(crate) fn beyond(&self, other: &Self) -> Self {
        let more = |amount: f64, other: f64| (amount > other).then_some(amount - other);
        Self {
            cpu: more(self.cpu, other.cpu).unwrap_or(0.0),
            memory: more(self.memory, other.memory).unwrap_or(0.0),
            // A resource that only the other names counts as zero here; a negative amount there leaves an excess.
            scalars: merged(&self.scalars, &other.scalars, |amount, other| {
                more(amount.unwrap_or(0.0), other.unwrap_or(0.0))
            }),
        }
    }

    /// The largest share of `whole`, and in which of its dimensions.
    pub(crate) fn dominant(&self, whole: &Self) -> (Option<Dim>, f64) {
        let mut dominant = (None, 0.0);
        for (dim, amount) in whole.some() {
            let part = share(self.get(dim), amount);
            if part > dominant.1 {
                dominant = (Some(dim), part);
            }
        }
        dominant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dims: &mut Dims, text: &str) -> Resource {
        dims.read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn s6_091_amounts_compare_with_a_tenth_of_a_unit_and_pods_do_not_count_as_something() {
        let mut dims = Dims::default();
        let amount = read(&mut dims, r#"{"cpu": "1", "memory": "1Ki", "pods": "1"}"#);
        let mut other = amount.clone();
        other.memory -= 0.05;
        assert!(amount.within(&other, Unnamed::Zero));
        other.memory -= 1.0;
        assert!(!amount.within(&other, Unnamed::Zero));
        assert!(read(&mut dims, r#"{"pods": "1"}"#).is_empty());
        assert!(!read(&mut dims, r#"{"example.com/gpu": "1"}"#).is_empty());
    }

    #[test]
    fn quotas_of_counts_are_no_resources_of_pods() {
        let mut dims = Dims::default();
        let text = r#"{"count/pods": "3", "requests.cpu": "2", "nvidia.com/gpu": "1", "cpu": "1"}"#;
        let amount = read(&mut dims, text);
        let names: Vec<&str> = amount.iter().map(|(dim, _)| dims.name(dim)).collect();
        assert_eq!(names, ["cpu", "memory", "nvidia.com/gpu"]);
        assert_eq!(
            amount.get(dims.find("nvidia.com/gpu").unwrap()).to_bits(),
            1000.0_f64.to_bits()
        );
    }

    #[test]
    fn names_that_are_not_mentioned_any_more_are_forgotten_and_every_mentioned_name_counts() {
        let mut dims = Dims::default();
        let one = |name: usize| format!(r#"{{"example.com/r{name}": "1"}}"#);
        let kept = read(&mut dims, &one(0));
        for name in 1..70_000 {
            let amount = read(&mut dims, &one(name));
            assert_eq!(amount.iter().count(), 3, "{name}");
        }
        assert!(dims.is_due_for_sweep());
        dims.sweep([&kept].into_iter());
        assert!(!dims.is_due_for_sweep());
        assert_eq!(dims.find("example.com/r1"), None);
        let dim = dims.find("example.com/r0").unwrap();
        assert_eq!((kept.get(dim), dims.name(dim)), (1000.0, "example.com/r0"));
        let new = read(&mut dims, &one(70_000));
        let (dim, _) = new.iter().nth(2).unwrap();
        assert_eq!(dims.name(dim), "example.com/r70000");
        assert!(dim.index() < 70_000, "a free place is taken again");
    }

    #[test]
    fn a_long_list_adds_up_as_its_names_one_by_one() {
        let mut dims = Dims::default();
        let list = |names: std::ops::Range<usize>| {
            let names = names.map(|name| format!(r#""example.com/r{name}": "{name}""#));
            format!("{{{}}}", names.collect::<Vec<_>>().join(", "))
        };
        let all = read(&mut dims, &list(1..60));
        let (mut sum, other) = (all.clone(), read(&mut dims, &list(20..90)));
        sum.add(&other);
        let mut one_by_one = all.clone();
        for (dim, amount) in other.iter() {
            one_by_one.add_to(dim, amount);
        }
        assert_eq!(sum, one_by_one);
        sum.sub(&other);
        for (dim, amount) in sum.iter() {
            assert_eq!(amount.to_bits(), all.get(dim).to_bits());
        }
    }

    #[test]
    fn the_excess_names_only_exceeded_resources() {
        let mut dims = Dims::default();
        let amount = read(&mut dims, r#"{"cpu": "3", "memory": "1Ki", "pods": "2"}"#);
        let beyond = amount.beyond(&read(
            &mut dims,
            r#"{"cpu": "1", "memory": "2Ki", "pods": "2"}"#,
        ));
        assert_eq!(beyond, read(&mut dims, r#"{"cpu": "2"}"#));
    }
}
