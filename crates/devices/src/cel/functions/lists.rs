//! Functions of lists, including the sets library.

use super::{Called, Entry, Invocation, entry, times};
use crate::cel::macros::SORT_BY_KEYS;
use crate::cel::meter::{Fault, Meter, NEW_LIST};
use crate::cel::value::{Value, Values};
use std::cmp::Ordering;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("isSorted", Called::On, (1, 1), is_sorted),
    entry("min", Called::On, (1, 1), |call| {
        outermost(call, "min", Ordering::Less)
    }),
    entry("max", Called::On, (1, 1), |call| {
        outermost(call, "max", Ordering::Greater)
    }),
    entry("sum", Called::On, (1, 1), sum),
    entry("includes", Called::On, (2, 2), includes),
    entry("slice", Called::On, (3, 3), slice),
    entry("flatten", Called::On, (1, 2), flatten),
    entry("distinct", Called::On, (1, 1), distinct),
    entry("reverse", Called::On, (1, 1), reverse),
    entry("sort", Called::On, (1, 1), sort),
    entry(SORT_BY_KEYS, Called::On, (2, 2), sort_by_keys),
    entry("first", Called::On, (1, 1), |call| {
        end(call, "first", false)
    }),
    entry("last", Called::On, (1, 1), |call| end(call, "last", true)),
    entry("lists.range", Called::Alone, (1, 1), range),
    entry("sets.contains", Called::Alone, (2, 2), |call| {
        let [one, other] = sets(call, 1)?;
        holds_all(&one, &other, call.meter).map(Value::Bool)
    }),
    entry("sets.intersects", Called::Alone, (2, 2), |call| {
        let [one, other] = sets(call, 1)?;
        // Walking `one` charges nothing against an empty list, so it must not happen.
        if other.len() == 0 {
            return Ok(Value::Bool(false));
        }
        for value in one.iter() {
            if holds(&other, value, call.meter)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
    entry("sets.equivalent", Called::Alone, (2, 2), |call| {
        let [one, other] = sets(call, 2)?;
        let both = holds_all(&one, &other, call.meter)? && holds_all(&other, &one, call.meter)?;
        Ok(Value::Bool(both))
    }),
];

fn list(call: &mut Invocation<'_, '_>) -> Result<Values, Fault> {
    match call.take(0) {
        Value::List(list) => Ok(list),
        _ => Err(Fault::no_overload()),
    }
}

/// Charges a pass over all contents of a list: a tenth of a unit for each byte of a string, rounded down, and a unit
/// for each other value.
fn read(list: &Values, meter: &mut Meter) -> Result<(), Fault> {
    for element in list.iter() {
        meter.handle_values(1)?;
        match element {
            Value::Text(inner) => meter.charge(inner.len() as u64 / 10)?,
            Value::Bytes(inner) => meter.charge(inner.len() as u64 / 10)?,
            Value::List(inner) => read(inner, meter)?,
            _ => meter.charge(1)?,
        }
    }
    Ok(())
}

/// The index of the first or last equal element.
pub(super) fn index_of(call: &mut Invocation<'_, '_>, from_end: bool) -> Outcome {
    if call.args.len() > 2 {
        return Err(Fault::no_overload());
    }
    let values = list(call)?;
    read(&values, call.meter)?;
    let wanted = call.take(1);
    let mut found = -1;
    for (at, value) in (0..).zip(values.iter()) {
        if value.equals(&wanted, call.meter)? {
            found = at;
            if !from_end {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

/// Compares two values of a list and charges the work.
fn order(left: &Value, right: &Value, meter: &mut Meter) -> Result<Ordering, Fault> {
    if let (Value::Text(one), Value::Text(other)) = (left, right) {
        meter.handle(one.len().min(other.len()))?;
    }
    left.order(right)?.ok_or_else(Fault::no_overload)
}

fn is_sorted(call: &mut Invocation<'_, '_>) -> Outcome {
    let list = list(call)?;
    read(&list, call.meter)?;
    for (one, next) in list.iter().zip(list.iter().skip(1)) {
        if order(one, next, call.meter)?.is_gt() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn outermost(call: &mut Invocation<'_, '_>, name: &str, wanted: Ordering) -> Outcome {
    let list = list(call)?;
    read(&list, call.meter)?;
    let mut values = list.iter();
    let first = values.next();
    let mut best = first.ok_or_else(|| Fault::error(format!("{name} called on empty list")))?;
    for value in values {
        if order(value, best, call.meter)? == wanted {
            best = value;
        }
    }
    Ok(best.clone())
}

fn sum(call: &mut Invocation<'_, '_>) -> Outcome {
    let list = list(call)?;
    read(&list, call.meter)?;
    let mut sum: Option<Value> = None;
    for value in list.iter() {
        sum = Some(match (sum, value) {
            (None, Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Duration(_)) => {
                value.clone()
            }
            (Some(Value::Int(sum)), Value::Int(more)) => {
                let sum = sum.checked_add(*more);
                Value::Int(sum.ok_or_else(|| Fault::error("integer overflow"))?)
            }
            (Some(Value::UInt(sum)), Value::UInt(more)) => {
                let sum = sum.checked_add(*more);
                Value::UInt(sum.ok_or_else(|| Fault::error("integer overflow"))?)
            }
            (Some(Value::Double(sum)), Value::Double(more)) => Value::Double(sum + more),
            (Some(Value::Duration(sum)), Value::Duration(more)) => {
                times::checked(sum.checked_add(*more))?
            }
            _ => return Err(Fault::no_overload()),
        });
    }
    Ok(sum.unwrap_or(Value::Int(0)))
}

/// Whether a list has an element. A single value counts as a list of one.
fn includes(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let (target, wanted) = (call.take(0), call.take(1));
    let Value::List(list) = target else {
        return target.equals(&wanted, call.meter).map(Value::Bool);
    };
    for element in list.iter() {
        call.meter.handle_values(1)?;
        if element.equals(&wanted, call.meter)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn reverse(call: &mut Invocation<'_, '_>) -> Outcome {
    let list = list(call)?;
    created(list.len(), call.meter)?;
    let mut values = copied(&list, call.meter)?;
    values.reverse();
    Ok(Value::List(values.into()))
}

fn copied(list: &Values, meter: &mut Meter) -> Result<Vec<Value>, Fault> {
    meter.handle_values(list.len())?;
    Ok(list.iter().cloned().collect())
}

/// Charges a call that makes a list, and the work on its elements.
fn created(work: u64, meter: &mut Meter) -> Result<(), Fault> {
    meter.charge(work.saturating_add(1 + NEW_LIST))
}

/// Charges a call that compares each element of a list with each. Texts cost a tenth more.
fn compared(list: &Values, meter: &mut Meter) -> Result<(), Fault> {
    let pairs = list.len().saturating_mul(list.len());
    let more = match list.get(0) {
        Some(Value::Text(_) | Value::Bytes(_)) => pairs / 10,
        _ => 0,
    };
    created(pairs.saturating_mul(2).saturating_add(more), meter)
}

fn slice(call: &mut Invocation<'_, '_>) -> Outcome {
    let (from, to) = (call.int(1)?, call.int(2)?);
    let list = list(call)?;
    let wrong = |why: String| {
        let message = format!("cannot slice({from}, {to}), {why}");
        Err(Fault::error(message))
    };
    let (Ok(first), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        return wrong("negative indexes not supported".to_owned());
    };
    if first > end {
        return wrong("start index must be less than or equal to end index".to_owned());
    }
    if end as u64 > list.len() {
        return wrong(format!("list is length {}", list.len()));
    }
    created((end - first) as u64, call.meter)?;
    call.meter.handle_values(end as u64)?;
    let values = list.iter().take(end).skip(first).cloned();
    Ok(Value::List(values.collect::<Vec<_>>().into()))
}

/// Flattens a number of levels, 1 without an argument.
fn flatten(call: &mut Invocation<'_, '_>) -> Outcome {
    let depth = call.int_or(1, 1)?;
    let list = list(call)?;
    let levels = u64::try_from(depth).map_err(|_| Fault::error("level must be non-negative"))?;
    created(list.len().saturating_mul(levels), call.meter)?;
    let mut values = Vec::new();
    put_flat(&mut values, &list, levels, call.meter)?;
    Ok(Value::List(values.into()))
}

fn put_flat(
    values: &mut Vec<Value>,
    list: &Values,
    levels: u64,
    meter: &mut Meter,
) -> Result<(), Fault> {
    for value in list.iter() {
        meter.handle_values(1)?;
        match value {
            Value::List(inner) if levels > 0 => put_flat(values, inner, levels - 1, meter)?,
            value => values.push(value.clone()),
        }
    }
    Ok(())
}

fn distinct(call: &mut Invocation<'_, '_>) -> Outcome {
    let list = list(call)?;
    compared(&list, call.meter)?;
    let mut values: Vec<Value> = Vec::new();
    'values: for value in list.iter() {
        for known in &values {
            if known.equals(value, call.meter)? {
                continue 'values;
            }
        }
        call.meter.handle_values(1)?;
        values.push(value.clone());
    }
    Ok(Value::List(values.into()))
}

fn sort(call: &mut Invocation<'_, '_>) -> Outcome {
    let list = list(call)?;
    sorted(&list, &list, call.meter)
}

/// Sorts a list by the list of its elements' keys. The macro `sortBy` calls it.
fn sort_by_keys(call: &mut Invocation<'_, '_>) -> Outcome {
    match (call.take(0), call.take(1)) {
        (Value::List(list), Value::List(keys)) => sorted(&list, &keys, call.meter),
        _ => Err(Fault::no_overload()),
    }
}

fn sorted(list: &Values, keys: &Values, meter: &mut Meter) -> Outcome {
    compared(keys, meter)?;
    let Some(first) = keys.get(0) else {
        return Ok(Value::List(list.clone()));
    };
    let rounds = list
        .len()
        .checked_ilog2()
        .map_or(1, |rounds| rounds as usize + 1);
    let mut keyed = Vec::new();
    meter.handle_values(list.len().saturating_mul(4))?;
    for (key, value) in keys.iter().zip(list.iter()) {
        if !is_ordered(key) {
            return Err(Fault::error("list elements must be comparable"));
        }
        if std::mem::discriminant(key) != std::mem::discriminant(&first) {
            return Err(Fault::error("list elements must have the same type"));
        }
        meter.handle(key.bytes().saturating_mul(rounds))?;
        keyed.push((key, value));
    }
    keyed.sort_by(|(one, _), (other, _)| key_order(one, other));
    let values = keyed.into_iter().map(|(_, value)| value.clone());
    Ok(Value::List(values.collect::<Vec<_>>().into()))
}

/// Whether lists of such values can be sorted.
const fn is_ordered(key: &Value) -> bool {
    matches!(
        key,
        Value::Bool(_)
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Double(_)
            | Value::Text(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
    )
}

/// A total order, because sorting by any other may panic.
fn key_order(one: &Value, other: &Value) -> Ordering {
    let is_nan = |value: &Value| matches!(value, Value::Double(number) if number.is_nan());
    let order = one.order(other).ok().flatten();
    order.unwrap_or_else(|| is_nan(one).cmp(&is_nan(other)))
}

/// The first or last element, if there is one.
fn end(call: &mut Invocation<'_, '_>, name: &str, is_last: bool) -> Outcome {
    call.plain()?;
    let list = match call.take(0) {
        Value::List(list) => list,
        other => return Err(Fault::no_overload_of(name, other.type_name())),
    };
    let at = if is_last {
        list.len().saturating_sub(1)
    } else {
        0
    };
    let found = list.get(at);
    Ok(Value::Optional(found.map(Arc::new)))
}

/// Numbers from zero; none below zero.
fn range(call: &mut Invocation<'_, '_>) -> Outcome {
    let count = call.int(0)?;
    let size = u64::try_from(count).unwrap_or(0);
    created(size, call.meter)?;
    call.meter.handle_values(size)?;
    Ok(Value::List(
        (0..count).map(Value::Int).collect::<Vec<_>>().into(),
    ))
}

/// Two lists, charged for comparing each pair of their values a number of times.
fn sets(call: &mut Invocation<'_, '_>, times: u64) -> Result<[Values; 2], Fault> {
    let (Value::List(one), Value::List(other)) = (call.take(0), call.take(1)) else {
        return Err(Fault::no_overload());
    };
    let product = one.len().saturating_mul(other.len());
    call.meter
        .charge(product.saturating_mul(times).saturating_add(1))?;
    Ok([one, other])
}

fn holds(list: &Values, value: &Value, meter: &mut Meter) -> Result<bool, Fault> {
    for element in list.iter() {
        if element.equals(value, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds_all(list: &Values, others: &Values, meter: &mut Meter) -> Result<bool, Fault> {
    for element in others.iter() {
        if !holds(list, element, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
