//! Functions of strings. Indices count characters.

use super::{Called, Entry, Invocation, entry, lists, times, with_pattern};
use crate::cel::meter::{Fault, Meter};
use crate::cel::pattern::Pattern;
use crate::cel::value::Value;
use std::borrow::Cow;
use std::fmt::Write as _;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("contains", Called::On, (2, 2), contains),
    entry("startsWith", Called::On, (2, 2), |call| {
        let [text, other] = traversed(call)?;
        Ok(Value::Bool(text.starts_with(&*other)))
    }),
    entry("endsWith", Called::On, (2, 2), |call| {
        let [text, other] = traversed(call)?;
        Ok(Value::Bool(text.ends_with(&*other)))
    }),
    with_pattern(&entry("matches", Called::Either, (2, 2), matches)),
    with_pattern(&entry("find", Called::On, (2, 2), find)),
    with_pattern(&entry("findAll", Called::On, (2, 3), find_all)),
    entry("charAt", Called::On, (2, 2), char_at),
    entry("indexOf", Called::On, (2, 3), |call| index_of(call, false)),
    entry("lastIndexOf", Called::On, (2, 3), |call| {
        index_of(call, true)
    }),
    entry("lowerAscii", Called::On, (1, 1), |call| {
        changed(call, str::to_ascii_lowercase)
    }),
    entry("upperAscii", Called::On, (1, 1), |call| {
        changed(call, str::to_ascii_uppercase)
    }),
    entry("trim", Called::On, (1, 1), |call| {
        changed(call, |text| text.trim().to_owned())
    }),
    entry("substring", Called::On, (2, 3), substring),
    entry("replace", Called::On, (3, 4), replace),
    entry("split", Called::On, (2, 3), split),
    entry("join", Called::On, (1, 2), join),
    entry("format", Called::On, (2, 2), format),
    entry("strings.quote", Called::Alone, (1, 1), |call| {
        changed(call, quoted)
    }),
    entry("reverse", Called::On, (1, 1), reverse),
];

/// Two strings; the first is charged as read once.
fn traversed(call: &mut Invocation<'_, '_>) -> Result<[std::sync::Arc<str>; 2], Fault> {
    let texts = [call.text(0)?, call.text(1)?];
    call.meter.traverse(call.arg(0).size(), 1)?;
    Ok(texts)
}

fn contains(call: &mut Invocation<'_, '_>) -> Outcome {
    let (text, other) = (call.text(0)?, call.text(1)?);
    let cost = call.arg(0).size().div_ceil(10);
    call.meter
        .charge(cost.saturating_mul(call.arg(1).size().div_ceil(10)))?;
    call.meter.handle(text.len())?;
    Ok(Value::Bool(text.contains(&*other)))
}

/// The regular expression, and the charge for using it on a string.
fn pattern<'e>(call: &mut Invocation<'e, '_>) -> Result<Cow<'e, Pattern>, Fault> {
    let text = call.text(0)?;
    let expression = call.text(1)?;
    let of_text = call.arg(0).size().saturating_add(1).div_ceil(10);
    let of_pattern = call.arg(1).size().div_ceil(4);
    call.meter.charge(of_text.saturating_mul(of_pattern))?;
    let pattern = if let Some(known) = call.pattern {
        Cow::Borrowed(known)
    } else {
        call.meter.handle(expression.len().saturating_mul(16))?;
        let pattern = Pattern::new(&expression).map_err(Fault::error)?;
        call.meter.handle(pattern.work())?;
        Cow::Owned(pattern)
    };
    call.meter.handle(pattern.work_on(text.len()))?;
    Ok(pattern)
}

fn matches(call: &mut Invocation<'_, '_>) -> Outcome {
    let pattern = pattern(call)?;
    let text = call.text(0)?;
    let found = pattern
        .regex()
        .map_err(Fault::error)?
        .is_match(text.as_bytes());
    Ok(Value::Bool(found))
}

fn find(call: &mut Invocation<'_, '_>) -> Outcome {
    let pattern = pattern(call)?;
    let text = call.text(0)?;
    let found = pattern.regex().map_err(Fault::error)?.find(text.as_bytes());
    let found = found.and_then(|found| text.get(found.range()));
    call.meter.handle(text.len())?;
    Ok(Value::text(found.unwrap_or_default()))
}

fn find_all(call: &mut Invocation<'_, '_>) -> Outcome {
    let pattern = pattern(call)?;
    let text = call.text(0)?;
    let most = usize::try_from(call.int_or(2, -1)?).unwrap_or(usize::MAX);
    let mut values = Vec::new();
    let regex = pattern.regex().map_err(Fault::error)?;
    for found in regex.find_iter(text.as_bytes()).take(most) {
        call.meter.handle_values(2)?;
        call.meter.handle(found.len())?;
        // Each search may scan the rest of the string before it finds a match.
        let rest = text.len() - found.end();
        call.meter.handle(pattern.work_on(rest))?;
        values.push(Value::text(text.get(found.range()).unwrap_or_default()));
    }
    Ok(Value::List(values.into()))
}

/// The byte offset of a character. The index after the last character gives the length.
fn place(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    let ends = [text.len()];
    let mut places = text.char_indices().map(|(at, _)| at).chain(ends);
    places.nth(index)
}

fn outside(index: i64) -> Fault {
    Fault::error(format!("index out of range: {index}"))
}

fn char_at(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let (text, index) = (call.text(0)?, call.int(1)?);
    call.meter.handle(text.len() / 8)?;
    let at = place(&text, index).ok_or_else(|| outside(index))?;
    let character = text[at..].chars().next().map(String::from);
    Ok(Value::text(&character.unwrap_or_default()))
}

/// Works on lists, too.
fn index_of(call: &mut Invocation<'_, '_>, last: bool) -> Outcome {
    if matches!(call.arg(0), Value::List(_)) {
        return lists::index_of(call, last);
    }
    let (text, other) = (call.text(0)?, call.text(1)?);
    call.meter.charge(text.len() as u64 / 10)?;
    call.meter.handle(text.len())?;
    let characters = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let length = characters(&text);
    let from = call.int_or(2, if last { length } else { 0 })?;
    if from < 0 {
        return Err(outside(from));
    }
    if other.is_empty() {
        return Ok(Value::Int(from.min(length)));
    }
    let is_outside = from >= length && call.args.len() > 2;
    let at = place(&text, from).filter(|_| !is_outside);
    let found = at.and_then(|at| {
        if last {
            let end = text.floor_char_boundary(at.saturating_add(other.len()));
            return text.get(..end)?.rfind(&*other);
        }
        text[at..].find(&*other).map(|found| at + found)
    });
    Ok(Value::Int(found.map_or(-1, |at| characters(&text[..at]))))
}

/// Transforms the target into a string of at most the same length.
fn changed(call: &mut Invocation<'_, '_>, change: fn(&str) -> String) -> Outcome {
    let text = call.text(0)?;
    call.meter.traverse(call.arg(0).size(), 1)?;
    call.meter.handle(text.len().saturating_mul(2))?;
    Ok(Value::Text(change(&text).into()))
}

fn substring(call: &mut Invocation<'_, '_>) -> Outcome {
    let text = call.text(0)?;
    call.meter.traverse(call.arg(0).size(), 1)?;
    call.meter.handle(text.len())?;
    let (from, to) = (call.int(1)?, call.int_or(2, -1)?);
    let start = place(&text, from).ok_or_else(|| outside(from))?;
    let end = if call.args.len() > 2 {
        place(&text, to).ok_or_else(|| outside(to))?
    } else {
        text.len()
    };
    let part = text.get(start..end);
    let part = part.ok_or_else(|| {
        Fault::error(format!("invalid substring range. start: {from}, end: {to}"))
    })?;
    Ok(Value::text(part))
}

fn replace(call: &mut Invocation<'_, '_>) -> Outcome {
    let (text, from, to) = (call.text(0)?, call.text(1)?, call.text(2)?);
    call.meter.traverse(call.arg(0).size(), 2)?;
    call.meter.handle(text.len())?;
    let most = usize::try_from(call.int_or(3, -1)?).unwrap_or(usize::MAX);
    let count = text.matches(&*from).take(most).count();
    call.meter.handle(count.saturating_mul(to.len()))?;
    Ok(Value::Text(text.replacen(&*from, &to, most).into()))
}

fn split(call: &mut Invocation<'_, '_>) -> Outcome {
    let (text, separator) = (call.text(0)?, call.text(1)?);
    call.meter.traverse(call.arg(0).size(), 2)?;
    call.meter.handle(text.len())?;
    let most = call.int_or(2, -1)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut values = Vec::new();
    let mut put = |part: &str| {
        call.meter.handle_values(2)?;
        values.push(Value::text(part));
        Ok(())
    };
    if most == 0 {
        return Ok(Value::List(values.into()));
    }
    if separator.is_empty() {
        let mut rest = &*text;
        for _ in 1..most {
            let Some(first) = rest.chars().next() else {
                break;
            };
            put(&rest[..first.len_utf8()])?;
            rest = &rest[first.len_utf8()..];
        }
        if !rest.is_empty() {
            put(rest)?;
        }
    } else {
        text.splitn(most, &*separator).try_for_each(put)?;
    }
    Ok(Value::List(values.into()))
}

/// The cost depends on the result.
fn join(call: &mut Invocation<'_, '_>) -> Outcome {
    let Value::List(list) = call.take(0) else {
        return Err(Fault::no_overload());
    };
    let separator = if call.args.len() > 1 {
        call.text(1)?
    } else {
        "".into()
    };
    let mut joined = String::new();
    for (at, one) in list.iter().enumerate() {
        let Value::Text(text) = one else {
            return Err(Fault::no_overload());
        };
        call.meter.handle_values(1)?;
        call.meter
            .handle(text.len().saturating_add(separator.len()))?;
        if at > 0 {
            joined.push_str(&separator);
        }
        joined.push_str(text);
    }
    let joined = Value::Text(joined.into());
    call.meter.traverse(joined.size(), 2)?;
    Ok(joined)
}

/// `'%s has %d'.format([name, count])`, with the verbs `s`, `d`, `f`, `x`, `X`, `o` and `b`.
fn format(call: &mut Invocation<'_, '_>) -> Outcome {
    let text = call.text(0)?;
    call.meter.traverse(call.arg(0).size(), 1)?;
    let Value::List(list) = call.take(1) else {
        return Err(Fault::no_overload());
    };
    let mut values = list.iter();
    let mut written = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        call.meter.handle(4)?;
        if next != '%' {
            written.push(next);
            continue;
        }
        let mut verb = rest.next();
        if verb == Some('%') {
            written.push('%');
            continue;
        }
        let mut precision = 6usize;
        if verb == Some('.') {
            let (digits, after) = digits(rest.clone());
            precision = digits;
            rest = after;
            verb = rest.next();
        }
        let value = values
            .next()
            .ok_or_else(|| Fault::error("index out of range in format"))?;
        write_value(&mut written, verb, precision, value, call.meter)?;
    }
    Ok(Value::Text(written.into()))
}

/// Parses a number of at most two digits. Returns the rest, too.
fn digits(mut rest: std::str::Chars<'_>) -> (usize, std::str::Chars<'_>) {
    let mut number = 0;
    for _ in 0..2 {
        let mut ahead = rest.clone();
        let Some(digit) = ahead.next().and_then(|character| character.to_digit(10)) else {
            break;
        };
        number = number * 10 + digit as usize;
        rest = ahead;
    }
    (number, rest)
}

fn write_value(
    written: &mut String,
    verb: Option<char>,
    precision: usize,
    value: &Value,
    meter: &mut Meter,
) -> Result<(), Fault> {
    meter.handle(value.bytes().saturating_mul(2).saturating_add(precision))?;
    #[expect(clippy::cast_precision_loss, reason = "so the language has it")]
    let done = match (verb, value) {
        (Some('s'), value) => return write_text(written, value, meter),
        (Some('d'), Value::Int(number)) => write!(written, "{number}"),
        (Some('d'), Value::UInt(number)) => write!(written, "{number}"),
        (Some('f'), Value::Double(number)) => write!(written, "{number:.precision$}"),
        (Some('f'), Value::Int(number)) => write!(written, "{:.precision$}", *number as f64),
        (Some('f'), Value::UInt(number)) => write!(written, "{:.precision$}", *number as f64),
        (Some(verb @ ('x' | 'X' | 'o' | 'b')), Value::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            write!(written, "{sign}{}", digits_of(number.unsigned_abs(), verb))
        }
        (Some(verb @ ('x' | 'X' | 'o' | 'b')), Value::UInt(number)) => {
            write!(written, "{}", digits_of(*number, verb))
        }
        (Some('b'), Value::Bool(value)) => write!(written, "{}", i32::from(*value)),
        (Some(verb @ ('x' | 'X')), Value::Text(text)) => {
            hexadecimal(written, text.as_bytes(), verb)
        }
        (Some(verb @ ('x' | 'X')), Value::Bytes(bytes)) => hexadecimal(written, bytes, verb),
        _ => return Err(Fault::error("could not parse formatting clause")),
    };
    done.map_err(|_| Fault::error("could not write a text"))
}

fn digits_of(number: u64, verb: char) -> String {
    match verb {
        'x' => format!("{number:x}"),
        'X' => format!("{number:X}"),
        'o' => format!("{number:o}"),
        _ => format!("{number:b}"),
    }
}

fn hexadecimal(written: &mut String, bytes: &[u8], verb: char) -> std::fmt::Result {
    bytes.iter().try_for_each(|byte| match verb {
        'x' => write!(written, "{byte:02x}"),
        _ => write!(written, "{byte:02X}"),
    })
}

/// Formats a value and its contents as `%s` does.
fn write_text(written: &mut String, value: &Value, meter: &mut Meter) -> Result<(), Fault> {
    meter.handle(value.bytes().saturating_add(2))?;
    let done = match value {
        Value::Text(text) => write!(written, "{text}"),
        Value::Bytes(bytes) => write!(written, "{}", String::from_utf8_lossy(bytes)),
        Value::Bool(value) => write!(written, "{value}"),
        Value::Int(number) => write!(written, "{number}"),
        Value::UInt(number) => write!(written, "{number}"),
        Value::Double(number) => write!(written, "{number}"),
        Value::Null => write!(written, "null"),
        Value::Type(name) => write!(written, "{name}"),
        Value::Timestamp(time) => write!(written, "{}", time.write()),
        Value::Duration(nanos) => write!(written, "{}", times::written(*nanos)),
        Value::List(list) => {
            written.push('[');
            for (at, element) in list.iter().enumerate() {
                written.push_str(if at > 0 { ", " } else { "" });
                write_text(written, element, meter)?;
            }
            written.push(']');
            Ok(())
        }
        Value::Map(map) => {
            written.push('{');
            for (at, (key, value)) in map.entries.iter().enumerate() {
                written.push_str(if at > 0 { ", " } else { "" });
                write_text(written, &key.value(), meter)?;
                written.push_str(": ");
                write_text(written, value, meter)?;
            }
            written.push('}');
            Ok(())
        }
        Value::Quantity(_)
        | Value::Version(_)
        | Value::Optional(_)
        | Value::Address(_)
        | Value::Network(_)
        | Value::Url(_)
        | Value::Format(_) => {
            return Err(Fault::error("could not parse formatting clause"));
        }
    };
    done.map_err(|_| Fault::error("could not write a text"))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            call => quoted.push(call),
        }
    }
    quoted.push('"');
    quoted
}

/// Works on lists, too.
fn reverse(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    match call.take(0) {
        Value::Text(text) => {
            call.meter.handle(text.len())?;
            Ok(Value::text(&text.chars().rev().collect::<String>()))
        }
        Value::List(list) => lists::reversed(&list, call.meter),
        _ => Err(Fault::no_overload()),
    }
}
