//! An address to listen on.

use super::value::Value;
use evictd_configuration::{Fault, Node, mismatch, text};
use serde_json::{Value as Json, json};
use std::{
    env, fmt,
    net::{IpAddr, SocketAddr},
};

/// Example for error messages.
const EXAMPLE: &str = "an address such as 127.0.0.1:20261 or $(POD_IP):20261";

/// Where to listen. A pod's own address is known only when it starts, so the host may be an environment variable,
/// in the form that Kubernetes uses: `$(POD_IP):20261`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Socket(SocketAddr),
    /// The host in an environment variable.
    Variable {
        /// The variable's name.
        name: String,
        /// The port.
        port: u16,
    },
}

/// The environment variable does not contain an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {name} is not set to an IP address in the environment")]
pub struct NoSuchAddress {
    /// The address as configured.
    address: Address,
    /// The variable's name.
    name: String,
}

impl Address {
    /// The address with the variable of this process filled in.
    pub fn resolve(&self) -> Result<SocketAddr, NoSuchAddress> {
        self.resolve_with(|name| env::var(name).ok())
    }

    fn resolve_with(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<SocketAddr, NoSuchAddress> {
        match self {
            Self::Socket(address) => Ok(*address),
            Self::Variable { name, port } => {
                let host: Option<IpAddr> = variable(name).and_then(|host| host.parse().ok());
                let found = host.map(|host| SocketAddr::new(host, *port));
                found.ok_or_else(|| NoSuchAddress {
                    address: self.clone(),
                    name: name.clone(),
                })
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("$(") {
            let (name, port) = rest.split_once("):")?;
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            return (!name.is_empty() && name.chars().all(is_name)).then_some(Self::Variable {
                name: name.to_owned(),
                port: port.parse().ok()?,
            });
        }
        text.parse().ok().map(Self::Socket)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => write!(f, "{address}"),
            Self::Variable { name, port } => write!(f, "$({name}):{port}"),
        }
    }
}

impl Value for Address {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let text = text(node, EXAMPLE)?;
        Self::parse(text).ok_or_else(|| vec![mismatch(node, EXAMPLE)])
    }

    fn show(&self) -> Json {
        json!(self.to_string())
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^.+:[0-9]{1,5}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_socket_or_a_variable_and_a_port() {
        for text in [
            "127.0.0.1:20261",
            "[::]:20261",
            "$(POD_IP):20261",
            "$(A_1):0",
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "",
            "20261",
            "localhost:1",
            "$(POD_IP)",
            "$():1",
            "$(A B):1",
            "$(POD_IP):x",
            "$(POD_IP):65536",
        ] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_variable_holds_an_address_of_either_family() {
        let address = Address::parse("$(POD_IP):20261").unwrap();
        let with = |host: Option<&str>| address.resolve_with(|_| host.map(str::to_owned));
        let resolved = |host: &str| with(Some(host)).map(|address| address.to_string());
        assert_eq!(resolved("10.1.2.3").as_deref(), Ok("10.1.2.3:20261"));
        assert_eq!(resolved("fd00::7").as_deref(), Ok("[fd00::7]:20261"));
        let missing = with(None).unwrap_err().to_string();
        assert_eq!(
            missing,
            "$(POD_IP):20261: POD_IP is not set to an IP address in the environment"
        );
        assert!(with(Some("")).is_err() && with(Some("node-1")).is_err());
    }
}
