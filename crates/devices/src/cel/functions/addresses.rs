//! IP addresses and CIDRs, as in Kubernetes' CEL library.

use super::{Called, Entry, Invocation, entry, unparsed};
use crate::cel::meter::Fault;
use crate::cel::quote::quoted;
use crate::cel::value::{Network, Value};
use core::net::{IpAddr, Ipv6Addr};

type Outcome = Result<Value, Fault>;

pub(super) const TABLE: &[Entry] = &[
    entry("ip", Called::Alone, (1, 1), |call| {
        let text = read(call, 1)?;
        address(&text).map(Value::Address)
    }),
    entry("isIP", Called::Alone, (1, 1), |call| {
        Ok(Value::Bool(address(&read(call, 1)?).is_ok()))
    }),
    entry("ip.isCanonical", Called::Alone, (1, 1), |call| {
        let text = read(call, 2)?;
        Ok(Value::Bool(address(&text)?.to_string() == *text))
    }),
    entry("family", Called::On, (1, 1), |call| {
        Ok(Value::Int(if target(call)?.is_ipv4() { 4 } else { 6 }))
    }),
    entry("isUnspecified", Called::On, (1, 1), |call| {
        Ok(Value::Bool(target(call)?.is_unspecified()))
    }),
    entry("isLoopback", Called::On, (1, 1), |call| {
        Ok(Value::Bool(target(call)?.is_loopback()))
    }),
    entry("isLinkLocalMulticast", Called::On, (1, 1), |call| {
        Ok(Value::Bool(match target(call)? {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        }))
    }),
    entry("isLinkLocalUnicast", Called::On, (1, 1), |call| {
        Ok(Value::Bool(is_link_local(target(call)?)))
    }),
    entry("isGlobalUnicast", Called::On, (1, 1), |call| {
        let address = target(call)?;
        let broadcast = matches!(address, IpAddr::V4(ipv4) if ipv4.is_broadcast());
        let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
        Ok(Value::Bool(
            !broadcast && !special && !is_link_local(address),
        ))
    }),
    entry("cidr", Called::Alone, (1, 1), |call| {
        let text = read(call, 1)?;
        network(&text).map(Value::Network)
    }),
    entry("isCIDR", Called::Alone, (1, 1), |call| {
        Ok(Value::Bool(network(&read(call, 1)?).is_ok()))
    }),
    entry("ip", Called::On, (1, 1), |call| {
        Ok(Value::Address(range(call)?.address))
    }),
    entry("prefixLength", Called::On, (1, 1), |call| {
        Ok(Value::Int(range(call)?.bits.into()))
    }),
    entry("masked", Called::On, (1, 1), |call| {
        Ok(Value::Network(range(call)?.masked()))
    }),
    entry("containsIP", Called::On, (2, 2), contains_address),
    entry("containsCIDR", Called::On, (2, 2), contains_network),
];

/// A string to be parsed, charged for a number of passes.
fn read(call: &mut Invocation<'_, '_>, passes: u64) -> Result<std::sync::Arc<str>, Fault> {
    let text = call.text(0)?;
    call.meter.traverse(call.arg(0).size(), passes)?;
    Ok(text)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn address(text: &str) -> Result<IpAddr, Fault> {
    let Ok(parsed) = text.parse::<IpAddr>() else {
        return Err(Fault::error(match without_zone(text) {
            Some(_) => format!("IP address {} with zone value is not allowed", quoted(text)),
            None => format!(
                "IP Address {} parse error during conversion from string: {}",
                quoted(text),
                unparsed::address(text)
            ),
        }));
    };
    if is_mapped(parsed) {
        let text = quoted(text);
        let why = format!("IPv4-mapped IPv6 address {text} is not allowed");
        return Err(Fault::error(why));
    }
    Ok(parsed)
}

const fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// The address of a text that names a zone, too.
fn without_zone(text: &str) -> Option<Ipv6Addr> {
    let (address, zone) = text.split_once('%')?;
    address.parse().ok().filter(|_| !zone.is_empty())
}

fn network(text: &str) -> Result<Network, Fault> {
    let wrong = |why: &str| Fault::error(unparsed::network(text, why));
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    let Ok(parsed) = address.parse::<IpAddr>() else {
        return Err(match without_zone(address) {
            Some(_) => wrong("IPv6 zones cannot be present in a prefix"),
            None => wrong(&unparsed::address(address)),
        });
    };
    let bad_bits = || wrong(&format!("bad bits after slash: {}", quoted(bits)));
    let is_plain = bits == "0" || !bits.starts_with(['0', '+', '-']);
    let number: usize = bits.parse().map_err(|_| bad_bits())?;
    if !is_plain {
        return Err(bad_bits());
    }
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    let length = u8::try_from(number).ok().filter(|bits| *bits <= most);
    let bits = length.ok_or_else(|| wrong("prefix length out of range"))?;
    if is_mapped(parsed) {
        let text = quoted(text);
        return Err(Fault::error(format!(
            "network address parse error during conversion from string: IPv4-mapped IPv6 address {text} is not allowed"
        )));
    }
    let address = parsed;
    Ok(Network { address, bits })
}

fn target(call: &mut Invocation<'_, '_>) -> Result<IpAddr, Fault> {
    call.plain()?;
    match call.arg(0) {
        Value::Address(address) => Ok(*address),
        _ => Err(Fault::no_overload()),
    }
}

fn range(call: &mut Invocation<'_, '_>) -> Result<Network, Fault> {
    call.plain()?;
    match call.arg(0) {
        Value::Network(network) => Ok(*network),
        _ => Err(Fault::no_overload()),
    }
}

/// The target network, charged for comparing a number of parts and for parsing a string argument.
fn asked(call: &mut Invocation<'_, '_>) -> Result<Network, Fault> {
    let Value::Network(network) = *call.arg(0) else {
        return Err(Fault::no_overload());
    };
    call.meter.traverse(network.size(), 2)?;
    if matches!(call.arg(1), Value::Text(_)) {
        call.meter.traverse(call.arg(1).size(), 1)?;
    }
    Ok(network)
}

fn contains_address(call: &mut Invocation<'_, '_>) -> Outcome {
    let network = asked(call)?;
    let other = match call.arg(1) {
        Value::Address(address) => *address,
        // Kubernetes' library gives no reason for an invalid address here.
        Value::Text(text) => address(text).map_err(|_| Fault::no_overload())?,
        _ => return Err(Fault::no_overload()),
    };
    Ok(Value::Bool(network.contains(other)))
}

fn contains_network(call: &mut Invocation<'_, '_>) -> Outcome {
    let network = asked(call)?;
    call.meter.traverse(network.size(), 1)?;
    call.plain()?;
    let other = match call.arg(1) {
        Value::Network(network) => *network,
        Value::Text(text) => self::network(text)?,
        _ => return Err(Fault::no_overload()),
    };
    Ok(Value::Bool(
        network.bits <= other.bits && network.contains(other.address),
    ))
}
