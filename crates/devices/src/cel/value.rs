//! Values of expressions. Texts, lists and maps are shared, so that reading a variable costs the same whatever is in it.

use super::list::List;
use super::meter::{Fault, Meter};
use core::net::IpAddr;
use evictd_pod::Quantity;
use semver::Version;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Values = List<Value>;

/// So many characters of a text are shown in an error.
const SHOWN: usize = 64;

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Values),
    Map(Arc<Map>),
    Quantity(Quantity),
    Version(Arc<Version>),
    Optional(Option<Arc<Value>>),
    Address(IpAddr),
    Network(Network),
    /// The name of a type.
    Type(&'static str),
}

/// An address with how many of its bits are those of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl Network {
    /// How many bytes its prefix takes.
    pub(crate) fn size(self) -> u64 {
        u64::from(self.bits.div_ceil(8))
    }

    pub(crate) fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(own) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits));
                (own.to_bits() & mask.unwrap_or(0)).to_be_bytes().into()
            }
            IpAddr::V6(own) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits));
                (own.to_bits() & mask.unwrap_or(0)).to_be_bytes().into()
            }
        };
        Self { address, ..self }
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == address.is_ipv4();
        same_family && Self { address, ..self }.masked() == self.masked()
    }
}

/// A map. `device.attributes` and `device.capacity` have an empty map under each name that the device has nothing of.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) entries: BTreeMap<Key, Value>,
    pub(crate) missing: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    /// Whole numbers, whatever their type.
    Int(i128),
    Text(Arc<str>),
}

impl Key {
    /// The key of an entry in a map that is written down; `None` for a value that cannot be one.
    pub(crate) fn of_entry(value: &Value) -> Option<Self> {
        Self::of(value).filter(|_| !matches!(value, Value::Double(_)))
    }

    /// The key that a value is looked up by; `None` for one that no map has.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(own) => Self::Bool(*own),
            Value::Int(own) => Self::Int((*own).into()),
            Value::UInt(own) => Self::Int((*own).into()),
            Value::Double(own) if own.fract() == 0.0 && own.abs() < 9e18 =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "it is a whole number in range"
                )]
                Self::Int((*own as i64).into())
            }
            Value::Text(own) => Self::Text(Arc::clone(own)),
            _ => return None,
        })
    }

    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Bool(own) => Value::Bool(*own),
            Self::Int(own) => i64::try_from(*own).map_or_else(
                |_| Value::UInt(u64::try_from(*own).unwrap_or(u64::MAX)),
                Value::Int,
            ),
            Self::Text(own) => Value::Text(Arc::clone(own)),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Bool(own) => own.to_string(),
            Self::Int(own) => own.to_string(),
            Self::Text(own) => own.chars().take(SHOWN).collect(),
        }
    }

    /// It is about to be looked for, or put into a map.
    pub(crate) fn read(&self, meter: &mut Meter) -> Result<(), Fault> {
        match self {
            Self::Text(own) => meter.read(own),
            Self::Bool(_) | Self::Int(_) => Ok(()),
        }
    }
}

impl Map {
    pub(crate) fn get(&self, key: &Value, meter: &mut Meter) -> Result<Value, Fault> {
        let key = Key::of(key).ok_or_else(Fault::no_overload)?;
        key.read(meter)?;
        let found = self.entries.get(&key).or(self.missing.as_ref());
        let missing = || Fault::error(format!("no such key: {}", key.shown()));
        found.cloned().ok_or_else(missing)
    }

    /// Whether `has` finds something under the name.
    pub(crate) fn has(&self, name: &Arc<str>) -> bool {
        self.missing.is_some() || self.entries.contains_key(&Key::Text(Arc::clone(name)))
    }
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::UInt(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Version(_) => "kubernetes.Semver",
            Self::Optional(_) => "optional_type",
            Self::Address(_) => "net.IP",
            Self::Network(_) => "net.CIDR",
            Self::Type(_) => "type",
        }
    }

    /// The size as costs count it: that of whatever has no size is 1.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Text(own) => characters(own),
            Self::Bytes(own) => own.len() as u64,
            Self::List(own) => own.len(),
            Self::Map(own) => own.entries.len() as u64,
            Self::Optional(Some(own)) => own.size(),
            Self::Address(own) => {
                if own.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Self::Network(own) => own.size(),
            _ => 1,
        }
    }

    /// The smaller one of two sizes. Of a long text beside a short one no more is counted than is charged.
    fn smaller_size(&self, other: &Self) -> u64 {
        match (self, other) {
            (Self::Optional(Some(own)), _) => own.smaller_size(other),
            (_, Self::Optional(Some(other))) => self.smaller_size(other),
            (Self::Text(one), Self::Text(other)) => {
                let (short, long) = if one.len() <= other.len() {
                    (one, other)
                } else {
                    (other, one)
                };
                characters_up_to(long, characters(short))
            }
            (Self::Text(text), other) | (other, Self::Text(text)) => {
                characters_up_to(text, other.size())
            }
            _ => self.size().min(other.size()),
        }
    }

    /// About how many bytes its text has, without what is in it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(own) => own.len(),
            Self::Bytes(own) => own.len(),
            _ => 24,
        }
    }

    /// Equality as a call charges it.
    pub(crate) fn equals_charged(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fault> {
        meter.traverse(self.smaller_size(other), 1)?;
        self.equals(other, meter)
    }

    /// Numbers are equal whatever their types; values of other different types never are.
    pub(crate) fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fault> {
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => {
                meter.handle(if one.len() == other.len() {
                    one.len()
                } else {
                    0
                })?;
                one == other
            }
            (Self::Bytes(one), Self::Bytes(other)) => {
                meter.handle(one.len().min(other.len()))?;
                one == other
            }
            (Self::Quantity(one), Self::Quantity(other)) => one == other,
            (Self::Version(one), Self::Version(other)) => {
                compare_versions(one, other, meter)?.is_eq()
            }
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Address(one), Self::Address(other)) => one == other,
            (Self::Network(one), Self::Network(other)) => one == other,
            (Self::Optional(one), Self::Optional(other)) => match (one, other) {
                (None, None) => true,
                (Some(one), Some(other)) => one.equals(other, meter)?,
                _ => false,
            },
            (Self::List(one), Self::List(other)) => lists_equal(one, other, meter)?,
            (Self::Map(one), Self::Map(other)) => {
                if one.entries.len() != other.entries.len() {
                    return Ok(false);
                }
                meter.handle_values(one.entries.len() as u64)?;
                for (key, own) in &one.entries {
                    match other.entries.get(key) {
                        Some(other) if own.equals(other, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            _ => numbers(self, other).is_some_and(Ordering::is_eq),
        })
    }

    /// The order of two values, charged as the comparison that asks for it.
    pub(crate) fn compare(
        &self,
        other: &Self,
        meter: &mut Meter,
    ) -> Result<Option<Ordering>, Fault> {
        let sizes = match (self, other) {
            (Self::Text(_), Self::Text(_)) | (Self::Bytes(_), Self::Bytes(_)) => {
                self.smaller_size(other)
            }
            _ => 1,
        };
        meter.traverse(sizes, 1)?;
        self.order(other)
    }

    pub(crate) fn order(&self, other: &Self) -> Result<Option<Ordering>, Fault> {
        Ok(match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => Some(one.cmp(other)),
            (Self::Text(one), Self::Text(other)) => Some(one.cmp(other)),
            (Self::Bytes(one), Self::Bytes(other)) => Some(one.cmp(other)),
            (Self::Double(one), Self::Double(other)) => one.partial_cmp(other),
            _ => Some(numbers(self, other).ok_or_else(Fault::no_overload)?),
        })
    }
}

/// Versions may have long identifiers, and are compared for one unit.
pub(crate) fn compare_versions(
    one: &Version,
    other: &Version,
    meter: &mut Meter,
) -> Result<Ordering, Fault> {
    meter.read(one.pre.as_str())?;
    Ok(one.cmp_precedence(other))
}

fn lists_equal(one: &Values, other: &Values, meter: &mut Meter) -> Result<bool, Fault> {
    if one.len() != other.len() {
        return Ok(false);
    }
    for (one, other) in one.iter().zip(other.iter()) {
        meter.handle_values(1)?;
        if !one.equals(other, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The order of two numbers, whatever their types; `None` where one is none.
fn numbers(one: &Value, other: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(own) => Some(i128::from(*own)),
        Value::UInt(own) => Some(i128::from(*own)),
        _ => None,
    };
    let double = |value: &Value| match value {
        Value::Double(own) => Some(*own),
        _ => None,
    };
    match (whole(one), whole(other), double(one), double(other)) {
        (Some(one), Some(other), ..) => Some(one.cmp(&other)),
        (_, _, Some(one), Some(other)) => one.partial_cmp(&other),
        (Some(one), _, _, Some(other)) => with_double(one, other),
        (_, Some(other), Some(one), _) => with_double(other, one).map(Ordering::reverse),
        _ => None,
    }
}

/// Compared exactly: a double has the fraction and the range that whole numbers lack.
fn with_double(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e30 {
        return Some(if double > 0.0 {
            Ordering::Less
        } else {
            Ordering::Greater
        });
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
    let floor = double.floor() as i128;
    let order = whole.cmp(&floor);
    Some(if order.is_eq() && double.fract() != 0.0 {
        Ordering::Less
    } else {
        order
    })
}

/// How many characters a text has, if they are no more than this.
fn characters_up_to(text: &str, most: u64) -> u64 {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    text.chars().take(most).count() as u64
}

/// How many characters a text has.
pub(crate) fn characters(text: &str) -> u64 {
    if text.is_ascii() {
        return text.len() as u64;
    }
    text.chars().count() as u64
}
