//! Quantities of expressions. Kubernetes' library answers some questions by how an amount is stored, so that is kept:
//! most are an integer and a power of ten, and the others are decimals.

use evictd_pod::quantity::{Quantity, QuantityError};
use std::cmp::Ordering;

/// The power of ten of the smallest fraction.
const NANO: i64 = -9;
/// An amount with more digits is stored as a decimal.
const MOST_DIGITS: usize = 18;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// In billionths; the largest are capped, far beyond the range of integers.
    nano: i128,
    plain: Option<Plain>,
}

/// An integer times a power of ten.
#[derive(Debug, Clone, Copy)]
struct Plain {
    value: i64,
    power: i64,
}

impl Amount {
    /// # Errors
    /// A text that is no quantity.
    pub(crate) fn parse(text: &str) -> Result<Self, QuantityError> {
        let quantity: Quantity = text.parse()?;
        let is_negative = text.starts_with('-');
        let unsigned = text.trim_start_matches(['+', '-']);
        let is_number = |character: char| character.is_ascii_digit() || character == '.';
        let end = unsigned.find(|character| !is_number(character));
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = whole.trim_start_matches('0');
        let digits = whole.len().max(1) + fraction.len();
        let signed = |value: i128| if is_negative { -value } else { value };
        let Some(power) = power_of_ten(suffix) else {
            let nano = quantity.nano_value();
            let is_plain = fraction.is_empty() && digits + binary_digits(suffix) < 15;
            let value = i64::try_from(nano / 1_000_000_000).ok();
            let plain = value.filter(|_| is_plain);
            let plain = plain.map(|value| Plain { value, power: 0 });
            return Ok(Self { nano, plain });
        };
        let places = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let plain_power = power.saturating_sub(places);
        if digits <= MOST_DIGITS && plain_power >= NANO {
            let value = integer(whole.bytes().chain(fraction.bytes()));
            let value = i64::try_from(signed(value)).unwrap_or_default();
            return Ok(Self::plain(value, plain_power));
        }
        let nano = signed(nanos(whole, fraction, power));
        Ok(Self { nano, plain: None })
    }

    fn plain(value: i64, power: i64) -> Self {
        let nano = scaled(value.into(), power - NANO);
        let plain = Some(Plain { value, power });
        Self { nano, plain }
    }

    pub(crate) fn count(value: i64) -> Self {
        Self::plain(value, 0)
    }

    pub(crate) const fn sign(self) -> i64 {
        self.nano.signum() as i64
    }

    /// The integer, if it is stored as one. Kubernetes' library does not reduce `2000m`.
    pub(crate) fn integer(self) -> Option<i64> {
        let plain = self.plain.filter(|plain| plain.power >= 0)?;
        i64::try_from(scaled(plain.value.into(), plain.power)).ok()
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "it is asked for an approximation"
    )]
    pub(crate) fn approximation(self) -> f64 {
        let (base, power) = match self.plain {
            Some(plain) => (plain.value as f64, plain.power),
            None => (self.nano as f64, NANO),
        };
        // Parsing a power of ten rounds it correctly, which repeated multiplication does not.
        base * format!("1e{power}").parse::<f64>().unwrap_or_default()
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let plain = self.plain.zip(other.plain);
        Self {
            nano: self.nano.saturating_add(other.nano),
            plain: plain.and_then(|(one, other)| one.plus(other)),
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        let negated = other.plain.and_then(|plain| {
            let value = plain.value.checked_neg()?;
            Some(Plain { value, ..plain })
        });
        self.plus(Self {
            nano: other.nano.saturating_neg(),
            plain: negated,
        })
    }
}

impl Plain {
    /// The sum, unless it needs a decimal.
    fn plus(self, other: Self) -> Option<Self> {
        if other.value == 0 {
            return Some(self);
        }
        if self.value == 0 {
            return Some(other);
        }
        let power = self.power.min(other.power);
        let at = |plain: Self| i64::try_from(scaled(plain.value.into(), plain.power - power)).ok();
        let value = at(self)?.checked_add(at(other)?)?;
        Some(Self { value, power })
    }
}

impl From<Quantity> for Amount {
    fn from(quantity: Quantity) -> Self {
        Self::parse(&quantity.to_string()).unwrap_or(Self {
            nano: quantity.nano_value(),
            plain: None,
        })
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

/// The power of ten of a suffix; `None` for a binary one.
fn power_of_ten(suffix: &str) -> Option<i64> {
    Some(match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        other => other.strip_prefix(['e', 'E'])?.parse().ok()?,
    })
}

/// How many digits Kubernetes' library reserves for a binary suffix.
fn binary_digits(suffix: &str) -> usize {
    let known = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let at = known.iter().position(|known| *known == suffix);
    at.map_or(MOST_DIGITS, |at| 3 * (at + 1))
}

fn integer(digits: impl Iterator<Item = u8>) -> i128 {
    digits.fold(0, |number: i128, digit| {
        let digit = i128::from(digit.saturating_sub(b'0'));
        number.saturating_mul(10).saturating_add(digit)
    })
}

/// The value times a power of ten that is not negative, capped.
fn scaled(value: i128, power: i64) -> i128 {
    if value == 0 {
        return 0;
    }
    let power = u32::try_from(power).ok();
    let factor = power.and_then(|power| 10_i128.checked_pow(power));
    value.saturating_mul(factor.unwrap_or(i128::MAX))
}

/// The number in billionths, rounded up.
fn nanos(whole: &str, fraction: &str, power: i64) -> i128 {
    let digits = whole.bytes().chain(fraction.bytes());
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let point = point.saturating_add(power).saturating_sub(NANO);
    let kept = usize::try_from(point).unwrap_or(0);
    let number = integer(digits.clone().take(kept));
    let missing = kept.saturating_sub(whole.len() + fraction.len());
    let number = scaled(number, i64::try_from(missing).unwrap_or(i64::MAX));
    let is_inexact = digits.skip(kept).any(|digit| digit != b'0');
    number.saturating_add(is_inexact.into())
}
