//! `-o`: the same result as a table or an HTML page for people, as JSON or as YAML for programs.

use crate::{Failure, View, colour::rendered, printable, printable::printable_but_marks};
use anyhow::Error;
use clap::{Args, ValueEnum};
use evictd_html::Page;
use serde::Serialize;
use std::io::{self, Write};

/// The `-o` option of every command that prints a result.
#[derive(Debug, Clone, Copy, Args)]
pub struct Output {
    /// How to print the result: table fits the terminal, wide has every column, json and yaml are stable.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Wide,
    Json,
    Yaml,
}

/// The `-o` option of the commands whose result can be a page in a browser, too.
#[derive(Debug, Clone, Copy, Args)]
pub struct PageOutput {
    /// How to print the result: table fits the terminal, wide has every column, json and yaml are stable, html is one file for a
    /// browser.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = PageFormat::Table, value_name = "FORMAT")]
    format: PageFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PageFormat {
    Table,
    Wide,
    Json,
    Yaml,
    Html,
}

impl PageOutput {
    /// As [`Output::print`]. `page` is called only for `html`.
    pub fn print<T: Serialize>(
        self,
        result: &T,
        table: impl FnOnce(&T, View) -> String,
        page: impl FnOnce(&T) -> Page,
    ) -> Result<(), Failure> {
        match self.without_html() {
            Some(output) => output.print(result, table),
            None => write_to_stdout(&page(result).to_html()),
        }
    }

    /// The other formats; `None` for `html`.
    pub fn without_html(self) -> Option<Output> {
        let format = match self.format {
            PageFormat::Table => Format::Table,
            PageFormat::Wide => Format::Wide,
            PageFormat::Json => Format::Json,
            PageFormat::Yaml => Format::Yaml,
            PageFormat::Html => return None,
        };
        Some(Output { format })
    }
}

impl Output {
    /// Whether the result is for people.
    pub fn is_for_people(self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// How wide the table is, and whether it has colours.
    pub fn view(self) -> View {
        let view = View::of_stdout();
        match self.format {
            Format::Wide => view.wide(),
            Format::Table | Format::Json | Format::Yaml => view,
        }
    }

    /// Prints `result`, one document, on stdout. `table` is called only if the result is for people.
    pub fn print<T: Serialize>(
        self,
        result: &T,
        table: impl FnOnce(&T, View) -> String,
    ) -> Result<(), Failure> {
        let text = match self.format {
            Format::Table | Format::Wide => {
                return write(&rendered_page(&table(result, self.view())));
            }
            Format::Json => serde_json::to_string_pretty(result)?,
            Format::Yaml => serde_saphyr::to_string(result)?,
        };
        write_to_stdout(&text)
    }

    /// Prints all fields of `result`: as JSON if that is asked for, else as YAML, also for people.
    pub fn print_fields<T: Serialize>(self, result: &T) -> Result<(), Failure> {
        let format = match self.format {
            Format::Json => Format::Json,
            Format::Table | Format::Wide | Format::Yaml => Format::Yaml,
        };
        Self { format }.print(result, |_, _| String::new())
    }

    /// As [`Self::print`], with a YAML document that differs from the JSON one.
    pub fn print_with_yaml<T: Serialize>(
        self,
        result: &T,
        table: impl FnOnce(&T, View) -> String,
        yaml: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Yaml => write_to_stdout(&yaml(result)),
            Format::Table | Format::Wide | Format::Json => self.print(result, table),
        }
    }
}

/// Writes `text` and a line end, with control characters escaped; a closed pipe (`| head`) is no failure.
pub fn write_to_stdout(text: &str) -> Result<(), Failure> {
    write(&printable(text))
}

/// Escapes control characters, except evictd's own colours.
pub(crate) fn rendered_page(page: &str) -> String {
    rendered(&printable_but_marks(page))
}

fn write(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{line_end}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::from(error)
            .context("cannot write to standard output")
            .into()),
        _ => Ok(()),
    }
}
