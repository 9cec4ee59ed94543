//! Reads pods from a `PodList`, a `List`, a kubelet's `/pods`, or a single manifest.

use crate::{
    amounts::amounts_of_pod,
    document::Document,
    error::DocumentError,
    finder::{Finder, name_of},
    mistake::{Place, Step},
    yaml,
};
use evictd_pod::{
    Pod,
    pod::system_priority,
    wire::{self, TypedPod},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

impl Document {
    /// Parses the pods of a v1 `PodList` or `List` (`kubectl get pods -o json`, a kubelet's `/pods`), or a single Pod.
    /// YAML may contain several such documents.
    ///
    /// # Errors
    /// All mistakes that one pass finds, with place, pod and key.
    pub fn pods(&self) -> Result<Vec<Pod>, DocumentError> {
        let mut finder = Finder::new(self.name());
        let pods = if self.is_json() {
            pods_of_json(&mut finder, self.text())
        } else {
            pods_of_yaml(&mut finder, self.text())
        };
        find_twins(&mut finder, &pods);
        finder.finish(without_forged_mirrors(pods))
    }

    /// Parses the only pod of a manifest or list.
    ///
    /// # Errors
    /// As for [`Self::pods`], and unless there is exactly one pod.
    pub fn pod(&self) -> Result<Pod, DocumentError> {
        let pods = self.pods()?;
        let [pod] = <[Pod; 1]>::try_from(pods).map_err(|pods| {
            let count = pods.len();
            self.wrong(format!("holds {count} pods; exactly one is needed"))
        })?;
        Ok(pod)
    }
}

const NEEDED: &str = "a v1 PodList, List or Pod is needed";

/// The kind of document.
enum Shape {
    List,
    Pod,
}

fn shape(kind: Option<&str>, has_items: bool) -> Result<Shape, String> {
    match kind.unwrap_or_default() {
        "PodList" | "List" => Ok(Shape::List),
        "Pod" => Ok(Shape::Pod),
        // An object with items and without a kind can only be a list.
        "" if has_items => Ok(Shape::List),
        "" => Err(format!(
            "is not a Kubernetes object, because it has no kind; {NEEDED}"
        )),
        other => Err(format!("is a {other}; {NEEDED}")),
    }
}

/// Converts an item to a pod unless it has another kind. Items of a `PodList` have no kind.
fn pod_of(kind: &str, item: wire::Pod) -> Result<Pod, String> {
    match kind {
        "" | "Pod" => Ok(convert(item)),
        other => Err(format!("is a {other}, not a Pod")),
    }
}

/// A manifest names only the priority class. The API server resolves its value, which is known for built-in classes.
fn convert(mut pod: wire::Pod) -> Pod {
    let class = &pod.spec.priority_class_name;
    // The API server resolves other classes; of a file only the two built-in ones are known.
    pod.spec.priority = pod.spec.priority.or_else(|| system_priority(class));
    Pod::from_wire(pod)
}

/// UIDs are unique. With duplicates statistics could not be assigned to a pod.
fn find_twins(finder: &mut Finder, pods: &[Pod]) {
    let mut seen: HashMap<&str, &Pod> = HashMap::with_capacity(pods.len());
    for pod in pods.iter().filter(|pod| !pod.uid.is_empty()) {
        if let Some(twin) = seen.insert(&pod.uid, pod) {
            let (uid, twin) = (&pod.uid, twin.full_name());
            let message = format!("{uid:?} is also the UID of {twin}; every pod has its own");
            finder.add_key(&pod.full_name(), "metadata.uid", message);
        }
    }
}

/// A UID that the API server has given to another pod cannot belong to a static pod. A pod that claims such a UID is no
/// mirror pod.
fn without_forged_mirrors(mut pods: Vec<Pod>) -> Vec<Pod> {
    let forged: Vec<usize> = {
        // Only a static pod has a mirror. A tenant may write the annotation on any pod to seem protected.
        let others = pods.iter().filter(|pod| !pod.is_static());
        let uids: HashSet<&str> = others.map(|pod| pod.uid.as_str()).collect();
        let mirrors = pods.iter().enumerate().filter(|(_, pod)| pod.is_mirror());
        let claims = mirrors.filter_map(|(index, pod)| Some((index, pod.mirror_of()?)));
        let forged = claims.filter(|(_, claimed)| uids.contains(claimed));
        forged.map(|(index, _)| index).collect()
    };
    for index in forged {
        pods[index].deny_mirror();
    }
    pods
}

fn item_name(index: usize) -> String {
    format!("items[{index}]")
}

/// A list with unparsed items, or another object whose kind decides.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(default, borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// The owned form for finding mistakes, which works on values.
#[derive(Deserialize)]
struct OwnedOutline {
    #[serde(default, rename = "kind")]
    _kind: Option<String>,
    #[serde(default, rename = "items")]
    _items: Option<Vec<IgnoredAny>>,
}

/// Parses one item at a time directly from the text, so that a list of 100 000 pods needs little more memory than its
/// pods.
fn pods_of_json(finder: &mut Finder, text: &str) -> Vec<Pod> {
    if text.trim_ascii_start().starts_with('[') {
        finder.add("", format!("is a bare array; {NEEDED}"));
        return Vec::new();
    }
    let outline: Outline<'_> = match serde_json::from_str(text) {
        Ok(outline) => outline,
        Err(error) => {
            finder.find_in_json::<OwnedOutline>(text, text, "", &error);
            return Vec::new();
        }
    };
    match shape(outline.kind.as_deref(), outline.items.is_some()) {
        Err(message) => {
            finder.add("", message);
            Vec::new()
        }
        Ok(Shape::Pod) => pod_of_json(finder, text, text, "").into_iter().collect(),
        Ok(Shape::List) => {
            let items = outline.items.unwrap_or_default();
            let mut pods = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                pods.extend(pod_of_json(finder, text, item.get(), &item_name(index)));
            }
            pods
        }
    }
}

fn pod_of_json(finder: &mut Finder, text: &str, item: &str, name: &str) -> Option<Pod> {
    let kind = |item| serde_json::from_str::<Outline<'_>>(item).ok()?.kind;
    let pod = match serde_json::from_str::<TypedPod>(item) {
        Ok(typed) => {
            let ([_, kind], pod) = typed.split();
            finder.find_negative_in_json(text, item, name, &pod);
            pod_of(&kind, pod)
        }
        Err(error) => match kind(item).as_deref() {
            None | Some("" | "Pod") => {
                finder.find_in_json::<TypedPod>(text, item, name, &error);
                return None;
            }
            Some(other) => Err(format!("is a {other}, not a Pod")),
        },
    };
    pod.map_err(|message| finder.add(name, message)).ok()
}

fn pods_of_yaml(finder: &mut Finder, text: &str) -> Vec<Pod> {
    let documents = match yaml::parse_all(text) {
        Ok(documents) => documents,
        Err(error) => {
            finder.add_yaml(&error);
            return Vec::new();
        }
    };
    // The text is parsed a second time for places only once a mistake is found.
    let spans = std::cell::OnceCell::new();
    let mut pods = Vec::new();
    for (number, document) in documents.into_iter().enumerate() {
        let place = |way: &[Step]| {
            let spans = spans.get_or_init(|| yaml::spans(text));
            spans.get(number)?.place(way)
        };
        let kind = document.get("kind").and_then(Value::as_str);
        match shape(kind, document.get("items").is_some()) {
            Err(message) => finder.add("", message),
            Ok(Shape::Pod) => {
                let name = name_of(&document).unwrap_or_default();
                pods.extend(pod_of_value(finder, document, &name, place));
            }
            Ok(Shape::List) => {
                let items = document.get("items").and_then(Value::as_array);
                for (index, item) in items.into_iter().flatten().enumerate() {
                    let name = name_of(item).unwrap_or_else(|| item_name(index));
                    let within = [Step::Key("items".to_owned()), Step::Index(index)];
                    let place = |way: &[Step]| place(&[&within, way].concat());
                    pods.extend(pod_of_value(finder, item.clone(), &name, place));
                }
            }
        }
    }
    pods
}

fn pod_of_value(
    finder: &mut Finder,
    value: Value,
    name: &str,
    place: impl Fn(&[Step]) -> Option<Place>,
) -> Option<Pod> {
    let Ok(typed) = TypedPod::deserialize(&value) else {
        finder.find_in_value::<TypedPod>(value, name, place);
        return None;
    };
    let ([_, kind], pod) = typed.split();
    finder.find_negative(name, &amounts_of_pod(&pod), place);
    pod_of(&kind, pod)
        .map_err(|message| finder.add(name, message))
        .ok()
}
