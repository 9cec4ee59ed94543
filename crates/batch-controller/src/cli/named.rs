//! The options that name one object in a namespace.

use super::connection::Connection;
use super::kind::{Kind, required};
use clap::Args;
use evictd_command::Failure;
use serde_json::Value;

/// The options that name one object.
#[derive(Debug, Args)]
pub(super) struct Named {
    /// The namespace.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(super) namespace: String,
    /// The name.
    #[arg(
        short = 'N',
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) connection: Connection,
}

impl Named {
    /// The name. `message` is the error without one.
    pub(super) fn required(&self, message: &'static str) -> Result<&str, Failure> {
        required(&self.name, message)
    }

    pub(super) fn get(&self, kind: &Kind, message: &'static str) -> Result<Value, Failure> {
        let name = self.required(message)?;
        self.connection.open()?.get(kind, &self.namespace, name)
    }
}
