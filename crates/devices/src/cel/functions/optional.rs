//! Optional values.

use super::{Called, Entry, Invocation, entry};
use crate::cel::meter::Fault;
use crate::cel::time::Timestamp;
use crate::cel::value::Value;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("optional.of", Called::Alone, (1, 1), |call| {
        call.plain()?;
        Ok(Value::Optional(Some(Arc::new(call.take(0)))))
    }),
    entry("optional.none", Called::Alone, (0, 0), |call| {
        call.plain()?;
        Ok(Value::Optional(None))
    }),
    entry(
        "optional.ofNonZeroValue",
        Called::Alone,
        (1, 1),
        of_non_zero,
    ),
    entry("hasValue", Called::On, (1, 1), |call| {
        Ok(Value::Bool(inner(call)?.is_some()))
    }),
    entry("value", Called::On, (1, 1), |call| {
        let inner = inner(call)?;
        inner.ok_or_else(|| Fault::error("optional.none() dereference"))
    }),
    entry("optional.unwrap", Called::Alone, (1, 1), |call| {
        unwrap(call, "optional.unwrap")
    }),
    entry("unwrapOpt", Called::On, (1, 1), |call| {
        unwrap(call, "unwrapOpt")
    }),
];

/// The contents of a list of optionals, without the empty ones.
fn unwrap(call: &mut Invocation<'_, '_>, name: &str) -> Outcome {
    call.plain()?;
    let target = call.take(0);
    let Value::List(list) = &target else {
        return Err(Fault::no_overload_of(name, target.type_name()));
    };
    let mut values = Vec::new();
    for element in list.iter() {
        call.meter.handle_values(1)?;
        match element {
            Value::Optional(inner) => values.extend(inner.as_deref().cloned()),
            _ => return Err(Fault::no_overload_of(name, target.type_name())),
        }
    }
    Ok(Value::List(values.into()))
}

fn inner(call: &mut Invocation<'_, '_>) -> Result<Option<Value>, Fault> {
    call.plain()?;
    match call.arg(0) {
        Value::Optional(inner) => Ok(inner.as_deref().cloned()),
        _ => Err(Fault::no_overload()),
    }
}

fn of_non_zero(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let value = call.take(0);
    let is_zero = match &value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::UInt(0) | Value::Duration(0) => {
            true
        }
        // The first second of the year 1 is the zero of Go's times.
        Value::Timestamp(time) => Timestamp::FIRST_NANOS == time.nanos(),
        Value::Double(number) => *number == 0.0,
        Value::Text(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.entries.is_empty(),
        _ => false,
    };
    Ok(Value::Optional((!is_zero).then(|| Arc::new(value))))
}
