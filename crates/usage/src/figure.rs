//! Figures with their unit, source and time of measurement, and whether they are complete.
//!
//! Two figures of different units cannot be added or compared:
//!
//! ```compile_fail,E0308
//! use evictd_usage::figure::Figure;
//! let nonsense = Figure::bytes(1 << 30) + Figure::inodes(41);
//! ```

use evictd_pod::Quantity;
use jiff::Timestamp;
use std::{marker::PhantomData, ops};

/// The unit of a figure.
pub trait Unit: Copy {
    /// An amount of this unit, to be printed as amounts of it are.
    fn quantity(value: i64) -> Quantity {
        Quantity::count(value)
    }
}

/// Bytes of memory or disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes;

/// Files and directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inodes;

/// Processes, counted in threads where the kernel does so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processes;

impl Unit for Bytes {
    fn quantity(value: i64) -> Quantity {
        Quantity::bytes(value)
    }
}

impl Unit for Inodes {}

impl Unit for Processes {}

/// Where a figure comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// Given by the caller, or the sum of figures from several sources.
    #[default]
    Several,
    /// The files of a cgroup.
    Cgroup,
    /// The kubelet's summary.
    Kubelet,
    /// The container runtime.
    Runtime,
    /// A walk through directories.
    Walk,
    /// The filesystem's own count of a project.
    Project,
    /// A look at the open files of processes.
    OpenFiles,
    /// The loss of the filesystem since the crossing, for a pod that nothing else could measure in time.
    Loss,
}

/// A measured amount. An unknown amount has no figure: it is never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure<U> {
    /// In units of `U`.
    pub value: i64,
    /// Where it comes from.
    pub source: Source,
    /// When it was measured; of a sum, when the oldest part was. `None` where the source does not tell.
    pub time: Option<Timestamp>,
    /// Whether it is all of it: a count that was cut short is a lower bound.
    pub complete: bool,
    unit: PhantomData<U>,
}

impl Figure<Bytes> {
    /// A complete figure in bytes.
    pub const fn bytes(value: i64) -> Self {
        Self::new(value)
    }
}

impl Figure<Inodes> {
    /// A complete figure of files and directories.
    pub const fn inodes(value: i64) -> Self {
        Self::new(value)
    }
}

impl Figure<Processes> {
    /// A complete figure of processes.
    pub const fn processes(value: i64) -> Self {
        Self::new(value)
    }
}

impl<U> Figure<U> {
    /// A complete figure of no known source and moment.
    pub const fn new(value: i64) -> Self {
        Self {
            value,
            source: Source::Several,
            time: None,
            complete: true,
            unit: PhantomData,
        }
    }

    /// The same figure from this source, measured at this time.
    #[must_use]
    pub const fn measured(mut self, source: Source, time: Option<Timestamp>) -> Self {
        self.source = source;
        self.time = time;
        self
    }

    /// The same figure as a lower bound, if `cut_short`.
    #[must_use]
    pub const fn at_least(mut self, cut_short: bool) -> Self {
        self.complete = self.complete && !cut_short;
        self
    }

    /// Whether it was measured at that moment or later.
    pub fn is_since(&self, moment: Timestamp) -> bool {
        self.time.is_some_and(|time| time >= moment)
    }
}

impl<U> ops::Add for Figure<U> {
    type Output = Self;

    /// Saturating. The sum is as old as its older part, and a lower bound if one part is.
    fn add(self, other: Self) -> Self {
        let same = self.source == other.source;
        Self {
            value: self.value.saturating_add(other.value),
            source: if same { self.source } else { Source::Several },
            time: self.time.min(other.time),
            complete: self.complete && other.complete,
            unit: PhantomData,
        }
    }
}

/// The sum of the known figures; `None` without any.
pub fn sum<U>(figures: impl Iterator<Item = Option<Figure<U>>>) -> Option<Figure<U>> {
    figures.flatten().reduce(ops::Add::add)
}

/// An amount of one unit that may be a fraction, as requests may. It is compared with amounts of the same unit only.
#[derive(Debug, Clone, Copy)]
pub struct Amount<U> {
    quantity: Quantity,
    unit: PhantomData<U>,
}

impl<U> Amount<U> {
    /// Nothing.
    pub const ZERO: Self = Self {
        quantity: Quantity::ZERO,
        unit: PhantomData,
    };

    /// The amount without its unit.
    pub const fn quantity(self) -> Quantity {
        self.quantity
    }

    /// Whether this amount is larger.
    pub fn exceeds(self, other: &Self) -> bool {
        self.quantity > other.quantity
    }
}

impl Amount<Bytes> {
    /// A pod's request of memory or disk.
    pub const fn requested(quantity: Quantity) -> Self {
        Self {
            quantity,
            unit: PhantomData,
        }
    }
}

impl<U: Unit> Amount<U> {
    /// A whole number of units.
    pub fn whole(value: i64) -> Self {
        Self {
            quantity: U::quantity(value),
            unit: PhantomData,
        }
    }
}

impl<U: Unit> From<Figure<U>> for Amount<U> {
    fn from(figure: Figure<U>) -> Self {
        Self::whole(figure.value)
    }
}

impl<U> ops::Add for Amount<U> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            quantity: self.quantity + other.quantity,
            ..self
        }
    }
}

impl<U> ops::Sub for Amount<U> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            quantity: self.quantity - other.quantity,
            ..self
        }
    }
}

/// Arithmetic of the kubelet that mixes units. It holds under the kubelet's rules only, where choices must be the
/// kubelet's.
pub mod kubelet {
    use super::{Amount, Bytes, Figure, Inodes};

    /// A figure that is missing counts as zero (S1-060).
    pub fn or_zero<U>(figure: Option<Figure<U>>) -> Figure<U> {
        figure.unwrap_or(Figure::new(0))
    }

    /// For inodes the last key of the ranking subtracts the `ephemeral-storage` request, which is in bytes (S1-062).
    pub fn inodes_less_bytes(used: Amount<Inodes>, request: Amount<Bytes>) -> Amount<Inodes> {
        Amount {
            quantity: used.quantity - request.quantity,
            ..used
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_as_old_as_its_oldest_part_and_complete_only_if_all_are() {
        let at = |second| Timestamp::from_second(second).ok();
        let walked = Figure::bytes(5).measured(Source::Walk, at(9));
        let told = Figure::bytes(7).measured(Source::Runtime, at(4));
        let both = walked + told;
        assert_eq!(
            (both.value, both.source, both.time, both.complete),
            (12, Source::Several, at(4), true)
        );
        assert_eq!((walked + walked).source, Source::Walk);
        assert!(!(walked + told.at_least(true)).complete);
        assert!(walked.is_since(at(9).unwrap()) && !both.is_since(at(9).unwrap()));
        // A part without a time has no moment to be after.
        assert!(!(walked + Figure::bytes(1)).is_since(at(0).unwrap()));
        assert_eq!(sum([None, Some(walked), None].into_iter()), Some(walked));
        assert_eq!(sum::<Bytes>([None].into_iter()), None);
    }
}
