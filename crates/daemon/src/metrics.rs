//! Metrics for a scrape, in the two text formats of Prometheus: `OpenMetrics`, and the older format for clients that do not
//! ask for it.

mod process;
mod samples;

pub use samples::Samples;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use evictd_cluster_client::{Access, WatchMetrics, Watches};
use process::ProcessMetrics;
use prometheus_client::encoding::text as open;
use prometheus_client::registry::Registry;
use std::fmt::{self, Write};
use std::sync::Arc;

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

/// The metrics of a daemon, for its HTTP servers. Clones share them.
#[derive(Debug, Clone)]
pub struct Exposition {
    registry: Arc<Registry>,
    /// Counters whose names in the older format do not end in `_total`.
    short_names: &'static [&'static str],
}

impl Exposition {
    /// Of all metrics that are registered; more cannot be.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry: Arc::new(registry),
            short_names: &[],
        }
    }

    /// With these names for counters, instead of names that end in `_total`. `OpenMetrics` allows only the latter.
    #[must_use]
    pub const fn with_short_names(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    /// With the state of these watches, under names that begin so. Only before the exposition is cloned.
    #[must_use]
    pub fn with_watches(mut self, prefix: &'static str, watches: &Watches) -> Self {
        let registry = Arc::get_mut(&mut self.registry);
        debug_assert!(registry.is_some(), "it was cloned");
        if let Some(registry) = registry {
            let metrics = WatchMetrics::new(watches.clone(), prefix);
            registry.register_collector(Box::new(metrics));
        }
        self
    }

    /// With the usual metrics of a process: its processor time, memory, files and start.
    #[must_use]
    pub fn with_process(mut self) -> Self {
        if let Some(registry) = Arc::get_mut(&mut self.registry) {
            registry.register_collector(Box::new(ProcessMetrics));
        }
        self
    }

    /// With the requests by this access.
    #[must_use]
    pub fn with_requests(mut self, access: &Access) -> Self {
        if let Some(registry) = Arc::get_mut(&mut self.registry) {
            access.requests().register(registry);
        }
        self
    }

    /// The text of a scrape.
    pub fn render(&self, format: Format) -> Result<String, fmt::Error> {
        let mut text = String::new();
        open::encode(&mut text, &self.registry)?;
        // A family without labels is written with empty braces.
        let text = text.replace("{} ", " ");
        match format {
            Format::Open => Ok(text),
            Format::Plain => plain(&text, self.short_names),
        }
    }

    /// The answer to a scrape with these headers.
    pub fn answer(&self, headers: &HeaderMap) -> Response {
        let accept = headers.get(header::ACCEPT);
        let format = Format::accepted(accept.and_then(|accept| accept.to_str().ok()));
        match self.render(format) {
            Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }

    /// A router with `/metrics`.
    pub fn router(self) -> Router {
        let answer = |State(exposition): State<Self>, headers: HeaderMap| async move {
            exposition.answer(&headers)
        };
        Router::new()
            .route("/metrics", get(answer))
            .with_state(self)
    }
}

/// Converts to the older format, in which a family has the name of its samples, and the type `info` does not exist.
fn plain(open: &str, short_names: &[&str]) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(open.len());
    let (mut help, mut short_name) = ("", None);
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            short_name = short_names.iter().find(|short| **short == name);
            let (suffix, kind) = match kind {
                "counter" if short_name.is_some() => ("", "counter"),
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            let words = help.strip_prefix(name).unwrap_or_default();
            writeln!(text, "# HELP {name}{suffix}{words}")?;
            writeln!(text, "# TYPE {name}{suffix} {kind}")?;
        } else if !line.starts_with('#') {
            let sample = short_name.and_then(|name| line.strip_prefix(*name));
            match (
                short_name,
                sample.and_then(|rest| rest.strip_prefix("_total")),
            ) {
                (Some(name), Some(rest)) => writeln!(text, "{name}{rest}")?,
                _ => writeln!(text, "{line}")?,
            }
        }
    }
    Ok(text)
}
