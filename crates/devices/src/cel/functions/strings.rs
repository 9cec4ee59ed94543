//! Functions of strings. Indices count characters.

use super::{Called, Entry, Invocation, entry, formatting, lists, with_pattern};
use crate::cel::meter::Fault;
use crate::cel::pattern::Pattern;
use crate::cel::value::Value;
use std::borrow::Cow;

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
    entry("format", Called::On, (2, 2), formatting::format),
    entry("strings.quote", Called::Alone, (1, 1), |call| {
        changed(call, quoted)
    }),
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
    // Kubernetes' library finds an empty text at any index.
    if other.is_empty() {
        return Ok(Value::Int(from));
    }
    if from < 0 {
        return Err(outside(from));
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
    let has_end = call.args.len() > 2;
    if has_end && from > to {
        return Err(Fault::error(format!(
            "invalid substring range. start: {from}, end: {to}"
        )));
    }
    let start = place(&text, from).ok_or_else(|| outside(from))?;
    let end = if has_end {
        place(&text, to).ok_or_else(|| outside(to))?
    } else {
        text.len()
    };
    Ok(Value::text(text.get(start..end).unwrap_or_default()))
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
