//! The pages of the secure port beside health and metrics.

use super::serve::Page;
use super::view::View;
use evictd_scheduling::config::Configuration;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::ready;
use std::sync::Arc;

/// What `/configz`, `/flagz` and `/statusz` show of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    /// The values of all flags by name.
    pub(crate) flags: BTreeMap<String, String>,
    /// The gates of Kubernetes, and whether they are on.
    pub(crate) gates: &'static [(&'static str, bool)],
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// As kube-scheduler begins both pages for people.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

/// The pages by path. Each is made anew for a request.
pub(super) fn pages(
    view: &View,
    config: &Configuration,
    about: &About,
    started: Timestamp,
) -> BTreeMap<&'static str, Page> {
    let (of_pending, of_decisions) = (view.clone(), view.clone());
    let pending: Page = Arc::new(move |query| {
        let view = of_pending.clone();
        Box::pin(async move { (JSON, view.pending(&query).await) })
    });
    let decisions: Page = Arc::new(move |query| {
        let view = of_decisions.clone();
        Box::pin(async move { (JSON, view.decisions(&query)) })
    });
    let config = json!({ "componentconfig": internal(config.to_json()) }).to_string();
    let of_config: Page = Arc::new(move |_| Box::pin(ready((JSON, config.clone()))));
    let flags = flagz(&about.flags);
    let of_flags: Page = Arc::new(move |_| Box::pin(ready((TEXT, flags.clone()))));
    let of_status: Page =
        Arc::new(move |_| Box::pin(ready((TEXT, statusz(started, Timestamp::now())))));
    [
        ("/v1/pending", pending),
        ("/v1/decisions", decisions),
        ("/configz", of_config),
        ("/flagz", of_flags),
        ("/statusz", of_status),
    ]
    .into()
}

/// Keys whose values are objects of the API, which keep its names.
const OF_API: [&str; 2] = ["addedAffinity", "defaultConstraints"];

/// A configuration with the names that kube-scheduler's `/configz` shows: those of its own types.
fn internal(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map
                .into_iter()
                .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind"));
            let fields = fields.map(|(key, value)| {
                let value = if OF_API.contains(&key.as_str()) {
                    value
                } else {
                    internal(value)
                };
                (field(&key), value)
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(internal).collect()),
        other => other,
    }
}

fn field(key: &str) -> String {
    match key {
        "qps" => "QPS".to_owned(),
        "urlPrefix" => "URLPrefix".to_owned(),
        "httpTimeout" => "HTTPTimeout".to_owned(),
        "tlsConfig" => "TLSConfig".to_owned(),
        key => {
            let mut letters = key.chars();
            let first = letters.next().into_iter().flat_map(char::to_uppercase);
            first.chain(letters).collect()
        }
    }
}

fn flagz(flags: &BTreeMap<String, String>) -> String {
    let mut page = format!("\nevictd-scheduler flags\n{WARNING}\n\n");
    for (name, value) in flags {
        // Writing to a String does not fail.
        let _ = writeln!(page, "{name}={value}");
    }
    page
}

fn statusz(started: Timestamp, now: Timestamp) -> String {
    let up = now.duration_since(started).as_secs().max(0);
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    format!(
        "\nevictd-scheduler statusz\n{WARNING}\n\nStarted: {}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
         Binary version: {}\nPaths: /configz /flagz /healthz /livez /metrics /readyz /statusz /v1/decisions /v1/pending\n",
        started.strftime("%a %b %e %H:%M:%S UTC %Y"),
        env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn configuration_flags_and_status_have_the_forms_of_kube_scheduler() {
        let about = About {
            flags: [("secure-port".to_owned(), "10259".to_owned())].into(),
            ..About::default()
        };
        let pages = pages(
            &View::default(),
            &Configuration::default(),
            &about,
            Timestamp::now(),
        );
        let (kind, text) = pages["/configz"](String::new()).await;
        assert_eq!(kind, "application/json");
        let config: Value = serde_json::from_str(&text).unwrap();
        let config = &config["componentconfig"];
        assert_eq!(config["LeaderElection"]["LeaseDuration"], "15s");
        assert_eq!(config["Profiles"][0]["SchedulerName"], "default-scheduler");
        let filters = config["Profiles"][0]["Plugins"]["Filter"]["Enabled"]
            .as_array()
            .unwrap();
        assert!(
            filters.contains(&json!({ "Name": "NodeName" })),
            "{filters:?}"
        );
        let (_, text) = pages["/flagz"](String::new()).await;
        assert!(
            text.starts_with("\nevictd-scheduler flags\nWarning: ")
                && text.ends_with("\n\nsecure-port=10259\n")
        );
        let (_, text) = pages["/statusz"](String::new()).await;
        assert!(
            text.contains("\nUp: 0 hr 00 min 0") && text.contains("\nBinary version: "),
            "{text}"
        );
    }
}
