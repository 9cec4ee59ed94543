//! Quantities and versions as Kubernetes has them.

use super::{Called, Entry, Given, entry};
use crate::cel::meter::Fault;
use crate::cel::value::{Value, compare_versions};
use evictd_pod::Quantity;
use semver::Version;
use std::cmp::Ordering;
use std::sync::Arc;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("quantity", Called::Alone, (1, 1), |own| {
        let text = read(own)?;
        let parsed = text.parse().map(Value::Quantity);
        parsed.map_err(|error| Fault::error(format!("quantity: {error}")))
    }),
    entry("isQuantity", Called::Alone, (1, 1), |own| {
        Ok(Value::Bool(read(own)?.parse::<Quantity>().is_ok()))
    }),
    entry("semver", Called::Alone, (1, 2), |own| {
        let parsed = version(own)?.map(|own| Value::Version(Arc::new(own)));
        parsed.map_err(|error| Fault::error(format!("semver: {error}")))
    }),
    entry("isSemver", Called::Alone, (1, 2), |own| {
        Ok(Value::Bool(version(own)?.is_ok()))
    }),
    entry("isGreaterThan", Called::On, (2, 2), |own| {
        Ok(Value::Bool(order(own)?.is_gt()))
    }),
    entry("isLessThan", Called::On, (2, 2), |own| {
        Ok(Value::Bool(order(own)?.is_lt()))
    }),
    entry("compareTo", Called::On, (2, 2), |own| {
        Ok(Value::Int(order(own)? as i64))
    }),
    entry("sign", Called::On, (1, 1), |own| {
        Ok(Value::Int(quantity(own)?.cmp(&Quantity::count(0)) as i64))
    }),
    entry("isInteger", Called::On, (1, 1), |own| {
        Ok(Value::Bool(whole(quantity(own)?).is_some()))
    }),
    entry("asInteger", Called::On, (1, 1), |own| {
        let own = quantity(own)?;
        let whole = whole(own).map(Value::Int);
        whole.ok_or_else(|| Fault::error(format!("asInteger: {own} is no integer")))
    }),
    entry("asApproximateFloat", Called::On, (1, 1), |own| {
        #[expect(
            clippy::cast_precision_loss,
            reason = "it is asked for an approximation"
        )]
        Ok(Value::Double(quantity(own)?.nano_value() as f64 / 1e9))
    }),
    entry("add", Called::On, (2, 2), |own| {
        let (one, other) = (quantity(own)?, amount(own)?);
        Ok(Value::Quantity(one + other))
    }),
    entry("sub", Called::On, (2, 2), |own| {
        let (one, other) = (quantity(own)?, amount(own)?);
        Ok(Value::Quantity(one - other))
    }),
    entry("major", Called::On, (1, 1), |own| {
        part(own, |version| version.major)
    }),
    entry("minor", Called::On, (1, 1), |own| {
        part(own, |version| version.minor)
    }),
    entry("patch", Called::On, (1, 1), |own| {
        part(own, |version| version.patch)
    }),
];

/// A text that is about to be parsed.
fn read(own: &mut Given<'_, '_>) -> Result<Arc<str>, Fault> {
    let text = own.text(0)?;
    own.meter.traverse(own.arg(0).size(), 1)?;
    Ok(text)
}

/// A version. Where that is asked for, `v1.02` is `1.2.0`.
fn version(own: &mut Given<'_, '_>) -> Result<Result<Version, semver::Error>, Fault> {
    let text = read(own)?;
    match own.args.get(1) {
        None | Some(Value::Bool(false)) => Ok(Version::parse(&text)),
        Some(Value::Bool(true)) => {
            own.meter.handle(text.len())?;
            Ok(Version::parse(&normalized(&text)))
        }
        Some(_) => Err(Fault::no_overload()),
    }
}

/// Without a `v` and zeros before the numbers, and with those that are missing.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let numbers = numbers.split('.').map(|own| {
        let own = own.trim_start_matches('0');
        if own.is_empty() { "0" } else { own }
    });
    let mut numbers: Vec<&str> = numbers.collect();
    while numbers.len() < 3 {
        numbers.push("0");
    }
    format!("{}{rest}", numbers.join("."))
}

fn order(own: &mut Given<'_, '_>) -> Result<Ordering, Fault> {
    own.plain()?;
    match (own.arg(0), own.arg(1)) {
        (Value::Quantity(one), Value::Quantity(other)) => Ok(one.cmp(other)),
        (Value::Version(one), Value::Version(other)) => {
            let (one, other) = (Arc::clone(one), Arc::clone(other));
            compare_versions(&one, &other, own.meter)
        }
        _ => Err(Fault::no_overload()),
    }
}

/// The target of a function of quantities, charged as such.
fn quantity(own: &mut Given<'_, '_>) -> Result<Quantity, Fault> {
    own.plain()?;
    match own.arg(0) {
        Value::Quantity(own) => Ok(*own),
        _ => Err(Fault::no_overload()),
    }
}

/// What is added or taken away.
fn amount(own: &Given<'_, '_>) -> Result<Quantity, Fault> {
    match own.arg(1) {
        Value::Quantity(own) => Ok(*own),
        Value::Int(own) => Ok(Quantity::count(*own)),
        _ => Err(Fault::no_overload()),
    }
}

/// The amount as a whole number, if it is one.
fn whole(own: Quantity) -> Option<i64> {
    let value = own.value();
    (Quantity::count(value) == own).then_some(value)
}

fn part(own: &mut Given<'_, '_>, part: fn(&Version) -> u64) -> Outcome {
    own.plain()?;
    match own.arg(0) {
        Value::Version(own) => Ok(Value::Int(i64::try_from(part(own)).unwrap_or(i64::MAX))),
        _ => Err(Fault::no_overload()),
    }
}
