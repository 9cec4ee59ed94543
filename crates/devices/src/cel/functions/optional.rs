//! Optional values.

use super::{Called, Entry, Given, entry};
use crate::cel::meter::Fault;
use crate::cel::value::Value;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("optional.of", Called::Alone, (1, 1), |own| {
        own.plain()?;
        Ok(Value::Optional(Some(Arc::new(own.take(0)))))
    }),
    entry("optional.none", Called::Alone, (0, 0), |own| {
        own.plain()?;
        Ok(Value::Optional(None))
    }),
    entry(
        "optional.ofNonZeroValue",
        Called::Alone,
        (1, 1),
        of_non_zero,
    ),
    entry("hasValue", Called::On, (1, 1), |own| {
        Ok(Value::Bool(inner(own)?.is_some()))
    }),
    entry("value", Called::On, (1, 1), |own| {
        let inner = inner(own)?;
        inner.ok_or_else(|| Fault::error("optional.none() dereference"))
    }),
    entry("or", Called::On, (2, 2), |own| {
        let inner = inner(own)?.map(Arc::new);
        match (inner, own.take(1)) {
            (Some(inner), _) => Ok(Value::Optional(Some(inner))),
            (None, Value::Optional(other)) => Ok(Value::Optional(other)),
            _ => Err(Fault::no_overload()),
        }
    }),
    entry("orValue", Called::On, (2, 2), |own| {
        let inner = inner(own)?;
        Ok(inner.unwrap_or_else(|| own.take(1)))
    }),
];

fn inner(own: &mut Given<'_, '_>) -> Result<Option<Value>, Fault> {
    own.plain()?;
    match own.arg(0) {
        Value::Optional(own) => Ok(own.as_deref().cloned()),
        _ => Err(Fault::no_overload()),
    }
}

fn of_non_zero(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    let value = own.take(0);
    let is_zero = match &value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::UInt(0) => true,
        Value::Double(own) => *own == 0.0,
        Value::Text(own) => own.is_empty(),
        Value::Bytes(own) => own.is_empty(),
        Value::List(own) => own.len() == 0,
        Value::Map(own) => own.entries.is_empty(),
        _ => false,
    };
    Ok(Value::Optional((!is_zero).then(|| Arc::new(value))))
}
