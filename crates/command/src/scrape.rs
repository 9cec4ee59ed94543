//! The two text formats in which Prometheus scrapes metrics: `OpenMetrics`, and the older format for clients that do not ask for it.

use std::fmt::Write;

/// The format of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `OpenMetrics` 1.0.
    Open,
    /// Prometheus text 0.0.4, which every client reads: `curl`, `promtool check metrics`.
    Plain,
}

impl Format {
    /// The format for a request with this `Accept` header.
    pub fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::Open,
            _ => Self::Plain,
        }
    }

    /// The value of the `Content-Type` header.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts to the older format, in which a family has the name of its samples, and the type `info` does not exist.
pub fn plain(open: &str) -> Result<String, std::fmt::Error> {
    let mut text = String::with_capacity(open.len());
    let mut help = "";
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            let words = help.strip_prefix(name).unwrap_or_default();
            writeln!(text, "# HELP {name}{suffix}{words}")?;
            writeln!(text, "# TYPE {name}{suffix} {kind}")?;
        } else if !line.starts_with('#') {
            writeln!(text, "{line}")?;
        }
    }
    Ok(text)
}
