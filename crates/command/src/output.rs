//! `-o`: the same result as a table for people, as JSON or as YAML for programs.

use crate::{Failure, printable};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::{self, Write};

/// The `-o` option of every command that prints a result.
#[derive(Debug, Clone, Copy, Args)]
pub struct Output {
    /// How to print the result; only JSON and YAML are stable.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

impl Output {
    /// Whether a person is to read the result.
    pub fn is_for_people(self) -> bool {
        self.format == Format::Table
    }

    /// Prints `result`, one document, on stdout. `table` is called only where a person is to read it.
    pub fn print<T: Serialize>(
        self,
        result: &T,
        table: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = match self.format {
            Format::Table => table(result),
            Format::Json => serde_json::to_string_pretty(result)?,
            Format::Yaml => serde_saphyr::to_string(result)?,
        };
        write_to_stdout(&text)
    }

    /// As [`Self::print`], where YAML shows another side of the result than JSON.
    pub fn print_with_yaml<T: Serialize>(
        self,
        result: &T,
        table: impl FnOnce(&T) -> String,
        yaml: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Yaml => write_to_stdout(&yaml(result)),
            Format::Table | Format::Json => self.print(result, table),
        }
    }
}

/// Writes `text` and a line end, with whatever would steer a terminal written out; a reader that has gone away (`| head`) is no failure.
pub fn write_to_stdout(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    let text = printable(text);
    match write!(stdout, "{text}{line_end}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
