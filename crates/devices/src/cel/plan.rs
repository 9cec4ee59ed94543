//! Compiles parsed expressions: resolves names and functions, and folds constants.

use super::functions::{self, Function};
use super::macros::{INSERT, RESULT};
use super::meter::Meter;
use super::pattern::Pattern;
use super::value::{DURATION, Key, Map, TIMESTAMP, Value};
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
    SelectExpr, operators,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value),
    Device,
    /// A local variable of a macro, by its index.
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
    /// True unless the value is false; errors count as true.
    NotFalse(Box<Node>),
    /// Membership in a list of constants. It is a lookup, so it costs nothing.
    Among(Box<Node>, BTreeSet<Key>),
    Call(Call),
    /// An optional, and the alternative that is evaluated if it is empty.
    OrElse(Box<[Node; 2]>, OrElse),
    /// The elements, and whether each is dropped if it is an empty optional.
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    /// A value, and an expression that sees it as the last local variable.
    Bind(Box<[Node; 2]>),
    Fold(Box<Fold>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Select {
    Plain,
    Test,
    Optional,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrElse {
    Optional,
    Value,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    /// The target comes first, if there is one.
    pub(crate) args: Vec<Node>,
    /// The compiled argument, if it is a constant regular expression.
    pub(crate) pattern: Option<Pattern>,
}

/// A comprehension over a list or a map. The local variables of a step are its result, and then one or two variables.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    /// Two variables are an index or key, and its value. One variable is a value of a list, or a key of a map.
    pub(crate) has_two: bool,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Step,
    pub(crate) result: Node,
}

#[derive(Debug)]
pub(crate) enum Step {
    /// The new result.
    Set(Node),
    /// Extends the result in place if the condition holds.
    Extend(Option<Node>, Extension),
}

#[derive(Debug)]
pub(crate) enum Extension {
    /// The elements of a list.
    List(Node),
    /// A key and a value.
    Entry(Box<[Node; 2]>),
    /// The entries of a map.
    Map(Node),
}

impl Extension {
    pub(crate) fn nodes(&self) -> &[Node] {
        match self {
            Self::List(node) | Self::Map(node) => std::slice::from_ref(node),
            Self::Entry(nodes) => &nodes[..],
        }
    }
}

/// Compiles an expression.
///
/// # Errors
/// An undeclared name, or an invalid constant.
pub(crate) fn plan(expression: &IdedExpr) -> Result<Node, String> {
    Planner::default().node(&expression.expr)
}

#[derive(Debug, Default)]
struct Planner {
    /// The local variables in scope.
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
            Expr::Struct(literal) => return Err(undeclared(&literal.type_name)),
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
        expressions
            .map(|expression| self.node(&expression.expr))
            .collect()
    }

    fn name(&self, name: &str) -> Result<Node, String> {
        if let Some(at) = self.locals.iter().rposition(|local| local == name) {
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
                let known = types.into_iter().find(|known| *known == name);
                let known = known.ok_or_else(|| undeclared(name))?;
                Ok(Node::Constant(Value::Type(known)))
            }
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Node, String> {
        if let Some(known) = type_with_dots(select).filter(|_| !select.test)
            && !self.locals.iter().any(|local| local == "google")
        {
            return Ok(Node::Constant(Value::Type(known)));
        }
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
        let two = |planner: &mut Self| -> Result<Box<[Node; 2]>, String> {
            let nodes = planner.all(args)?;
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
            (operators::NOT_STRICTLY_FALSE, [operand]) => {
                Ok(Node::NotFalse(self.boxed(&operand.expr)?))
            }
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

    /// A call on a target, or of a function whose name starts with its library's name.
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
        if let ("or" | "orValue", [other]) = (name, args) {
            let kind = match name {
                "or" => OrElse::Optional,
                _ => OrElse::Value,
            };
            let other = self.node(&other.expr)?;
            return Ok(Node::OrElse(Box::new([target, other]), kind));
        }
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
            EntryExpr::MapEntry(entry) => Ok((
                self.node(&entry.key.expr)?,
                self.node(&entry.value.expr)?,
                entry.optional,
            )),
            EntryExpr::StructField(field) => Err(undeclared(&field.field)),
        });
        let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        Ok(folded(&entries).unwrap_or(Node::Map(entries)))
    }

    fn walk(&mut self, walk: &ComprehensionExpr) -> Result<Node, String> {
        let range = self.node(&walk.iter_range.expr)?;
        let init = self.node(&walk.accu_init.expr)?;
        self.locals.push(walk.accu_var.clone());
        let node = if walk.accu_var == RESULT {
            self.fold(walk, (range, init))
        } else {
            // `cel.bind` expands to this form.
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
        let before = self.locals.len();
        self.locals.push(walk.iter_var.clone());
        self.locals.extend(walk.iter_var2.clone());
        let condition = self.node(&walk.loop_cond.expr);
        let step = self.step(&walk.loop_step.expr);
        self.locals.truncate(before);
        let result = self.node(&walk.result.expr)?;
        Ok(Node::Fold(Box::new(Fold {
            range,
            has_two: walk.iter_var2.is_some(),
            init,
            condition: condition?,
            step: step?,
            result,
        })))
    }

    fn step(&mut self, step: &Expr) -> Result<Step, String> {
        if let Some(extension) = self.extension(step)? {
            return Ok(Step::Extend(None, extension));
        }
        if let Expr::Call(call) = step
            && call.func_name == operators::CONDITIONAL
            && let [condition, then, otherwise] = call.args.as_slice()
            && is_result(otherwise)
            && let Some(extension) = self.extension(&then.expr)?
        {
            let condition = self.node(&condition.expr)?;
            return Ok(Step::Extend(Some(condition), extension));
        }
        self.node(step).map(Step::Set)
    }

    /// The value that a step adds to the result, if it adds one.
    fn extension(&mut self, step: &Expr) -> Result<Option<Extension>, String> {
        let Expr::Call(call) = step else {
            return Ok(None);
        };
        let args = match call.args.as_slice() {
            [result, args @ ..] if call.target.is_none() && is_result(result) => args,
            _ => return Ok(None),
        };
        Ok(match (call.func_name.as_str(), args) {
            (operators::ADD, [more]) if matches!(more.expr, Expr::List(_)) => {
                Some(Extension::List(self.node(&more.expr)?))
            }
            (INSERT, [entries]) => Some(Extension::Map(self.node(&entries.expr)?)),
            (INSERT, [key, value]) => {
                let entry = [self.node(&key.expr)?, self.node(&value.expr)?];
                Some(Extension::Entry(Box::new(entry)))
            }
            _ => None,
        })
    }
}

fn is_result(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == RESULT)
}

/// The types of the standard library whose names have dots.
fn type_with_dots(select: &SelectExpr) -> Option<&'static str> {
    let Expr::Select(package) = &select.operand.expr else {
        return None;
    };
    let Expr::Ident(root) = &package.operand.expr else {
        return None;
    };
    match (root.as_str(), package.field.as_str(), select.field.as_str()) {
        ("google", "protobuf", "Timestamp") => Some(TIMESTAMP),
        ("google", "protobuf", "Duration") => Some(DURATION),
        _ => None,
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
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Value::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Value::Double(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(value) => Value::text(value.inner()),
        LiteralValue::UInt(value) => Value::UInt(*value.inner()),
    }
}

/// The values of nodes, if all are constants.
fn constants(nodes: &[Node]) -> Option<Vec<Value>> {
    let values = nodes.iter().map(|node| match node {
        Node::Constant(value) => Some(value.clone()),
        _ => None,
    });
    values.collect()
}

/// Folds a map of constants. Of entries with the same key the last one counts.
fn folded(entries: &[(Node, Node, bool)]) -> Option<Node> {
    let mut map = BTreeMap::new();
    for entry in entries {
        let (Node::Constant(key), Node::Constant(value), false) = entry else {
            return None;
        };
        map.insert(Key::of_entry(key)?, value.clone());
    }
    Some(Node::Constant(Value::Map(Arc::new(Map {
        entries: map,
        missing: None,
    }))))
}

/// Resolves a function call.
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
    if CONVERSIONS.contains(&name)
        && !is_member
        && let [Node::Constant(_)] = args.as_slice()
    {
        return converted(found.function, &args);
    }
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

/// Conversions of constants are done when the expression is compiled, so they cost nothing later.
const CONVERSIONS: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// Converts a constant.
fn converted(function: Function, args: &[Node]) -> Result<Node, String> {
    let values = constants(args).unwrap_or_default();
    let mut meter = Meter::default();
    let value = function(&mut functions::Invocation {
        args: values,
        pattern: None,
        meter: &mut meter,
    });
    let value = value.map_err(|fault| fault.message().to_owned())?;
    Ok(Node::Constant(value))
}

/// The work of compiling all constant patterns of an expression, in bytes.
pub(crate) fn patterns(node: &Node) -> usize {
    let direct = match node {
        Node::Call(call) => call.pattern.as_ref().map_or(0, Pattern::work),
        _ => 0,
    };
    let mut sum = direct;
    node.each(&mut |child| sum = sum.saturating_add(patterns(child)));
    sum
}

impl Node {
    /// Visits the direct children.
    fn each(&self, visit: &mut dyn FnMut(&Self)) {
        match self {
            Self::Constant(_) | Self::Device | Self::Local(_) => {}
            Self::Select { operand, .. } => visit(operand),
            Self::Index { operand, key, .. } => {
                visit(operand);
                visit(key);
            }
            Self::And(children)
            | Self::Or(children)
            | Self::Bind(children)
            | Self::OrElse(children, _) => {
                children.iter().for_each(visit);
            }
            Self::Condition(children) => children.iter().for_each(visit),
            Self::NotFalse(child) | Self::Among(child, _) => visit(child),
            Self::Call(call) => call.args.iter().for_each(visit),
            Self::List(elements) => elements.iter().for_each(|(elements, _)| visit(elements)),
            Self::Map(entries) => {
                for (key, value, _) in entries {
                    visit(key);
                    visit(value);
                }
            }
            Self::Fold(fold) => {
                let Fold {
                    range,
                    init,
                    condition,
                    step,
                    result,
                    has_two: _,
                } = &**fold;
                [range, init, condition, result]
                    .into_iter()
                    .for_each(&mut *visit);
                match step {
                    Step::Set(step) => visit(step),
                    Step::Extend(condition, extension) => {
                        condition.iter().for_each(&mut *visit);
                        extension.nodes().iter().for_each(visit);
                    }
                }
            }
        }
    }
}
