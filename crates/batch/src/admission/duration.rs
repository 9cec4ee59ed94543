//! Lengths of time as Go writes them: `1h30m0s`.

/// The units of Go's notation with their nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The same length in Go's own form; `None` if the text is no length.
pub(super) fn canonical(text: &str) -> Option<String> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let nanoseconds = if rest == "0" { 0 } else { parse(rest)? };
    Some(match nanoseconds {
        0 => "0s".to_owned(),
        some => format!("{sign}{}", written(some)),
    })
}

fn parse(mut rest: &str) -> Option<u64> {
    let mut all = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.')?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|one: char| one.is_ascii_digit() || one == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        all = all.checked_add(times(number, *nanoseconds)?)?;
        rest = after;
    }
    i64::try_from(all).ok()?;
    Some(all)
}

/// A number with a point or without, in units.
fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |text: &str| match text {
        "" => Some(0),
        text => text.parse::<u64>().ok(),
    };
    let fraction = &fraction[..fraction.len().min(15)];
    let scale = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(digits(fraction)?) * u128::from(unit) / u128::from(scale);
    digits(whole)?
        .checked_mul(unit)?
        .checked_add(u64::try_from(part).ok()?)
}

fn written(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    if seconds == 0 {
        let (unit, size) = match nanoseconds {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{}{unit}", decimal(nanoseconds, size));
    }
    let below_a_minute = decimal(nanoseconds % 60_000_000_000, 1_000_000_000);
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{below_a_minute}s"),
        (0, minutes) => format!("{minutes}m{below_a_minute}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{below_a_minute}s"),
    }
}

/// `amount` in units of `size`, without zeros at the end.
fn decimal(amount: u64, size: u64) -> String {
    let width = size.to_string().len() - 1;
    let text = format!("{}.{:0width$}", amount / size, amount % size);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_go_writes_them() {
        for (text, expected) in [
            ("10m", "10m0s"),
            ("90m", "1h30m0s"),
            ("1h", "1h0m0s"),
            ("1.5s", "1.5s"),
            ("1h2m3.25s", "1h2m3.25s"),
            ("1500ms", "1.5s"),
            ("100us", "100µs"),
            ("1ns", "1ns"),
            ("-90s", "-1m30s"),
            ("+60s", "1m0s"),
            ("0", "0s"),
            ("0h", "0s"),
            (".5h", "30m0s"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "-",
            "10",
            "m",
            "1d",
            "1h-1m",
            ".s",
            "9999999999h",
            "1 h",
        ] {
            assert_eq!(canonical(wrong), None, "{wrong}");
        }
    }
}
