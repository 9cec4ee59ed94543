//! Constraints between the devices of a claim.

use evictd_pod::wire::{Device, DeviceAttribute, DeviceConstraint};

/// The devices of some requests must have the same value of an attribute, or all different ones.
#[derive(Debug)]
pub(crate) struct Constraint<'c> {
    /// Empty for all requests.
    requests: &'c [String],
    attribute: &'c str,
    is_distinct: bool,
    /// The values of the added devices, in the order in which they were added.
    values: Vec<DeviceAttribute>,
}

impl<'c> Constraint<'c> {
    /// `None` for an unsupported kind.
    pub(crate) fn new(wire: &'c DeviceConstraint) -> Option<Self> {
        let distinct = wire.distinct_attribute.as_deref();
        Some(Self {
            requests: &wire.requests,
            is_distinct: wire.match_attribute.is_none() && distinct.is_some(),
            attribute: wire.match_attribute.as_deref().or(distinct)?,
            values: Vec::new(),
        })
    }

    /// Describes the constraint.
    pub(crate) fn wanted(&self) -> String {
        let attribute = self.attribute;
        if self.is_distinct {
            format!("different values of the attribute {attribute}")
        } else {
            format!("the same value of the attribute {attribute}")
        }
    }

    /// `request` is a request, or a request and one of its alternatives after a slash.
    fn is_about(&self, request: &str) -> bool {
        let base = request.split_once('/').map_or(request, |(base, _)| base);
        let mut requests = self.requests.iter();
        self.requests.is_empty() || requests.any(|named| named == request || named == base)
    }

    /// Adds a device of a request. Returns false if it violates the constraint.
    pub(crate) fn add(&mut self, request: &str, driver: &str, device: &Device) -> bool {
        if !self.is_about(request) {
            return true;
        }
        let Some(value) = find(device, driver, self.attribute) else {
            return false;
        };
        let has_value = *value != DeviceAttribute::default();
        let is_known = self.values.contains(value);
        let fits = self.values.is_empty() || (has_value && is_known != self.is_distinct);
        if fits {
            self.values.push(value.clone());
        }
        fits
    }

    /// Removes the device that was added last for this request.
    pub(crate) fn remove(&mut self, request: &str) {
        if self.is_about(request) {
            self.values.pop();
        }
    }
}

/// An attribute by its qualified name. A device may omit the driver's domain.
fn find<'d>(device: &'d Device, driver: &str, name: &str) -> Option<&'d DeviceAttribute> {
    device.attributes.get(name).or_else(|| {
        let (domain, name) = name.split_once('/')?;
        let unqualified = (domain == driver).then_some(name)?;
        device.attributes.get(unqualified)
    })
}
