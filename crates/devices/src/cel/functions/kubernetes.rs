//! Quantities and semantic versions, as in Kubernetes' CEL library.

use super::{Called, Entry, Invocation, entry};
use crate::cel::amount::Amount;
use crate::cel::meter::Fault;
use crate::cel::value::{Value, compare_versions};
use semver::Version;
use std::cmp::Ordering;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("quantity", Called::Alone, (1, 1), |call| {
        let text = read(call)?;
        let parsed = Amount::parse(&text).map(Value::Quantity);
        parsed.map_err(|error| Fault::error(error.to_string()))
    }),
    entry("isQuantity", Called::Alone, (1, 1), |call| {
        Ok(Value::Bool(Amount::parse(&read(call)?).is_ok()))
    }),
    entry("semver", Called::Alone, (1, 2), |call| {
        let parsed = version(call)?.map(|version| Value::Version(Arc::new(version)));
        parsed.map_err(Fault::error)
    }),
    entry("isSemver", Called::Alone, (1, 2), |call| {
        Ok(Value::Bool(version(call)?.is_ok()))
    }),
    entry("isGreaterThan", Called::On, (2, 2), |call| {
        Ok(Value::Bool(order(call)?.is_gt()))
    }),
    entry("isLessThan", Called::On, (2, 2), |call| {
        Ok(Value::Bool(order(call)?.is_lt()))
    }),
    entry("compareTo", Called::On, (2, 2), |call| {
        Ok(Value::Int(order(call)? as i64))
    }),
    entry("sign", Called::On, (1, 1), |call| {
        Ok(Value::Int(quantity(call)?.sign()))
    }),
    entry("isInteger", Called::On, (1, 1), |call| {
        Ok(Value::Bool(quantity(call)?.integer().is_some()))
    }),
    entry("asInteger", Called::On, (1, 1), |call| {
        let integer = quantity(call)?.integer().map(Value::Int);
        integer.ok_or_else(|| Fault::error("cannot convert value to integer"))
    }),
    entry("asApproximateFloat", Called::On, (1, 1), |call| {
        Ok(Value::Double(quantity(call)?.approximation()))
    }),
    entry("add", Called::On, (2, 2), |call| {
        let (one, other) = (quantity(call)?, amount(call)?);
        Ok(Value::Quantity(one.plus(other)))
    }),
    entry("sub", Called::On, (2, 2), |call| {
        let (one, other) = (quantity(call)?, amount(call)?);
        Ok(Value::Quantity(one.minus(other)))
    }),
    entry("major", Called::On, (1, 1), |call| {
        part(call, |version| version.major)
    }),
    entry("minor", Called::On, (1, 1), |call| {
        part(call, |version| version.minor)
    }),
    entry("patch", Called::On, (1, 1), |call| {
        part(call, |version| version.patch)
    }),
];

/// A string to be parsed.
fn read(call: &mut Invocation<'_, '_>) -> Result<Arc<str>, Fault> {
    let text = call.text(0)?;
    call.meter.traverse(call.arg(0).size(), 1)?;
    Ok(text)
}

/// Parses a version. Normalization turns `v1.02` into `1.2.0`.
fn version(call: &mut Invocation<'_, '_>) -> Result<Result<Version, String>, Fault> {
    let text = read(call)?;
    let parse = |text: &str| Version::parse(text).map_err(|error| problem(text, &error));
    match call.args.get(1) {
        None | Some(Value::Bool(false)) => Ok(parse(&text)),
        Some(Value::Bool(true)) => {
            call.meter.handle(text.len())?;
            Ok(normalized(&text).and_then(|text| parse(&text)))
        }
        Some(_) => Err(Fault::no_overload()),
    }
}

/// The error about a version, in the words of Kubernetes' library.
fn problem(text: &str, error: &semver::Error) -> String {
    if text.is_empty() {
        return "Version string empty".to_owned();
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else {
        return "No Major.Minor.Patch elements found".to_owned();
    };
    let patch = rest.split(['-', '+']).next().unwrap_or_default();
    for (name, number) in [("major", major), ("minor", minor), ("patch", patch)] {
        if number.is_empty() {
            return "strconv.ParseUint: parsing \"\": invalid syntax".to_owned();
        }
        if !number.bytes().all(|digit| digit.is_ascii_digit()) {
            return format!("Invalid character(s) found in {name} number {number:?}");
        }
        if has_leading_zero(number) {
            let name = match name {
                "major" => "Major",
                "minor" => "Minor",
                _ => "Patch",
            };
            return format!("{name} number must not contain leading zeroes {number:?}");
        }
    }
    problem_of_labels(rest).unwrap_or_else(|| error.to_string())
}

fn has_leading_zero(number: &str) -> bool {
    number.len() > 1 && number.starts_with('0')
}

/// The error of an invalid prerelease or build label.
fn problem_of_labels(rest: &str) -> Option<String> {
    let (rest, build) = match rest.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (rest, None),
    };
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let release = rest.split_once('-').map(|(_, release)| release);
    for label in release.into_iter().flat_map(|labels| labels.split('.')) {
        if label.is_empty() {
            return Some("Prerelease is empty".to_owned());
        }
        if label.bytes().all(|digit| digit.is_ascii_digit()) {
            if has_leading_zero(label) {
                return Some(format!(
                    "Numeric PreRelease version must not contain leading zeroes {label:?}"
                ));
            }
        } else if !label.bytes().all(is_valid) {
            return Some(format!(
                "Invalid character(s) found in prerelease {label:?}"
            ));
        }
    }
    for label in build.into_iter().flat_map(|labels| labels.split('.')) {
        if label.is_empty() {
            return Some("Build meta data is empty".to_owned());
        }
        if !label.bytes().all(is_valid) {
            return Some(format!(
                "Invalid character(s) found in build meta data {label:?}"
            ));
        }
    }
    None
}

/// Removes a `v` and leading zeros, and appends missing numbers. A short version has no labels.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let parts = text.splitn(3, '.').map(|part| {
        let stripped = part.trim_start_matches('0');
        match part.len() {
            0 | 1 => part.to_owned(),
            _ if stripped.starts_with(|first: char| first.is_ascii_digit()) => stripped.to_owned(),
            _ => format!("0{stripped}"),
        }
    });
    let mut parts: Vec<String> = parts.collect();
    let is_labelled = |part: &String| part.contains(['+', '-']);
    if parts.len() < 3 && parts.last().is_some_and(is_labelled) {
        let why = "short version cannot contain PreRelease/Build meta data";
        return Err(why.to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn order(call: &mut Invocation<'_, '_>) -> Result<Ordering, Fault> {
    call.plain()?;
    match (call.arg(0), call.arg(1)) {
        (Value::Quantity(one), Value::Quantity(other)) => Ok(one.cmp(other)),
        (Value::Version(one), Value::Version(other)) => {
            let (one, other) = (Arc::clone(one), Arc::clone(other));
            compare_versions(&one, &other, call.meter)
        }
        _ => Err(Fault::no_overload()),
    }
}

/// The target of a quantity function, with its charge.
fn quantity(call: &mut Invocation<'_, '_>) -> Result<Amount, Fault> {
    call.plain()?;
    match call.arg(0) {
        Value::Quantity(quantity) => Ok(*quantity),
        _ => Err(Fault::no_overload()),
    }
}

/// The amount to add or subtract.
fn amount(call: &Invocation<'_, '_>) -> Result<Amount, Fault> {
    match call.arg(1) {
        Value::Quantity(quantity) => Ok(*quantity),
        Value::Int(number) => Ok(Amount::count(*number)),
        _ => Err(Fault::no_overload()),
    }
}

fn part(call: &mut Invocation<'_, '_>, part: fn(&Version) -> u64) -> Outcome {
    call.plain()?;
    match call.arg(0) {
        Value::Version(version) => Ok(Value::Int(i64::try_from(part(version)).unwrap_or(i64::MAX))),
        _ => Err(Fault::no_overload()),
    }
}
