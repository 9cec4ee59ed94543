//! What an evaluation may cost. Units are those of Kubernetes, so that a selector fails here exactly where it fails there. Work that
//! those units do not reflect, such as building a long text, is counted beside them, so that every evaluation ends soon.

/// The most that one evaluation may cost, in units.
pub(crate) const MOST_COST: u64 = 1_000_000;
/// The most bytes that one evaluation may build or compare.
const MOST_BYTES: u64 = 32 << 20;
/// So many bytes that an evaluation handles take about as long as a unit of cost.
const BYTES_OF_UNIT: u64 = 32;
/// About as much as a value takes in a list.
const VALUE: u64 = 32;
/// A text of so many bytes is read in the time of the step that reads it.
const SHORT: usize = 64;
/// The longest message of an error. It is kept with the answer.
const LONGEST_MESSAGE: usize = 256;

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It costs too much. No operator absorbs this, and nothing is evaluated after it.
    Cost,
    /// Something in it fails.
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

    /// In the words of Kubernetes.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Cost => "operation cancelled: actual cost limit exceeded",
            Self::Error(message) => message,
        }
    }
}

/// What an evaluation has cost so far. What is about to be done is charged before it is done.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    spent: u64,
    bytes: u64,
}

impl Meter {
    /// What it has cost, with the work that its units do not reflect.
    pub(crate) const fn units(&self) -> u64 {
        self.spent + self.bytes / BYTES_OF_UNIT
    }

    #[cfg(test)]
    pub(crate) const fn spent(&self) -> u64 {
        self.spent
    }

    pub(crate) fn charge(&mut self, units: u64) -> Result<(), Fault> {
        // What is refused is not done: it does not count in full.
        self.spent = self.spent.saturating_add(units).min(MOST_COST + 1);
        if self.spent > MOST_COST {
            return Err(Fault::Cost);
        }
        Ok(())
    }

    /// A pass over so many characters or elements, `tenths` tenths of a unit for each.
    pub(crate) fn traverse(&mut self, size: u64, tenths: u64) -> Result<(), Fault> {
        self.charge(size.saturating_mul(tenths).div_ceil(10))
    }

    /// So many bytes are about to be built, copied or compared.
    pub(crate) fn handle(&mut self, bytes: usize) -> Result<(), Fault> {
        let sum = self.bytes.saturating_add(bytes as u64);
        self.bytes = sum.min(MOST_BYTES + 1);
        if self.bytes > MOST_BYTES {
            return Err(Fault::Cost);
        }
        Ok(())
    }

    /// A text is about to be compared with others or parsed, for the price of one step.
    pub(crate) fn read(&mut self, text: &str) -> Result<(), Fault> {
        if text.len() > SHORT {
            self.handle(text.len())?;
        }
        Ok(())
    }

    /// The same of values in a list.
    pub(crate) fn handle_values(&mut self, count: u64) -> Result<(), Fault> {
        let bytes = count.saturating_mul(VALUE);
        self.handle(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}
