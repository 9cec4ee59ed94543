//! Conversions between types, and sizes.

use super::{Called, Entry, Given, entry};
use crate::cel::meter::Fault;
use crate::cel::value::Value;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("size", Called::Either, (1, 1), size),
    entry("type", Called::Alone, (1, 1), |own| {
        own.plain()?;
        Ok(Value::Type(own.arg(0).type_name()))
    }),
    entry("dyn", Called::Alone, (1, 1), |own| {
        own.plain()?;
        Ok(own.take(0))
    }),
    entry("bool", Called::Alone, (1, 1), boolean),
    entry("int", Called::Alone, (1, 1), int),
    entry("uint", Called::Alone, (1, 1), unsigned),
    entry("double", Called::Alone, (1, 1), double),
    entry("string", Called::Alone, (1, 1), string),
    entry("bytes", Called::Alone, (1, 1), bytes),
];

fn size(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    match own.arg(0) {
        Value::Text(text) => {
            // To count characters is a pass over the text.
            let bytes = text.len() / 8;
            own.meter.handle(bytes)?;
        }
        Value::Bytes(_) | Value::List(_) | Value::Map(_) => {}
        _ => return Err(Fault::no_overload()),
    }
    let size = i64::try_from(own.arg(0).size());
    size.map(Value::Int)
        .map_err(|_| Fault::error("integer overflow"))
}

fn wrong(kind: &str, text: &str) -> Fault {
    let shown: String = text.chars().take(64).collect();
    Fault::error(format!("{kind}: cannot convert {shown:?}"))
}

fn range() -> Fault {
    Fault::error("integer overflow")
}

fn boolean(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    Ok(Value::Bool(match own.arg(0) {
        Value::Bool(own) => *own,
        Value::Text(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
            "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
            other => return Err(wrong("bool", other)),
        },
        _ => return Err(Fault::no_overload()),
    }))
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// A double without its fraction, if it is between two bounds.
fn whole(double: f64, least: f64, most: f64) -> Result<i128, Fault> {
    let inside = double > least && double < most;
    #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
    let whole = inside.then(|| double.trunc() as i128);
    whole.ok_or_else(range)
}

/// The argument, which is parsed if it is a text.
fn parsed(own: &mut Given<'_, '_>) -> Result<(), Fault> {
    own.plain()?;
    if let Value::Text(text) = own.arg(0) {
        let text = Arc::clone(text);
        own.meter.read(&text)?;
    }
    Ok(())
}

fn int(own: &mut Given<'_, '_>) -> Outcome {
    parsed(own)?;
    Ok(Value::Int(match own.arg(0) {
        Value::Int(own) => *own,
        Value::UInt(own) => i64::try_from(*own).map_err(|_| range())?,
        Value::Double(own) => {
            let whole = whole(*own, -TWO_TO_63, TWO_TO_63)?;
            i64::try_from(whole).map_err(|_| range())?
        }
        Value::Text(text) => text.parse().map_err(|_| wrong("int", text))?,
        _ => return Err(Fault::no_overload()),
    }))
}

fn unsigned(own: &mut Given<'_, '_>) -> Outcome {
    parsed(own)?;
    Ok(Value::UInt(match own.arg(0) {
        Value::UInt(own) => *own,
        Value::Int(own) => u64::try_from(*own).map_err(|_| range())?,
        Value::Double(own) => {
            let whole = whole(*own, -1.0, 2.0 * TWO_TO_63)?;
            u64::try_from(whole).map_err(|_| range())?
        }
        Value::Text(text) => text.parse().map_err(|_| wrong("uint", text))?,
        _ => return Err(Fault::no_overload()),
    }))
}

#[expect(clippy::cast_precision_loss, reason = "so the language has it")]
fn double(own: &mut Given<'_, '_>) -> Outcome {
    parsed(own)?;
    Ok(Value::Double(match own.arg(0) {
        Value::Double(own) => *own,
        Value::Int(own) => *own as f64,
        Value::UInt(own) => *own as f64,
        Value::Text(text) => text.parse().map_err(|_| wrong("double", text))?,
        _ => return Err(Fault::no_overload()),
    }))
}

fn string(own: &mut Given<'_, '_>) -> Outcome {
    if let Value::Bytes(bytes) = own.arg(0) {
        let bytes = Arc::clone(bytes);
        own.meter.traverse(bytes.len() as u64, 1)?;
        own.meter.handle(bytes.len())?;
        let text = std::str::from_utf8(&bytes);
        let text =
            text.map_err(|_| Fault::error("invalid UTF-8 in bytes, cannot convert to string"))?;
        return Ok(Value::text(text));
    }
    own.plain()?;
    Ok(match own.arg(0) {
        Value::Text(own) => Value::Text(Arc::clone(own)),
        Value::Bool(own) => Value::text(&own.to_string()),
        Value::Int(own) => Value::text(&own.to_string()),
        Value::UInt(own) => Value::text(&own.to_string()),
        Value::Double(own) => Value::text(&own.to_string()),
        Value::Address(own) => Value::text(&own.to_string()),
        Value::Network(own) => Value::text(&format!("{}/{}", own.address, own.bits)),
        _ => return Err(Fault::no_overload()),
    })
}

fn bytes(own: &mut Given<'_, '_>) -> Outcome {
    let text = match own.arg(0) {
        Value::Bytes(bytes) => {
            let bytes = Arc::clone(bytes);
            own.plain()?;
            return Ok(Value::Bytes(bytes));
        }
        Value::Text(text) => Arc::clone(text),
        _ => return Err(Fault::no_overload()),
    };
    own.meter.traverse(own.arg(0).size(), 1)?;
    own.meter.handle(text.len())?;
    Ok(Value::Bytes(text.as_bytes().into()))
}
