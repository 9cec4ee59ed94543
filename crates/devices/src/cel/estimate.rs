//! Estimates the maximum cost of an expression from the maximum sizes of a device's strings, lists and maps. The API
//! server rejects expressions by such an estimate. This one is never higher, because unknown sizes count little here,
//! so it rejects nothing that the server accepted.

use super::macros::SORT_BY_KEYS;
use super::meter::NEW_LIST;
use super::plan::{Call, Extension, Fold, Node, Select, Step};
use super::value::Value;

/// The maximum length of a driver or domain.
const DOMAIN: u64 = 63;
const NAME: u64 = 32;
/// The maximum length of an attribute's value.
const ATTRIBUTE: u64 = 64;
/// The maximum number of attributes of a device.
const ATTRIBUTES: u64 = 32;

/// The known type and size of a value.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Unknown,
    Text(u64),
    List(u64, Box<Self>),
    Map(u64, Box<Self>, Box<Self>),
    Device,
    /// The value of an attribute.
    Attribute,
}

impl Shape {
    fn size(&self) -> Option<u64> {
        match self {
            Self::Text(size) | Self::List(size, _) | Self::Map(size, ..) => Some(*size),
            Self::Attribute => Some(ATTRIBUTE),
            Self::Unknown | Self::Device => None,
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Text(_) => Self::Text(value.size()),
            Value::List(list) => {
                let shapes = list.iter().map(Self::of);
                let element = shapes.reduce(Self::or).unwrap_or(Self::Unknown);
                Self::List(list.len(), Box::new(element))
            }
            Value::Map(map) => {
                let keys = map.entries.keys().map(|key| Self::of(&key.value()));
                let values = map.entries.values().map(Self::of);
                let [key, value] = [keys.reduce(Self::or), values.reduce(Self::or)];
                let boxed = |shape: Option<Self>| Box::new(shape.unwrap_or(Self::Unknown));
                Self::Map(map.entries.len() as u64, boxed(key), boxed(value))
            }
            _ => Self::Unknown,
        }
    }

    /// The common properties of two alternative values.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => Self::Text(one.max(other)),
            (Self::List(one, inner), Self::List(other, of_other)) => {
                Self::List(one.max(other), Box::new(inner.or(*of_other)))
            }
            (one, other) if one == other => one,
            _ => Self::Unknown,
        }
    }

    /// A field, or the value of a key.
    fn inner(&self, field: Option<&str>) -> Self {
        let domains = |value: Self| {
            let named = Self::Map(ATTRIBUTES, Box::new(Self::Text(NAME)), Box::new(value));
            Self::Map(ATTRIBUTES, Box::new(Self::Text(DOMAIN)), Box::new(named))
        };
        match (self, field) {
            (Self::Device, Some("driver")) => Self::Text(DOMAIN),
            (Self::Device, Some("attributes")) => domains(Self::Attribute),
            (Self::Device, Some("capacity")) => domains(Self::Unknown),
            (Self::List(_, value) | Self::Map(_, _, value), _) => (**value).clone(),
            _ => Self::Unknown,
        }
    }

    /// The elements that a comprehension with one variable visits.
    fn walked(&self) -> Self {
        match self {
            Self::List(_, element) | Self::Map(_, element, _) => (**element).clone(),
            _ => Self::Unknown,
        }
    }

    /// The indices or keys, and the values, that a comprehension with two variables visits.
    fn pairs(&self) -> [Self; 2] {
        match self {
            Self::List(_, element) => [Self::Unknown, (**element).clone()],
            Self::Map(_, key, value) => [(**key).clone(), (**value).clone()],
            _ => [Self::Unknown, Self::Unknown],
        }
    }
}

pub(super) fn most(node: &Node) -> u64 {
    Estimate::default().of(node).0
}

#[derive(Default)]
struct Estimate {
    locals: Vec<Shape>,
}

type Estimated = (u64, Shape);

impl Estimate {
    fn of(&mut self, node: &Node) -> Estimated {
        match node {
            Node::Constant(value) => (made(value), Shape::of(value)),
            Node::Device => (1, Shape::Device),
            Node::Local(at) => (1, self.locals.get(*at).cloned().unwrap_or(Shape::Unknown)),
            Node::Select {
                operand,
                field,
                kind,
            } => {
                let (cost, shape) = self.of(operand);
                if *kind == Select::Test {
                    return (cost, Shape::Unknown);
                }
                (cost.saturating_add(1), shape.inner(Some(field)))
            }
            Node::Index { operand, key, .. } => {
                let (cost, shape) = self.of(operand);
                (sum([cost, self.of(key).0, 1]), shape.inner(None))
            }
            Node::And(sides) | Node::Or(sides) => (
                sum(sides.iter().map(|side| self.of(side).0)),
                Shape::Unknown,
            ),
            Node::Condition(parts) => {
                let [condition, then, otherwise] = &**parts;
                let condition = self.of(condition).0;
                let (one, other) = (self.of(then), self.of(otherwise));
                (
                    condition.saturating_add(one.0.max(other.0)),
                    one.1.or(other.1),
                )
            }
            Node::NotFalse(operand) => (self.of(operand).0.saturating_add(1), Shape::Unknown),
            Node::Among(element, keys) => (
                sum([self.of(element).0, 10, keys.len() as u64]),
                Shape::Unknown,
            ),
            Node::Call(call) => self.call(call),
            Node::OrElse(parts, _) => {
                let [optional, other] = &**parts;
                let cost = sum([self.of(optional).0, self.of(other).0, 1]);
                (cost, Shape::Unknown)
            }
            Node::List(elements) => {
                let elements: Vec<_> = elements
                    .iter()
                    .map(|(element, _)| self.of(element))
                    .collect();
                let cost = sum(elements.iter().map(|estimated| estimated.0)).saturating_add(10);
                let size = elements.len() as u64;
                let element = elements
                    .into_iter()
                    .map(|estimated| estimated.1)
                    .reduce(Shape::or);
                (
                    cost,
                    Shape::List(size, Box::new(element.unwrap_or(Shape::Unknown))),
                )
            }
            Node::Map(entries) => {
                let parts = entries.iter().flat_map(|(key, value, _)| [key, value]);
                let cost = sum(parts.map(|part| self.of(part).0));
                let unknown = || Box::new(Shape::Unknown);
                let shape = Shape::Map(entries.len() as u64, unknown(), unknown());
                (cost.saturating_add(30), shape)
            }
            Node::Bind(parts) => {
                let [value, body] = &**parts;
                let (cost, shape) = self.of(value);
                self.locals.push(shape);
                let body = self.of(body);
                self.locals.pop();
                (sum([cost, body.0, 10]), body.1)
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn fold(&mut self, fold: &Fold) -> Estimated {
        let (range, walked) = self.of(&fold.range);
        let size = walked.size().unwrap_or(0);
        let (init, shape) = self.of(&fold.init);
        self.locals.push(shape.clone());
        let variables = self.locals.len();
        if fold.has_two {
            self.locals.extend(walked.pairs());
        } else {
            self.locals.push(walked.walked());
        }
        let condition = self.of(&fold.condition).0;
        let (step, added) = match &fold.step {
            Step::Set(step) => (self.of(step).0, None),
            Step::Extend(condition, extension) => {
                let (cost, added) = self.extension(extension, size);
                let condition = condition
                    .as_ref()
                    .map_or(0, |condition| self.of(condition).0);
                (sum([condition, cost, 2]), Some(added))
            }
        };
        self.locals.truncate(variables);
        let shape = added.unwrap_or(shape);
        if let Some(last) = self.locals.last_mut() {
            *last = shape;
        }
        let (result, shape) = self.of(&fold.result);
        self.locals.pop();
        let steps = size.saturating_mul(condition.saturating_add(step));
        (sum([range, init, steps, result]), shape)
    }

    /// The cost of what a step adds, and the result after a number of steps.
    fn extension(&mut self, extension: &Extension, steps: u64) -> Estimated {
        let added = extension.nodes().iter().map(|node| self.of(node));
        let added: Vec<Estimated> = added.collect();
        let cost = sum(added.iter().map(|estimated| estimated.0));
        let mut shapes = added.into_iter().map(|estimated| Box::new(estimated.1));
        let mut next = || shapes.next().unwrap_or(Box::new(Shape::Unknown));
        let shape = match extension {
            Extension::List(_) => Shape::List(steps, Box::new(next().walked())),
            Extension::Entry(_) => Shape::Map(steps, next(), next()),
            // One step may add several entries, or none.
            Extension::Map(_) => Shape::Unknown,
        };
        (cost, shape)
    }

    fn call(&mut self, call: &Call) -> Estimated {
        let args: Vec<_> = call.args.iter().map(|arg| self.of(arg)).collect();
        let before = sum(args.iter().map(|arg| arg.0));
        let shape = |at: usize| args.get(at).map_or(Shape::Unknown, |arg| arg.1.clone());
        let size = |at: usize| shape(at).size();
        let tenths = |size: u64, tenths: u64| size.saturating_mul(tenths).div_ceil(10);
        let of_first = |parts: u64| tenths(size(0).unwrap_or(0), parts);
        let (cost, shape) = match call.name {
            "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => {
                let smallest = [size(0), size(1)].into_iter().flatten().min();
                (tenths(smallest.unwrap_or(1), 1), Shape::Unknown)
            }
            "_+_" => match (shape(0), shape(1)) {
                (Shape::Text(one), Shape::Text(other)) => {
                    let both = one.saturating_add(other);
                    (tenths(both, 1), Shape::Text(both))
                }
                (Shape::List(one, inner), Shape::List(other, of_other)) => {
                    let inner = Box::new(inner.or(*of_other));
                    (1, Shape::List(one.saturating_add(other), inner))
                }
                _ => (1, Shape::Unknown),
            },
            "@in" => match shape(1) {
                Shape::List(size, _) => (size, Shape::Unknown),
                _ => (1, Shape::Unknown),
            },
            "matches" | "find" | "findAll" => {
                let text = tenths(size(0).unwrap_or(0).saturating_add(1), 1);
                let pattern = size(1).unwrap_or(0).div_ceil(4);
                (text.saturating_mul(pattern), Shape::Unknown)
            }
            "contains" => {
                let other = tenths(size(1).unwrap_or(0), 1);
                (of_first(1).saturating_mul(other), Shape::Unknown)
            }
            "startsWith" | "endsWith" => (tenths(size(1).unwrap_or(0), 1), Shape::Unknown),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => (of_first(1), shape(0)),
            "replace" => (of_first(2), Shape::Unknown),
            "split" => {
                let unknown = Box::new(Shape::Unknown);
                let parts = size(0).map_or(Shape::Unknown, |size| Shape::List(size, unknown));
                (of_first(2), parts)
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match shape(0) {
                Shape::List(size, _) => (size, Shape::Unknown),
                _ => (of_first(1), Shape::Unknown),
            },
            "quantity" | "isQuantity" | "semver" | "isSemver" | "format" | "url" => {
                (of_first(1), Shape::Unknown)
            }
            // The format is unknown beforehand, so its shortest regular expression counts.
            "validate" => {
                let text = tenths(size(1).unwrap_or(0).saturating_add(1), 1);
                (text.saturating_mul(8), Shape::Unknown)
            }
            "slice" | "lists.range" => (1 + NEW_LIST, Shape::Unknown),
            "flatten" if args.len() > 1 => (1 + NEW_LIST, Shape::Unknown),
            "reverse" | "flatten" | "distinct" | "sort" | SORT_BY_KEYS => {
                lists(call.name, &shape(0), &shape(1))
            }
            "dyn" => (1, shape(0)),
            _ => (1, Shape::Unknown),
        };
        (before.saturating_add(cost), shape)
    }
}

/// The cost of a function that makes a list, and its result. Where each pair of elements is compared, the API server counts
/// the square of the length.
fn lists(name: &str, list: &Shape, keys: &Shape) -> Estimated {
    let compared = if name == SORT_BY_KEYS { keys } else { list };
    let Some(size) = compared.size() else {
        return (1 + NEW_LIST, Shape::Unknown);
    };
    let pairs = size.saturating_mul(size);
    let (work, size) = match (name, compared.walked()) {
        ("reverse" | "flatten", _) => (size, size),
        (SORT_BY_KEYS | "sort", Shape::Text(_)) => (pairs.saturating_mul(21).div_ceil(10), pairs),
        _ => (pairs.saturating_mul(2), pairs),
    };
    let element = match name {
        "flatten" => Shape::Unknown,
        _ => list.walked(),
    };
    let cost = work.saturating_add(1 + NEW_LIST);
    (cost, Shape::List(size, Box::new(element)))
}

/// The cost of creating a constant: 10 for a list and 30 for a map.
fn made(value: &Value) -> u64 {
    match value {
        Value::List(list) => sum(list.iter().map(made)).saturating_add(10),
        Value::Map(map) => sum(map.entries.values().map(made)).saturating_add(30),
        _ => 0,
    }
}

fn sum(costs: impl IntoIterator<Item = u64>) -> u64 {
    costs.into_iter().fold(0, u64::saturating_add)
}
