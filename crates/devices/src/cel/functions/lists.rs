//! Functions of lists, and of lists as sets.

use super::{Called, Entry, Given, entry};
use crate::cel::meter::{Fault, Meter};
use crate::cel::value::{Value, Values};
use std::cmp::Ordering;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("isSorted", Called::On, (1, 1), is_sorted),
    entry("min", Called::On, (1, 1), |own| {
        outermost(own, Ordering::Less)
    }),
    entry("max", Called::On, (1, 1), |own| {
        outermost(own, Ordering::Greater)
    }),
    entry("sum", Called::On, (1, 1), sum),
    entry("slice", Called::On, (3, 3), slice),
    entry("flatten", Called::On, (1, 1), flatten),
    entry("distinct", Called::On, (1, 1), distinct),
    entry("sort", Called::On, (1, 1), sort),
    entry("lists.range", Called::Alone, (1, 1), range),
    entry("sets.contains", Called::Alone, (2, 2), |own| {
        let [one, other] = sets(own, 1)?;
        holds_all(&one, &other, own.meter).map(Value::Bool)
    }),
    entry("sets.intersects", Called::Alone, (2, 2), |own| {
        let [one, other] = sets(own, 1)?;
        // A walk over one for the sake of nothing would have cost nothing.
        if other.len() == 0 {
            return Ok(Value::Bool(false));
        }
        for value in one.iter() {
            if holds(&other, value, own.meter)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
    entry("sets.equivalent", Called::Alone, (2, 2), |own| {
        let [one, other] = sets(own, 2)?;
        let both = holds_all(&one, &other, own.meter)? && holds_all(&other, &one, own.meter)?;
        Ok(Value::Bool(both))
    }),
];

fn list(own: &mut Given<'_, '_>) -> Result<Values, Fault> {
    match own.take(0) {
        Value::List(list) => Ok(list),
        _ => Err(Fault::no_overload()),
    }
}

/// Charges a pass over everything that is in a list: a tenth of a unit for each byte of a text, rounded down, and a unit for each
/// other value.
fn read(list: &Values, meter: &mut Meter) -> Result<(), Fault> {
    for own in list.iter() {
        meter.handle_values(1)?;
        match own {
            Value::Text(own) => meter.charge(own.len() as u64 / 10)?,
            Value::Bytes(own) => meter.charge(own.len() as u64 / 10)?,
            Value::List(own) => read(own, meter)?,
            _ => meter.charge(1)?,
        }
    }
    Ok(())
}

/// The place of an element in a list, the first or the last.
pub(super) fn index_of(own: &mut Given<'_, '_>, from_end: bool) -> Outcome {
    if own.args.len() > 2 {
        return Err(Fault::no_overload());
    }
    let values = list(own)?;
    read(&values, own.meter)?;
    let wanted = own.take(1);
    let mut found = -1;
    for (at, value) in (0..).zip(values.iter()) {
        if value.equals(&wanted, own.meter)? {
            found = at;
            if !from_end {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

/// The order of two values in a list, with what their comparison handles.
fn order(left: &Value, right: &Value, meter: &mut Meter) -> Result<Ordering, Fault> {
    if let (Value::Text(one), Value::Text(other)) = (left, right) {
        meter.handle(one.len().min(other.len()))?;
    }
    left.order(right)?.ok_or_else(Fault::no_overload)
}

fn is_sorted(own: &mut Given<'_, '_>) -> Outcome {
    let list = list(own)?;
    read(&list, own.meter)?;
    for (one, next) in list.iter().zip(list.iter().skip(1)) {
        if order(one, next, own.meter)?.is_gt() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn outermost(own: &mut Given<'_, '_>, wanted: Ordering) -> Outcome {
    let list = list(own)?;
    read(&list, own.meter)?;
    let mut values = list.iter();
    let first = values.next();
    let mut best = first.ok_or_else(|| Fault::error("min/max called on empty list"))?;
    for value in values {
        if order(value, best, own.meter)? == wanted {
            best = value;
        }
    }
    Ok(best.clone())
}

fn sum(own: &mut Given<'_, '_>) -> Outcome {
    let list = list(own)?;
    read(&list, own.meter)?;
    let mut sum: Option<Value> = None;
    for value in list.iter() {
        sum = Some(match (sum, value) {
            (None, Value::Int(_) | Value::UInt(_) | Value::Double(_)) => value.clone(),
            (Some(Value::Int(sum)), Value::Int(own)) => {
                let sum = sum.checked_add(*own);
                Value::Int(sum.ok_or_else(|| Fault::error("integer overflow"))?)
            }
            (Some(Value::UInt(sum)), Value::UInt(own)) => {
                let sum = sum.checked_add(*own);
                Value::UInt(sum.ok_or_else(|| Fault::error("integer overflow"))?)
            }
            (Some(Value::Double(sum)), Value::Double(own)) => Value::Double(sum + own),
            _ => return Err(Fault::no_overload()),
        });
    }
    Ok(sum.unwrap_or(Value::Int(0)))
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

fn slice(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    let (from, to) = (own.int(1)?, own.int(2)?);
    let list = list(own)?;
    let places = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    let inside = places.filter(|(from, to)| from <= to && *to as u64 <= list.len());
    let Some((from, to)) = inside else {
        return Err(Fault::error(format!(
            "cannot slice({from}, {to}), list is too short"
        )));
    };
    own.meter.handle_values(to as u64)?;
    let values = list.iter().take(to).skip(from).cloned();
    Ok(Value::List(values.collect::<Vec<_>>().into()))
}

fn flatten(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    let list = list(own)?;
    let mut values = Vec::new();
    for value in list.iter() {
        own.meter.handle_values(1)?;
        match value {
            Value::List(inner) => values.extend(copied(inner, own.meter)?),
            value => values.push(value.clone()),
        }
    }
    Ok(Value::List(values.into()))
}

fn distinct(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    let list = list(own)?;
    let mut values: Vec<Value> = Vec::new();
    'values: for value in list.iter() {
        for known in &values {
            own.meter.charge(1)?;
            if known.equals(value, own.meter)? {
                continue 'values;
            }
        }
        own.meter.handle_values(1)?;
        values.push(value.clone());
    }
    Ok(Value::List(values.into()))
}

fn sort(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    let list = list(own)?;
    let mut values = copied(&list, own.meter)?;
    let mut fault = None;
    let meter = &mut *own.meter;
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

fn range(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    let count = own.int(0)?;
    if count < 0 {
        return Err(Fault::error("lists.range: a list has no negative size"));
    }
    own.meter.handle_values(u64::try_from(count).unwrap_or(0))?;
    Ok(Value::List(
        (0..count).map(Value::Int).collect::<Vec<_>>().into(),
    ))
}

/// Two lists, charged for comparing each value of one with each of the other so many times.
fn sets(own: &mut Given<'_, '_>, times: u64) -> Result<[Values; 2], Fault> {
    let (Value::List(one), Value::List(other)) = (own.take(0), own.take(1)) else {
        return Err(Fault::no_overload());
    };
    let product = one.len().saturating_mul(other.len());
    own.meter
        .charge(product.saturating_mul(times).saturating_add(1))?;
    Ok([one, other])
}

fn holds(list: &Values, value: &Value, meter: &mut Meter) -> Result<bool, Fault> {
    for own in list.iter() {
        if own.equals(value, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds_all(list: &Values, others: &Values, meter: &mut Meter) -> Result<bool, Fault> {
    for own in others.iter() {
        if !holds(list, own, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
