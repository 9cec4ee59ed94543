//! Checks objects one by one and completes those that no API server has stored.

use super::assumptions::Assumptions;
use super::file_kind::kind_of_path;
use super::items::{Found, Sink};
use super::other_groups::{OtherGroup, note_workload};
use super::receiver::{Explain, InvalidField, OtherObject, Receiver};
use super::scan::Scanner;
use super::{LARGEST_YAML, ObjectsError, Source, Text, read_json};
use crate::amounts::{Amount, Wrong, amounts_of};
use crate::document::Document;
use crate::encoding::Utf8;
use crate::error::DocumentError;
use crate::finder::ENOUGH;
use crate::mistake::{Mistake, Mistakes, Place};
use crate::yaml;
use evictd_manifests::{
    Admission, Completed, Existing, Kind, Object, PodManifest, expand, expand_one, is_workload,
};
use evictd_pod::wire;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, Read};

/// The knowledge of a loader beside the objects.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Completes pods that come from elsewhere.
    pub admission: Admission,
    /// Knows the pods that workloads have already.
    pub existing: Existing,
    /// Assumptions that were made.
    pub assumptions: Assumptions,
    /// How many objects of other kinds there were, by kind.
    pub ignored: BTreeMap<String, usize>,
    /// How many pods and workloads the manifests hold, whose pods may all exist already.
    pub questions: usize,
    /// Workloads of the manifests whose pods are not known.
    pub unknown_workloads: Assumptions,
    /// `namespace/name` of the known pods that later ones of the same name replace.
    pub replaceable: HashSet<String>,
    /// Those of them that were replaced.
    pub replaced: BTreeSet<String>,
    /// Kind, namespace and name of every object.
    names: HashSet<(Kind, Box<str>)>,
}

impl Loaded {
    /// Forgets an object, so that another one may have its name.
    pub fn forget(&mut self, object: &Object) {
        let name = object.metadata().full_name();
        self.names.remove(&(object.kind(), name.into()));
    }

    /// Replaces the known pod of that name. Returns whether that is allowed.
    fn replace(&mut self, pod: &str) -> bool {
        let is_known = self.replaceable.take(pod);
        let is_replaced = is_known.is_some();
        self.replaced.extend(is_known);
        is_replaced
    }

    /// Whether an object of that kind and name was read.
    pub fn holds(&self, object: &Object) -> bool {
        let name = object.metadata().full_name();
        self.names.contains(&(object.kind(), name.into()))
    }
}

/// A pod or a workload that is completed when all objects are known.
struct Held {
    file: usize,
    place: Option<Place>,
    title: String,
    content: Content,
}

enum Content {
    /// A pod group with claims, which may come from templates.
    Group(Object),
    Pod(Box<PodManifest>),
    Workload(Box<Value>),
}

/// How workloads are expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Workloads {
    /// Nothing: their pods are in the dump of a cluster, too.
    Stay,
    /// The pods that their controllers have still to make.
    Expand,
    /// One pod each, under the name of the workload.
    BecomeOnePod,
}

/// Reads objects from several sources.
pub struct Loader<'r, R> {
    receiver: &'r mut R,
    loaded: Loaded,
    workloads: Workloads,
    /// Whether pods and nodes are remembered for workloads that are expanded later.
    remembers: bool,
    /// Whether objects are taken as a kubelet sees them: without defaults, and with names that repeat or are missing.
    as_kubelet: bool,
    /// Every unique id.
    ids: HashSet<Box<str>>,
    held: Vec<Held>,
    files: Vec<Mistakes>,
    /// The kind of objects without one, by the path of the file that is being read.
    kind_of_file: Option<&'static str>,
    /// Whether the file that is being read is one of a directory, several of which may hold the same object.
    is_found: bool,
    /// How many objects there were, of any kind.
    found: usize,
}

impl<'r, R: Receiver> Loader<'r, R> {
    /// Reads a cluster, whose workloads have their pods already. With `remembers` other workloads can be expanded onto it.
    pub fn of_cluster(receiver: &'r mut R, remembers: bool) -> Self {
        Self::new(receiver, Loaded::default(), Workloads::Stay, remembers)
    }

    /// Reads manifests for a cluster that was read before: workloads become pods.
    pub fn of_manifests(receiver: &'r mut R, cluster: Loaded) -> Self {
        Self::new(receiver, cluster, Workloads::Expand, true)
    }

    /// Reads the manifest of one pod for a cluster that was read before: a workload becomes one pod.
    pub fn of_one_pod(receiver: &'r mut R, cluster: Loaded) -> Self {
        Self::new(receiver, cluster, Workloads::BecomeOnePod, false)
    }

    /// Reads the objects of a node as its kubelet sees them: nothing is defaulted, and several pods may have one name.
    pub fn of_kubelet(receiver: &'r mut R) -> Self {
        Self {
            as_kubelet: true,
            ..Self::new(receiver, Loaded::default(), Workloads::Stay, false)
        }
    }

    fn new(receiver: &'r mut R, loaded: Loaded, workloads: Workloads, remembers: bool) -> Self {
        Self {
            receiver,
            loaded,
            workloads,
            remembers,
            as_kubelet: false,
            ids: HashSet::new(),
            held: Vec::new(),
            files: Vec::new(),
            kind_of_file: None,
            is_found: false,
            found: 0,
        }
    }

    /// Reads a source. Mistakes in its objects are kept for [`Self::finish`].
    ///
    /// # Errors
    /// If it cannot be read, is empty, or is too large.
    pub fn read<T: Read>(&mut self, source: Source<T>) -> Result<(), DocumentError> {
        let Source {
            name,
            text,
            is_found,
        } = source;
        if !is_found {
            return self.read_text(name, text);
        }
        let before = self.found;
        self.kind_of_file = kind_of_path(&name);
        self.is_found = true;
        let read = self.read_text(name.clone(), text);
        self.kind_of_file = None;
        self.is_found = false;
        if self.found > before || read.as_ref().is_err_and(may_hide_objects) {
            return read;
        }
        // Its mistakes are no mistakes in objects.
        self.files.pop();
        let assumption = "files of a directory without a Kubernetes object are left out";
        self.loaded.assumptions.add(assumption, || name);
        Ok(())
    }

    fn read_text<T: Read>(&mut self, name: String, text: T) -> Result<(), DocumentError> {
        self.begin(&name);
        let read_error = |source| DocumentError::Read {
            name: name.clone(),
            source,
        };
        let mut scanner = Scanner::new(Utf8::new(text));
        match read_json(&mut scanner, self).map_err(read_error)? {
            Text::Json => Ok(()),
            Text::Empty => Err(DocumentError::Empty(name)),
            Text::Other => {
                let (mut text, rest) = scanner.into_rest();
                // Input that is not text is not read further: it may be endless.
                if !text.contains(&0) {
                    let rest = &mut rest.take(LARGEST_YAML + 1);
                    rest.read_to_end(&mut text).map_err(read_error)?;
                }
                self.read_yaml(&name, text)
            }
        }
    }

    fn begin(&mut self, name: &str) {
        self.files.push(Mistakes {
            name: name.to_owned(),
            ..Mistakes::default()
        });
    }

    /// Reads YAML that is in memory already.
    pub(crate) fn read_document(&mut self, document: &Document) -> Result<(), DocumentError> {
        self.begin(document.name());
        self.read_values(document)
    }

    fn read_yaml(&mut self, name: &str, text: Vec<u8>) -> Result<(), DocumentError> {
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > LARGEST_YAML {
            let (name, limit) = (name.to_owned(), LARGEST_YAML);
            return Err(DocumentError::TooLarge { name, limit });
        }
        self.read_values(&Document::from_bytes(name, text)?)
    }

    fn read_values(&mut self, document: &Document) -> Result<(), DocumentError> {
        match document.values() {
            Ok(values) => {
                let spans = yaml::spans(document.text());
                super::yaml::read(values, &spans, self);
            }
            Err(DocumentError::Mistakes(found)) => {
                found
                    .mistakes
                    .into_iter()
                    .for_each(|mistake| self.refuse(mistake));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Completes the pods that no API server has stored, and expands workloads.
    ///
    /// # Errors
    /// Every mistake of every source together, at most a hundred of each.
    pub fn finish(mut self) -> Result<Loaded, ObjectsError> {
        let mut all = std::mem::take(&mut self.held);
        // Pods use the claims of their groups.
        all.sort_by_key(|held| !matches!(held.content, Content::Group(_)));
        for held in all {
            self.complete_held(held);
        }
        let Self {
            mut files, loaded, ..
        } = self;
        files.retain(|file| !file.mistakes.is_empty());
        if files.is_empty() {
            Ok(loaded)
        } else {
            Err(ObjectsError::Mistakes(files))
        }
    }

    fn complete_held(&mut self, held: Held) {
        let Held {
            file,
            place,
            title,
            content,
        } = held;
        let result = match content {
            Content::Group(group) => self.complete(group),
            Content::Pod(pod) => self.complete(Object::Pod(pod)),
            Content::Workload(value) => self.expand(&value),
        };
        if let Err(InvalidField { field, message }) = result {
            self.refuse_in(
                file,
                Mistake {
                    place,
                    object: title,
                    key: field,
                    message,
                },
            );
        }
    }

    /// Completes an object and passes it on.
    fn complete(&mut self, object: Object) -> Result<(), InvalidField> {
        if self.as_kubelet {
            return self.receiver.take(object);
        }
        let title = object.to_string();
        let completed = self.loaded.admission.complete(object);
        let Completed { objects, notes } = completed.map_err(|refusal| InvalidField {
            field: refusal.field.to_owned(),
            message: refusal.message,
        })?;
        for note in notes {
            self.loaded.assumptions.add(note, || title.clone());
        }
        let mut objects = objects.into_iter();
        // Claims come before the pod that uses them.
        let itself = objects.next_back();
        objects.try_for_each(|made| self.take_made(made))?;
        itself.map_or(Ok(()), |itself| self.pass_on(itself))
    }

    /// Takes an object that comes into being with a pod, unless it is there already.
    fn take_made(&mut self, object: Object) -> Result<(), InvalidField> {
        let name = object.metadata().full_name().into_boxed_str();
        if self.loaded.names.insert((object.kind(), name)) {
            return self.receiver.take(object);
        }
        Ok(())
    }

    fn expand(&mut self, workload: &Value) -> Result<(), InvalidField> {
        let Loaded {
            existing,
            admission,
            assumptions,
            ..
        } = &mut self.loaded;
        let expansion = match self.workloads {
            Workloads::BecomeOnePod => expand_one(workload, admission),
            Workloads::Stay | Workloads::Expand => expand(workload, existing, admission),
        };
        let mut expansion = expansion.map_err(|error| InvalidField {
            field: String::new(),
            message: error.to_string(),
        })?;
        for note in std::mem::take(&mut expansion.notes) {
            assumptions.note(note);
        }
        for object in expansion.take_objects() {
            self.take_made(object)?;
        }
        let mut pods = expansion.pods.into_iter().map(Box::new);
        pods.try_for_each(|pod| self.complete(Object::Pod(pod)))
    }

    /// Reads an object that is well-formed, has a name, and is not a duplicate.
    fn checked(&mut self, kind: Kind, found: &Found<'_>) -> Option<Object> {
        let object = match kind.read(found.text) {
            Ok(object) => object,
            Err(error) => {
                for mistake in kind.visit(Explain {
                    found,
                    error: &error,
                }) {
                    self.refuse(mistake);
                }
                return None;
            }
        };
        let metadata = object.metadata();
        // A kubelet names the pods of its files itself.
        if metadata.name.is_empty() && !self.as_kubelet {
            let title = format!("{} {}", found.kind, found.position());
            self.wrong(found, title, "metadata.name", "is missing");
            return None;
        }
        let name = || metadata.full_name().into_boxed_str();
        let is_taken = !self.as_kubelet && !self.loaded.names.insert((kind, name()));
        if is_taken && !(kind == Kind::Pod && self.loaded.replace(&name())) {
            let assumption = "of objects with the same name only the first is used";
            self.loaded
                .assumptions
                .add(assumption, || object.to_string());
            return None;
        }
        if !metadata.uid.is_empty() && !self.ids.insert((*metadata.uid).into()) {
            if self.as_kubelet && self.is_found {
                let assumption = "of objects with the same UID only the first is used";
                let name = || object.to_string();
                self.loaded.assumptions.add(assumption, name);
                return None;
            }
            let message = format!("{:?} is also the UID of another object", metadata.uid);
            self.wrong(found, object.to_string(), "metadata.uid", &message);
            return None;
        }
        self.amounts_are_possible(found, &object).then_some(object)
    }

    /// Whether no amount of the object is negative. Amounts beyond reason are noted as assumptions.
    fn amounts_are_possible(&mut self, found: &Found<'_>, object: &Object) -> bool {
        let mut possible = true;
        for amount in amounts_of(object) {
            let Amount {
                key,
                way,
                quantity,
                wrong,
            } = amount;
            match wrong {
                Wrong::Negative => {
                    possible = false;
                    self.refuse(Mistake {
                        place: (found.place)(&way),
                        object: object.to_string(),
                        key,
                        message: format!("{quantity} is negative"),
                    });
                }
                Wrong::Absurd => {
                    let name = || format!("{object} {key} {quantity}");
                    let assumption = "amounts beyond 2^53 are used exactly as written";
                    self.loaded.assumptions.add(assumption, name);
                }
            }
        }
        possible
    }

    fn hold(&mut self, found: &Found<'_>, title: String, content: Content) {
        let is_group = matches!(content, Content::Group(_));
        if self.workloads != Workloads::Stay && !is_group {
            self.loaded.questions += 1;
        }
        self.held.push(Held {
            file: self.files.len().saturating_sub(1),
            place: (found.place)(&[]),
            title,
            content,
        });
    }

    /// Passes an object on. Later objects may need it, and assumptions about it are noted.
    fn pass_on(&mut self, object: Object) -> Result<(), InvalidField> {
        let Loaded {
            admission,
            existing,
            assumptions,
            ..
        } = &mut self.loaded;
        admission.learn(&object);
        if self.remembers {
            existing.learn(&object);
        }
        match &object {
            Object::PodDisruptionBudget(budget) => assumptions.note_budget(budget),
            Object::Pod(manifest) => {
                let pod = &manifest.pod;
                if pod.spec.node_name.is_empty() && self.receiver.places_pods_alone() {
                    OtherGroup::note(pod, assumptions);
                }
                if !pod.spec.node_name.is_empty() && pod.status.phase.is_empty() {
                    let assumption = "pods without status.phase count as running";
                    assumptions.add(assumption, || object.to_string());
                }
            }
            _ => {}
        }
        self.receiver.take(object)
    }

    fn wrong(&mut self, found: &Found<'_>, object: String, key: &str, message: &str) {
        self.refuse(Mistake {
            place: (found.place)(&[]),
            object,
            key: key.to_owned(),
            message: message.to_owned(),
        });
    }

    fn refuse_in(&mut self, file: usize, mistake: Mistake) {
        if let Some(file) = self.files.get_mut(file) {
            if file.mistakes.len() < ENOUGH {
                file.mistakes.push(mistake);
            } else {
                file.more = true;
            }
        }
    }

    /// The workload of an object that is to become pods.
    fn workload(&self, found: &Found<'_>) -> Option<Value> {
        if self.workloads == Workloads::Stay {
            return None;
        }
        let value = match found.value {
            Some(value) => value.clone(),
            None => serde_json::from_slice(found.text).ok()?,
        };
        is_workload(&value).then_some(value)
    }
}

/// Whether a file that could not be read to its end may have objects, so that it must not be left out.
pub(super) fn may_hide_objects(error: &DocumentError) -> bool {
    match error {
        // Data that is invalid is of another format. Any other error is one of the machine.
        DocumentError::Read { source, .. } => source.kind() != io::ErrorKind::InvalidData,
        DocumentError::TooLarge { .. } | DocumentError::Endless { .. } => true,
        _ => false,
    }
}

impl<R: Receiver> Sink for Loader<'_, R> {
    fn take(&mut self, found: Found<'_>) {
        self.found += 1;
        let kind = Kind::of(found.kind, found.api_version);
        if kind.is_none_or(Kind::may_be_a_workload)
            && let Some(mut workload) = self.workload(&found)
        {
            // In a typed list only the list has the kind of its items.
            workload["kind"] = found.kind.into();
            let metadata = wire::Metadata::deserialize(&workload["metadata"]).unwrap_or_default();
            self.loaded.existing.add_workload(found.kind, &metadata);
            let title = format!("{} {}", found.kind, metadata.full_name());
            return self.hold(&found, title, Content::Workload(Box::new(workload)));
        }
        let Some(kind) = kind else {
            if let Some(taken) = self.receiver.take_other(&OtherObject(&found)) {
                let mistakes = taken.err().into_iter().flatten();
                mistakes.for_each(|mistake| self.refuse(mistake));
                return;
            }
            if self.receiver.places_pods_alone() {
                OtherGroup::note_object(&found, &mut self.loaded.assumptions);
            }
            if self.workloads != Workloads::Stay {
                note_workload(&found, &mut self.loaded.unknown_workloads);
            }
            let name = Kind::title_of_other(found.kind, found.api_version);
            *self.loaded.ignored.entry(name).or_default() += 1;
            return;
        };
        let Some(object) = self.checked(kind, &found) else {
            return;
        };
        match object {
            // It is completed from objects that may follow.
            Object::Pod(pod)
                if self.workloads != Workloads::Stay
                    || (pod.pod.metadata.uid.is_empty() && !self.as_kubelet) =>
            {
                let title = format!("Pod {}", pod.pod.metadata.full_name());
                self.hold(&found, title, Content::Pod(pod));
            }
            Object::PodGroup(group)
                if !group.spec.resource_claims.is_empty() && !self.as_kubelet =>
            {
                let group = Object::PodGroup(group);
                self.hold(&found, group.to_string(), Content::Group(group));
            }
            object => {
                let title = object.to_string();
                if let Err(InvalidField { field, message }) = self.complete(object) {
                    self.wrong(&found, title, &field, &message);
                }
            }
        }
    }

    fn refuse(&mut self, mistake: Mistake) {
        self.refuse_in(self.files.len().saturating_sub(1), mistake);
    }

    fn kind_in_lists(&self) -> Option<&'static str> {
        let of_kubelet = || self.as_kubelet.then_some("Pod");
        self.kind_of_file.or_else(of_kubelet)
    }

    fn has_enough(&self) -> bool {
        self.files.last().is_some_and(|file| file.more)
    }
}
