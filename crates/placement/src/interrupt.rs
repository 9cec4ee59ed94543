//! Ends an attempt: from outside, because its time is over, or because its cost exceeds the limit. The pure core reads no
//! clock: the caller passes a function that returns whether the time is over.

use crate::symbol::Symbol;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hashbrown::HashMap;
use std::sync::{Mutex, PoisonError};

/// The message of every node after an interrupt.
pub const INTERRUPTED: &str = "the attempt took too long and was ended";

/// The interrupt of an attempt, and its cost so far. Once raised, every filter fails at once, so that loops over nodes,
/// members and victims end soon. The caller discards their result.
#[derive(Default)]
pub struct Interrupt {
    ask: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Whether an attempt runs that may be interrupted.
    armed: bool,
    raised: AtomicBool,
    /// The units of cost that the attempt may take.
    most: u64,
    spent: AtomicU64,
    /// Whether work that is no search for devices is only counted.
    works_freely: bool,
    /// The units of such work.
    worked: AtomicU64,
    exceeded: AtomicBool,
    /// The units that searches for devices may still take during a session, for each namespace that has begun one.
    shares: Option<Mutex<HashMap<Symbol, u64>>>,
}

/// Comparing this many values takes about as long as one unit.
pub(crate) const STEPS_OF_UNIT: usize = 512;

/// The units that searches for devices of one namespace may take during a session.
const SHARE: u64 = 1 << 18;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// Its cost, in the units of [`estimated_cost`](crate::estimated_cost).
    pub cost: u64,
}

impl Interrupt {
    /// Sets the function that decides whether to interrupt.
    pub fn ask(&mut self, ask: impl Fn() -> bool + Send + Sync + 'static) {
        self.ask = Some(Box::new(ask));
    }

    /// Starts an attempt that may take so many units of cost. If it `works_freely`, only searches for devices are limited:
    /// however large the cluster is, a pod that the API server accepts is tried.
    pub fn begin(&mut self, most: u64, works_freely: bool) {
        self.armed = true;
        self.most = most;
        self.works_freely = works_freely;
        *self.spent.get_mut() = 0;
        *self.worked.get_mut() = 0;
        *self.exceeded.get_mut() = false;
        *self.raised.get_mut() = false;
    }

    /// Starts a session, in which pods of many namespaces are placed. It is not interrupted. Searches for devices of a
    /// namespace that has used its share only use cached results, and go on in the next session.
    pub fn begin_session(&mut self) {
        self.begin(u64::MAX, true);
        self.armed = false;
        self.shares = Some(Mutex::default());
    }

    /// Ends an attempt or a session.
    pub fn end(&mut self) -> Ended {
        self.armed = false;
        self.shares = None;
        *self.exceeded.get_mut() = false;
        Ended {
            interrupted: std::mem::take(self.raised.get_mut()),
            cost: std::mem::take(self.spent.get_mut())
                .saturating_add(std::mem::take(self.worked.get_mut())),
        }
    }

    /// Counts units of cost. Beyond the limit the attempt is interrupted, so that this depends on the sum alone and not on
    /// the order in which threads count.
    pub fn charge(&self, units: u64) {
        let before = self.spent.fetch_add(units, Ordering::Relaxed);
        if self.armed && before.saturating_add(units) > self.most {
            self.exceeded.store(true, Ordering::Relaxed);
            self.raised.store(true, Ordering::Relaxed);
        }
    }

    /// Counts units of work that is no search for devices.
    pub fn charge_work(&self, units: u64) {
        if self.works_freely {
            self.worked.fetch_add(units, Ordering::Relaxed);
        } else {
            self.charge(units);
        }
    }

    /// Counts the whole units of so many steps of work. A step takes about as long as comparing two values. Returns the steps
    /// that are left.
    pub fn charge_steps(&self, steps: usize) -> usize {
        let units = steps / STEPS_OF_UNIT;
        if units > 0 {
            self.charge_work(u64::try_from(units).unwrap_or(u64::MAX));
        }
        steps % STEPS_OF_UNIT
    }

    /// How many units a search for devices of this namespace may take.
    pub fn left_for_devices(&self, namespace: Symbol) -> u64 {
        if let Some(shares) = &self.shares {
            let shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
            return shares.get(&namespace).copied().unwrap_or(SHARE);
        }
        if !self.armed {
            return u64::MAX;
        }
        self.most.saturating_sub(self.spent.load(Ordering::Relaxed))
    }

    /// Counts the units of a search for devices.
    pub fn charge_devices(&self, namespace: Symbol, units: u64) {
        if let Some(shares) = &self.shares {
            let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
            let left = shares.entry(namespace).or_insert(SHARE);
            *left = left.saturating_sub(units);
        }
        self.charge(units);
    }

    /// Whether the attempt exceeded its limit of cost.
    pub fn is_too_costly(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    /// Whether the interrupt was raised at the last look.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Calls the function and returns whether the attempt is interrupted.
    pub fn look(&self) -> bool {
        let is_over = self.is_raised() || self.armed && self.ask.as_ref().is_some_and(|ask| ask());
        if is_over {
            self.raised.store(true, Ordering::Relaxed);
        }
        is_over
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt")
            .field("armed", &self.armed)
            .field("raised", &self.raised)
            .field("spent", &self.spent)
            .finish_non_exhaustive()
    }
}
