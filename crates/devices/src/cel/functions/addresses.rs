//! Addresses and networks as Kubernetes has them.

use super::{Called, Entry, Given, entry};
use crate::cel::meter::Fault;
use crate::cel::value::{Network, Value};
use core::net::IpAddr;

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("ip", Called::Alone, (1, 1), |own| {
        let text = read(own, 1)?;
        address(&text).map(Value::Address)
    }),
    entry("isIP", Called::Alone, (1, 1), |own| {
        Ok(Value::Bool(address(&read(own, 1)?).is_ok()))
    }),
    entry("ip.isCanonical", Called::Alone, (1, 1), |own| {
        let text = read(own, 2)?;
        Ok(Value::Bool(address(&text)?.to_string() == *text))
    }),
    entry("family", Called::On, (1, 1), |own| {
        Ok(Value::Int(if target(own)?.is_ipv4() { 4 } else { 6 }))
    }),
    entry("isUnspecified", Called::On, (1, 1), |own| {
        Ok(Value::Bool(target(own)?.is_unspecified()))
    }),
    entry("isLoopback", Called::On, (1, 1), |own| {
        Ok(Value::Bool(target(own)?.is_loopback()))
    }),
    entry("isLinkLocalMulticast", Called::On, (1, 1), |own| {
        Ok(Value::Bool(match target(own)? {
            IpAddr::V4(own) => own.octets()[..3] == [224, 0, 0],
            IpAddr::V6(own) => own.segments()[0] & 0xff0f == 0xff02,
        }))
    }),
    entry("isLinkLocalUnicast", Called::On, (1, 1), |own| {
        Ok(Value::Bool(is_link_local(target(own)?)))
    }),
    entry("isGlobalUnicast", Called::On, (1, 1), |own| {
        let own = target(own)?;
        let broadcast = matches!(own, IpAddr::V4(own) if own.is_broadcast());
        let special = own.is_unspecified() || own.is_loopback() || own.is_multicast();
        Ok(Value::Bool(!broadcast && !special && !is_link_local(own)))
    }),
    entry("cidr", Called::Alone, (1, 1), |own| {
        let text = read(own, 1)?;
        network(&text).map(Value::Network)
    }),
    entry("isCIDR", Called::Alone, (1, 1), |own| {
        Ok(Value::Bool(network(&read(own, 1)?).is_ok()))
    }),
    entry("ip", Called::On, (1, 1), |own| {
        Ok(Value::Address(range(own)?.address))
    }),
    entry("prefixLength", Called::On, (1, 1), |own| {
        Ok(Value::Int(range(own)?.bits.into()))
    }),
    entry("masked", Called::On, (1, 1), |own| {
        Ok(Value::Network(range(own)?.masked()))
    }),
    entry("containsIP", Called::On, (2, 2), contains_address),
    entry("containsCIDR", Called::On, (2, 2), contains_network),
];

/// A text that is about to be parsed, with so many passes over it.
fn read(own: &mut Given<'_, '_>, passes: u64) -> Result<std::sync::Arc<str>, Fault> {
    let text = own.text(0)?;
    own.meter.traverse(own.arg(0).size(), passes)?;
    Ok(text)
}

fn is_link_local(own: IpAddr) -> bool {
    match own {
        IpAddr::V4(own) => own.is_link_local(),
        IpAddr::V6(own) => own.is_unicast_link_local(),
    }
}

fn address(text: &str) -> Result<IpAddr, Fault> {
    let parsed = text.parse::<IpAddr>();
    let parsed =
        parsed.map_err(|error| Fault::error(format!("IP Address parse error: {error}")))?;
    if matches!(parsed, IpAddr::V6(own) if own.to_ipv4_mapped().is_some()) {
        return Err(Fault::error("IPv4-mapped IPv6 address is not allowed"));
    }
    Ok(parsed)
}

fn network(text: &str) -> Result<Network, Fault> {
    let wrong = || Fault::error("network address parse error");
    let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
    let address = self::address(address)?;
    let is_plain = bits == "0" || !bits.starts_with(['0', '+']);
    let bits = bits.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if bits > most {
        return Err(wrong());
    }
    Ok(Network { address, bits })
}

fn target(own: &mut Given<'_, '_>) -> Result<IpAddr, Fault> {
    own.plain()?;
    match own.arg(0) {
        Value::Address(own) => Ok(*own),
        _ => Err(Fault::no_overload()),
    }
}

fn range(own: &mut Given<'_, '_>) -> Result<Network, Fault> {
    own.plain()?;
    match own.arg(0) {
        Value::Network(own) => Ok(*own),
        _ => Err(Fault::no_overload()),
    }
}

/// The network that is asked, charged for a comparison of so many parts, and for a text beside it.
fn asked(own: &mut Given<'_, '_>) -> Result<Network, Fault> {
    let Value::Network(network) = *own.arg(0) else {
        return Err(Fault::no_overload());
    };
    own.meter.traverse(network.size(), 2)?;
    if matches!(own.arg(1), Value::Text(_)) {
        own.meter.traverse(own.arg(1).size(), 1)?;
    }
    Ok(network)
}

fn contains_address(own: &mut Given<'_, '_>) -> Outcome {
    let network = asked(own)?;
    let other = match own.arg(1) {
        Value::Address(own) => *own,
        Value::Text(text) => address(text)?,
        _ => return Err(Fault::no_overload()),
    };
    Ok(Value::Bool(network.contains(other)))
}

fn contains_network(own: &mut Given<'_, '_>) -> Outcome {
    let network = asked(own)?;
    own.meter.traverse(network.size(), 1)?;
    own.plain()?;
    let other = match own.arg(1) {
        Value::Network(own) => *own,
        Value::Text(text) => self::network(text)?,
        _ => return Err(Fault::no_overload()),
    };
    Ok(Value::Bool(
        network.bits <= other.bits && network.contains(other.address),
    ))
}
