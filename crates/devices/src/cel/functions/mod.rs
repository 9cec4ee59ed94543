//! The functions of expressions and their costs: the standard library, the strings, lists and sets extensions, and
//! Kubernetes' own library. Each table lists the calling form of its functions.

mod addresses;
mod convert;
mod formats;
mod formatting;
mod kubernetes;
mod lists;
mod operators;
mod optional;
mod strings;
mod times;
mod unparsed;
mod urls;

use super::meter::{Fault, Meter};
use super::pattern::Pattern;
use super::value::Value;
use std::sync::Arc;

/// A function. It charges its cost before it does the work.
pub(crate) type Function = fn(&mut Invocation<'_, '_>) -> Result<Value, Fault>;

/// The arguments of a call.
pub(crate) struct Invocation<'e, 'm> {
    /// The target comes first, if there is one.
    pub(crate) args: Vec<Value>,
    /// The compiled argument, if it is a constant regular expression.
    pub(crate) pattern: Option<&'e Pattern>,
    pub(crate) meter: &'m mut Meter,
}

impl Invocation<'_, '_> {
    /// Charges one unit.
    fn plain(&mut self) -> Result<(), Fault> {
        self.meter.charge(1)
    }

    fn arg(&self, at: usize) -> &Value {
        self.args.get(at).unwrap_or(&Value::Null)
    }

    fn take(&mut self, at: usize) -> Value {
        self.args
            .get_mut(at)
            .map_or(Value::Null, |slot| std::mem::replace(slot, Value::Null))
    }

    fn text(&self, at: usize) -> Result<Arc<str>, Fault> {
        match self.arg(at) {
            Value::Text(value) => Ok(Arc::clone(value)),
            _ => Err(Fault::no_overload()),
        }
    }

    fn int(&self, at: usize) -> Result<i64, Fault> {
        match self.arg(at) {
            Value::Int(value) => Ok(*value),
            _ => Err(Fault::no_overload()),
        }
    }

    /// An optional argument.
    fn int_or(&self, at: usize, absent: i64) -> Result<i64, Fault> {
        if at < self.args.len() {
            return self.int(at);
        }
        Ok(absent)
    }
}

/// The calling form of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Called {
    /// Only on a target, which counts as the first argument.
    On,
    Alone,
    Either,
}

pub(crate) struct Entry {
    pub(crate) name: &'static str,
    called: Called,
    /// The minimum and maximum number of arguments.
    arguments: (usize, usize),
    pub(crate) function: Function,
    /// The index of the argument that is a regular expression.
    pub(crate) pattern: Option<usize>,
}

const fn entry(
    name: &'static str,
    called: Called,
    arguments: (usize, usize),
    function: Function,
) -> Entry {
    Entry {
        name,
        called,
        arguments,
        function,
        pattern: None,
    }
}

const fn with_pattern(entry: &Entry) -> Entry {
    Entry {
        pattern: Some(1),
        ..*entry
    }
}

const TABLES: [&[Entry]; 10] = [
    operators::TABLE,
    convert::TABLE,
    strings::TABLE,
    lists::TABLE,
    optional::TABLE,
    kubernetes::TABLE,
    addresses::TABLE,
    times::TABLE,
    urls::TABLE,
    formats::TABLE,
];

/// The function with this name, calling form and number of arguments.
pub(crate) fn find(name: &str, on_target: bool, count: usize) -> Option<&'static Entry> {
    let called = if on_target { Called::On } else { Called::Alone };
    let mut entries = TABLES.into_iter().flatten();
    entries.find(|entry| {
        let (fewest, most) = entry.arguments;
        entry.name == name
            && (entry.called == called || entry.called == Called::Either)
            && (fewest..=most).contains(&count)
    })
}

pub(crate) fn is_known(name: &str) -> bool {
    let mut entries = TABLES.into_iter().flatten();
    entries.any(|entry| entry.name == name)
}

#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.into_iter().flatten().map(|entry| entry.name)
}
