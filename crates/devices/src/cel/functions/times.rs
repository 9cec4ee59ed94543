//! Points in time and durations.

use super::{Called, Entry, Invocation, entry};
use crate::cel::meter::Fault;
use crate::cel::time::{Parts, Timestamp};
use crate::cel::value::{DURATION, TIMESTAMP, Value};
use evictd_pod::duration;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("timestamp", Called::Alone, (1, 1), timestamp),
    entry("duration", Called::Alone, (1, 1), self::duration),
    entry("getFullYear", Called::On, (1, 2), |call| {
        part(call, |parts| parts.year, None)
    }),
    entry("getMonth", Called::On, (1, 2), |call| {
        part(call, |parts| parts.month - 1, None)
    }),
    entry("getDate", Called::On, (1, 2), |call| {
        part(call, |parts| parts.day, None)
    }),
    entry("getDayOfMonth", Called::On, (1, 2), |call| {
        part(call, |parts| parts.day - 1, None)
    }),
    entry("getDayOfWeek", Called::On, (1, 2), |call| {
        part(call, |parts| parts.weekday, None)
    }),
    entry("getDayOfYear", Called::On, (1, 2), |call| {
        part(call, |parts| parts.day_of_year, None)
    }),
    entry("getHours", Called::On, (1, 2), |call| {
        part(call, |parts| parts.hour, Some(3600 * SECOND))
    }),
    entry("getMinutes", Called::On, (1, 2), |call| {
        part(call, |parts| parts.minute, Some(60 * SECOND))
    }),
    entry("getSeconds", Called::On, (1, 2), |call| {
        part(call, |parts| parts.second, Some(SECOND))
    }),
    entry("getMilliseconds", Called::On, (1, 2), |call| {
        part(call, |parts| parts.nanos / 1_000_000, Some(1_000_000))
    }),
];

const SECOND: i64 = 1_000_000_000;
/// No offset from UTC is as large, in hours.
const MOST_HOURS: i64 = 24;

fn timestamp_overflow() -> Fault {
    Fault::error("timestamp overflow")
}

fn duration_overflow() -> Fault {
    Fault::error("duration overflow")
}

/// An error of a string that does not have the form of a type.
fn no_conversion(name: &str) -> Fault {
    Fault::error(format!("type conversion error from 'string' to '{name}'"))
}

fn timestamp(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let read = match call.arg(0) {
        Value::Timestamp(time) => *time,
        Value::Int(seconds) => Timestamp::of_seconds(*seconds).ok_or_else(timestamp_overflow)?,
        Value::Text(_) => {
            let text = call.text(0)?;
            call.meter.read(&text)?;
            Timestamp::read(&text).ok_or_else(|| no_conversion(TIMESTAMP))?
        }
        other => return Err(Fault::no_overload_of("timestamp", other.type_name())),
    };
    Ok(Value::Timestamp(read))
}

fn duration(call: &mut Invocation<'_, '_>) -> Outcome {
    call.plain()?;
    let nanos = match call.arg(0) {
        Value::Duration(nanos) => *nanos,
        Value::Text(_) => {
            let text = call.text(0)?;
            call.meter.read(&text)?;
            let parsed = duration::parse(&text).map_err(|_| no_conversion(DURATION))?;
            i64::try_from(parsed.as_nanos()).map_err(|_| duration_overflow())?
        }
        other => return Err(Fault::no_overload_of("duration", other.type_name())),
    };
    Ok(Value::Duration(nanos))
}

/// A part of a point in time, in UTC or at an offset, or a duration in whole units.
fn part(
    call: &mut Invocation<'_, '_>,
    part: fn(Parts) -> i64,
    unit_of_duration: Option<i64>,
) -> Outcome {
    call.plain()?;
    let is_alone = call.args.len() == 1;
    match (call.arg(0), unit_of_duration) {
        (Value::Timestamp(time), _) => {
            let time = *time;
            let offset = if is_alone { 0 } else { offset(&call.text(1)?)? };
            Ok(Value::Int(part(time.parts(offset))))
        }
        (Value::Duration(nanos), Some(unit)) if is_alone => Ok(Value::Int(nanos / unit)),
        _ => Err(Fault::no_overload()),
    }
}

/// The seconds east of UTC of `UTC` or an offset such as `-08:00`. Named zones would need a file of the machine.
fn offset(text: &str) -> Result<i64, Fault> {
    let shown: String = text.chars().take(64).collect();
    let Some((hours, minutes)) = text.split_once(':') else {
        return match text {
            "" | "UTC" => Ok(0),
            _ => Err(Fault::error(format!(
                "the time zone {shown:?} is not supported, only UTC and offsets such as '+01:00'"
            ))),
        };
    };
    let (hours, minutes) = hours
        .parse::<i64>()
        .ok()
        .zip(minutes.parse::<i64>().ok())
        .filter(|(hours, _)| (-MOST_HOURS..=MOST_HOURS).contains(hours))
        .filter(|(_, minutes)| (0..60).contains(minutes))
        .ok_or_else(|| Fault::error(format!("invalid time zone offset {shown:?}")))?;
    let sign = if text.starts_with('-') { -1 } else { 1 };
    Ok((hours * 60 + sign * minutes) * 60)
}

/// The sum of two values of which one is a duration; `None` for other values.
pub(super) fn sum(one: &Value, other: &Value) -> Option<Outcome> {
    match (one, other) {
        (Value::Duration(one), Value::Duration(other)) => Some(checked(one.checked_add(*other))),
        (Value::Timestamp(time), Value::Duration(more))
        | (Value::Duration(more), Value::Timestamp(time)) => Some(moved(*time, *more)),
        _ => None,
    }
}

/// The difference of points in time and durations; `None` for other values.
pub(super) fn difference(one: &Value, other: &Value) -> Option<Outcome> {
    match (one, other) {
        (Value::Duration(one), Value::Duration(other)) => Some(checked(one.checked_sub(*other))),
        (Value::Timestamp(time), Value::Duration(less)) => {
            let less = less.checked_neg().ok_or_else(duration_overflow);
            Some(less.and_then(|less| moved(*time, less)))
        }
        (Value::Timestamp(one), Value::Timestamp(other)) => {
            let nanos = one.nanos() - other.nanos();
            Some(checked(i64::try_from(nanos).ok()))
        }
        _ => None,
    }
}

pub(super) fn checked(nanos: Option<i64>) -> Outcome {
    nanos.map(Value::Duration).ok_or_else(duration_overflow)
}

fn moved(time: Timestamp, nanos: i64) -> Outcome {
    let moved = time.after(nanos).map(Value::Timestamp);
    moved.ok_or_else(timestamp_overflow)
}

/// A duration as Kubernetes' library writes it: `5400.5s`.
#[expect(clippy::cast_precision_loss, reason = "so the language has it")]
pub(super) fn written(nanos: i64) -> String {
    let seconds = (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9;
    format!("{seconds}s")
}
