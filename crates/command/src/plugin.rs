//! A program that kubectl runs as its plugin: `kubectl-evictd` on the PATH is `kubectl evictd`.

use clap::{Command, Parser};
use std::{env, path::Path};

/// The prefix by which kubectl finds its plugins.
const PREFIX: &str = "kubectl-";

/// The command line of this process. If it is wrong, or asks for help, this ends the process.
pub fn parse<P: Parser>() -> P {
    let called = env::args_os().next().unwrap_or_default();
    let mut matches = as_called(P::command(), Path::new(&called)).get_matches();
    P::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit())
}

/// The command line as it was called. Where `called` (argument 0) is the name of a kubectl plugin, its help names it as
/// kubectl does: `kubectl evictd status`. kubectl reads `_` in a plugin's file name as `-`.
fn as_called(command: Command, called: &Path) -> Command {
    let name = called.file_name().and_then(|name| name.to_str());
    let Some(plugin) = name.and_then(|name| name.strip_prefix(PREFIX)) else {
        return command;
    };
    let words = format!("kubectl {}", plugin.replace('_', "-"));
    let command = examples_call(command, &words);
    command.bin_name(words)
}

/// The examples below the help of each subcommand begin with these words instead of the program's name.
fn examples_call(command: Command, words: &str) -> Command {
    let program = command.get_name().to_owned();
    below_call(command, &program, words)
}

fn below_call(mut command: Command, program: &str, words: &str) -> Command {
    let examples = |help: &str| {
        let lines = help.split('\n').map(|line| renamed(line, program, words));
        lines.collect::<Vec<_>>().join("\n")
    };
    let names: Vec<String> = command
        .get_subcommands()
        .map(|subcommand| subcommand.get_name().to_owned())
        .collect();
    for name in names {
        command = command.mut_subcommand(name, |subcommand| {
            let subcommand = below_call(subcommand, program, words);
            match subcommand.get_after_help().map(ToString::to_string) {
                Some(help) => subcommand.after_help(examples(&help)),
                None => subcommand,
            }
        });
    }
    command
}

/// An indented line of an example, in which `words` replace the program's name as the first word of a command.
fn renamed(line: &str, program: &str, words: &str) -> String {
    let calls = |before: &str| format!("{before}{program} ");
    let call = |before: &str| format!("{before}{words} ");
    let renamed = line.replace(&calls("| "), &call("| "));
    match renamed.strip_prefix(&calls("  ")) {
        Some(rest) => format!("{}{rest}", call("  ")),
        None => renamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(called: &str) -> String {
        let status = Command::new("status").after_help(
            "Example:\n  evictd-scheduler status /etc/evictd-scheduler x\n  cat x | evictd-scheduler status -",
        );
        let command = Command::new("evictd-scheduler").subcommand(status);
        let mut command = as_called(command, Path::new(called));
        command.build();
        let status = command.find_subcommand_mut("status").unwrap();
        status.render_help().to_string()
    }

    #[test]
    fn a_plugin_is_called_as_kubectl_calls_it() {
        for called in [
            "kubectl-evictd_scheduler",
            "/usr/bin/kubectl-evictd-scheduler",
        ] {
            let help = help(called);
            for expected in [
                "Usage: kubectl evictd-scheduler status\n",
                "\n  kubectl evictd-scheduler status /etc/evictd-scheduler x\n",
                "\n  cat x | kubectl evictd-scheduler status -",
            ] {
                assert!(help.contains(expected), "{help}");
            }
        }
    }

    #[test]
    fn examples_of_commands_below_commands_are_called_so_too() {
        let run = Command::new("run").after_help("Example:\n  evictd-batch job run -N a");
        let job = Command::new("job").subcommand(run);
        let command = Command::new("evictd-batch").subcommand(job);
        let mut command = as_called(command, Path::new("kubectl-evictd_batch"));
        command.build();
        let job = command.find_subcommand_mut("job").unwrap();
        let help = job.find_subcommand_mut("run").unwrap().render_help();
        let help = help.to_string();
        assert!(
            help.contains("Usage: kubectl evictd-batch job run"),
            "{help}"
        );
        assert!(
            help.contains("\n  kubectl evictd-batch job run -N a"),
            "{help}"
        );
    }

    #[test]
    fn a_program_is_called_by_its_name() {
        let help = help("/usr/bin/evictd-scheduler");
        assert!(help.contains("Usage: evictd-scheduler status\n"), "{help}");
        assert!(!help.contains("kubectl"), "{help}");
    }
}
