//! Quantities and semantic versions, as in Kubernetes' CEL library.

use super::{Called, Entry, Invocation, entry};
use crate::cel::meter::Fault;
use crate::cel::value::{Value, compare_versions};
use evictd_pod::Quantity;
use semver::Version;
use std::cmp::Ordering;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("quantity", Called::Alone, (1, 1), |call| {
        let text = read(call)?;
        let parsed = text.parse().map(Value::Quantity);
        parsed.map_err(|error| Fault::error(error.to_string()))
    }),
    entry("isQuantity", Called::Alone, (1, 1), |call| {
        Ok(Value::Bool(read(call)?.parse::<Quantity>().is_ok()))
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
        Ok(Value::Int(quantity(call)?.cmp(&Quantity::count(0)) as i64))
    }),
    entry("isInteger", Called::On, (1, 1), |call| {
        Ok(Value::Bool(whole(quantity(call)?).is_some()))
    }),
    entry("asInteger", Called::On, (1, 1), |call| {
        let quantity = quantity(call)?;
        let whole = whole(quantity).map(Value::Int);
        whole.ok_or_else(|| Fault::error(format!("asInteger: {quantity} is no integer")))
    }),
    entry("asApproximateFloat", Called::On, (1, 1), |call| {
        #[expect(
            clippy::cast_precision_loss,
            reason = "it is asked for an approximation"
        )]
        Ok(Value::Double(quantity(call)?.nano_value() as f64 / 1e9))
    }),
    entry("add", Called::On, (2, 2), |call| {
        let (one, other) = (quantity(call)?, amount(call)?);
        Ok(Value::Quantity(one + other))
    }),
    entry("sub", Called::On, (2, 2), |call| {
        let (one, other) = (quantity(call)?, amount(call)?);
        Ok(Value::Quantity(one - other))
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
            Ok(parse(&normalized(&text)))
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
        if !number.bytes().all(|digit| digit.is_ascii_digit()) {
            return format!("Invalid character(s) found in {name} number {number:?}");
        }
        if number.len() > 1 && number.starts_with('0') {
            let name = match name {
                "major" => "Major",
                "minor" => "Minor",
                _ => "Patch",
            };
            return format!("{name} number must not contain leading zeroes {number:?}");
        }
    }
    error.to_string()
}

/// Removes a `v` and leading zeros, and appends missing numbers.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let numbers = numbers.split('.').map(|number| {
        let number = number.trim_start_matches('0');
        if number.is_empty() { "0" } else { number }
    });
    let mut numbers: Vec<&str> = numbers.collect();
    while numbers.len() < 3 {
        numbers.push("0");
    }
    format!("{}{rest}", numbers.join("."))
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
fn quantity(call: &mut Invocation<'_, '_>) -> Result<Quantity, Fault> {
    call.plain()?;
    match call.arg(0) {
        Value::Quantity(quantity) => Ok(*quantity),
        _ => Err(Fault::no_overload()),
    }
}

/// The amount to add or subtract.
fn amount(call: &Invocation<'_, '_>) -> Result<Quantity, Fault> {
    match call.arg(1) {
        Value::Quantity(quantity) => Ok(*quantity),
        Value::Int(number) => Ok(Quantity::count(*number)),
        _ => Err(Fault::no_overload()),
    }
}

/// The quantity as an integer, if it is one.
fn whole(quantity: Quantity) -> Option<i64> {
    let value = quantity.value();
    (Quantity::count(value) == quantity).then_some(value)
}

fn part(call: &mut Invocation<'_, '_>, part: fn(&Version) -> u64) -> Outcome {
    call.plain()?;
    match call.arg(0) {
        Value::Version(version) => Ok(Value::Int(i64::try_from(part(version)).unwrap_or(i64::MAX))),
        _ => Err(Fault::no_overload()),
    }
}
