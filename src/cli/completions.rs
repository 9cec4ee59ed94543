//! `evictd completions` and `evictd man`: written from the one definition of the command line.

use super::Cli;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use evictd_command::{Failure, write_to_stdout};

/// Completions for a shell, to standard output.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  evictd completions bash > /etc/bash_completion.d/evictd")]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut text = Vec::new();
        generate(self.shell, &mut Cli::command(), "evictd", &mut text);
        write_to_stdout(&String::from_utf8_lossy(&text))
    }
}

/// Writes the manual page to standard output.
pub(super) fn man() -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    let mut text = Vec::new();
    let shown = command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set());
    for page in std::iter::once(&command).chain(shown) {
        clap_mangen::Man::new(page.clone())
            .section("8")
            .render(&mut text)?;
    }
    write_to_stdout(&String::from_utf8_lossy(&text))
}
