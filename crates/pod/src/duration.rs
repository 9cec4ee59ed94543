//! Durations as Go writes and reads them: `1h30m0s`, `10s`, `1.5s`. This is the only parser of them.

use jiff::SignedDuration;

/// Units in nanoseconds. U+00B5 and U+03BC are both a micro sign.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The magnitude of the smallest duration, in nanoseconds.
const LIMIT: u64 = 1 << 63;

/// Why a text is not a duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form `[-]<number><unit>...`, or beyond 64 bits of nanoseconds.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that Go does not know; days, months and years among them.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unknown unit: `d`.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// Parses a duration exactly as Go's `time.ParseDuration`.
///
/// ```
/// use evictd_pod::duration;
///
/// let parsed = duration::parse("1h90s")?;
/// assert_eq!(duration::format(parsed), "1h1m30s");
/// assert!(duration::parse("1d").is_err());
/// # Ok::<(), duration::DurationError>(())
/// ```
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Zero is the only amount that needs no unit.
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let (number, unit, after) = leading(rest).ok_or_else(invalid)?;
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let known = UNITS.into_iter().find(|(name, _)| *name == unit);
        let (_, size) = known.ok_or_else(|| DurationError::UnknownUnit {
            unit: unit.to_owned(),
            text: text.to_owned(),
        })?;
        let sum = number
            .nanos(size)
            .and_then(|amount| nanos.checked_add(amount));
        nanos = sum.filter(|sum| *sum <= LIMIT).ok_or_else(invalid)?;
        rest = after;
    }
    // The lowest number of 64 bits has no positive counterpart, so the sign is applied last.
    let nanos = i128::from(nanos);
    let nanos = if text.starts_with('-') { -nanos } else { nanos };
    let nanos = i64::try_from(nanos).map_err(|_| invalid())?;
    Ok(SignedDuration::from_nanos(nanos))
}

/// The digits before and after the point.
#[derive(Clone, Copy)]
struct Number<'t> {
    whole: &'t str,
    fraction: &'t str,
}

impl Number<'_> {
    /// So many units of this size.
    fn nanos(self, size: u64) -> Option<u64> {
        let whole: u64 = match self.whole {
            "" => 0,
            whole => whole.parse().ok()?,
        };
        let whole = whole.checked_mul(size)?;
        whole.checked_add(part(self.fraction, size))
    }
}

/// The first number, its unit, and the rest of the text.
fn leading(text: &str) -> Option<(Number<'_>, &str, &str)> {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        end.unwrap_or(text.len())
    };
    let (whole, after) = text.split_at(digits(text));
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => after.split_at(digits(after)),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
    let (unit, after) = after.split_at(end.unwrap_or(after.len()));
    Some((Number { whole, fraction }, unit, after))
}

/// A fraction of a unit. Go computes it in floating point, and ignores digits beyond 64 bits.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as Go does; the result is below one unit"
)]
fn part(fraction: &str, size: u64) -> u64 {
    let (mut number, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        let next = number.checked_mul(10);
        let next = next.and_then(|next| next.checked_add(u64::from(digit - b'0')));
        let Some(next) = next.filter(|next| *next <= LIMIT) else {
            break;
        };
        number = next;
        scale *= 10.0;
    }
    (number as f64 * (size as f64 / scale)) as u64
}

/// Formats a duration as Go's `Duration.String`.
pub fn format(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    // Below a second Go writes the largest unit that fits.
    let small = [(1_000_000, "ms"), (1_000, "\u{b5}s"), (1, "ns")];
    if nanos < 1_000_000_000 {
        let fitting = small.into_iter().find(|(size, _)| nanos >= *size);
        let (size, unit) = fitting.unwrap_or((1, "ns"));
        return format!("{sign}{}{unit}", decimal(nanos, size));
    }
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = decimal(nanos % 60_000_000_000, 1_000_000_000);
    if hours > 0 {
        format!("{sign}{hours}h{minutes}m{rest}s")
    } else if minutes > 0 {
        format!("{sign}{minutes}m{rest}s")
    } else {
        format!("{sign}{rest}s")
    }
}

/// `value / size` without trailing zeros.
fn decimal(value: u128, size: u128) -> String {
    let (whole, part) = (value / size, value % size);
    if part == 0 {
        return whole.to_string();
    }
    let width = size.ilog10() as usize;
    let part = format!("{part:0width$}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_formatted_as_by_go() {
        for (text, expected) in [
            ("0", Some("0s")),
            ("-0", Some("0s")),
            ("0s", Some("0s")),
            ("10m", Some("10m0s")),
            ("90m", Some("1h30m0s")),
            ("1h", Some("1h0m0s")),
            ("1.5s", Some("1.5s")),
            ("1h2m3.25s", Some("1h2m3.25s")),
            ("-1.5h", Some("-1h30m0s")),
            ("+5m", Some("5m0s")),
            ("1.s", Some("1s")),
            (".5s", Some("500ms")),
            ("1us", Some("1\u{b5}s")),
            ("1\u{3bc}s", Some("1\u{b5}s")),
            ("1.0000000009s", Some("1s")),
            ("0.3333333333333333333h", Some("20m0s")),
            ("0.100000000000000000000h", Some("6m0s")),
            ("0.9223372036854775807h", Some("55m20.413933267s")),
            ("9223372036854775807ns", Some("2562047h47m16.854775807s")),
            ("9223372036854775808ns", None),
            ("-9223372036854775808ns", Some("-2562047h47m16.854775808s")),
            ("2562047h47m16.854775807s", Some("2562047h47m16.854775807s")),
            ("2562048h", None),
            ("", None),
            ("-", None),
            (".", None),
            (".s", None),
            ("1", None),
            ("1d", None),
            ("1 s", None),
            ("s", None),
            ("1e3s", None),
            ("-1-s", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(
                parse(text).ok().map(format).as_deref(),
                expected,
                "for {text:?}"
            );
        }
    }
}
