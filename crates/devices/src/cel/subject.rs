//! A device as the variable `device` of an expression.

use super::value::{Key, Map, Value};
use evictd_pod::wire::{Device, DeviceAttribute};
use semver::Version;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(crate) struct Subject(Value);

impl Subject {
    /// # Errors
    /// An attribute without a supported value.
    pub(crate) fn new(driver: &str, device: &Device) -> Result<Self, String> {
        let mut attributes = Domains::default();
        for (name, attribute) in &device.attributes {
            let value = value(attribute).map_err(|error| format!("attribute {name}: {error}"))?;
            attributes.put(driver, name, value);
        }
        let mut capacity = Domains::default();
        for (name, amount) in &device.capacity {
            capacity.put(driver, name, Value::Quantity(amount.value.into()));
        }
        let fields = [
            ("driver", Value::text(driver)),
            ("attributes", attributes.value()),
            ("capacity", capacity.value()),
            (
                "allowMultipleAllocations",
                Value::Bool(device.allow_multiple_allocations),
            ),
        ];
        let entries = fields
            .into_iter()
            .map(|(name, value)| (Key::Text(name.into()), value));
        Ok(Self(map(entries.collect(), None)))
    }

    pub(crate) const fn value(&self) -> &Value {
        &self.0
    }
}

fn map(entries: BTreeMap<Key, Value>, missing: Option<Value>) -> Value {
    Value::Map(Arc::new(Map { entries, missing }))
}

/// A device's attributes or capacities by domain. An unknown domain is an empty map, so only the access to a name in it
/// fails.
#[derive(Debug, Default)]
struct Domains(BTreeMap<Arc<str>, BTreeMap<Key, Value>>);

impl Domains {
    /// A name without a domain belongs to the driver's domain.
    fn put(&mut self, driver: &str, name: &str, value: Value) {
        let (domain, name) = name.split_once('/').unwrap_or((driver, name));
        let named = self.0.entry(domain.into()).or_default();
        named.insert(Key::Text(name.into()), value);
    }

    fn value(self) -> Value {
        let domains = self.0.into_iter();
        let domains = domains.map(|(domain, named)| (Key::Text(domain), map(named, None)));
        map(domains.collect(), Some(map(BTreeMap::new(), None)))
    }
}

fn value(attribute: &DeviceAttribute) -> Result<Value, String> {
    Ok(match attribute {
        DeviceAttribute {
            int: Some(number), ..
        } => Value::Int(*number),
        DeviceAttribute {
            bool: Some(answer), ..
        } => Value::Bool(*answer),
        DeviceAttribute {
            string: Some(text), ..
        } => Value::text(text),
        DeviceAttribute {
            version: Some(version),
            ..
        } => {
            Value::Version(Arc::new(Version::parse(version).map_err(|error| {
                format!("{version:?} is no semantic version: {error}")
            })?))
        }
        _ => return Err("unsupported attribute value".to_owned()),
    })
}
