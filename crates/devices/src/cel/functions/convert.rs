//! Type conversions and sizes.

use super::{Called, Entry, Invocation, entry, times};
use crate::cel::meter::Fault;
use crate::cel::number;
use crate::cel::value::Value;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("size", Called::Either, (1, 1), size),
    entry("type", Called::Alone, (1, 1), |call| {
        call.plain()?;
        Ok(Value::Type(call.arg(0).type_name()))
    }),
    entry("dyn", Called::Alone, (1, 1), |call| {
        call.plain()?;
        Ok(call.take(0))
    }),
    entry("bool", Called::Alone, (1, 1), boolean),
    entry("int", Called::Alone, (1, 1), int),
    entry("uint", Called::Alone, (1, 1), unsigned),
    entry("double", Called::Alone, (1, 1), double),
    entry("string", Called::Alone, (1, 1), string),
    entry("bytes", Called::Alone, (1, 1), bytes),
];

fn size(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    match call.arg(0) {
        Value::Text(text) => {
            // Counting characters is a pass over the string.
            let bytes = text.len() / 8;
            call.meter.handle(bytes)?;
        }
        Value::Bytes(_) | Value::List(_) | Value::Map(_) => {}
        _ => return Err(Fault::no_overload()),
    }
    let size = i64::try_from(call.arg(0).size());
    size.map(Value::Int)
        .map_err(|_| Fault::error("integer overflow"))
}

/// The error of a text that does not have the form of a type.
fn wrong(kind: &str) -> Fault {
    Fault::error(format!("type conversion error from 'string' to '{kind}'"))
}

fn range() -> Fault {
    Fault::error("integer overflow")
}

fn unsigned_range() -> Fault {
    Fault::error("unsigned integer overflow")
}

fn boolean(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    Ok(Value::Bool(match call.arg(0) {
        Value::Bool(value) => *value,
        Value::Text(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
            "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
            _ => return Err(wrong("bool")),
        },
        other => return Err(Fault::no_overload_of("bool", other.type_name())),
    }))
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The integral part of a double, if it is between two bounds.
fn whole(double: f64, least: f64, most: f64) -> Result<i128, Fault> {
    let inside = double > least && double < most;
    #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
    let whole = inside.then(|| double.trunc() as i128);
    whole.ok_or_else(range)
}

/// Charges parsing the argument if it is a string.
fn parsed(call: &mut Invocation<'_, '_>) -> Result<(), Fault> {
    call.plain()?;
    if let Value::Text(text) = call.arg(0) {
        let text = Arc::clone(text);
        call.meter.read(&text)?;
    }
    Ok(())
}

fn int(call: &mut Invocation<'_, '_>) -> Outcome {
    parsed(call)?;
    Ok(Value::Int(match call.arg(0) {
        Value::Int(number) => *number,
        Value::UInt(number) => i64::try_from(*number).map_err(|_| range())?,
        Value::Double(number) => {
            let whole = whole(*number, -TWO_TO_63, TWO_TO_63)?;
            i64::try_from(whole).map_err(|_| range())?
        }
        Value::Text(text) => text.parse().map_err(|_| wrong("int"))?,
        Value::Timestamp(time) => time.seconds(),
        Value::Duration(nanos) => *nanos,
        other => return Err(Fault::no_overload_of("int", other.type_name())),
    }))
}

fn unsigned(call: &mut Invocation<'_, '_>) -> Outcome {
    parsed(call)?;
    Ok(Value::UInt(match call.arg(0) {
        Value::UInt(number) => *number,
        Value::Int(number) => u64::try_from(*number).map_err(|_| unsigned_range())?,
        Value::Double(number) => {
            let whole = whole(*number, -1.0, 2.0 * TWO_TO_63).map_err(|_| unsigned_range())?;
            u64::try_from(whole).map_err(|_| unsigned_range())?
        }
        Value::Text(text) if text.starts_with('+') => return Err(wrong("uint")),
        Value::Text(text) => text.parse().map_err(|_| wrong("uint"))?,
        other => return Err(Fault::no_overload_of("uint", other.type_name())),
    }))
}

#[expect(clippy::cast_precision_loss, reason = "so the language has it")]
fn double(call: &mut Invocation<'_, '_>) -> Outcome {
    parsed(call)?;
    Ok(Value::Double(match call.arg(0) {
        Value::Double(number) => *number,
        Value::Int(number) => *number as f64,
        Value::UInt(number) => *number as f64,
        Value::Text(text) => number::read(text).ok_or_else(|| wrong("double"))?,
        other => return Err(Fault::no_overload_of("double", other.type_name())),
    }))
}

fn string(call: &mut Invocation<'_, '_>) -> Outcome {
    if let Value::Bytes(bytes) = call.arg(0) {
        let bytes = Arc::clone(bytes);
        call.meter.traverse(bytes.len() as u64, 1)?;
        call.meter.handle(bytes.len())?;
        let text = std::str::from_utf8(&bytes);
        let text =
            text.map_err(|_| Fault::error("invalid UTF-8 in bytes, cannot convert to string"))?;
        return Ok(Value::text(text));
    }
    call.plain()?;
    Ok(match call.arg(0) {
        Value::Text(text) => Value::Text(Arc::clone(text)),
        Value::Bool(value) => Value::text(&value.to_string()),
        Value::Int(number) => Value::text(&number.to_string()),
        Value::UInt(number) => Value::text(&number.to_string()),
        Value::Double(number) => Value::text(&number::written(*number)),
        Value::Address(address) => Value::text(&address.to_string()),
        Value::Network(network) => Value::text(&format!("{}/{}", network.address, network.bits)),
        Value::Timestamp(time) => Value::text(&time.write()),
        Value::Duration(nanos) => Value::text(&times::written(*nanos)),
        other => return Err(Fault::no_overload_of("string", other.type_name())),
    })
}

fn bytes(call: &mut Invocation<'_, '_>) -> Outcome {
    let text = match call.arg(0) {
        Value::Bytes(bytes) => {
            let bytes = Arc::clone(bytes);
            call.plain()?;
            return Ok(Value::Bytes(bytes));
        }
        Value::Text(text) => Arc::clone(text),
        other => return Err(Fault::no_overload_of("bytes", other.type_name())),
    };
    call.meter.traverse(call.arg(0).size(), 1)?;
    call.meter.handle(text.len())?;
    Ok(Value::Bytes(text.as_bytes().into()))
}
