//! The evaluation of an expression. Each step is charged as Kubernetes charges it: a name or a field costs 1, what is written as a
//! constant nothing, a new list 10, a new map 30, and a function what its table says. The root of a chain of names and fields is free
//! where the chain is a branch of a condition or a key.

use super::functions::Given;
use super::meter::{Fault, Meter};
use super::plan::{Call, Fold, Node, Select, Step};
use super::value::{Key, Map, Value, Values};
use std::collections::BTreeMap;
use std::sync::Arc;

const NEW_LIST: u64 = 10;
const NEW_MAP: u64 = 30;

type Outcome = Result<Value, Fault>;

pub(crate) struct Evaluation<'e> {
    device: &'e Value,
    pub(crate) meter: Meter,
    /// Variables of macros. What has failed is a value there, too: `exists` and `all` may do without it.
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

    /// A value; `root` is what the first name of a chain costs.
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
            Node::NotFalse(own) => {
                let value = self.value(own);
                self.meter.charge(1)?;
                match value {
                    Err(Fault::Cost) => Err(Fault::Cost),
                    Ok(Value::Bool(own)) => Ok(Value::Bool(own)),
                    _ => Ok(Value::Bool(true)),
                }
            }
            Node::Among(element, keys) => {
                let element = Key::of(&self.value(element)?);
                Ok(Value::Bool(element.is_some_and(|own| keys.contains(&own))))
            }
            Node::Call(call) => self.call(call),
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

    /// The value that something is selected from.
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
                Value::Optional(Some(own)) => match &*own {
                    Value::Map(map) => Ok(Value::Bool(map.has(field))),
                    _ => Err(Fault::no_overload()),
                },
                Value::Optional(None) => Ok(Value::Bool(false)),
                _ => Err(Fault::no_overload()),
            };
        }
        self.meter.charge(1)?;
        let key = Value::Text(Arc::clone(field));
        element(value, &key, kind == Select::Optional, &mut self.meter)
    }

    fn index(&mut self, operand: &Node, key: &Node, is_optional: bool, root: u64) -> Outcome {
        let value = self.operand(operand, root)?;
        let key = if is_chain(key) {
            self.chain(key, 0)?
        } else {
            self.value(key)?
        };
        self.meter.charge(1)?;
        element(value, &key, is_optional, &mut self.meter)
    }

    /// `&&` and `||`: the side that decides does so even where the other one fails.
    fn logical(&mut self, sides: &[Node; 2], decides: bool) -> Outcome {
        let [left, right] = sides;
        let left = self.value(left);
        match left {
            Ok(Value::Bool(own)) if own == decides => return left,
            Err(Fault::Cost) => return left,
            _ => {}
        }
        let right = self.value(right);
        match (left, right) {
            (_, Err(Fault::Cost)) => Err(Fault::Cost),
            (_, Ok(Value::Bool(own))) if own == decides => Ok(Value::Bool(own)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(own))) => Ok(Value::Bool(own)),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            _ => Err(Fault::no_overload()),
        }
    }

    fn call(&mut self, call: &Call) -> Outcome {
        let mut args = Vec::with_capacity(call.args.len());
        for own in &call.args {
            args.push(self.value(own)?);
        }
        (call.function)(&mut Given {
            args,
            pattern: call.pattern.as_ref(),
            meter: &mut self.meter,
        })
    }

    fn list(&mut self, elements: &[(Node, bool)]) -> Outcome {
        let mut values = Vec::with_capacity(elements.len());
        for (own, may_miss) in elements {
            let value = self.value(own)?;
            match value {
                Value::Optional(own) if *may_miss => values.extend(own.as_deref().cloned()),
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
                Value::Optional(Some(own)) if *may_miss => own.as_ref().clone(),
                value => value,
            };
            if map.insert(key, value).is_some() {
                return Err(Fault::error("duplicate map key"));
            }
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
        let keys;
        let list = match &range {
            Value::List(list) => list,
            Value::Map(map) => {
                self.meter.handle_values(map.entries.len() as u64)?;
                let values = map.entries.keys().map(Key::value).collect::<Vec<_>>();
                keys = Values::from(values);
                &keys
            }
            other => {
                let kind = other.type_name();
                return Err(Fault::error(format!(
                    "got '{kind}', expected iterable type"
                )));
            }
        };
        let init = self.value(&fold.init)?;
        self.locals.push(Ok(init));
        let result = self.walk(fold, list);
        let result = result.and_then(|()| self.value(&fold.result));
        self.locals.pop();
        result
    }

    /// Leaves the result of the steps as the last local variable.
    fn walk(&mut self, fold: &Fold, list: &Values) -> Result<(), Fault> {
        let result = self.locals.len() - 1;
        for own in list.iter() {
            // A walk whose steps are all constants ends, too.
            self.meter.handle_values(1)?;
            self.locals.push(Ok(own.clone()));
            let goes_on = self.step(fold, result);
            self.locals.pop();
            if !goes_on? {
                break;
            }
        }
        Ok(())
    }

    /// One step with the element that is the last local variable; false where the walk is over.
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
            Step::Append(condition, more) => {
                let holds = match condition {
                    None => Value::Bool(true),
                    Some(condition) => self.value(condition)?,
                };
                match holds {
                    Value::Bool(false) => return Ok(true),
                    Value::Bool(true) => {}
                    _ => return Err(Fault::no_overload()),
                }
                // The name of the result, and the sum of the lists.
                self.meter.charge(2)?;
                let Value::List(more) = self.value(more)? else {
                    return Err(Fault::no_overload());
                };
                let own = std::mem::replace(&mut self.locals[result], Ok(Value::Null))?;
                let Value::List(own) = own else {
                    return Err(Fault::no_overload());
                };
                let list = own.and(more, &mut self.meter)?;
                self.locals[result] = Ok(Value::List(list));
            }
        }
        Ok(true)
    }
}

/// Whether it is a chain of names, fields and keys.
const fn is_chain(node: &Node) -> bool {
    match node {
        Node::Device | Node::Local(_) | Node::Condition(_) | Node::Index { .. } => true,
        Node::Select { kind, .. } => !matches!(kind, Select::Test),
        _ => false,
    }
}

/// What is under a key of a map, or at a place in a list.
fn element(value: Value, key: &Value, is_optional: bool, meter: &mut Meter) -> Outcome {
    let (value, is_optional) = match value {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(own)) => (own.as_ref().clone(), true),
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
