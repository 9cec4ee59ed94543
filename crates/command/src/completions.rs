//! Completions, generated from the definition of a command line.

use crate::{Failure, write_to_stdout};
use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Completions for a shell, to standard output
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the completions of this command line.
    pub fn print(&self, mut command: Command) -> Result<(), Failure> {
        let name = command.get_name().to_owned();
        let mut text = Vec::new();
        generate(self.shell, &mut command, name, &mut text);
        write_to_stdout(&String::from_utf8_lossy(&text))
    }
}
