//! Durations in Go's notation (`1h30m0s`, `10s`, `1.5s`), as timeouts of policies and the time that a job ran are written.

use jiff::SignedDuration;

/// Units of Go's notation in nanoseconds; longer names first where one begins with another.
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

/// Parses a duration in Go's notation; `None` if it is invalid or beyond 64 bits of nanoseconds.
pub fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(digits?);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        nanos = nanos.checked_add(amount(number, size)?)?;
        rest = after;
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

/// `number` units of this size; digits finer than a nanosecond are cut off.
fn amount(number: &str, size: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || number.len() > 30 {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut nanos = whole.checked_mul(size)?;
    let mut unit = size;
    for digit in fraction.chars() {
        unit /= 10;
        nanos += unit * i128::from(digit.to_digit(10)?);
    }
    Some(nanos)
}

/// The duration in Go's notation.
pub fn shown(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
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

/// `value / size` without zeros at the end.
fn decimal(value: u128, size: u128) -> String {
    let (whole, fraction) = (value / size, value % size);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = size.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print_as_gos() {
        let table = [
            ("10s", "10s"),
            ("300s", "5m0s"),
            ("1h", "1h0m0s"),
            ("1.5h", "1h30m0s"),
            ("90m", "1h30m0s"),
            ("1m1.25s", "1m1.25s"),
            ("1500us", "1.5ms"),
            ("-2s", "-2s"),
            ("0", "0s"),
            (".5s", "500ms"),
            ("7ns", "7ns"),
        ];
        for (text, printed) in table {
            assert_eq!(parse(text).map(shown).as_deref(), Some(printed), "{text}");
        }
        for wrong in ["", "10", "s", "1x", "-", "1.2.3s", "99999999999h", ".s"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
