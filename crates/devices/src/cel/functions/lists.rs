//! Functions of lists, including the sets library.

use super::{Called, Entry, Invocation, entry, times};
use crate::cel::meter::{Fault, Meter};
use crate::cel::value::{Value, Values};
use std::cmp::Ordering;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("isSorted", Called::On, (1, 1), is_sorted),
    entry("min", Called::On, (1, 1), |call| {
        outermost(call, Ordering::Less)
    }),
    entry("max", Called::On, (1, 1), |call| {
        outermost(call, Ordering::Greater)
    }),
    entry("sum", Called::On, (1, 1), sum),
    entry("includes", Called::On, (2, 2), includes),
    entry("slice", Called::On, (3, 3), slice),
    entry("flatten", Called::On, (1, 1), flatten),
    entry("distinct", Called::On, (1, 1), distinct),
    entry("sort", Called::On, (1, 1), sort),
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

fn outermost(call: &mut Invocation<'_, '_>, wanted: Ordering) -> Outcome {
    let list = list(call)?;
    read(&list, call.meter)?;
    let mut values = list.iter();
    let first = values.next();
    let mut best = first.ok_or_else(|| Fault::error("min/max called on empty list"))?;
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

pub(super) fn reversed(list: &Values, meter: &mut Meter) -> Outcome {
    let mut values = copied(list, meter)?;
    values.reverse();
    Ok(Value::List(values.into()))
}

fn copied(list: &Values, meter: &mut Meter) -> Result<Vec<Value>, Fault> {
    meter.handle_values(list.len())?;
    Ok(list.iter().cloned().collect())
}

fn slice(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let (from, to) = (call.int(1)?, call.int(2)?);
    let list = list(call)?;
    let places = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    let inside = places.filter(|(from, to)| from <= to && *to as u64 <= list.len());
    let Some((from, to)) = inside else {
        return Err(Fault::error(format!(
            "cannot slice({from}, {to}), list is too short"
        )));
    };
    call.meter.handle_values(to as u64)?;
    let values = list.iter().take(to).skip(from).cloned();
    Ok(Value::List(values.collect::<Vec<_>>().into()))
}

fn flatten(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let list = list(call)?;
    let mut values = Vec::new();
    for value in list.iter() {
        call.meter.handle_values(1)?;
        match value {
            Value::List(inner) => values.extend(copied(inner, call.meter)?),
            value => values.push(value.clone()),
        }
    }
    Ok(Value::List(values.into()))
}

fn distinct(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let list = list(call)?;
    let mut values: Vec<Value> = Vec::new();
    'values: for value in list.iter() {
        for known in &values {
            call.meter.charge(1)?;
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
    call.plain()?;
    let list = list(call)?;
    let mut values = copied(&list, call.meter)?;
    let mut fault = None;
    let meter = &mut *call.meter;
    values.sort_by(|one, other| {
        let order = match &fault {
            None => meter.charge(1).and_then(|()| order(one, other, meter)),
            Some(_) => Ok(Ordering::Equal),
        };
        order.unwrap_or_else(|error| {
            fault = Some(error);
            Ordering::Equal
        })
    });
    fault.map_or(Ok(Value::List(values.into())), Err)
}

fn range(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let count = call.int(0)?;
    if count < 0 {
        return Err(Fault::error("lists.range: a list has no negative size"));
    }
    call.meter
        .handle_values(u64::try_from(count).unwrap_or(0))?;
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
