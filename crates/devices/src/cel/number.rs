//! Doubles as text, in the forms of Go, which Kubernetes' library uses.

/// The shortest text that reads back as the same number. The largest and smallest have an exponent: `2.5e+06`.
pub(crate) fn written(number: f64) -> String {
    if number.is_infinite() {
        let text = if number > 0.0 { "+Inf" } else { "-Inf" };
        return text.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, power)) = scientific.split_once('e') else {
        return number.to_string();
    };
    let power: i32 = power.parse().unwrap_or_default();
    if (-4..6).contains(&power) {
        return number.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.unsigned_abs())
}

/// With a number of digits after the point.
pub(crate) fn plain(number: f64, places: usize) -> String {
    format!("{number:.places$}")
}

/// With a number of digits after the point, and commas between thousands.
pub(crate) fn fixed(number: f64, places: usize) -> String {
    if !number.is_finite() {
        return unwritten(number);
    }
    let text = plain(without_negative_zero(number), places);
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.as_str()),
    };
    let whole = unsigned.split('.').next().map_or(0, str::len);
    let mut grouped = sign.to_owned();
    for (at, character) in unsigned.char_indices() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(character);
    }
    grouped
}

/// With one digit before the point and six after it, and at least `width` characters: `1.500000×10⁰³`.
pub(crate) fn scientific(number: f64, width: usize) -> String {
    let text = if number.is_finite() {
        let text = format!("{:.6e}", without_negative_zero(number));
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let power: i32 = power.parse().unwrap_or_default();
        let sign = if power < 0 { "⁻" } else { "" };
        let raised = format!("{:02}", power.unsigned_abs());
        let raised: String = raised.chars().map(superscript).collect();
        format!("{digits}×10{sign}{raised}")
    } else {
        unwritten(number)
    };
    // A width in a format panics if it is large.
    let missing = width.saturating_sub(text.chars().count());
    format!("{}{text}", " ".repeat(missing))
}

/// Numbers that digits cannot write.
fn unwritten(number: f64) -> String {
    let text = match (number.is_nan(), number > 0.0) {
        (true, _) => "NaN",
        (false, true) => "∞",
        (false, false) => "-∞",
    };
    text.to_owned()
}

fn without_negative_zero(number: f64) -> f64 {
    if number == 0.0 { 0.0 } else { number }
}

const fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    }
}

/// Reads a decimal number. Underscores may stand between digits.
pub(crate) fn read(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let starts_with_letter = unsigned.starts_with(|first: char| first.is_ascii_alphabetic());
    if starts_with_letter {
        let is_signed = unsigned.len() < text.len();
        let is_nan = unsigned.eq_ignore_ascii_case("nan");
        return text.parse().ok().filter(|_| !(is_nan && is_signed));
    }
    if !text.contains('_') {
        return text.parse().ok().filter(|number: &f64| number.is_finite());
    }
    let bytes = unsigned.as_bytes();
    let is_digit = |at: Option<usize>| {
        let byte = at.and_then(|at| bytes.get(at));
        byte.is_some_and(u8::is_ascii_digit)
    };
    let mut underscores = unsigned.match_indices('_');
    let are_between =
        underscores.all(|(at, _)| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)));
    let number = text.replace('_', "").parse().ok();
    number.filter(|number: &f64| are_between && number.is_finite())
}
