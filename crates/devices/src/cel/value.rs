//! Values of expressions. Strings, lists and maps are shared, so that reading a variable has a constant cost.

use super::amount::Amount;
use super::list::List;
use super::meter::{Fault, Meter};
use super::time::Timestamp;
use super::url::Url;
use core::net::IpAddr;
use semver::Version;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Values = List<Value>;

/// The type of points in time.
pub(crate) const TIMESTAMP: &str = "google.protobuf.Timestamp";
/// The type of durations.
pub(crate) const DURATION: &str = "google.protobuf.Duration";

/// How many characters of a string an error shows.
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
    Quantity(Amount),
    Version(Arc<Version>),
    Optional(Option<Arc<Value>>),
    Address(IpAddr),
    Network(Network),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    Url(Arc<Url>),
    Format(Format),
    /// The name of a type.
    Type(&'static str),
}

/// A named format of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    Dns1123LabelPrefix,
    Dns1123SubdomainPrefix,
    Dns1035LabelPrefix,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    Datetime,
}

impl Format {
    pub(crate) const ALL: [Self; 13] = [
        Self::Dns1123Label,
        Self::Dns1123Subdomain,
        Self::Dns1035Label,
        Self::QualifiedName,
        Self::Dns1123LabelPrefix,
        Self::Dns1123SubdomainPrefix,
        Self::Dns1035LabelPrefix,
        Self::LabelValue,
        Self::Uri,
        Self::Uuid,
        Self::Byte,
        Self::Date,
        Self::Datetime,
    ];

    /// The name that `format.named` understands.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dns1123Label => "dns1123Label",
            Self::Dns1123Subdomain => "dns1123Subdomain",
            Self::Dns1035Label => "dns1035Label",
            Self::QualifiedName => "qualifiedName",
            Self::Dns1123LabelPrefix => "dns1123LabelPrefix",
            Self::Dns1123SubdomainPrefix => "dns1123SubdomainPrefix",
            Self::Dns1035LabelPrefix => "dns1035LabelPrefix",
            Self::LabelValue => "labelValue",
            Self::Uri => "uri",
            Self::Uuid => "uuid",
            Self::Byte => "byte",
            Self::Date => "date",
            Self::Datetime => "datetime",
        }
    }
}

/// An address and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl Network {
    /// How many bytes the prefix takes.
    pub(crate) fn size(self) -> u64 {
        u64::from(self.bits.div_ceil(8))
    }

    pub(crate) fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits));
                (address.to_bits() & mask.unwrap_or(0)).to_be_bytes().into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits));
                (address.to_bits() & mask.unwrap_or(0)).to_be_bytes().into()
            }
        };
        Self { address, ..self }
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == address.is_ipv4();
        same_family && Self { address, ..self }.masked() == self.masked()
    }
}

/// A map. `device.attributes` and `device.capacity` have an empty map for every unknown domain.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) entries: BTreeMap<Key, Value>,
    pub(crate) missing: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    /// Integers of both types.
    Int(i128),
    Text(Arc<str>),
}

impl Key {
    /// The key of an entry in a map literal; `None` for an unsupported type.
    pub(crate) fn of_entry(value: &Value) -> Option<Self> {
        Self::of(value).filter(|_| !matches!(value, Value::Double(_)))
    }

    /// The key to look up a value; `None` if no map can contain it.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int((*value).into()),
            Value::UInt(value) => Self::Int((*value).into()),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "it is a whole number in range"
                )]
                Self::Int((*value as i64).into())
            }
            Value::Text(value) => Self::Text(Arc::clone(value)),
            _ => return None,
        })
    }

    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Bool(key) => Value::Bool(*key),
            Self::Int(key) => i64::try_from(*key).map_or_else(
                |_| Value::UInt(u64::try_from(*key).unwrap_or(u64::MAX)),
                Value::Int,
            ),
            Self::Text(key) => Value::Text(Arc::clone(key)),
        }
    }

    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Bool(key) => key.to_string(),
            Self::Int(key) => key.to_string(),
            Self::Text(key) => key.chars().take(SHOWN).collect(),
        }
    }

    /// Charges a lookup or insertion of the key.
    pub(crate) fn read(&self, meter: &mut Meter) -> Result<(), Fault> {
        match self {
            Self::Text(text) => meter.read(text),
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

    /// Whether `has` finds the name.
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
            Self::Timestamp(_) => TIMESTAMP,
            Self::Duration(_) => DURATION,
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Type(_) => "type",
        }
    }

    /// Why it is no result of a selector, in the words of Kubernetes' library.
    pub(crate) fn not_bool(&self) -> String {
        let kind = self.type_name();
        let why = match self {
            Self::Text(_) => "unsupported native conversion from string to 'bool'".to_owned(),
            Self::Int(_) | Self::UInt(_) => {
                format!("unsupported type conversion from '{kind}' to bool")
            }
            Self::Version(_) => "type conversion error from 'Semver' to 'bool'".to_owned(),
            Self::Timestamp(_) => "type conversion error from 'Timestamp' to 'bool'".to_owned(),
            Self::Duration(_) => "type conversion error from 'Duration' to 'bool'".to_owned(),
            Self::Url(_) => "type conversion error from 'URL' to 'bool'".to_owned(),
            Self::Format(_) => "type conversion error from 'Format' to 'bool'".to_owned(),
            Self::Double(_) => "type conversion error from Double to 'bool'".to_owned(),
            Self::List(_) | Self::Map(_) => format!("type conversion error from {kind} to 'bool'"),
            _ => format!("type conversion error from '{kind}' to 'bool'"),
        };
        format!("CEL result of type {kind} could not be converted to bool: {why}")
    }

    /// The size for cost accounting; 1 for values without a size.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Text(text) => characters(text),
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len(),
            Self::Map(map) => map.entries.len() as u64,
            Self::Optional(Some(inner)) => inner.size(),
            Self::Address(address) => {
                if address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Self::Network(network) => network.size(),
            _ => 1,
        }
    }

    /// The smaller of two sizes. Counting stops at the length that is charged.
    pub(crate) fn smaller_size(&self, other: &Self) -> u64 {
        match (self, other) {
            (Self::Optional(Some(inner)), _) => inner.smaller_size(other),
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

    /// The approximate number of bytes of its text, without nested values.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Timestamp(_) => 40,
            _ => 24,
        }
    }

    /// Whether it is of a type of Kubernetes' own.
    pub(crate) const fn is_of_kubernetes(&self) -> bool {
        matches!(
            self,
            Self::Quantity(_)
                | Self::Version(_)
                | Self::Address(_)
                | Self::Network(_)
                | Self::Url(_)
                | Self::Format(_)
        )
    }

    /// Equality as an operator has it. Kubernetes' own types refuse to be compared with others.
    pub(crate) fn is_equal(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fault> {
        let is_alike = std::mem::discriminant(self) == std::mem::discriminant(other);
        if self.is_of_kubernetes() && !is_alike && !matches!(other, Self::Null) {
            return Err(Fault::no_overload());
        }
        self.equals(other, meter)
    }

    /// Numbers are equal across types; other values of different types are never equal.
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
            (Self::Timestamp(one), Self::Timestamp(other)) => one.nanos() == other.nanos(),
            (Self::Duration(one), Self::Duration(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => {
                meter.handle(one.bytes().min(other.bytes()))?;
                one == other
            }
            (Self::Format(one), Self::Format(other)) => one == other,
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
                for (key, value) in &one.entries {
                    match other.entries.get(key) {
                        Some(other) if value.equals(other, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            _ => numbers(self, other).is_some_and(Ordering::is_eq),
        })
    }

    /// Compares two values and charges the comparison.
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
            (Self::Timestamp(one), Self::Timestamp(other)) => Some(one.nanos().cmp(&other.nanos())),
            (Self::Duration(one), Self::Duration(other)) => Some(one.cmp(other)),
            _ => Some(numbers(self, other).ok_or_else(Fault::no_overload)?),
        })
    }
}

/// Comparing versions costs one unit, but their identifiers may be long.
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

/// Compares numbers of any type; `None` for other values.
fn numbers(one: &Value, other: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::UInt(number) => Some(i128::from(*number)),
        _ => None,
    };
    let double = |value: &Value| match value {
        Value::Double(number) => Some(*number),
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

/// Compares exactly, because a double may have a fraction or a range that integers lack.
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

/// The number of characters, if it is at most `most`.
fn characters_up_to(text: &str, most: u64) -> u64 {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    text.chars().take(most).count() as u64
}

/// The number of characters.
pub(crate) fn characters(text: &str) -> u64 {
    if text.is_ascii() {
        return text.len() as u64;
    }
    text.chars().count() as u64
}
