//! Amounts of resources as Volcano counts them (S6-091): floating point, compared with a tolerance of a tenth of a unit,
//! and a dimension that an amount does not name is not the same as one of which it holds nothing.

use evictd_pod::resources::{CPU, MEMORY, PODS};
use evictd_pod::wire::ResourceList;

/// Amounts that differ by less are equal.
pub(crate) const EPSILON: f64 = 0.1;

/// A kind of resource, as an index into [`Dims`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Dim(u16);

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

/// The names of all kinds of resources that were met.
#[derive(Debug)]
pub(crate) struct Dims(Vec<Box<str>>);

impl Default for Dims {
    fn default() -> Self {
        Self(vec![CPU.into(), MEMORY.into(), PODS.into()])
    }
}

impl Dims {
    pub(crate) fn name(&self, dim: Dim) -> &str {
        &self.0[dim.index()]
    }

    /// The kind of that name, if it was met.
    pub(crate) fn find(&self, name: &str) -> Option<Dim> {
        let index = self.0.iter().position(|own| **own == *name)?;
        u16::try_from(index).ok().map(Dim)
    }

    /// The kind of that name; `None` for names beyond the first 65 536.
    fn intern(&mut self, name: &str) -> Option<Dim> {
        if let Some(dim) = self.find(name) {
            return Some(dim);
        }
        let dim = u16::try_from(self.0.len()).ok().map(Dim)?;
        self.0.push(name.into());
        Some(dim)
    }

    /// A list of an object. Quotas that count objects and names that are no resources of pods are left out; whatever is
    /// neither cpu, memory nor pods counts in thousandths.
    pub(crate) fn read(&mut self, list: &ResourceList) -> Resource {
        let mut read = Resource::default();
        for (name, quantity) in list.iter() {
            match name {
                CPU => read.cpu = number(quantity.milli_value()),
                MEMORY => read.memory = number(quantity.value()),
                PODS => read.add_to(Dim::PODS, number(quantity.value())),
                _ if is_scalar(name) => {
                    if let Some(dim) = self.intern(name) {
                        read.add_to(dim, number(quantity.milli_value()));
                    }
                }
                _ => {}
            }
        }
        read
    }
}

/// Whether a name is that of a resource that pods can ask for beside cpu, memory and pods.
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

/// What a dimension holds that one side of a comparison does not name.
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
                let own = self.scalars.iter().find(|(own, _)| *own == dim);
                own.map(|(_, amount)| *amount)
            }
        }
    }

    /// What it names, in the order of the dimensions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Dim, f64)> {
        let common = [(Dim::CPU, self.cpu), (Dim::MEMORY, self.memory)];
        common.into_iter().chain(self.scalars.iter().copied())
    }

    /// The dimensions of which it holds something.
    pub(crate) fn some(&self) -> impl Iterator<Item = (Dim, f64)> {
        self.iter().filter(|(_, amount)| *amount >= EPSILON)
    }

    pub(crate) fn set(&mut self, dim: Dim, amount: f64) {
        match dim {
            Dim::CPU => self.cpu = amount,
            Dim::MEMORY => self.memory = amount,
            _ => match self.scalars.binary_search_by_key(&dim, |(own, _)| *own) {
                Ok(at) => self.scalars[at].1 = amount,
                Err(at) => self.scalars.insert(at, (dim, amount)),
            },
        }
    }

    /// Adds to the dimension of that name, if resources of pods can have it.
    pub(crate) fn add_scalar(&mut self, dims: &mut Dims, name: &str, amount: f64) {
        if let Some(dim) = is_scalar(name).then(|| dims.intern(name)).flatten() {
            self.add_to(dim, amount);
        }
    }

    pub(crate) fn add_to(&mut self, dim: Dim, amount: f64) {
        self.set(dim, self.get(dim) + amount);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        for (dim, amount) in &other.scalars {
            self.add_to(*dim, *amount);
        }
    }

    /// Takes away; what it does not name stays unnamed if it names nothing at all beside cpu and memory.
    pub(crate) fn sub(&mut self, other: &Self) {
        self.cpu -= other.cpu;
        self.memory -= other.memory;
        if self.scalars.is_empty() {
            return;
        }
        for (dim, amount) in &other.scalars {
            self.add_to(*dim, -*amount);
        }
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
        for (dim, amount) in other.iter() {
            let own = self.named(dim);
            self.set(dim, own.map_or(amount, |own| own.max(amount)));
        }
    }

    /// What it holds beyond the other, naming only such dimensions.
    pub(crate) fn beyond(&self, other: &Self) -> Self {
        let mut beyond = Self::default();
        for (dim, amount) in self.iter() {
            let more = amount - other.get(dim);
            if more > 0.0 {
                beyond.set(dim, more);
            }
        }
        // What only the other names counts as nothing here, and a negative amount there leaves something.
        for (dim, amount) in other.iter() {
            if self.named(dim).is_none() && amount < 0.0 {
                beyond.set(dim, -amount);
            }
        }
        beyond
    }

    /// The largest share of `whole`, and in which of its dimensions.
    pub(crate) fn dominant(&self, whole: &Self) -> (Option<Dim>, f64) {
        let mut dominant = (None, 0.0);
        for (dim, amount) in whole.some() {
            let own = share(self.get(dim), amount);
            if own > dominant.1 {
                dominant = (Some(dim), own);
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
        let own = read(&mut dims, r#"{"cpu": "1", "memory": "1Ki", "pods": "1"}"#);
        let mut other = own.clone();
        other.memory -= 0.05;
        assert!(own.within(&other, Unnamed::Zero));
        other.memory -= 1.0;
        assert!(!own.within(&other, Unnamed::Zero));
        assert!(read(&mut dims, r#"{"pods": "1"}"#).is_empty());
        assert!(!read(&mut dims, r#"{"example.com/gpu": "1"}"#).is_empty());
    }

    #[test]
    fn quotas_of_counts_are_no_resources_of_pods() {
        let mut dims = Dims::default();
        let text = r#"{"count/pods": "3", "requests.cpu": "2", "nvidia.com/gpu": "1", "cpu": "1"}"#;
        let own = read(&mut dims, text);
        let names: Vec<&str> = own.iter().map(|(dim, _)| dims.name(dim)).collect();
        assert_eq!(names, ["cpu", "memory", "nvidia.com/gpu"]);
        assert_eq!(
            own.get(dims.find("nvidia.com/gpu").unwrap()).to_bits(),
            1000.0_f64.to_bits()
        );
    }

    #[test]
    fn only_what_is_named_is_beyond() {
        let mut dims = Dims::default();
        let own = read(&mut dims, r#"{"cpu": "3", "memory": "1Ki", "pods": "2"}"#);
        let beyond = own.beyond(&read(
            &mut dims,
            r#"{"cpu": "1", "memory": "2Ki", "pods": "2"}"#,
        ));
        assert_eq!(beyond, read(&mut dims, r#"{"cpu": "2"}"#));
    }
}
