//! The function `format`: `'%s has %d'.format([name, count])`, with the verbs `s`, `d`, `f`, `e`, `x`, `X`, `o` and `b`.

use super::{Invocation, times};
use crate::cel::meter::{Fault, Meter};
use crate::cel::number;
use crate::cel::quote::quoted;
use crate::cel::value::{Key, Value};
use std::fmt::Write as _;

type Outcome = Result<Value, Fault>;

/// The digits after the point of a double, unless the format has another number.
const PLACES: usize = 6;
/// No double has more digits before its point, with commas.
const LONGEST_DOUBLE: usize = 420;
const MOST_PRECISION: usize = 1_000_000;

pub(super) fn format(call: &mut Invocation<'_, '_>) -> Outcome {
    let text = call.text(0)?;
    call.meter.traverse(call.arg(0).size(), 1)?;
    let Value::List(list) = call.take(1) else {
        return Err(Fault::no_overload());
    };
    let mut values = list.iter();
    let mut asked = 0;
    let mut written = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        call.meter.handle(4)?;
        if next != '%' {
            written.push(next);
            continue;
        }
        if rest.as_str().starts_with('%') {
            rest.next();
            written.push('%');
            continue;
        }
        let value = values.next();
        let value = value.ok_or_else(|| Fault::error(format!("index {asked} out of range")))?;
        asked += 1;
        if rest.as_str().is_empty() {
            return Err(Fault::error("unexpected end of string"));
        }
        let (precision, after) = precision(rest.as_str())?;
        rest = after.chars();
        let verb = rest.next().ok_or_else(no_end)?;
        write_value(&mut written, verb, precision, value, call.meter)?;
    }
    Ok(Value::Text(written.into()))
}

fn unparsed(why: &str) -> Fault {
    Fault::error(format!("could not parse formatting clause: {why}"))
}

fn no_end() -> Fault {
    unparsed("error while parsing precision: could not find end of precision specifier")
}

/// The number after a point, if there is one, and the rest of the text.
fn precision(text: &str) -> Result<(Option<usize>, &str), Fault> {
    let Some(text) = text.strip_prefix('.') else {
        return Ok((None, text));
    };
    let end = text.find(|character: char| !character.is_ascii_digit());
    let (digits, rest) = text.split_at(end.ok_or_else(no_end)?);
    let number = digits.parse().ok();
    let number = number.filter(|number| *number <= MOST_PRECISION);
    match number {
        Some(number) => Ok((Some(number), rest)),
        None => Err(unparsed(&format!(
            "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {digits:?}: invalid syntax"
        ))),
    }
}

fn wrong(why: &str, value: &Value) -> Fault {
    let kind = value.type_name();
    Fault::error(format!("error during formatting: {why}, was given {kind}"))
}

fn write_value(
    written: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Value,
    meter: &mut Meter,
) -> Result<(), Fault> {
    meter.handle(value.bytes().saturating_mul(2))?;
    match verb {
        's' => return write_text(written, value, meter),
        'd' => match value {
            Value::Int(number) => written.push_str(&number.to_string()),
            Value::UInt(number) => written.push_str(&number.to_string()),
            _ => return Err(wrong("decimal clause can only be used on integers", value)),
        },
        'f' => {
            let number = double(value);
            let number = number
                .ok_or_else(|| wrong("fixed-point clause can only be used on doubles", value))?;
            // Kubernetes' library keeps the precision in a byte.
            let places = precision.unwrap_or(PLACES) & 0xff;
            meter.handle(LONGEST_DOUBLE + places)?;
            written.push_str(&number::fixed(number, places));
        }
        'e' => {
            let number = double(value);
            let number = number
                .ok_or_else(|| wrong("scientific clause can only be used on doubles", value))?;
            // Kubernetes' library takes the precision for a width.
            let width = precision.unwrap_or(PLACES);
            meter.handle(width.saturating_add(LONGEST_DOUBLE))?;
            written.push_str(&number::scientific(number, width));
        }
        'x' | 'X' | 'o' | 'b' => written.push_str(&based(verb, value)?),
        other => {
            return Err(unparsed(&format!(
                "unrecognized formatting clause \"{other}\""
            )));
        }
    }
    Ok(())
}

/// A double, or one of the texts for infinity and NaN, which have no literal.
fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// A number in base 16, 8 or 2, or the bytes of a text in base 16.
fn based(verb: char, value: &Value) -> Result<String, Fault> {
    let is_hexadecimal = matches!(verb, 'x' | 'X');
    Ok(match value {
        Value::Int(number) => {
            let sign = if *number < 0 { "-" } else { "" };
            format!("{sign}{}", digits_of(number.unsigned_abs(), verb))
        }
        Value::UInt(number) => digits_of(*number, verb),
        Value::Bool(value) if verb == 'b' => i32::from(*value).to_string(),
        Value::Text(text) if is_hexadecimal => hexadecimal(text.as_bytes(), verb),
        Value::Bytes(bytes) if is_hexadecimal => hexadecimal(bytes, verb),
        _ => {
            let why = match verb {
                'o' => "octal clause can only be used on integers",
                'b' => "only integers and bools can be formatted as binary",
                _ => "only integers, byte buffers, and strings can be formatted as hex",
            };
            return Err(wrong(why, value));
        }
    })
}

fn digits_of(number: u64, verb: char) -> String {
    match verb {
        'x' => format!("{number:x}"),
        'X' => format!("{number:X}"),
        'o' => format!("{number:o}"),
        _ => format!("{number:b}"),
    }
}

fn hexadecimal(bytes: &[u8], verb: char) -> String {
    let mut written = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = match verb {
            'x' => write!(written, "{byte:02x}"),
            _ => write!(written, "{byte:02X}"),
        };
    }
    written
}

/// Formats a value as `%s` does.
fn write_text(written: &mut String, value: &Value, meter: &mut Meter) -> Result<(), Fault> {
    meter.handle(value.bytes().saturating_add(2))?;
    match value {
        Value::Text(text) => written.push_str(text),
        Value::Bytes(bytes) => written.push_str(text_of(bytes)?),
        Value::Bool(value) => written.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) => written.push_str(&number.to_string()),
        Value::UInt(number) => written.push_str(&number.to_string()),
        Value::Double(number) => written.push_str(&number::written(*number)),
        Value::Null => written.push_str("null"),
        Value::Type(name) => written.push_str(name),
        Value::Timestamp(time) => written.push_str(&time.write()),
        Value::Duration(nanos) => written.push_str(&times::written(*nanos)),
        Value::List(list) => {
            written.push('[');
            for (at, element) in list.iter().enumerate() {
                written.push_str(if at > 0 { ", " } else { "" });
                write_nested(written, element, meter)?;
            }
            written.push(']');
        }
        Value::Map(map) => write_map(written, map.entries.iter(), meter)?,
        _ => {
            let why = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
            return Err(wrong(why, value));
        }
    }
    Ok(())
}

fn text_of(bytes: &[u8]) -> Result<&str, Fault> {
    let why = "error during formatting: could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string";
    std::str::from_utf8(bytes).map_err(|_| Fault::error(why))
}

/// The entries in the order of their written keys.
fn write_map<'v>(
    written: &mut String,
    entries: impl Iterator<Item = (&'v Key, &'v Value)>,
    meter: &mut Meter,
) -> Result<(), Fault> {
    let mut pairs = Vec::new();
    for (key, value) in entries {
        let mut pair = [String::new(), String::new()];
        let [written_key, written_value] = &mut pair;
        meter.handle_values(2)?;
        write_nested(written_key, &key.value(), meter)?;
        write_nested(written_value, value, meter)?;
        // The pair is copied once more below.
        meter.handle(written_key.len().saturating_add(written_value.len()))?;
        pairs.push(pair);
    }
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|pair| pair.join(":")).collect();
    written.push('{');
    written.push_str(&pairs.join(", "));
    written.push('}');
    Ok(())
}

/// Formats a value in a list or map: most as the language writes them.
fn write_nested(written: &mut String, value: &Value, meter: &mut Meter) -> Result<(), Fault> {
    // An escaped character may take eight times its bytes.
    meter.handle(value.bytes().saturating_mul(8))?;
    match value {
        Value::Text(text) => written.push_str(&quoted(text)),
        Value::Bytes(bytes) => {
            written.push('b');
            written.push_str(&quoted(text_of(bytes)?));
        }
        Value::Double(double) if double.is_finite() => {
            meter.handle(LONGEST_DOUBLE)?;
            written.push_str(&number::plain(*double, PLACES));
        }
        Value::Double(double) => written.push_str(&quoted(&number::written(*double))),
        Value::Timestamp(time) => {
            written.push_str(&["timestamp(", &quoted(&time.write()), ")"].concat());
        }
        Value::Duration(nanos) => {
            let text = quoted(&times::written(*nanos));
            written.push_str(&["duration(", &text, ")"].concat());
        }
        Value::Bool(_)
        | Value::Int(_)
        | Value::UInt(_)
        | Value::Null
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_) => return write_text(written, value, meter),
        other => {
            let kind = other.type_name();
            return Err(Fault::error(format!(
                "error during formatting: no formatting function for {kind}"
            )));
        }
    }
    Ok(())
}
