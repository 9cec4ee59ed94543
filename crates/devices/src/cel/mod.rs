//! Device selectors in the Common Expression Language, with Kubernetes' variable `device`.
//!
//! A library parses them. They are evaluated here, because each step must be charged as in Kubernetes: an expression of
//! a few lines can require more work than a machine does in a year.

mod amount;
mod depth;
mod estimate;
mod eval;
mod functions;
mod list;
mod macros;
mod meter;
mod number;
mod pattern;
mod plan;
mod quote;
mod subject;
#[cfg(test)]
mod tests;
mod time;
mod url;
mod value;

pub(crate) use subject::Subject;

use cel::Env;
use depth::excess;
use eval::Evaluation;
use plan::Node;
use std::sync::{Arc, LazyLock};
use value::Value;

/// The API server rejects longer expressions.
const LONGEST: usize = 10 * 1024;

static ENVIRONMENT: LazyLock<Result<Env, String>> = LazyLock::new(macros::environment);

/// A compiled selector.
#[derive(Debug)]
pub(crate) struct Expression {
    node: Node,
    /// The work of compiling its constant patterns, in bytes.
    patterns: usize,
}

/// The result of a selector for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether it selects the device, or the evaluation error, for example if the device lacks an attribute.
    pub(crate) selects: Result<bool, Arc<str>>,
    /// The cost of the evaluation, in units.
    pub(crate) cost: u64,
}

impl Expression {
    /// # Errors
    /// Why it does not compile, in one line.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let env = ENVIRONMENT.as_ref().map_err(Clone::clone)?;
        if text.len() > LONGEST {
            return Err(format!("it has more than {LONGEST} bytes"));
        }
        if let Some(excess) = excess(text) {
            return Err(excess);
        }
        let parsed = env.parser().parse(text).map_err(|errors| {
            let errors = errors.errors.iter().map(|error| error.msg.trim());
            errors.collect::<Vec<_>>().join("; ")
        })?;
        let node = plan::plan(&parsed)?;
        if estimate::most(&node) > meter::MOST_COST {
            return Err("too complex, exceeds cost limit".to_owned());
        }
        let patterns = plan::patterns(&node);
        Ok(Self { node, patterns })
    }

    /// Evaluates the selector for a device.
    pub(crate) fn evaluate(&self, device: &Subject) -> Verdict {
        let mut evaluation = Evaluation::of(device.value());
        let ready = evaluation.meter.handle(self.patterns);
        let value = ready.and_then(|()| evaluation.value(&self.node));
        let selects = match value {
            Ok(Value::Bool(selects)) => Ok(selects),
            Ok(other) => Err(other.not_bool().into()),
            Err(fault) => Err(fault.message().into()),
        };
        Verdict {
            selects,
            cost: evaluation.meter.units(),
        }
    }
}
