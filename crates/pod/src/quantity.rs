//! Kubernetes quantities: exact fixed point in integers only.
//!
//! Grammar and rounding are apimachinery's. Fractions finer than a nano round away from zero, and values beyond `i64`
//! are capped at its limits. A quantity prints with the family of suffixes in which it was written: `1024Mi` prints as
//! `1Gi`, `1000M` as `1G`, `1e3` as `1e3`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, cmp::Ordering, fmt, str::FromStr};

const NANO: i128 = 1_000_000_000;
/// The largest magnitude a quantity takes: `i64::MAX` units.
const MAX: i128 = i64::MAX as i128 * NANO;

/// The family of suffixes that a quantity was written with and is printed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `n u m "" k M G T P E`
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`
    BinarySi,
    /// `e3`, `E-6`
    DecimalExponent,
}

/// An amount of a resource: exact to a billionth of its unit (bytes, cores, counts).
///
/// Equality, order and hash depend on the amount only, not on how it was written.
#[derive(Clone, Copy, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// Why a text is not a quantity. The messages are those of apimachinery, because the kubelet prints them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Empty, or not of the form `<sign><digits>[.<digits>]<suffix>`.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The suffix is not one of Kubernetes.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The digits do not form a number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

impl Quantity {
    /// Zero, printed with decimal suffixes.
    pub const ZERO: Self = Self {
        nano: 0,
        format: Format::DecimalSi,
    };

    /// `value` whole units, to be printed in `format`.
    pub const fn new(value: i64, format: Format) -> Self {
        Self {
            nano: value as i128 * NANO,
            format,
        }
    }

    /// `value` bytes, printed with binary suffixes.
    pub const fn bytes(value: i64) -> Self {
        Self::new(value, Format::BinarySi)
    }

    /// A count of `value`, printed with decimal suffixes.
    pub const fn count(value: i64) -> Self {
        Self::new(value, Format::DecimalSi)
    }

    /// `value` thousandths of a unit.
    pub const fn milli(value: i64) -> Self {
        Self {
            nano: value as i128 * (NANO / 1000),
            format: Format::DecimalSi,
        }
    }

    /// Whole units, rounded away from zero as `Quantity.Value()` does.
    pub fn value(&self) -> i64 {
        self.rounded_up(NANO)
    }

    /// Thousandths, rounded away from zero as `Quantity.MilliValue()` does; capped at `i64`.
    pub fn milli_value(&self) -> i64 {
        self.rounded_up(NANO / 1000)
    }

    /// Billionths of a unit, exactly.
    pub const fn nano_value(&self) -> i128 {
        self.nano
    }

    /// Billionths of a unit as the upper and the lower 64 bits; pairs compare in the same order as amounts.
    #[allow(clippy::cast_possible_truncation, reason = "halves are wanted")]
    #[allow(clippy::cast_sign_loss, reason = "only the upper half has a sign")]
    pub const fn nano_halves(&self) -> (i64, u64) {
        ((self.nano >> 64) as i64, self.nano as u64)
    }

    /// Whether the amount is zero.
    pub const fn is_zero(&self) -> bool {
        self.nano == 0
    }

    /// Whether the amount is below zero.
    pub const fn is_negative(&self) -> bool {
        self.nano < 0
    }

    /// Whether the amount is above zero.
    pub const fn is_positive(&self) -> bool {
        self.nano > 0
    }

    /// The family of suffixes it prints with.
    pub const fn format(&self) -> Format {
        self.format
    }

    fn rounded_up(self, unit: i128) -> i64 {
        // As apimachinery does: a fraction of a byte is a whole byte, also below zero.
        let away_from_zero = self.nano / unit + (self.nano % unit).signum();
        i64::try_from(away_from_zero).unwrap_or(if self.nano < 0 { i64::MIN } else { i64::MAX })
    }

    fn capped(nano: i128, format: Format) -> Self {
        Self {
            nano: nano.clamp(-MAX, MAX),
            format,
        }
    }
}

impl std::ops::Add for Quantity {
    type Output = Self;
    /// Saturating; a zero left side takes the format of the right one, as in apimachinery.
    fn add(self, other: Self) -> Self {
        // Zero has no format of its own, so a sum that begins with it is printed like its first part.
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Self::capped(self.nano + other.nano, format)
    }
}

impl std::ops::AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::ops::Sub for Quantity {
    type Output = Self;
    /// Saturating; a zero left side takes the format of the right one, as in apimachinery.
    fn sub(self, other: Self) -> Self {
        self + Self {
            nano: -other.nano,
            ..other
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: the largest suffix of its family that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nano % NANO == 0;
        // Less than 1024 has no binary suffix and is printed with decimal ones.
        let below_a_kibi = self.nano.abs() < 1024 * NANO;
        match self.format {
            Format::BinarySi if whole && !below_a_kibi => {
                let (number, times) = stripped(self.nano / NANO, 1024, BINARY_SUFFIXES.len() - 1);
                f.pad(&format!("{number}{}", BINARY_SUFFIXES[times]))
            }
            Format::BinarySi | Format::DecimalSi => {
                let (number, times) = stripped(self.nano, 1000, DECIMAL_SUFFIXES.len() - 1);
                f.pad(&format!("{number}{}", DECIMAL_SUFFIXES[times]))
            }
            Format::DecimalExponent => {
                let (number, times) = stripped(self.nano, 1000, DECIMAL_SUFFIXES.len() - 1);
                match DECIMAL_EXPONENTS[times] {
                    0 => f.pad(&number.to_string()),
                    exponent => f.pad(&format!("{number}e{exponent}")),
                }
            }
        }
    }
}

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const DECIMAL_EXPONENTS: [i8; 10] = [-9, -6, -3, 0, 3, 6, 9, 12, 15, 18];

/// Divides by `base` as long as there is no remainder, at most `most` times; returns the result and how often. For zero, the
/// number of divisions is the one that leads to whole units.
fn stripped(mut number: i128, base: i128, most: usize) -> (i128, usize) {
    if number == 0 {
        return (0, if base == 1000 { 3 } else { 0 });
    }
    let mut times = 0;
    while times < most && number % base == 0 {
        number /= base;
        times += 1;
    }
    (number, times)
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
            None => return Err(QuantityError::Format),
        };
        let (number, suffix) = split_number(unsigned);
        if !suffix
            .bytes()
            .all(|byte| b"eEinumkKMGTP+-0123456789".contains(&byte))
        {
            return Err(QuantityError::Format);
        }
        let (format, scale) = Scale::of(suffix)?;
        let nano = scaled(number, scale)?;
        let small_binary = format == Format::BinarySi && nano < NANO && nano > 0;
        Ok(Self::capped(
            if negative { -nano } else { nano },
            // A fraction of one unit can only be printed with decimal suffixes.
            if small_binary {
                Format::DecimalSi
            } else {
                format
            },
        ))
    }
}

/// The digits with at most one decimal point, and the rest of the text.
fn split_number(text: &str) -> (&str, &str) {
    let mut seen_point = false;
    let end = text
        .bytes()
        .position(|byte| match byte {
            b'0'..=b'9' => false,
            b'.' if !seen_point => {
                seen_point = true;
                false
            }
            _ => true,
        })
        .unwrap_or(text.len());
    text.split_at(end)
}

#[derive(Clone, Copy)]
enum Scale {
    PowerOfTwo(u32),
    PowerOfTen(i32),
}

impl Scale {
    fn of(suffix: &str) -> Result<(Format, Self), QuantityError> {
        if let Some(times) = BINARY_SUFFIXES[1..]
            .iter()
            .position(|known| *known == suffix)
        {
            let power = 10 * (u32::try_from(times).unwrap_or(0) + 1);
            return Ok((Format::BinarySi, Self::PowerOfTwo(power)));
        }
        if let Some(times) = DECIMAL_SUFFIXES.iter().position(|known| *known == suffix) {
            let power = i32::from(DECIMAL_EXPONENTS[times]);
            return Ok((Format::DecimalSi, Self::PowerOfTen(power)));
        }
        // `E` alone is the suffix of exa, and an exponent before a number.
        let exponent = suffix
            .strip_prefix(['e', 'E'])
            .ok_or(QuantityError::Suffix)?;
        let power = exponent.parse().map_err(|_| QuantityError::Suffix)?;
        Ok((Format::DecimalExponent, Self::PowerOfTen(power)))
    }
}

/// `number` (digits and at most one point) times `scale`, in billionths, rounded up, capped just above [`MAX`].
fn scaled(number: &str, scale: Scale) -> Result<i128, QuantityError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(if number.is_empty() {
            QuantityError::Format
        } else {
            QuantityError::Numeric
        });
    }
    // The digits as one integer times 10^-places. Digits that an i128 cannot hold only decide whether to round up.
    let fraction = fraction.trim_end_matches('0');
    let (mut mantissa, mut places, mut lost) = (0_i128, 0_i64, false);
    for (index, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let in_fraction = index >= whole.len();
        // 27 digits and one more fit an i128, and nanos of the largest quantity have 28.
        if mantissa < 10_i128.pow(27) {
            mantissa = mantissa * 10 + i128::from(digit - b'0');
            places += i64::from(in_fraction);
        } else {
            lost |= digit != b'0';
            places -= i64::from(!in_fraction);
        }
    }
    let power = match scale {
        Scale::PowerOfTen(power) => i64::from(power),
        Scale::PowerOfTwo(power) => {
            // Room for the shift is made by dropping digits that only matter for rounding.
            while mantissa.leading_zeros() <= power + 1 {
                lost |= mantissa % 10 != 0;
                mantissa /= 10;
                places -= 1;
            }
            mantissa <<= power;
            0
        }
    };
    let power = power + 9 - places;
    Ok(times_power_of_ten(mantissa, power, lost))
}

fn times_power_of_ten(mantissa: i128, power: i64, lost: bool) -> i128 {
    if mantissa == 0 {
        return i128::from(lost);
    }
    let factor = u32::try_from(power.unsigned_abs())
        .ok()
        .and_then(|power| 10_i128.checked_pow(power));
    match (power >= 0, factor) {
        (true, Some(factor)) => mantissa
            .checked_mul(factor)
            .and_then(|nano| nano.checked_add(i128::from(lost)))
            .unwrap_or(MAX + 1),
        (true, None) => MAX + 1,
        (false, Some(factor)) => mantissa / factor + i128::from(mantissa % factor != 0 || lost),
        // So small a fraction is rounded up to the smallest unit, as every inexact value is.
        (false, None) => 1,
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// A string, or a number without quotes as people write it in YAML. `null` means zero, as for the API server.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m, 64Mi or 2")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                let trimmed = text.trim();
                trimmed
                    .parse()
                    .map_err(|error| E::custom(format_args!("{trimmed:?}: {error}")))
            }
            fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
                Ok(Quantity::ZERO)
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
                Ok(Quantity::count(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity::count(i64::try_from(value).unwrap_or(i64::MAX)))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Quantity, E> {
                // Through the text, so that 0.1 is a tenth and not the nearest binary fraction.
                self.visit_str(&Cow::from(value.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Quantity {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn values_round_up() {
        let table = [
            ("0", 0, 0),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            ("100m", 1, 100),
            ("-100m", -1, -100),
            ("1n", 1, 1),
            ("0.0000000001", 1, 1),
            ("1E", 1_000_000_000_000_000_000, i64::MAX),
            ("1Ei", 1 << 60, i64::MAX),
            ("7Ei", 7 << 60, i64::MAX),
            ("16Ei", i64::MAX, i64::MAX),
            ("9223372036854775807", i64::MAX, i64::MAX),
            ("9223372036854775808", i64::MAX, i64::MAX),
            ("-9223372036854775809", -i64::MAX, i64::MIN),
            ("1e3", 1000, 1_000_000),
            ("1E3", 1000, 1_000_000),
            ("5E-3", 1, 5),
            (".5", 1, 500),
            ("5.", 5, 5000),
            ("+1k", 1000, 1_000_000),
            ("0.5Ki", 512, 512_000),
            ("1e400", i64::MAX, i64::MAX),
            ("1e-400", 1, 1),
            ("0e400", 0, 0),
            (
                "100000000000000000000000000000000000000000000000000Ei",
                i64::MAX,
                i64::MAX,
            ),
            (
                "1.00000000000000000000000000000000000000000000000001",
                2,
                1001,
            ),
        ];
        for (text, value, milli) in table {
            assert_eq!(parse(text).value(), value, "{text}");
            assert_eq!(parse(text).milli_value(), milli, "{text}");
        }
    }

    #[test]
    fn canonical_forms() {
        let table = [
            ("52428800", "52428800"),
            ("50Mi", "50Mi"),
            ("51200Ki", "50Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Mi", "512Ki"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("960000", "960k"),
            ("959999", "959999"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1000M", "1G"),
            ("42949M", "42949M"),
            ("838860Ki", "838860Ki"),
            ("1e3", "1e3"),
            ("12345e2", "1234500"),
            ("1e2", "100"),
            ("1e-3", "1e-3"),
            ("0", "0"),
            ("0Ki", "0"),
            ("-1Ki", "-1Ki"),
            ("100n", "100n"),
            ("8Ei", "9223372036854775807"),
        ];
        for (text, canonical) in table {
            assert_eq!(parse(text).to_string(), canonical, "{text}");
        }
        assert_eq!(Quantity::bytes(0).to_string(), "0");
        assert_eq!(Quantity::bytes(1000).to_string(), "1k");
        assert_eq!(Quantity::bytes(128 << 20).to_string(), "128Mi");
        assert_eq!(Quantity::count(288_000).to_string(), "288k");
    }

    #[test]
    fn invalid_quantities_are_rejected() {
        for text in [
            "", "-", ".", "Ki", "1e3Ki", "1.1.1", "1 Gi", "1gi", "0x10", "1e", "1ee3", "1iK",
            "--1", "1Gi ", "é",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_format_of_a_sum_is_the_first_terms() {
        assert_eq!((parse("1Gi") + parse("1G")).to_string(), "2073741824");
        assert_eq!((parse("0") + parse("64Mi")).to_string(), "64Mi");
        assert_eq!((parse("64Mi") - parse("32Mi")).to_string(), "32Mi");
    }

    proptest! {
        #[test]
        fn printing_and_parsing_round_trip(
            number in -9_999_999_999_999_999_i64..9_999_999_999_999_999,
            point in 0_usize..12,
            suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"]),
        ) {
            let digits = number.unsigned_abs().to_string();
            let split = digits.len().saturating_sub(point);
            let sign = if number < 0 { "-" } else { "" };
            let text = format!("{sign}{}.{}{suffix}", &digits[..split], &digits[split..]);
            let parsed = parse(&text);
            let again = parse(&parsed.to_string());
            prop_assert_eq!(again.nano_value(), parsed.nano_value());
            // As in apimachinery, a binary amount that 1024 does not divide is printed without a suffix, and so is
            // read again as a decimal one.
            if again.format() == parsed.format() {
                prop_assert_eq!(again.to_string(), parsed.to_string());
            }
        }

        #[test]
        fn nothing_panics(text in "[-+]?[0-9.]{0,60}[eEinumkKMGTP0-9+-]{0,8}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let again = parse(&quantity.to_string());
                prop_assert_eq!(again, quantity);
                prop_assert!(quantity.nano_value().abs() <= MAX);
            }
        }
    }
}
