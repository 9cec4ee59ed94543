//! Durations in Go's notation, as every kubelet field has them: `1m30s`, `500ms`, `1.5h`.

use jiff::SignedDuration;
use std::fmt::Write;

/// Why a text is not a duration. The words are Go's, because the kubelet prints them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form `[-]<number><unit>...`, or too long to count in nanoseconds.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that Go does not know; days, months and years among them.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit that is not known: `d`.
        unit: String,
        /// The whole text, as it was written.
        text: String,
    },
}

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The duration that `1m30s` stands for; negative with a `-` before it.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let (mut rest, mut total) = (unsigned, 0_i128);
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(tail) => tail.split_at(digits(tail)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let (_, scale) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| DurationError::UnknownUnit {
                unit: unit.to_owned(),
                text: text.to_owned(),
            })?;
        total = nanoseconds(whole, fraction, *scale)
            .and_then(|part| total.checked_add(part))
            .filter(|total| *total <= i128::from(i64::MAX))
            .ok_or_else(invalid)?;
        rest = after;
    }
    let signed = if text.starts_with('-') { -total } else { total };
    let signed = i64::try_from(signed).map_err(|_| invalid())?;
    Ok(SignedDuration::from_nanos(signed))
}

/// `whole.fraction` units of `scale` nanoseconds; digits of the fraction past a nanosecond are dropped.
fn nanoseconds(whole: &str, fraction: &str, scale: i128) -> Option<i128> {
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction = &fraction[..fraction.len().min(18)];
    let part: i128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let places = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_mul(scale)?.checked_add(part * scale / places)
}

/// Prints as Go does: `1m30s`, `1h0m0s`, `500ms`, `0s`.
pub fn to_string(duration: SignedDuration) -> String {
    let mut text = String::new();
    if duration.is_negative() {
        text.push('-');
    }
    let duration = duration.unsigned_abs();
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if seconds == 0 && nanos > 0 {
        let (unit, name) = [(1_000_000, "ms"), (1_000, "\u{b5}s"), (1, "ns")]
            .into_iter()
            .find(|(unit, _)| nanos >= *unit)
            .unwrap_or((1, "ns"));
        push_fraction(&mut text, u64::from(nanos / unit), nanos % unit, unit);
        text.push_str(name);
        return text;
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    push_fraction(&mut text, seconds % 60, nanos, 1_000_000_000);
    text.push('s');
    text
}

fn push_fraction(text: &mut String, whole: u64, part: u32, unit: u32) {
    let _ = write!(text, "{whole}");
    if part > 0 {
        let width = unit.ilog10() as usize;
        let digits = format!("{part:0width$}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_notation_round_trips() {
        let table = [
            ("0", 0, "0s"),
            ("1m30s", 90_000, "1m30s"),
            ("90s", 90_000, "1m30s"),
            ("1h", 3_600_000, "1h0m0s"),
            ("1.5h", 5_400_000, "1h30m0s"),
            ("500ms", 500, "500ms"),
            ("1.25s", 1250, "1.25s"),
            ("-5s", -5000, "-5s"),
            (".5s", 500, "500ms"),
        ];
        for (text, millis, printed) in table {
            let duration = parse(text).unwrap();
            assert_eq!(duration, SignedDuration::from_millis(millis), "{text}");
            assert_eq!(to_string(duration), printed, "{text}");
        }
        assert_eq!(to_string(SignedDuration::from_nanos(1_500)), "1.5\u{b5}s");
    }

    #[test]
    fn errors_are_gos() {
        let table = [
            ("", r#"time: invalid duration """#),
            ("abc", r#"time: invalid duration "abc""#),
            ("-", r#"time: invalid duration "-""#),
            ("10", r#"time: missing unit in duration "10""#),
            ("1M", r#"time: unknown unit "M" in duration "1M""#),
            ("2d", r#"time: unknown unit "d" in duration "2d""#),
            ("1s 2m", r#"time: unknown unit "s " in duration "1s 2m""#),
            ("9999999h", r#"time: invalid duration "9999999h""#),
        ];
        for (text, error) in table {
            assert_eq!(parse(text).unwrap_err().to_string(), error);
        }
    }
}
