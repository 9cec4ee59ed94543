//! The cost of an evaluation. Units are those of Kubernetes, so that a selector fails here exactly where it fails
//! there. Work that units do not reflect, such as building a long string, is counted separately, so that every
//! evaluation ends soon.

use std::fmt;

/// The cost of a new list.
pub(crate) const NEW_LIST: u64 = 10;
/// The maximum cost of an evaluation, in units.
pub(crate) const MOST_COST: u64 = 1_000_000;
/// The maximum number of bytes that an evaluation may build or compare.
const MOST_BYTES: u64 = 32 << 20;
/// Handling this many bytes takes about as long as one unit of cost.
const BYTES_OF_UNIT: u64 = 32;
/// The approximate size of a value in a list, in bytes.
const VALUE: u64 = 32;
/// Reading a string of this length takes no longer than the step that reads it.
const SHORT: usize = 64;
/// The maximum length of an error message, because messages are cached.
const LONGEST_MESSAGE: usize = 256;

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The cost limit is exceeded. No operator absorbs this, and evaluation stops.
    Cost,
    /// An evaluation error.
    Error(Box<str>),
}

impl Fault {
    pub(crate) fn error(message: impl Into<Box<str>>) -> Self {
        let message = message.into();
        let end = message.floor_char_boundary(LONGEST_MESSAGE);
        Self::Error(message.get(..end).unwrap_or_default().into())
    }

    pub(crate) fn no_overload() -> Self {
        Self::error("no such overload")
    }

    /// The error of a function that is called on a value of this wrong type.
    pub(crate) fn no_overload_of(name: &str, type_name: impl fmt::Display) -> Self {
        Self::error(format!("no such overload: {name}({type_name})"))
    }

    /// Kubernetes' message.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Cost => "operation cancelled: actual cost limit exceeded",
            Self::Error(message) => message,
        }
    }
}

/// The cost so far. Work is charged before it is done.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    spent: u64,
    bytes: u64,
}

impl Meter {
    /// The total cost, with the work that units do not reflect.
    pub(crate) const fn units(&self) -> u64 {
        self.spent + self.bytes / BYTES_OF_UNIT
    }

    #[cfg(test)]
    pub(crate) const fn spent(&self) -> u64 {
        self.spent
    }

    pub(crate) fn charge(&mut self, units: u64) -> Result<(), Fault> {
        // Rejected work is not done, so it does not count in full.
        self.spent = self.spent.saturating_add(units).min(MOST_COST + 1);
        if self.spent > MOST_COST {
            return Err(Fault::Cost);
        }
        Ok(())
    }

    /// Charges a pass over characters or elements, at `tenths` tenths of a unit each.
    pub(crate) fn traverse(&mut self, size: u64, tenths: u64) -> Result<(), Fault> {
        self.charge(size.saturating_mul(tenths).div_ceil(10))
    }

    /// Charges bytes to be built, copied or compared.
    pub(crate) fn handle(&mut self, bytes: usize) -> Result<(), Fault> {
        let sum = self.bytes.saturating_add(bytes as u64);
        self.bytes = sum.min(MOST_BYTES + 1);
        if self.bytes > MOST_BYTES {
            return Err(Fault::Cost);
        }
        Ok(())
    }

    /// Charges a string that one step compares or parses.
    pub(crate) fn read(&mut self, text: &str) -> Result<(), Fault> {
        if text.len() > SHORT {
            self.handle(text.len())?;
        }
        Ok(())
    }

    /// Charges values of a list.
    pub(crate) fn handle_values(&mut self, count: u64) -> Result<(), Fault> {
        let bytes = count.saturating_mul(VALUE);
        self.handle(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}
