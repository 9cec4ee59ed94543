//! Constraints between the devices of a claim.

use evictd_pod::wire::{Device, DeviceAttribute, DeviceConstraint};

/// The devices of some requests must have the same value of an attribute.
#[derive(Debug)]
pub(crate) struct Constraint<'c> {
    /// Empty for all requests.
    requests: &'c [String],
    attribute: &'c str,
    /// The common value of the added devices, and their number.
    value: Option<DeviceAttribute>,
    count: usize,
}

impl<'c> Constraint<'c> {
    /// `None` for an unsupported kind.
    pub(crate) fn new(wire: &'c DeviceConstraint) -> Option<Self> {
        Some(Self {
            requests: &wire.requests,
            attribute: wire.match_attribute.as_deref()?,
            value: None,
            count: 0,
        })
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
        let fits = self.count == 0 || self.value.as_ref() == Some(value);
        let has_value = *value != DeviceAttribute::default();
        if !fits || (self.count > 0 && !has_value) {
            return false;
        }
        if self.count == 0 {
            self.value = Some(value.clone());
        }
        self.count += 1;
        true
    }

    /// Removes a device that was added for this request.
    pub(crate) fn remove(&mut self, request: &str) {
        if self.is_about(request) {
            self.count -= 1;
        }
    }
}

/// An attribute by its qualified name. A device may omit the driver's own domain.
fn find<'d>(device: &'d Device, driver: &str, name: &str) -> Option<&'d DeviceAttribute> {
    device.attributes.get(name).or_else(|| {
        let (domain, name) = name.split_once('/')?;
        let unqualified = (domain == driver).then_some(name)?;
        device.attributes.get(unqualified)
    })
}
