//! Operators.

use super::{Called, Entry, Invocation, entry, times};
use crate::cel::meter::Fault;
use crate::cel::value::{Key, Value};
use cel::common::ast::operators;
use std::cmp::Ordering;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry(operators::EQUALS, Called::Alone, (2, 2), equals),
    entry(operators::NOT_EQUALS, Called::Alone, (2, 2), differs),
    entry(operators::LESS, Called::Alone, (2, 2), |call| {
        order(call, Ordering::is_lt)
    }),
    entry(operators::LESS_EQUALS, Called::Alone, (2, 2), |call| {
        order(call, Ordering::is_le)
    }),
    entry(operators::GREATER, Called::Alone, (2, 2), |call| {
        order(call, Ordering::is_gt)
    }),
    entry(operators::GREATER_EQUALS, Called::Alone, (2, 2), |call| {
        order(call, Ordering::is_ge)
    }),
    entry(operators::IN, Called::Alone, (2, 2), contains),
    entry(operators::ADD, Called::Alone, (2, 2), add),
    entry(operators::SUBSTRACT, Called::Alone, (2, 2), subtract),
    entry(operators::MULTIPLY, Called::Alone, (2, 2), |call| {
        arithmetic(call, i64::checked_mul, u64::checked_mul, |one, other| {
            one * other
        })
    }),
    entry(operators::DIVIDE, Called::Alone, (2, 2), divide),
    entry(operators::MODULO, Called::Alone, (2, 2), modulo),
    entry(operators::NEGATE, Called::Alone, (1, 1), negate),
    entry(operators::LOGICAL_NOT, Called::Alone, (1, 1), not),
];

fn equals(call: &mut Invocation<'_, '_>) -> Outcome {
    let [one, other] = call.args.as_slice() else {
        return Err(Fault::no_overload());
    };
    let size = if one.is_of_kubernetes() {
        1
    } else {
        one.smaller_size(other)
    };
    call.meter.traverse(size, 1)?;
    one.is_equal(other, call.meter).map(Value::Bool)
}

fn differs(call: &mut Invocation<'_, '_>) -> Outcome {
    let [one, other] = call.args.as_slice() else {
        return Err(Fault::no_overload());
    };
    call.meter.traverse(one.smaller_size(other), 1)?;
    match one.is_equal(other, call.meter) {
        Ok(equals) => Ok(Value::Bool(!equals)),
        Err(Fault::Cost) => Err(Fault::Cost),
        // Values that refuse to be compared are not equal.
        Err(Fault::Error(_)) => Ok(Value::Bool(true)),
    }
}

fn order(call: &mut Invocation<'_, '_>, holds: fn(Ordering) -> bool) -> Outcome {
    let [one, other] = call.args.as_slice() else {
        return Err(Fault::no_overload());
    };
    let order = one.compare(other, call.meter)?;
    Ok(Value::Bool(order.is_some_and(holds)))
}

fn contains(call: &mut Invocation<'_, '_>) -> Outcome {
    let element = call.take(0);
    match call.take(1) {
        Value::List(list) => {
            call.meter.charge(list.len())?;
            for one in list.iter() {
                if one.equals(&element, call.meter)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(map) => {
            call.plain()?;
            let is_number = matches!(element, Value::Double(_));
            match Key::of(&element) {
                Some(key) => {
                    key.read(call.meter)?;
                    Ok(Value::Bool(map.entries.contains_key(&key)))
                }
                None if is_number => Ok(Value::Bool(false)),
                None => Err(Fault::no_overload()),
            }
        }
        _ => Err(Fault::no_overload()),
    }
}

fn add(call: &mut Invocation<'_, '_>) -> Outcome {
    match (call.arg(0), call.arg(1)) {
        (Value::Text(one), Value::Text(other)) => {
            let (one, other) = (Arc::clone(one), Arc::clone(other));
            let size = call.arg(0).size().saturating_add(call.arg(1).size());
            call.meter.traverse(size, 1)?;
            call.meter.handle(one.len().saturating_add(other.len()))?;
            Ok(Value::Text([&*one, &*other].concat().into()))
        }
        (Value::Bytes(one), Value::Bytes(other)) => {
            let (one, other) = (Arc::clone(one), Arc::clone(other));
            let size = one.len().saturating_add(other.len());
            call.meter.traverse(size as u64, 1)?;
            call.meter.handle(size)?;
            Ok(Value::Bytes([&*one, &*other].concat().into()))
        }
        (Value::List(_), Value::List(_)) => {
            call.plain()?;
            let (Value::List(one), Value::List(other)) = (call.take(0), call.take(1)) else {
                return Err(Fault::no_overload());
            };
            one.and(other, call.meter).map(Value::List)
        }
        (one, other) => {
            if let Some(sum) = times::sum(one, other) {
                call.plain()?;
                return sum;
            }
            arithmetic(call, i64::checked_add, u64::checked_add, |one, other| {
                one + other
            })
        }
    }
}

fn overflow(value: Option<Value>) -> Outcome {
    value.ok_or_else(|| Fault::error("integer overflow"))
}

fn arithmetic(
    call: &mut Invocation<'_, '_>,
    ints: fn(i64, i64) -> Option<i64>,
    unsigned: fn(u64, u64) -> Option<u64>,
    doubles: fn(f64, f64) -> f64,
) -> Outcome {
    call.plain()?;
    match (call.arg(0), call.arg(1)) {
        (Value::Int(one), Value::Int(other)) => overflow(ints(*one, *other).map(Value::Int)),
        (Value::UInt(one), Value::UInt(other)) => overflow(unsigned(*one, *other).map(Value::UInt)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(doubles(*one, *other))),
        _ => Err(Fault::no_overload()),
    }
}

fn subtract(call: &mut Invocation<'_, '_>) -> Outcome {
    if let Some(difference) = times::difference(call.arg(0), call.arg(1)) {
        call.plain()?;
        return difference;
    }
    arithmetic(call, i64::checked_sub, u64::checked_sub, |one, other| {
        one - other
    })
}

fn divide(call: &mut Invocation<'_, '_>) -> Outcome {
    if matches!(call.arg(1), Value::Int(0) | Value::UInt(0)) {
        call.plain()?;
        return Err(Fault::error("division by zero"));
    }
    arithmetic(call, i64::checked_div, u64::checked_div, |one, other| {
        one / other
    })
}

fn modulo(call: &mut Invocation<'_, '_>) -> Outcome {
    if matches!(call.arg(1), Value::Int(0) | Value::UInt(0)) {
        call.plain()?;
        return Err(Fault::error("modulus by zero"));
    }
    if matches!(call.arg(0), Value::Double(_)) {
        return Err(Fault::no_overload());
    }
    arithmetic(call, i64::checked_rem, u64::checked_rem, |one, _| one)
}

fn negate(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    match call.arg(0) {
        Value::Int(number) => overflow(number.checked_neg().map(Value::Int)),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(nanos) => times::checked(nanos.checked_neg()),
        _ => Err(Fault::no_overload()),
    }
}

fn not(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    match call.arg(0) {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => Err(Fault::no_overload()),
    }
}
