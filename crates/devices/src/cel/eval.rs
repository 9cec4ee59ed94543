//! Evaluates an expression and charges each step as Kubernetes does. A name or field costs 1, a constant 0, a new list
//! 10, a new map 30, and a function costs what its table says. The root of a chain of names and fields is free if the
//! chain is a conditional branch or a key.

use super::functions::Invocation;
use super::meter::{Fault, Meter, NEW_LIST};
use super::plan::{Call, Extension, Fold, Node, OrElse, Select, Step};
use super::value::{Key, Map, Value, Values};
use std::collections::BTreeMap;
use std::sync::Arc;

const NEW_MAP: u64 = 30;

type Outcome = Result<Value, Fault>;

pub(crate) struct Evaluation<'e> {
    device: &'e Value,
    pub(crate) meter: Meter,
    /// Variables of macros. An error is a value here, too, because `exists` and `all` may ignore it.
    locals: Vec<Outcome>,
}

impl<'e> Evaluation<'e> {
    pub(crate) fn of(device: &'e Value) -> Self {
        Self {
            device,
            meter: Meter::default(),
            locals: Vec::new(),
        }
    }

    pub(crate) fn value(&mut self, node: &Node) -> Outcome {
        self.chain(node, 1)
    }

    /// Evaluates a chain; `root` is the cost of its first name.
    fn chain(&mut self, node: &Node, root: u64) -> Outcome {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Device => {
                self.meter.charge(root)?;
                Ok(self.device.clone())
            }
            Node::Local(at) => {
                self.meter.charge(root)?;
                self.locals[*at].clone()
            }
            Node::Select {
                operand,
                field,
                kind,
            } => self.select(operand, field, *kind, root),
            Node::Index {
                operand,
                key,
                is_optional,
            } => self.index(operand, key, *is_optional, root),
            Node::And(sides) => self.logical(sides, false),
            Node::Or(sides) => self.logical(sides, true),
            Node::Condition(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.value(condition)? {
                    Value::Bool(true) => self.chain(then, 0),
                    Value::Bool(false) => self.chain(otherwise, 0),
                    _ => Err(Fault::no_overload()),
                }
            }
            Node::NotFalse(operand) => {
                let value = self.value(operand);
                self.meter.charge(1)?;
                match value {
                    Err(Fault::Cost) => Err(Fault::Cost),
                    Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
                    _ => Ok(Value::Bool(true)),
                }
            }
            Node::Among(element, keys) => {
                let element = self.value(element)?;
                if matches!(element, Value::Version(_)) {
                    let why = "internal error: runtime error: hash of unhashable type cel.Semver";
                    return Err(Fault::error(why));
                }
                let element = Key::of(&element);
                Ok(Value::Bool(element.is_some_and(|key| keys.contains(&key))))
            }
            Node::Call(call) => self.call(call),
            Node::OrElse(parts, kind) => self.or_else(parts, *kind),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Bind(parts) => {
                let [value, body] = &**parts;
                let value = self.value(value)?;
                self.locals.push(Ok(value));
                let result = self.value(body);
                self.locals.pop();
                result
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// The operand of a selection.
    fn operand(&mut self, operand: &Node, root: u64) -> Outcome {
        if is_chain(operand) {
            return self.chain(operand, root);
        }
        let value = self.value(operand)?;
        self.meter.charge(root)?;
        Ok(value)
    }

    fn select(&mut self, operand: &Node, field: &Arc<str>, kind: Select, root: u64) -> Outcome {
        let value = self.operand(operand, root)?;
        if kind == Select::Test {
            return match value {
                Value::Map(map) => Ok(Value::Bool(map.has(field))),
                Value::Optional(Some(inner)) => match &*inner {
                    Value::Map(map) => Ok(Value::Bool(map.has(field))),
                    _ => Err(Fault::no_overload()),
                },
                Value::Optional(None) => Ok(Value::Bool(false)),
                _ => Err(Fault::no_overload()),
            };
        }
        let key = Value::Text(Arc::clone(field));
        self.access(value, &key, kind == Select::Optional)
    }

    /// Charges one unit, unless an optional access finds nothing.
    fn access(&mut self, value: Value, key: &Value, is_optional: bool) -> Outcome {
        let may_miss = is_optional || matches!(value, Value::Optional(_));
        let found = element(value, key, is_optional, &mut self.meter);
        if !(may_miss && matches!(found, Ok(Value::Optional(None)))) {
            self.meter.charge(1)?;
        }
        found
    }

    fn index(&mut self, operand: &Node, key: &Node, is_optional: bool, root: u64) -> Outcome {
        let value = self.operand(operand, root)?;
        let key = if is_chain(key) {
            self.chain(key, 0)?
        } else {
            self.value(key)?
        };
        self.access(value, &key, is_optional)
    }

    /// `&&` and `||`: one side can decide even if the other fails.
    fn logical(&mut self, sides: &[Node; 2], decides: bool) -> Outcome {
        let [left, right] = sides;
        let left = self.value(left);
        match left {
            Ok(Value::Bool(value)) if value == decides => return left,
            // The cost limit ends every evaluation, so the right side must not hide it.
            Err(Fault::Cost) => return left,
            _ => {}
        }
        let right = self.value(right);
        match (left, right) {
            (_, Err(Fault::Cost)) => Err(Fault::Cost),
            (_, Ok(Value::Bool(value))) if value == decides => Ok(Value::Bool(value)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            _ => Err(Fault::no_overload()),
        }
    }

    /// It costs nothing, and the other value is evaluated only if it is needed.
    fn or_else(&mut self, parts: &[Node; 2], kind: OrElse) -> Outcome {
        let [optional, other] = parts;
        let optional = self.value(optional)?;
        match (&optional, kind) {
            (Value::Optional(None), _) => self.value(other),
            (Value::Optional(Some(inner)), OrElse::Value) => Ok(inner.as_ref().clone()),
            _ => Ok(optional),
        }
    }

    fn call(&mut self, call: &Call) -> Outcome {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.value(arg)?);
        }
        (call.function)(&mut Invocation {
            args,
            pattern: call.pattern.as_ref(),
            meter: &mut self.meter,
        })
    }

    fn list(&mut self, elements: &[(Node, bool)]) -> Outcome {
        let mut values = Vec::with_capacity(elements.len());
        for (element, may_miss) in elements {
            let value = self.value(element)?;
            match value {
                Value::Optional(inner) if *may_miss => values.extend(inner.as_deref().cloned()),
                value => values.push(value),
            }
        }
        self.meter.charge(NEW_LIST)?;
        self.meter.handle_values(values.len() as u64)?;
        Ok(Value::List(values.into()))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Outcome {
        let mut map = BTreeMap::new();
        for (key, value, may_miss) in entries {
            let key = Key::of_entry(&self.value(key)?);
            let key = key.ok_or_else(|| Fault::error("unsupported key type"))?;
            key.read(&mut self.meter)?;
            let value = match self.value(value)? {
                Value::Optional(None) if *may_miss => continue,
                Value::Optional(Some(inner)) if *may_miss => inner.as_ref().clone(),
                value => value,
            };
            // Of entries with the same key the last one counts.
            map.insert(key, value);
        }
        self.meter.charge(NEW_MAP)?;
        self.meter.handle_values(map.len() as u64)?;
        let entries = map;
        Ok(Value::Map(Arc::new(Map {
            entries,
            missing: None,
        })))
    }

    fn fold(&mut self, fold: &Fold) -> Outcome {
        let range = self.value(&fold.range)?;
        let init = self.value(&fold.init)?;
        self.locals.push(Ok(init));
        let result = self.walk(fold, &range);
        let result = result.and_then(|()| self.value(&fold.result));
        self.locals.pop();
        result
    }

    /// Leaves the result as the last local variable.
    fn walk(&mut self, fold: &Fold, range: &Value) -> Result<(), Fault> {
        match range {
            Value::List(list) => {
                for (index, element) in (0..).zip(list.iter()) {
                    let index = fold.has_two.then_some(Value::Int(index));
                    if !self.visit(fold, index, element.clone())? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in &map.entries {
                    let (first, last) = if fold.has_two {
                        (Some(key.value()), value.clone())
                    } else {
                        (None, key.value())
                    };
                    if !self.visit(fold, first, last)? {
                        break;
                    }
                }
            }
            other => {
                let kind = other.type_name();
                let message = format!("got '{kind}', expected iterable type");
                return Err(Fault::error(message));
            }
        }
        Ok(())
    }

    /// Runs one step with the variables of an element. Returns false at the end of the walk.
    fn visit(&mut self, fold: &Fold, first: Option<Value>, last: Value) -> Result<bool, Fault> {
        // Charges elements here, because constant steps charge nothing and the walk must still end.
        self.meter.handle_values(1)?;
        let variables = self.locals.len();
        self.locals.extend(first.map(Ok));
        self.locals.push(Ok(last));
        let goes_on = self.step(fold, variables - 1);
        self.locals.truncate(variables);
        goes_on
    }

    /// Runs one step, whose result is the local variable with this index.
    fn step(&mut self, fold: &Fold, result: usize) -> Result<bool, Fault> {
        match self.value(&fold.condition)? {
            Value::Bool(true) => {}
            Value::Bool(false) => return Ok(false),
            _ => return Err(Fault::no_overload()),
        }
        match &fold.step {
            Step::Set(step) => {
                let value = self.value(step);
                if matches!(value, Err(Fault::Cost)) {
                    return Err(Fault::Cost);
                }
                self.locals[result] = value;
            }
            Step::Extend(condition, extension) => {
                let holds = match condition {
                    None => Value::Bool(true),
                    Some(condition) => self.value(condition)?,
                };
                match holds {
                    Value::Bool(false) => return Ok(true),
                    Value::Bool(true) => self.extend(extension, result)?,
                    _ => return Err(Fault::no_overload()),
                }
            }
        }
        Ok(true)
    }

    /// Adds to the result, which is taken out of its variable so that nothing else refers to it.
    fn extend(&mut self, extension: &Extension, result: usize) -> Result<(), Fault> {
        // Charges the name of the result and the call.
        self.meter.charge(2)?;
        let mut added = Vec::with_capacity(2);
        for node in extension.nodes() {
            added.push(self.value(node)?);
        }
        let before = std::mem::replace(&mut self.locals[result], Ok(Value::Null))?;
        let mut added = added.into_iter();
        let after = match (extension, before, added.next(), added.next()) {
            (Extension::List(_), Value::List(list), Some(Value::List(more)), None) => {
                Value::List(list.and(more, &mut self.meter)?)
            }
            (Extension::Entry(_), Value::Map(map), Some(key), Some(value)) => {
                Value::Map(inserted(map, [(key, value)], &mut self.meter)?)
            }
            (Extension::Map(_), Value::Map(map), Some(Value::Map(more)), None) => {
                let entries = more.entries.iter();
                let entries = entries.map(|(key, value)| (key.value(), value.clone()));
                Value::Map(inserted(map, entries, &mut self.meter)?)
            }
            _ => return Err(Fault::no_overload()),
        };
        self.locals[result] = Ok(after);
        Ok(())
    }
}

/// Adds entries to a map, which is copied only if something else refers to it.
fn inserted(
    mut map: Arc<Map>,
    entries: impl IntoIterator<Item = (Value, Value)>,
    meter: &mut Meter,
) -> Result<Arc<Map>, Fault> {
    if Arc::get_mut(&mut map).is_none() {
        meter.handle_values(map.entries.len() as u64)?;
        map = Arc::new(Map {
            entries: map.entries.clone(),
            missing: None,
        });
    }
    let Some(changed) = Arc::get_mut(&mut map) else {
        return Err(Fault::error("a map cannot be extended"));
    };
    for (key, value) in entries {
        meter.handle_values(1)?;
        let key = Key::of_entry(&key).ok_or_else(|| Fault::error("unsupported key type"))?;
        key.read(meter)?;
        if changed.entries.contains_key(&key) {
            let message = format!("insert failed: key {} already exists", key.shown());
            return Err(Fault::error(message));
        }
        changed.entries.insert(key, value);
    }
    Ok(map)
}

/// Whether it is a chain of names, fields and keys.
const fn is_chain(node: &Node) -> bool {
    match node {
        Node::Device | Node::Local(_) | Node::Condition(_) | Node::Index { .. } => true,
        Node::Select { kind, .. } => !matches!(kind, Select::Test),
        _ => false,
    }
}

/// The value of a map's key, or an element of a list.
fn element(value: Value, key: &Value, is_optional: bool, meter: &mut Meter) -> Outcome {
    let (value, is_optional) = match value {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => (inner.as_ref().clone(), true),
        value => (value, is_optional),
    };
    let found = match &value {
        Value::Map(map) => map.get(key, meter),
        Value::List(list) => at(list, key),
        _ => Err(Fault::no_overload()),
    };
    match found {
        Err(Fault::Cost) => Err(Fault::Cost),
        found if is_optional => Ok(Value::Optional(found.ok().map(Arc::new))),
        found => found,
    }
}

fn at(list: &Values, key: &Value) -> Outcome {
    let Some(Key::Int(index)) = Key::of(key) else {
        return Err(Fault::no_overload());
    };
    let found = u64::try_from(index).ok().and_then(|index| list.get(index));
    found.ok_or_else(|| Fault::error(format!("index out of bounds: {index}")))
}
