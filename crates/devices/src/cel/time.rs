//! Points in time of expressions, from the year 1 to the year 9999, by the calendar of the Gregorian reform.

/// The first second of the year 1, since 1970.
const FIRST: i64 = -62_135_596_800;
/// The last second of the year 9999, since 1970.
const LAST: i64 = 253_402_300_799;
const DAY: i64 = 86_400;
const SECOND: i128 = 1_000_000_000;

/// A point in time, with the offset that it was written with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamp {
    /// Since 1970.
    nanos: i128,
    /// Seconds east of UTC. It matters only where the time is written.
    offset: i64,
}

/// The parts of a date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) year: i64,
    /// From 1, as the day.
    pub(crate) month: i64,
    pub(crate) day: i64,
    /// From 0.
    pub(crate) day_of_year: i64,
    /// Sunday is 0.
    pub(crate) weekday: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) nanos: i64,
}

impl Timestamp {
    /// The beginning of the year 1.
    pub(crate) const FIRST_NANOS: i128 = FIRST as i128 * SECOND;

    /// `None` outside of the years that timestamps have.
    pub(crate) fn of_nanos(nanos: i128) -> Option<Self> {
        Self { nanos, offset: 0 }.checked()
    }

    pub(crate) fn of_seconds(seconds: i64) -> Option<Self> {
        Self::of_nanos(i128::from(seconds) * SECOND)
    }

    fn checked(self) -> Option<Self> {
        let seconds = self.nanos.div_euclid(SECOND);
        (i128::from(FIRST)..=i128::from(LAST))
            .contains(&seconds)
            .then_some(self)
    }

    pub(crate) const fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whole seconds since 1970.
    pub(crate) fn seconds(self) -> i64 {
        i64::try_from(self.nanos.div_euclid(SECOND)).unwrap_or(LAST)
    }

    /// A number of nanoseconds later.
    pub(crate) fn after(self, nanos: i64) -> Option<Self> {
        let nanos = self.nanos + i128::from(nanos);
        Self { nanos, ..self }.checked()
    }

    /// The parts at a number of seconds east of UTC.
    pub(crate) fn parts(self, offset: i64) -> Parts {
        let seconds = self.seconds() + offset;
        let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date(days);
        Parts {
            year,
            month,
            day,
            day_of_year: days - days_before(year, 1, 1),
            weekday: (days + 4).rem_euclid(7),
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            nanos: i64::try_from(self.nanos.rem_euclid(SECOND)).unwrap_or(0),
        }
    }

    /// As Go writes RFC 3339, with as many digits of a second as are needed.
    pub(crate) fn write(self) -> String {
        let parts = self.parts(self.offset);
        let Parts {
            year, month, day, ..
        } = parts;
        let Parts {
            hour,
            minute,
            second,
            ..
        } = parts;
        let fraction = if parts.nanos == 0 {
            String::new()
        } else {
            format!(".{:09}", parts.nanos)
        };
        let fraction = fraction.trim_end_matches('0');
        let zone = if self.offset == 0 {
            "Z".to_owned()
        } else {
            let sign = if self.offset < 0 { '-' } else { '+' };
            let minutes = self.offset.abs() / 60;
            format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        };
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}")
    }

    /// Reads RFC 3339, such as `2026-11-29T06:30:00.5+01:00`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let days = days_of(date)?;
        let mut rest = Digits(rest.strip_prefix('T')?);
        let hour = rest.pair(23)?;
        let minute = rest.after(':')?.pair(59)?;
        let second = rest.after(':')?.pair(59)?;
        let nanos = rest.fraction()?;
        let offset = match rest.0 {
            "Z" => 0,
            zone => {
                let sign = if zone.starts_with('-') { -1 } else { 1 };
                let mut zone = Digits(zone.strip_prefix(['+', '-'])?);
                let (hours, minutes) = (zone.pair(24)?, zone.after(':')?.pair(60)?);
                if !zone.0.is_empty() {
                    return None;
                }
                sign * (hours * 60 + minutes) * 60
            }
        };
        let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset;
        let nanos = i128::from(seconds) * SECOND + i128::from(nanos);
        Self { nanos, offset }.checked()
    }
}

/// The days since 1970 of a date such as `2026-11-29`, if there is such a date.
pub(crate) fn days_of(text: &str) -> Option<i64> {
    let mut rest = Digits(text);
    let year = rest.pair(99)? * 100 + rest.pair(99)?;
    let month = rest.after('-')?.pair(12)?;
    let day = rest.after('-')?.pair(31)?;
    let days = days_before(year, month, day);
    (rest.0.is_empty() && date(days) == (year, month, day)).then_some(days)
}

/// The rest of a text of numbers.
struct Digits<'t>(&'t str);

impl Digits<'_> {
    /// Two digits, and at most this number.
    fn pair(&mut self, most: i64) -> Option<i64> {
        let (pair, rest) = self.0.split_at_checked(2)?;
        let is_number = pair.bytes().all(|byte| byte.is_ascii_digit());
        self.0 = rest;
        pair.parse()
            .ok()
            .filter(|number| is_number && *number <= most)
    }

    fn after(&mut self, separator: char) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(separator)?;
        Some(self)
    }

    /// The nanoseconds of a fraction, if there is one. Further digits are dropped.
    fn fraction(&mut self) -> Option<i64> {
        let Some(rest) = self.0.strip_prefix(['.', ',']) else {
            return Some(0);
        };
        let end = rest.find(|digit: char| !digit.is_ascii_digit());
        let (digits, rest) = rest.split_at(end?);
        self.0 = rest;
        let nanos: String = digits.chars().chain("000000000".chars()).take(9).collect();
        nanos.parse().ok().filter(|_| !digits.is_empty())
    }
}

/// The days from 1970 to a date. March is the first month here, so that the day of leap years is the last one.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let months = (month + 9) % 12;
    let of_year = (153 * months + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + of_year - 719_468
}

/// The year, month and day of a number of days since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    // 400 years have 146 097 days.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let months = (5 * of_year + 2) / 153;
    let day = of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    let year = era * 400 + years + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_has_its_date_and_each_date_its_day() {
        let (first, last) = (FIRST / DAY, LAST / DAY);
        let mut before = (0, 12, 31);
        for days in first..=last {
            let (year, month, day) = date(days);
            assert_eq!(days_before(year, month, day), days);
            let next_day = (year, month, day) == (before.0, before.1, before.2 + 1);
            let next_month = (year, month, day) == (before.0, before.1 + 1, 1);
            let next_year = (year, month, day) == (before.0 + 1, 1, 1);
            assert!(next_day || next_month || next_year, "{year}-{month}-{day}");
            before = (year, month, day);
        }
        assert_eq!(before, (9999, 12, 31));
        assert_eq!(date(0), (1970, 1, 1));
        // 2000 was a leap year, and 1900 was none.
        assert!(days_of("2000-02-29").is_some() && days_of("1900-02-29").is_none());
    }

    #[test]
    fn times_are_written_as_they_were_read() {
        for text in [
            "1970-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999999Z",
            "2026-11-29T06:30:00.5+01:00",
            "2026-11-29T06:30:00-11:30",
        ] {
            let read = Timestamp::read(text).map(Timestamp::write);
            assert_eq!(read.as_deref(), Some(text));
        }
        for text in [
            "",
            "2026-11-29",
            "2026-11-29 06:30:00Z",
            "2026-11-29T06:30Z",
            "2026-11-29T24:00:00Z",
            "2026-11-29T06:30:00",
            "2026-11-29T06:30:00.Z",
            "2026-11-29T06:30:00+0100",
            "2026-11-31T06:30:00Z",
            "2026-13-01T06:30:00Z",
            "+026-11-29T06:30:00Z",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            "2026-11-2äT06:30:00Z",
        ] {
            assert!(Timestamp::read(text).is_none(), "{text}");
        }
    }
}
