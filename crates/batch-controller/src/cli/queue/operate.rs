//! `evictd-batch queue operate`: opens or closes a queue, or changes its weight.

use super::Named;
use crate::cli::create_command::create_command;
use crate::cli::kind::{QUEUES, required};
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, write_to_stdout};
use serde_json::json;

const EXAMPLE: &str = "Example:
  evictd-batch queue operate -n gold -a close
  evictd-batch queue operate -n gold -a update -w 8";

/// Opens or closes a queue, or changes its weight
///
/// For open and close it creates a Command in the namespace default. The controllers carry it out at most once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    named: Named,
    /// The new weight, for update.
    #[arg(short, long, value_name = "NUMBER", default_value_t = 0)]
    weight: i32,
    /// open, close or update.
    #[arg(
        short,
        long,
        value_name = "ACTION",
        default_value = "",
        hide_default_value = true
    )]
    action: String,
}

impl Arguments {
    /// S6-148.
    pub(super) fn run(self) -> Result<(), Failure> {
        let Named { name, connection } = &self.named;
        let name = required(name, "queue name must be specified")?;
        let action = match required(&self.action, "action can not be null")? {
            "open" => "OpenQueue",
            "close" => "CloseQueue",
            "update" => return self.update(name),
            other => {
                return Err(Failure::Input(anyhow!(
                    "action {other} invalid, valid actions are open, close and update"
                )));
            }
        };
        let sentence = create_command(&connection.open()?, &QUEUES, "", name, action)?;
        write_to_stdout(&sentence)
    }

    fn update(&self, name: &str) -> Result<(), Failure> {
        if self.weight <= 0 {
            return Err(Failure::Input(anyhow!(
                "when update queue {name}, weight must be specified, the value must be greater than 0"
            )));
        }
        let patch = json!({"spec": {"weight": self.weight}});
        self.named
            .connection
            .open()?
            .merge(&QUEUES, "", name, &patch)?;
        write_to_stdout(&format!("update queue {name} successfully"))
    }
}
