//! `/metrics/resources`: requests and limits of each pod, as kube-scheduler has them. They are read from the pods that the watch
//! keeps anyway, so that nothing more is kept for them.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use evictd_daemon::metrics::Format;
use evictd_pod::compatibility::Release;
use evictd_pod::requests::{self, Counted, Requests, limits};
use evictd_pod::wire::{Pod, PodSpec, PodStatus, Shared};
use evictd_pod::{Quantity, resources};
use hyper::body::{Bytes, Frame};
use std::convert::Infallible;
use std::fmt::{self, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How many pods are written into one piece of the answer.
const PODS: usize = 256;
/// How long the pods may take, which are not at hand while they are listed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A pod that has not ended.
#[derive(Debug, Clone)]
pub(super) struct PodResources {
    pub(super) namespace: Shared<String>,
    pub(super) name: Box<str>,
    /// Empty for a pending pod.
    pub(super) node: Shared<String>,
    pub(super) spec: Shared<PodSpec>,
    /// The amounts that the node reports while it resizes the pod.
    pub(super) reported: Option<Box<PodStatus>>,
}

impl PodResources {
    /// The spec with the requests by which this release fills nodes (S7-225).
    fn counted_spec(&self, release: Release) -> Shared<PodSpec> {
        let Some(reported) = &self.reported else {
            return self.spec.clone();
        };
        let mut pod = Pod {
            spec: self.spec.clone(),
            status: (**reported).clone().into(),
            ..Pod::default()
        };
        requests::settle(&mut pod, Counted::scheduled(release));
        pod.spec
    }
}

/// Where the pods are sent.
pub(super) type Question = oneshot::Sender<Vec<PodResources>>;

/// Reads the pods for the page. Clones share the channel.
#[derive(Clone)]
pub(crate) struct ResourceMetrics {
    questions: mpsc::Sender<Question>,
    /// As at kube-scheduler, the page of another process is empty, so that no pod counts twice.
    leads: Arc<AtomicBool>,
    /// The release that the scheduler behaves as, once it is known.
    release: Arc<OnceLock<Release>>,
}

impl ResourceMetrics {
    /// The page, and the questions that it asks.
    pub(crate) fn new(
        leads: Arc<AtomicBool>,
        release: Arc<OnceLock<Release>>,
    ) -> (Self, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(1);
        let metrics = Self {
            questions,
            leads,
            release,
        };
        (metrics, receiver)
    }

    pub(crate) async fn page(&self) -> Response {
        let kind = [(header::CONTENT_TYPE, Format::Plain.content_type())];
        if !self.leads.load(Ordering::Relaxed) {
            return (kind, "").into_response();
        }
        let Some(pods) = self.pods().await else {
            let problem = "the pods are not listed yet\n";
            return (StatusCode::SERVICE_UNAVAILABLE, problem).into_response();
        };
        let release = self.release.get().copied().unwrap_or_default();
        (kind, Body::new(Text::of(pods, release))).into_response()
    }

    async fn pods(&self) -> Option<Vec<PodResources>> {
        let (reply, pods) = oneshot::channel();
        let answered = async {
            self.questions.send(reply).await.ok()?;
            pods.await.ok()
        };
        timeout(TIMEOUT, answered).await.ok().flatten()
    }
}

/// The two families in the order of their names.
#[derive(Debug, Clone, Copy)]
enum Family {
    Limit,
    Request,
}

impl Family {
    const ALL: [Self; 2] = [Self::Limit, Self::Request];

    const fn head(self) -> &'static str {
        match self {
            Self::Limit => {
                "# HELP kube_pod_resource_limit [STABLE] Limits of a pod as a whole, by resource and unit\n\
                 # TYPE kube_pod_resource_limit gauge\n"
            }
            Self::Request => {
                "# HELP kube_pod_resource_request [STABLE] Requests of a pod as a whole, by resource and unit\n\
                 # TYPE kube_pod_resource_request gauge\n"
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Limit => "kube_pod_resource_limit",
            Self::Request => "kube_pod_resource_request",
        }
    }

    fn write(self, pod: &PodResources, release: Release, text: &mut String) -> fmt::Result {
        match self {
            Self::Limit => self.write_each(pod, &limits(&pod.spec), text),
            Self::Request => {
                let spec = pod.counted_spec(release);
                self.write_each(pod, &Requests::of_spec(&spec).each(), text)
            }
        }
    }

    fn write_each(
        self,
        pod: &PodResources,
        amounts: &[(&str, Quantity)],
        text: &mut String,
    ) -> fmt::Result {
        let name = self.name();
        let spec = &pod.spec;
        for (resource, amount) in amounts.iter().filter(|(_, amount)| !amount.is_zero()) {
            write!(
                text,
                "{name}{{namespace={:?},node={:?},pod={:?},priority=\"",
                &**pod.namespace, &**pod.node, pod.name,
            )?;
            if let Some(priority) = spec.priority {
                write!(text, "{priority}")?;
            }
            writeln!(
                text,
                "\",resource={resource:?},scheduler=\"{}\",unit={:?}}} {}",
                escaped(spec.scheduler_name_or_default()),
                unit(resource),
                number(*amount),
            )?;
        }
        Ok(())
    }
}

/// The text of a label. A scheduler's name may be any text, and the format knows only these escapes.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', r#"\""#)
        .replace('\n', r"\n")
}

fn unit(resource: &str) -> &'static str {
    match resource {
        resources::CPU => "cores",
        resources::MEMORY | "storage" | resources::EPHEMERAL_STORAGE => "bytes",
        other if other.starts_with("hugepages-") => "bytes",
        other if other.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

/// The whole part apart, because a float holds fewer digits than an amount in nanos has.
#[expect(clippy::cast_precision_loss, reason = "samples are floats")]
fn number(amount: Quantity) -> f64 {
    const NANOS: i128 = 1_000_000_000;
    let nanos = amount.nano_value();
    (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / 1e9
}

/// The text of the answer, piece by piece. The whole text of a large cluster has hundreds of megabytes.
struct Text {
    pods: Vec<PodResources>,
    release: Release,
    /// The family that is being written, and the first of its pods that is not.
    families: std::slice::Iter<'static, Family>,
    next: Option<(Family, usize)>,
}

impl Text {
    fn of(pods: Vec<PodResources>, release: Release) -> Self {
        let mut families = const { &Family::ALL }.iter();
        let next = families.next().map(|family| (*family, 0));
        Self {
            pods,
            release,
            families,
            next,
        }
    }
}

impl Iterator for Text {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (family, from) = self.next?;
        let mut text = if from == 0 {
            family.head().to_owned()
        } else {
            String::new()
        };
        let to = self.pods.len().min(from + PODS);
        for pod in self.pods.get(from..to).unwrap_or_default() {
            // Writing to a String does not fail.
            let _ = family.write(pod, self.release, &mut text);
        }
        self.next = if to < self.pods.len() {
            Some((family, to))
        } else {
            self.families.next().map(|family| (*family, 0))
        };
        Some(text)
    }
}

impl hyper::body::Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|text| Ok(Frame::data(text.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, spec: serde_json::Value) -> PodResources {
        PodResources {
            namespace: "shop".into(),
            name: name.into(),
            node: "node-1".into(),
            spec: serde_json::from_value::<PodSpec>(spec).unwrap().into(),
            reported: None,
        }
    }

    /// One container grows and the other one shrinks: 1.36 adds the larger amount of each, 1.37 compares the sums.
    #[test]
    fn s7_225_a_resize_counts_as_in_the_release() {
        let container = |name: &str, cpu: &str| json!({ "name": name, "resources": { "requests": { "cpu": cpu } } });
        let spec = json!({ "containers": [container("a", "3"), container("b", "1")] });
        let status = |name: &str, cpu: &str| {
            json!({ "name": name, "allocatedResources": { "cpu": cpu },
                "resources": { "requests": { "cpu": cpu } } })
        };
        let reported = json!({ "containerStatuses": [status("a", "1"), status("b", "2")] });
        let mut pod = pod("web", spec);
        pod.reported = Some(Box::new(serde_json::from_value(reported).unwrap()));
        for (release, expected) in [(Release::V1_36, "5"), (Release::V1_37, "4")] {
            let text: String = Text::of(vec![pod.clone()], release).collect();
            let mut samples = text.lines().filter(|line| !line.starts_with('#'));
            let (_, value) = samples.next().unwrap().rsplit_once(' ').unwrap();
            assert_eq!(value, expected, "{release:?}");
        }
    }

    #[test]
    fn requests_and_limits_have_kube_schedulers_labels_and_units() {
        let resources = json!({
            "requests": { "cpu": "100m", "memory": "6Gi", "example.com/gpu": "2", "hugepages-2Mi": "0" },
            "limits": { "cpu": "1500m" },
        });
        let spec = json!({
            "containers": [{ "resources": resources }], "overhead": { "cpu": "50m", "memory": "1Mi" },
            "priority": 7, "schedulerName": "other",
        });
        let text: String = Text::of(vec![pod("web", spec)], Release::V1_36).collect();
        let line = |kind: &str, resource: &str, unit: &str, value: &str| {
            format!(
                "kube_pod_resource_{kind}{{namespace=\"shop\",node=\"node-1\",pod=\"web\",priority=\"7\",\
                 resource=\"{resource}\",scheduler=\"other\",unit=\"{unit}\"}} {value}"
            )
        };
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            line("limit", "cpu", "cores", "1.55"),
            line("request", "cpu", "cores", "0.15"),
            line("request", "example.com/gpu", "", "2"),
            line("request", "memory", "bytes", "6443499520"),
        ];
        assert_eq!(samples, expected);
        let types: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        let expected = [
            "# TYPE kube_pod_resource_limit gauge",
            "# TYPE kube_pod_resource_request gauge",
        ];
        assert_eq!(types, expected);
    }

    #[test]
    fn no_scheduler_name_breaks_the_page() {
        let requests = json!({ "requests": { "cpu": "1" } });
        let spec =
            json!({ "containers": [{ "resources": requests }], "schedulerName": "a\"\\\n\u{1b}é" });
        let text: String = Text::of(vec![pod("web", spec)], Release::V1_36).collect();
        assert!(text.contains("scheduler=\"a\\\"\\\\\\n\u{1b}é\""), "{text}");
    }

    #[test]
    fn every_pod_is_written_once_for_each_family() {
        let requests = json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "1" } });
        let spec = json!({ "containers": [{ "resources": requests }] });
        for count in [0, 1, PODS, PODS + 1, 3 * PODS] {
            let pods = (0..count).map(|index| pod(&format!("web-{index}"), spec.clone()));
            let text: String = Text::of(pods.collect(), Release::V1_36).collect();
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            assert_eq!(samples.count(), 2 * count);
            assert_eq!(text.matches("# TYPE").count(), 2);
        }
    }
}
