//! Selectors of devices in the Common Expression Language, with the variable `device` as Kubernetes defines it.
//!
//! A library parses them. They are evaluated here, because each step must be charged, as Kubernetes does: an expression of a
//! few lines can ask for more work than a machine does in a year.

mod depth;
mod estimate;
mod eval;
mod functions;
mod list;
mod meter;
mod pattern;
mod plan;
mod subject;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use subject::Subject;

use cel::Env;
use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue};
use cel::parser::{Macro, MacroExprHelper};
use depth::excess;
use eval::Evaluation;
use plan::Node;
use std::sync::{Arc, LazyLock};
use value::Value;

/// The API server refuses longer expressions.
const LONGEST: usize = 10 * 1024;

static ENVIRONMENT: LazyLock<Result<Env, String>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let bind = Macro::receiver("bind", 3, |helper, target, args| {
        Ok(bind(helper, target.as_ref(), args))
    });
    env.add_macro(bind).map_err(|error| error.to_string())?;
    Ok(env)
});

/// `cel.bind(name, value, expression)`: the expression with that value under that name. As the language's own library does
/// it, it is a walk over nothing that begins with the value.
fn bind(
    helper: &mut MacroExprHelper<'_>,
    target: Option<&IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Option<IdedExpr> {
    let of_cel =
        target.is_some_and(|target| matches!(&target.expr, Expr::Ident(name) if name == "cel"));
    let name = match args.first().map(|name| &name.expr) {
        Some(Expr::Ident(name)) if of_cel => name.clone(),
        _ => return None,
    };
    let (result, value) = (args.pop()?, args.pop()?);
    let never = LiteralValue::Boolean(false.into());
    let walk = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: value,
        loop_cond: helper.next_expr(Expr::Literal(never)),
        loop_step: helper.next_expr(Expr::Ident(name)),
        result,
    };
    Some(helper.next_expr(Expr::Comprehension(Box::new(walk))))
}

/// A selector, ready to be asked about devices.
#[derive(Debug)]
pub(crate) struct Expression {
    node: Node,
    /// The work of preparing its constant patterns, in bytes.
    patterns: usize,
}

/// What a selector says of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether it selects the device; as an error what fails while it is evaluated, as where it asks for an attribute that the
    /// device does not have.
    pub(crate) selects: Result<bool, Arc<str>>,
    /// What it has cost to find out, in units.
    pub(crate) cost: u64,
}

impl Expression {
    /// # Errors
    /// Why it cannot be read, in one line.
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

    /// What it says of a device.
    pub(crate) fn judge(&self, device: &Subject) -> Verdict {
        let mut evaluation = Evaluation::of(device.value());
        let ready = evaluation.meter.handle(self.patterns);
        let value = ready.and_then(|()| evaluation.value(&self.node));
        let selects = match value {
            Ok(Value::Bool(own)) => Ok(own),
            Ok(other) => {
                let kind = other.type_name();
                Err(format!("CEL result of type {kind} could not be converted to bool").into())
            }
            Err(fault) => Err(fault.message().into()),
        };
        Verdict {
            selects,
            cost: evaluation.meter.units(),
        }
    }
}
