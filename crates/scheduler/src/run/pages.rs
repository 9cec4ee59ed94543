//! The pages of the secure port beside health and metrics.

use super::resources::ResourceMetrics;
use super::serve::{DEPRECATED, Form, Page, negotiate, status};
use super::view::View;
use crate::emulation::Emulation;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evictd_pod::compatibility::Release;
use evictd_scheduling::config::Configuration;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::ready;
use std::sync::{Arc, OnceLock};

/// What `/configz`, `/flagz` and `/statusz` show of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    /// The values of all flags by name.
    pub(crate) flags: BTreeMap<String, String>,
    /// The release and the gates that were asked for.
    pub(crate) emulation: Emulation,
    /// The release that is emulated, once it is known.
    pub(crate) release: Arc<OnceLock<Release>>,
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
    (started, resources): (Timestamp, ResourceMetrics),
) -> BTreeMap<&'static str, Page> {
    let (of_pending, of_decisions) = (view.clone(), view.clone());
    let pending: Page = Arc::new(move |request| {
        let view = of_pending.clone();
        Box::pin(async move { text(JSON, view.pending(&request.query).await) })
    });
    let decisions: Page = Arc::new(move |request| {
        let view = of_decisions.clone();
        Box::pin(async move { text(JSON, view.decisions(&request.query)) })
    });
    let config = json!({ "componentconfig": config.to_json() }).to_string();
    let of_config: Page = Arc::new(move |_| Box::pin(ready(text(JSON, config.clone()))));
    let flags = Flagz(about.flags.clone());
    let of_flags: Page = Arc::new(move |request| Box::pin(ready(flags.page(&request.accept))));
    let release = Arc::clone(&about.release);
    let of_status: Page = Arc::new(move |request| {
        let (now, release) = (Timestamp::now(), release.get().copied());
        let status = Statusz {
            started,
            now,
            release,
        };
        Box::pin(ready(status.page(&request.accept)))
    });
    let of_resources: Page = Arc::new(move |_| {
        let resources = resources.clone();
        Box::pin(async move { resources.page().await })
    });
    [
        ("/metrics/resources", of_resources),
        ("/v1/pending", pending),
        ("/v1/decisions", decisions),
        ("/configz", of_config),
        ("/flagz", of_flags),
        ("/statusz", of_status),
    ]
    .into()
}

fn text(content_type: &str, text: String) -> Response {
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

/// A page of Kubernetes that shows an object, to people as text.
trait ZPage {
    const KIND: &'static str;
    fn text(&self) -> String;
    /// The fields beside kind, version and metadata.
    fn fields(&self) -> Value;

    fn object(&self, version: &str) -> Value {
        let mut object = self.fields();
        object["kind"] = json!(Self::KIND);
        object["apiVersion"] = json!(format!("config.k8s.io/{version}"));
        object["metadata"] = json!({ "name": "evictd-scheduler" });
        object
    }

    fn page(&self, accept: &str) -> Response {
        let (version, mut response) = match negotiate(accept, Self::KIND) {
            Some(Form::Text) => return text(TEXT, self.text()),
            Some(Form::Json(version)) => (version, text(JSON, self.object(version).to_string())),
            // Every JSON text is also a YAML text.
            Some(Form::Yaml(version)) => {
                let yaml = format!("{:#}\n", self.object(version));
                (version, text("application/yaml", yaml))
            }
            None => {
                let message = "only the following media types are accepted: application/json, application/yaml, text/plain";
                return status(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message);
            }
        };
        if version == DEPRECATED {
            let page = Self::KIND.to_lowercase();
            let warning = format!("299 - \"{DEPRECATED} of {page} is deprecated, use v1beta1\"");
            if let Ok(warning) = HeaderValue::try_from(warning) {
                response.headers_mut().insert(header::WARNING, warning);
            }
        }
        response
    }
}

/// The flags by name.
struct Flagz(BTreeMap<String, String>);

impl ZPage for Flagz {
    const KIND: &'static str = "Flagz";

    fn text(&self) -> String {
        let mut page = format!("\nevictd-scheduler flagz\n{WARNING}\n");
        for (name, value) in &self.0 {
            // Writing to a String does not fail.
            let _ = writeln!(page, "{name}={value}");
        }
        page
    }

    fn fields(&self) -> Value {
        json!({ "flags": self.0 })
    }
}

/// The process since its start.
struct Statusz {
    started: Timestamp,
    now: Timestamp,
    /// The emulated release; `None` until the API server has said its version.
    release: Option<Release>,
}

const PATHS: [&str; 10] = [
    "/configz",
    "/flagz",
    "/healthz",
    "/livez",
    "/metrics",
    "/metrics/resources",
    "/readyz",
    "/statusz",
    "/v1/decisions",
    "/v1/pending",
];

impl Statusz {
    fn emulated(&self) -> &'static str {
        self.release.map_or("", Release::as_str)
    }

    fn up_seconds(&self) -> i64 {
        self.now.duration_since(self.started).as_secs().max(0)
    }
}

impl ZPage for Statusz {
    const KIND: &'static str = "Statusz";

    fn text(&self) -> String {
        let up = self.up_seconds();
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        format!(
            "\nevictd-scheduler statusz\n{WARNING}\n\nStarted: {}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
             Binary version: {}\nEmulation version: {}\nPaths: {}\n",
            self.started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            env!("CARGO_PKG_VERSION"),
            self.emulated(),
            PATHS.join(" "),
        )
    }

    fn fields(&self) -> Value {
        json!({
            "startTime": self.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "uptimeSeconds": self.up_seconds(),
            // The field is required. This program is not written in Go.
            "goVersion": "",
            "binaryVersion": env!("CARGO_PKG_VERSION"), "emulationVersion": self.emulated(),
            "paths": PATHS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::serve::PageRequest;
    use super::*;
    use axum::body::to_bytes;

    /// The content type and the text of a page.
    async fn get(
        pages: &BTreeMap<&'static str, Page>,
        path: &str,
        accept: &str,
    ) -> (String, String) {
        let request = PageRequest {
            accept: accept.to_owned(),
            ..PageRequest::default()
        };
        let response = pages[path](request).await;
        let kind = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (kind, String::from_utf8(body.to_vec()).unwrap())
    }

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
            (
                Timestamp::now(),
                ResourceMetrics::new(Arc::default(), Arc::default()).0,
            ),
        );
        let (kind, text) = get(&pages, "/configz", "").await;
        assert_eq!(kind, "application/json");
        let config: Value = serde_json::from_str(&text).unwrap();
        let config = &config["componentconfig"];
        // As 1.36 and later: the version that a file has, and no longer the names of Go.
        assert_eq!(config["kind"], "KubeSchedulerConfiguration");
        assert_eq!(config["leaderElection"]["leaseDuration"], "15s");
        assert_eq!(config["profiles"][0]["schedulerName"], "default-scheduler");
        let filters = config["profiles"][0]["plugins"]["filter"]["enabled"]
            .as_array()
            .unwrap();
        assert!(
            filters.contains(&json!({ "name": "NodeName" })),
            "{filters:?}"
        );
        let (_, text) = get(&pages, "/flagz", "").await;
        assert!(
            text.starts_with("\nevictd-scheduler flagz\nWarning: ")
                && text.ends_with("purposes only.\nsecure-port=10259\n")
        );
        let (_, text) = get(&pages, "/statusz", "*/*").await;
        assert!(
            text.contains("\nUp: 0 hr 00 min 0") && text.contains("\nBinary version: "),
            "{text}"
        );
    }

    #[tokio::test]
    async fn flags_and_status_are_objects_for_clients_that_ask_for_them() {
        let about = About {
            flags: [("secure-port".to_owned(), "10259".to_owned())].into(),
            release: Arc::new(OnceLock::from(Release::V1_37)),
            ..About::default()
        };
        let started = Timestamp::now();
        let pages = pages(
            &View::default(),
            &Configuration::default(),
            &about,
            (
                started,
                ResourceMetrics::new(Arc::default(), Arc::default()).0,
            ),
        );
        let accept = |kind: &str, version: &str| {
            format!("application/json;v={version};g=config.k8s.io;as={kind}")
        };
        let (kind, text) = get(&pages, "/flagz", &accept("Flagz", "v1beta1")).await;
        let expected = json!({
            "kind": "Flagz", "apiVersion": "config.k8s.io/v1beta1",
            "metadata": { "name": "evictd-scheduler" }, "flags": { "secure-port": "10259" },
        });
        let flags: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((kind.as_str(), flags), ("application/json", expected));
        let (_, text) = get(&pages, "/statusz", &accept("Statusz", "v1alpha1")).await;
        let status: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status["apiVersion"], "config.k8s.io/v1alpha1");
        assert_eq!(status["emulationVersion"], "1.37");
        let start: Timestamp = status["startTime"].as_str().unwrap().parse().unwrap();
        assert_eq!(start.as_second(), started.as_second());
        let old = pages["/statusz"](PageRequest {
            accept: accept("Statusz", "v1alpha1"),
            ..PageRequest::default()
        });
        assert!(old.await.headers().contains_key("warning"));
        let (_, text) = get(&pages, "/statusz", "application/json").await;
        let refused: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(refused["code"], 406);
    }
}
