//! `evictd worker`: the hidden subcommand of the demo's pods.

use clap::Args;
use evictd_command::Failure;
use evictd_demo::worker::{Role, play};

/// Plays a pod of the demo.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    role: Role,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(runtime.block_on(play(self.role))?)
    }
}
