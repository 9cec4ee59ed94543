//! Manual pages, generated from the definition of a command line: one for the program and one for each subcommand at
//! any depth.

use crate::{Failure, write_to_stdout};
use anyhow::{Context, anyhow};
use clap::{Args, Command};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::{fs, io, path::PathBuf};

/// The section of programs for administrators.
const SECTION: &str = "8";

/// The codes of [`Failure`], as every program returns them.
const EXIT_STATUS: [(&str, &str); 4] = [
    ("0", "The command did its work."),
    ("1", "The command failed."),
    (
        "2",
        "Wrong usage or wrong input; every mistake is reported.",
    ),
    (
        "3",
        "Not permitted here; the message names the capability or the right that is missing.",
    ),
];

/// Manual pages, to standard output
#[derive(Debug, Args)]
pub struct ManualArguments {
    /// The page. Default: that of the program
    page: Option<String>,
    /// Write every page to this directory instead, as NAME.SECTION
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "page")]
    directory: Option<PathBuf>,
}

impl ManualArguments {
    /// Prints one page, or writes all.
    pub fn print(&self, manual: &Manual) -> Result<(), Failure> {
        let pages = manual.pages()?;
        if let Some(directory) = &self.directory {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
            for page in &pages {
                let path = directory.join(page.file_name());
                fs::write(&path, &page.text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            return Ok(());
        }
        let name = self.page.as_deref().unwrap_or(manual.command.get_name());
        if let Some(page) = pages.iter().find(|page| page.name == name) {
            return write_to_stdout(&page.text);
        }
        let known: Vec<_> = pages.into_iter().map(|page| page.name).collect();
        Err(Failure::input(anyhow!(
            "no page {name}; there are: {}",
            known.join(", ")
        )))
    }
}

/// One page, in roff.
#[derive(Debug)]
pub struct Page {
    /// The name of the page: `evictd-status`.
    pub name: String,
    /// The manual's section.
    pub section: &'static str,
    /// The page.
    pub text: String,
}

impl Page {
    fn file_name(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }

    /// A page of settings with the usual head of a manual page: one line about its subject, paragraphs, then each setting with
    /// its description.
    pub fn of_settings(
        name: &str,
        about: &str,
        paragraphs: &[&str],
        settings: &[(String, String)],
    ) -> Self {
        let section = "5";
        let mut roff = Roff::new();
        roff.control("TH", [name, section, "", "", "File formats"]);
        roff.control("SH", ["NAME"]);
        roff.text([roman(format!("{name} - {about}"))]);
        roff.control("SH", ["DESCRIPTION"]);
        for paragraph in paragraphs {
            roff.control("PP", []);
            roff.text([roman(*paragraph)]);
        }
        definitions(&mut roff, "SETTINGS", settings);
        Self {
            name: name.to_owned(),
            section,
            text: roff.to_roff(),
        }
    }
}

/// The pages of a program.
#[derive(Debug)]
pub struct Manual {
    command: Command,
    files: &'static [(&'static str, &'static str)],
    exit_status: Vec<(&'static str, &'static str)>,
    further: Vec<Page>,
}

impl Manual {
    /// The pages of the program with this command line.
    pub fn new(command: Command) -> Self {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        Self {
            command,
            files: &[],
            exit_status: EXIT_STATUS.to_vec(),
            further: Vec::new(),
        }
    }

    /// Adds the files that the program uses, and the purpose of each.
    #[must_use]
    pub fn files(mut self, files: &'static [(&'static str, &'static str)]) -> Self {
        self.files = files;
        self
    }

    /// Adds an exit status.
    #[must_use]
    pub fn exit_status(mut self, code: &'static str, meaning: &'static str) -> Self {
        self.exit_status.push((code, meaning));
        self
    }

    /// Adds a page that does not describe a command.
    #[must_use]
    pub fn page(mut self, page: Page) -> Self {
        self.further.push(page);
        self
    }

    fn pages(&self) -> io::Result<Vec<Page>> {
        let mut pages = Vec::new();
        self.add_pages(&self.command, &mut pages)?;
        let further = self.further.iter().map(|page| Page {
            name: page.name.clone(),
            section: page.section,
            text: page.text.clone(),
        });
        pages.extend(further);
        Ok(pages)
    }

    /// The page of a command, and those of its subcommands: `evictd-batch-job`, `evictd-batch-job-run`.
    fn add_pages(&self, command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
        pages.push(self.page_of(command)?);
        let subcommands = command.get_subcommands();
        let mut shown = subcommands.filter(|subcommand| !subcommand.is_hide_set());
        shown.try_for_each(|subcommand| self.add_pages(subcommand, pages))
    }

    fn page_of(&self, command: &Command) -> io::Result<Page> {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let man = Man::new(command.clone())
            .section(SECTION)
            .source(format!(
                "{} {}",
                self.command.get_name(),
                self.command.get_version().unwrap_or_default()
            ))
            .manual("System administration");
        let mut text = Vec::new();
        man.render_title(&mut text)?;
        man.render_name_section(&mut text)?;
        man.render_synopsis_section(&mut text)?;
        man.render_description_section(&mut text)?;
        man.render_options_section(&mut text)?;
        if command.has_subcommands() {
            man.render_subcommands_section(&mut text)?;
        }
        let mut roff = Roff::new();
        if let Some(help) = command.get_after_help() {
            examples(&mut roff, &help.to_string());
        }
        if !self.files.is_empty() {
            definitions(&mut roff, "FILES", self.files);
        }
        definitions(&mut roff, "EXIT STATUS", &self.exit_status);
        let others = self.see_also(name);
        if !others.is_empty() {
            roff.control("SH", ["SEE ALSO"]);
            roff.text([roman(others.join(", "))]);
        }
        roff.to_writer(&mut text)?;
        Ok(Page {
            name: name.to_owned(),
            section: SECTION,
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    /// References between pages. Each page refers to the program's page and to the pages that describe no command. The
    /// program's page also refers to its subcommands' pages.
    fn see_also(&self, name: &str) -> Vec<String> {
        let program = (self.command.get_name(), SECTION);
        let further = self.further.iter().map(|page| (&*page.name, page.section));
        std::iter::once(program)
            .chain(further)
            .filter(|(other, _)| *other != name)
            .map(|(other, section)| format!("{other}({section})"))
            .collect()
    }
}

/// The text below a command's help: lines that are indented are commands, and stay as they are.
fn examples(roff: &mut Roff, help: &str) {
    roff.control("SH", ["EXAMPLES"]);
    let help = help.strip_prefix("Example:").unwrap_or(help);
    let mut verbatim = false;
    for line in help.lines().filter(|line| !line.is_empty()) {
        let command = line.starts_with("  ");
        if command != verbatim {
            roff.control(if command { "nf" } else { "fi" }, []);
            roff.control("PP", []);
        }
        verbatim = command;
        roff.text([roman(line)]);
    }
    if verbatim {
        roff.control("fi", []);
    }
}

fn definitions<T: AsRef<str>>(roff: &mut Roff, heading: &str, definitions: &[(T, T)]) {
    roff.control("SH", [heading]);
    for (term, meaning) in definitions {
        roff.control("TP", []);
        roff.text([bold(term.as_ref())]);
        roff.text([roman(meaning.as_ref())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manual() -> Manual {
        let status = Command::new("status")
            .about("How it stands")
            .after_help("Example:\n  node status -o json\n\nAsk often.");
        let hidden = Command::new("worker").hide(true);
        let pod = Command::new("pod").subcommand(Command::new("list"));
        let command = Command::new("node");
        let command = command.subcommands([status, hidden, pod]);
        let settings = [("a.b".to_owned(), "Why. Default: 1.".to_owned())];
        Manual::new(command)
            .files(&[("/etc/node.yaml", "The configuration.")])
            .exit_status("4", "Something else.")
            .page(Page::of_settings("node.yaml", "the file", &[], &settings))
    }

    #[test]
    fn there_is_a_page_for_the_program_each_visible_subcommand_and_each_added_page() {
        let pages = manual().pages().unwrap();
        let names: Vec<_> = pages.iter().map(Page::file_name).collect();
        let commands = ["node.8", "node-status.8", "node-pod.8", "node-pod-list.8"];
        assert_eq!(names[..4], commands);
        assert_eq!(names[4..], ["node.yaml.5"]);
    }

    #[test]
    fn a_page_says_which_files_which_exit_status_and_where_to_read_on() {
        let pages = manual().pages().unwrap();
        for (page, expected) in [
            (
                0,
                ".SH FILES\n.TP\n\\fB/etc/node.yaml\\fR\nThe configuration.",
            ),
            (0, "\\fB4\\fR\nSomething else."),
            (0, ".SH \"SEE ALSO\"\nnode.yaml(5)"),
            (
                1,
                ".SH EXAMPLES\n.nf\n.PP\n  node status \\-o json\n.fi\n.PP\nAsk often.",
            ),
            (1, "\\fB3\\fR\nNot permitted here"),
            (1, ".SH \"SEE ALSO\"\nnode(8), node.yaml(5)"),
            (4, "\\fBa.b\\fR\nWhy. Default: 1."),
        ] {
            let text = &pages[page].text;
            assert!(text.contains(expected), "{expected}\n---\n{text}");
        }
    }
}
