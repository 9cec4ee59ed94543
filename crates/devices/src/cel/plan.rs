//! Expressions as they are evaluated: names are resolved, functions found and constants folded when an expression is read.

use super::functions::{self, Function};
use super::pattern::Pattern;
use super::value::{Key, Map, Value};
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
    SelectExpr, operators,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The variable that macros collect their results in. Nobody can write this name.
const RESULT: &str = "@result";

#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value),
    Device,
    /// A variable of a macro, by its place among those that are there at the time.
    Local(usize),
    Select {
        operand: Box<Node>,
        field: Arc<str>,
        kind: Select,
    },
    Index {
        operand: Box<Node>,
        key: Box<Node>,
        is_optional: bool,
    },
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Condition(Box<[Node; 3]>),
    /// Whether it is anything but false, errors included.
    NotFalse(Box<Node>),
    /// Membership in a list of constants: they are looked up, so that it costs nothing.
    Among(Box<Node>, BTreeSet<Key>),
    Call(Call),
    /// Elements, and whether each is left out where it is an empty optional.
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    /// A value, and an expression that has it as its last local variable.
    Bind(Box<[Node; 2]>),
    Fold(Box<Fold>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Select {
    Plain,
    Test,
    Optional,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    /// The target first, if there is one.
    pub(crate) args: Vec<Node>,
    /// A constant regular expression among them.
    pub(crate) pattern: Option<Pattern>,
}

/// A walk over a list or the keys of a map. Its result is the last but one local variable, its element the last one.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Step,
    pub(crate) result: Node,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// The new result.
    Set(Node),
    /// What is added to the list that is the result, where the condition holds: then the list is extended in place.
    Append(Option<Node>, Node),
}

/// Reads an expression.
///
/// # Errors
/// A name that is not declared, or a constant that is wrong.
pub(crate) fn plan(expression: &IdedExpr) -> Result<Node, String> {
    Planner::default().node(&expression.expr)
}

#[derive(Debug, Default)]
struct Planner {
    /// The local variables at this place.
    locals: Vec<String>,
}

impl Planner {
    fn node(&mut self, expression: &Expr) -> Result<Node, String> {
        Ok(match expression {
            Expr::Literal(literal) => Node::Constant(constant(literal)),
            Expr::Ident(name) => self.name(name)?,
            Expr::Select(select) => self.select(select)?,
            Expr::Call(call) => self.call(call)?,
            Expr::List(list) => self.list(list)?,
            Expr::Map(map) => self.map(map)?,
            Expr::Comprehension(walk) => self.walk(walk)?,
            Expr::Struct(own) => return Err(undeclared(&own.type_name)),
            Expr::Unspecified => return Err("an expression is missing".to_owned()),
        })
    }

    fn boxed(&mut self, expression: &Expr) -> Result<Box<Node>, String> {
        self.node(expression).map(Box::new)
    }

    fn all<'e>(
        &mut self,
        expressions: impl IntoIterator<Item = &'e IdedExpr>,
    ) -> Result<Vec<Node>, String> {
        let expressions = expressions.into_iter();
        expressions.map(|own| self.node(&own.expr)).collect()
    }

    fn name(&self, name: &str) -> Result<Node, String> {
        if let Some(at) = self.locals.iter().rposition(|own| own == name) {
            return Ok(Node::Local(at));
        }
        let types = [
            "bool",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "list",
            "map",
            "null_type",
            "type",
        ];
        match name {
            "device" => Ok(Node::Device),
            name => {
                let known = types.into_iter().find(|own| *own == name);
                let known = known.ok_or_else(|| undeclared(name))?;
                Ok(Node::Constant(Value::Type(known)))
            }
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Node, String> {
        Ok(Node::Select {
            operand: self.boxed(&select.operand.expr)?,
            field: select.field.as_str().into(),
            kind: if select.test {
                Select::Test
            } else {
                Select::Plain
            },
        })
    }

    fn call(&mut self, call: &CallExpr) -> Result<Node, String> {
        let name = call.func_name.as_str();
        if let Some(target) = &call.target {
            return self.member(name, &target.expr, &call.args);
        }
        let args = &call.args;
        let two = |own: &mut Self| -> Result<Box<[Node; 2]>, String> {
            let nodes = own.all(args)?;
            <[Node; 2]>::try_from(nodes)
                .map(Box::new)
                .map_err(|_| arguments(name))
        };
        match (name, args.as_slice()) {
            (operators::LOGICAL_AND, _) => Ok(Node::And(two(self)?)),
            (operators::LOGICAL_OR, _) => Ok(Node::Or(two(self)?)),
            (operators::CONDITIONAL, _) => {
                let nodes = <[Node; 3]>::try_from(self.all(args)?);
                Ok(Node::Condition(
                    nodes.map(Box::new).map_err(|_| arguments(name))?,
                ))
            }
            (operators::NOT_STRICTLY_FALSE, [own]) => Ok(Node::NotFalse(self.boxed(&own.expr)?)),
            (operators::INDEX | operators::OPT_INDEX, [operand, key]) => Ok(Node::Index {
                operand: self.boxed(&operand.expr)?,
                key: self.boxed(&key.expr)?,
                is_optional: name == operators::OPT_INDEX,
            }),
            (operators::OPT_SELECT, [operand, field]) => {
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    return Err("an optional field has no name".to_owned());
                };
                Ok(Node::Select {
                    operand: self.boxed(&operand.expr)?,
                    field: field.inner().into(),
                    kind: Select::Optional,
                })
            }
            _ => {
                let args = self.all(args)?;
                function(name, false, args)
            }
        }
    }

    /// A call on a target, or of a function whose name begins with that of its library.
    fn member(&mut self, name: &str, target: &Expr, args: &[IdedExpr]) -> Result<Node, String> {
        if let Expr::Ident(library) = target
            && !self.locals.contains(library)
        {
            let qualified = format!("{library}.{name}");
            if functions::is_known(&qualified) {
                let args = self.all(args)?;
                return function(&qualified, false, args);
            }
        }
        let target = self.node(target)?;
        let mut all = vec![target];
        all.extend(self.all(args)?);
        function(name, true, all)
    }

    fn list(&mut self, list: &ListExpr) -> Result<Node, String> {
        let nodes = self.all(&list.elements)?;
        if let Some(values) = constants(&nodes)
            && list.optional_indices.is_empty()
        {
            return Ok(Node::Constant(Value::List(values.into())));
        }
        let nodes = nodes.into_iter().enumerate();
        let elements = nodes.map(|(at, node)| (node, list.optional_indices.contains(&at)));
        Ok(Node::List(elements.collect()))
    }

    fn map(&mut self, map: &MapExpr) -> Result<Node, String> {
        let entries = map.entries.iter().map(|entry| match &entry.expr {
            EntryExpr::MapEntry(own) => Ok((
                self.node(&own.key.expr)?,
                self.node(&own.value.expr)?,
                own.optional,
            )),
            EntryExpr::StructField(own) => Err(undeclared(&own.field)),
        });
        let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        Ok(folded(&entries).unwrap_or(Node::Map(entries)))
    }

    fn walk(&mut self, walk: &ComprehensionExpr) -> Result<Node, String> {
        if walk.iter_var2.is_some() {
            return Err("macros with two variables are not understood".to_owned());
        }
        let range = self.node(&walk.iter_range.expr)?;
        let init = self.node(&walk.accu_init.expr)?;
        self.locals.push(walk.accu_var.clone());
        let node = if walk.accu_var == RESULT {
            self.fold(walk, (range, init))
        } else {
            // That is how `cel.bind` is read.
            let body = self.node(&walk.result.expr);
            body.map(|body| Node::Bind(Box::new([init, body])))
        };
        self.locals.pop();
        node
    }

    fn fold(
        &mut self,
        walk: &ComprehensionExpr,
        (range, init): (Node, Node),
    ) -> Result<Node, String> {
        self.locals.push(walk.iter_var.clone());
        let condition = self.node(&walk.loop_cond.expr);
        let step = self.step(&walk.loop_step.expr);
        self.locals.pop();
        let result = self.node(&walk.result.expr)?;
        Ok(Node::Fold(Box::new(Fold {
            range,
            init,
            condition: condition?,
            step: step?,
            result,
        })))
    }

    fn step(&mut self, step: &Expr) -> Result<Step, String> {
        let is_result = |own: &IdedExpr| matches!(&own.expr, Expr::Ident(name) if name == RESULT);
        let added = |own: &'_ Expr| match own {
            Expr::Call(call) if call.func_name == operators::ADD && call.target.is_none() => {
                match call.args.as_slice() {
                    [result, more] if is_result(result) && matches!(more.expr, Expr::List(_)) => {
                        Some(more.expr.clone())
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some(more) = added(step) {
            return Ok(Step::Append(None, self.node(&more)?));
        }
        if let Expr::Call(call) = step
            && call.func_name == operators::CONDITIONAL
            && let [condition, then, otherwise] = call.args.as_slice()
            && let Some(more) = added(&then.expr)
            && is_result(otherwise)
        {
            let condition = self.node(&condition.expr)?;
            return Ok(Step::Append(Some(condition), self.node(&more)?));
        }
        self.node(step).map(Step::Set)
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}'")
}

fn arguments(name: &str) -> String {
    format!("found no matching overload for '{name}'")
}

fn constant(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(own) => Value::Bool(*own.inner()),
        LiteralValue::Bytes(own) => Value::Bytes(own.inner().into()),
        LiteralValue::Double(own) => Value::Double(*own.inner()),
        LiteralValue::Int(own) => Value::Int(*own.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(own) => Value::text(own.inner()),
        LiteralValue::UInt(own) => Value::UInt(*own.inner()),
    }
}

/// The values of nodes that are all constants.
fn constants(nodes: &[Node]) -> Option<Vec<Value>> {
    let values = nodes.iter().map(|node| match node {
        Node::Constant(value) => Some(value.clone()),
        _ => None,
    });
    values.collect()
}

/// A map of constants. One with a key twice is left to fail when it is evaluated.
fn folded(entries: &[(Node, Node, bool)]) -> Option<Node> {
    let mut map = BTreeMap::new();
    for entry in entries {
        let (Node::Constant(key), Node::Constant(value), false) = entry else {
            return None;
        };
        if map.insert(Key::of_entry(key)?, value.clone()).is_some() {
            return None;
        }
    }
    Some(Node::Constant(Value::Map(Arc::new(Map {
        entries: map,
        missing: None,
    }))))
}

/// A call of a function.
fn function(name: &str, is_member: bool, args: Vec<Node>) -> Result<Node, String> {
    if name == operators::IN
        && let [_, Node::Constant(Value::List(list))] = args.as_slice()
        && let Some(keys) = list.iter().map(Key::of).collect()
    {
        let mut args = args.into_iter();
        let element = args.next().ok_or_else(|| arguments(name))?;
        return Ok(Node::Among(Box::new(element), keys));
    }
    let found = functions::find(name, is_member, args.len());
    let Some(found) = found else {
        return Err(if functions::is_known(name) {
            arguments(name)
        } else {
            undeclared(name)
        });
    };
    let pattern = match found.pattern.and_then(|at| args.get(at)) {
        Some(Node::Constant(Value::Text(text))) => Some(Pattern::new(text)?),
        _ => None,
    };
    Ok(Node::Call(Call {
        name: found.name,
        function: found.function,
        args,
        pattern,
    }))
}

/// The work of preparing all constant patterns of an expression, in bytes.
pub(crate) fn patterns(node: &Node) -> usize {
    let own = match node {
        Node::Call(call) => call.pattern.as_ref().map_or(0, Pattern::work),
        _ => 0,
    };
    let mut sum = own;
    node.each(&mut |child| sum = sum.saturating_add(patterns(child)));
    sum
}

impl Node {
    /// Visits what it consists of.
    fn each(&self, visit: &mut dyn FnMut(&Self)) {
        match self {
            Self::Constant(_) | Self::Device | Self::Local(_) => {}
            Self::Select { operand, .. } => visit(operand),
            Self::Index { operand, key, .. } => {
                visit(operand);
                visit(key);
            }
            Self::And(own) | Self::Or(own) | Self::Bind(own) => own.iter().for_each(visit),
            Self::Condition(own) => own.iter().for_each(visit),
            Self::NotFalse(own) | Self::Among(own, _) => visit(own),
            Self::Call(own) => own.args.iter().for_each(visit),
            Self::List(own) => own.iter().for_each(|(own, _)| visit(own)),
            Self::Map(own) => {
                for (key, value, _) in own {
                    visit(key);
                    visit(value);
                }
            }
            Self::Fold(own) => {
                let Fold {
                    range,
                    init,
                    condition,
                    step,
                    result,
                } = &**own;
                [range, init, condition, result]
                    .into_iter()
                    .for_each(&mut *visit);
                match step {
                    Step::Set(step) => visit(step),
                    Step::Append(condition, more) => {
                        condition.iter().for_each(&mut *visit);
                        visit(more);
                    }
                }
            }
        }
    }
}
