//! Functions of texts. Places in a text count characters.

use super::{Called, Entry, Given, entry, lists, with_pattern};
use crate::cel::meter::{Fault, Meter};
use crate::cel::pattern::Pattern;
use crate::cel::value::Value;
use std::borrow::Cow;
use std::fmt::Write as _;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("contains", Called::On, (2, 2), contains),
    entry("startsWith", Called::On, (2, 2), |own| {
        let [text, other] = traversed(own)?;
        Ok(Value::Bool(text.starts_with(&*other)))
    }),
    entry("endsWith", Called::On, (2, 2), |own| {
        let [text, other] = traversed(own)?;
        Ok(Value::Bool(text.ends_with(&*other)))
    }),
    with_pattern(&entry("matches", Called::Either, (2, 2), matches)),
    with_pattern(&entry("find", Called::On, (2, 2), find)),
    with_pattern(&entry("findAll", Called::On, (2, 3), find_all)),
    entry("charAt", Called::On, (2, 2), char_at),
    entry("indexOf", Called::On, (2, 3), |own| index_of(own, false)),
    entry("lastIndexOf", Called::On, (2, 3), |own| index_of(own, true)),
    entry("lowerAscii", Called::On, (1, 1), |own| {
        changed(own, str::to_ascii_lowercase)
    }),
    entry("upperAscii", Called::On, (1, 1), |own| {
        changed(own, str::to_ascii_uppercase)
    }),
    entry("trim", Called::On, (1, 1), |own| {
        changed(own, |text| text.trim().to_owned())
    }),
    entry("substring", Called::On, (2, 3), substring),
    entry("replace", Called::On, (3, 4), replace),
    entry("split", Called::On, (2, 3), split),
    entry("join", Called::On, (1, 2), join),
    entry("format", Called::On, (2, 2), format),
    entry("strings.quote", Called::Alone, (1, 1), |own| {
        changed(own, quoted)
    }),
    entry("reverse", Called::On, (1, 1), reverse),
];

/// Two texts of which the first is read once.
fn traversed(own: &mut Given<'_, '_>) -> Result<[std::sync::Arc<str>; 2], Fault> {
    let texts = [own.text(0)?, own.text(1)?];
    own.meter.traverse(own.arg(0).size(), 1)?;
    Ok(texts)
}

fn contains(own: &mut Given<'_, '_>) -> Outcome {
    let (text, other) = (own.text(0)?, own.text(1)?);
    let cost = own.arg(0).size().div_ceil(10);
    own.meter
        .charge(cost.saturating_mul(own.arg(1).size().div_ceil(10)))?;
    own.meter.handle(text.len())?;
    Ok(Value::Bool(text.contains(&*other)))
}

/// The regular expression, ready to be used on a text for which it is charged.
fn pattern<'e>(own: &mut Given<'e, '_>) -> Result<Cow<'e, Pattern>, Fault> {
    let text = own.text(0)?;
    let expression = own.text(1)?;
    let of_text = own.arg(0).size().saturating_add(1).div_ceil(10);
    let of_pattern = own.arg(1).size().div_ceil(4);
    own.meter.charge(of_text.saturating_mul(of_pattern))?;
    let pattern = if let Some(known) = own.pattern {
        Cow::Borrowed(known)
    } else {
        own.meter.handle(expression.len().saturating_mul(16))?;
        let pattern = Pattern::new(&expression).map_err(Fault::error)?;
        own.meter.handle(pattern.work())?;
        Cow::Owned(pattern)
    };
    own.meter.handle(pattern.work_on(text.len()))?;
    Ok(pattern)
}

fn matches(own: &mut Given<'_, '_>) -> Outcome {
    let pattern = pattern(own)?;
    let text = own.text(0)?;
    let found = pattern
        .regex()
        .map_err(Fault::error)?
        .is_match(text.as_bytes());
    Ok(Value::Bool(found))
}

fn find(own: &mut Given<'_, '_>) -> Outcome {
    let pattern = pattern(own)?;
    let text = own.text(0)?;
    let found = pattern.regex().map_err(Fault::error)?.find(text.as_bytes());
    let found = found.and_then(|found| text.get(found.range()));
    own.meter.handle(text.len())?;
    Ok(Value::text(found.unwrap_or_default()))
}

fn find_all(own: &mut Given<'_, '_>) -> Outcome {
    let pattern = pattern(own)?;
    let text = own.text(0)?;
    let most = usize::try_from(own.int_or(2, -1)?).unwrap_or(usize::MAX);
    let mut values = Vec::new();
    let regex = pattern.regex().map_err(Fault::error)?;
    for found in regex.find_iter(text.as_bytes()).take(most) {
        own.meter.handle_values(2)?;
        own.meter.handle(found.len())?;
        // Each search may read the text to its end before it knows that it has found something.
        let rest = text.len() - found.end();
        own.meter.handle(pattern.work_on(rest))?;
        values.push(Value::text(text.get(found.range()).unwrap_or_default()));
    }
    Ok(Value::List(values.into()))
}

/// The place in bytes of a character; the length of the text for the place after its last one.
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

fn char_at(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    let (text, index) = (own.text(0)?, own.int(1)?);
    own.meter.handle(text.len() / 8)?;
    let at = place(&text, index).ok_or_else(|| outside(index))?;
    let character = text[at..].chars().next().map(String::from);
    Ok(Value::text(&character.unwrap_or_default()))
}

/// Also of an element of a list.
fn index_of(own: &mut Given<'_, '_>, last: bool) -> Outcome {
    if matches!(own.arg(0), Value::List(_)) {
        return lists::index_of(own, last);
    }
    let (text, other) = (own.text(0)?, own.text(1)?);
    own.meter.charge(text.len() as u64 / 10)?;
    own.meter.handle(text.len())?;
    let characters = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let length = characters(&text);
    let from = own.int_or(2, if last { length } else { 0 })?;
    if from < 0 {
        return Err(outside(from));
    }
    if other.is_empty() {
        return Ok(Value::Int(from.min(length)));
    }
    let is_outside = from >= length && own.args.len() > 2;
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

/// A text of at most the length of the target.
fn changed(own: &mut Given<'_, '_>, change: fn(&str) -> String) -> Outcome {
    let text = own.text(0)?;
    own.meter.traverse(own.arg(0).size(), 1)?;
    own.meter.handle(text.len().saturating_mul(2))?;
    Ok(Value::Text(change(&text).into()))
}

fn substring(own: &mut Given<'_, '_>) -> Outcome {
    let text = own.text(0)?;
    own.meter.traverse(own.arg(0).size(), 1)?;
    own.meter.handle(text.len())?;
    let (from, to) = (own.int(1)?, own.int_or(2, -1)?);
    let start = place(&text, from).ok_or_else(|| outside(from))?;
    let end = if own.args.len() > 2 {
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

fn replace(own: &mut Given<'_, '_>) -> Outcome {
    let (text, from, to) = (own.text(0)?, own.text(1)?, own.text(2)?);
    own.meter.traverse(own.arg(0).size(), 2)?;
    own.meter.handle(text.len())?;
    let most = usize::try_from(own.int_or(3, -1)?).unwrap_or(usize::MAX);
    let count = text.matches(&*from).take(most).count();
    own.meter.handle(count.saturating_mul(to.len()))?;
    Ok(Value::Text(text.replacen(&*from, &to, most).into()))
}

fn split(own: &mut Given<'_, '_>) -> Outcome {
    let (text, separator) = (own.text(0)?, own.text(1)?);
    own.meter.traverse(own.arg(0).size(), 2)?;
    own.meter.handle(text.len())?;
    let most = own.int_or(2, -1)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut values = Vec::new();
    let mut put = |part: &str| {
        own.meter.handle_values(2)?;
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

/// It costs what comes out of it.
fn join(own: &mut Given<'_, '_>) -> Outcome {
    let Value::List(list) = own.take(0) else {
        return Err(Fault::no_overload());
    };
    let separator = if own.args.len() > 1 {
        own.text(1)?
    } else {
        "".into()
    };
    let mut joined = String::new();
    for (at, one) in list.iter().enumerate() {
        let Value::Text(text) = one else {
            return Err(Fault::no_overload());
        };
        own.meter.handle_values(1)?;
        own.meter
            .handle(text.len().saturating_add(separator.len()))?;
        if at > 0 {
            joined.push_str(&separator);
        }
        joined.push_str(text);
    }
    let joined = Value::Text(joined.into());
    own.meter.traverse(joined.size(), 2)?;
    Ok(joined)
}

/// `'%s has %d'.format([name, count])`, with the verbs `s`, `d`, `f`, `x`, `X`, `o` and `b`.
fn format(own: &mut Given<'_, '_>) -> Outcome {
    let text = own.text(0)?;
    own.meter.traverse(own.arg(0).size(), 1)?;
    let Value::List(list) = own.take(1) else {
        return Err(Fault::no_overload());
    };
    let mut values = list.iter();
    let mut written = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        own.meter.handle(4)?;
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
        write_value(&mut written, verb, precision, value, own.meter)?;
    }
    Ok(Value::Text(written.into()))
}

/// A number of at most two digits, and what is after it.
fn digits(mut rest: std::str::Chars<'_>) -> (usize, std::str::Chars<'_>) {
    let mut number = 0;
    for _ in 0..2 {
        let mut ahead = rest.clone();
        let Some(digit) = ahead.next().and_then(|own| own.to_digit(10)) else {
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
        (Some('d'), Value::Int(own)) => write!(written, "{own}"),
        (Some('d'), Value::UInt(own)) => write!(written, "{own}"),
        (Some('f'), Value::Double(own)) => write!(written, "{own:.precision$}"),
        (Some('f'), Value::Int(own)) => write!(written, "{:.precision$}", *own as f64),
        (Some('f'), Value::UInt(own)) => write!(written, "{:.precision$}", *own as f64),
        (Some(verb @ ('x' | 'X' | 'o' | 'b')), Value::Int(own)) => {
            let sign = if *own < 0 { "-" } else { "" };
            write!(written, "{sign}{}", digits_of(own.unsigned_abs(), verb))
        }
        (Some(verb @ ('x' | 'X' | 'o' | 'b')), Value::UInt(own)) => {
            write!(written, "{}", digits_of(*own, verb))
        }
        (Some('b'), Value::Bool(own)) => write!(written, "{}", i32::from(*own)),
        (Some(verb @ ('x' | 'X')), Value::Text(own)) => hexadecimal(written, own.as_bytes(), verb),
        (Some(verb @ ('x' | 'X')), Value::Bytes(own)) => hexadecimal(written, own, verb),
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
    bytes.iter().try_for_each(|own| match verb {
        'x' => write!(written, "{own:02x}"),
        _ => write!(written, "{own:02X}"),
    })
}

/// A value as `%s` shows it, with what is in it.
fn write_text(written: &mut String, value: &Value, meter: &mut Meter) -> Result<(), Fault> {
    meter.handle(value.bytes().saturating_add(2))?;
    let done = match value {
        Value::Text(own) => write!(written, "{own}"),
        Value::Bytes(own) => write!(written, "{}", String::from_utf8_lossy(own)),
        Value::Bool(own) => write!(written, "{own}"),
        Value::Int(own) => write!(written, "{own}"),
        Value::UInt(own) => write!(written, "{own}"),
        Value::Double(own) => write!(written, "{own}"),
        Value::Null => write!(written, "null"),
        Value::Type(own) => write!(written, "{own}"),
        Value::List(list) => {
            written.push('[');
            for (at, own) in list.iter().enumerate() {
                written.push_str(if at > 0 { ", " } else { "" });
                write_text(written, own, meter)?;
            }
            written.push(']');
            Ok(())
        }
        Value::Map(map) => {
            written.push('{');
            for (at, (key, own)) in map.entries.iter().enumerate() {
                written.push_str(if at > 0 { ", " } else { "" });
                write_text(written, &key.value(), meter)?;
                written.push_str(": ");
                write_text(written, own, meter)?;
            }
            written.push('}');
            Ok(())
        }
        Value::Quantity(_)
        | Value::Version(_)
        | Value::Optional(_)
        | Value::Address(_)
        | Value::Network(_) => {
            return Err(Fault::error("could not parse formatting clause"));
        }
    };
    done.map_err(|_| Fault::error("could not write a text"))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for own in text.chars() {
        match own {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            own => quoted.push(own),
        }
    }
    quoted.push('"');
    quoted
}

/// Also of a list.
fn reverse(own: &mut Given<'_, '_>) -> Outcome {
    own.plain()?;
    match own.take(0) {
        Value::Text(text) => {
            own.meter.handle(text.len())?;
            Ok(Value::text(&text.chars().rev().collect::<String>()))
        }
        Value::List(list) => lists::reversed(&list, own.meter),
        _ => Err(Fault::no_overload()),
    }
}
