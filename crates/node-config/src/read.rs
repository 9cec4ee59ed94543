//! Turns a document into the configuration in force, and collects every mistake.

use super::{
    effective::{Effective, Kind, Origin},
    flags, image_gc,
    key::{Field, Key, Kubelet},
    keys::{KEYS, hook},
    reader::{Reader, Stage},
    refused::Refused,
    thresholds,
    words::{MemoryAvailable, MemoryReclaim},
};
use evictd_configuration::{
    Content, Entry, Fault, Mistake, Node, joined, meant_key, mismatch, nearest_key,
};
use evictd_eviction::rules::LabelSelector;
use evictd_spelling::nearest;
use std::collections::BTreeMap;

/// A configuration that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration in force.
    pub effective: Effective,
    /// Warnings.
    pub warnings: Vec<Mistake>,
}

/// Reads a configuration of either kind; `file` is its name in messages.
pub fn parse(file: &str, text: &str) -> Result<Loaded, Refused> {
    parse_with_drop_ins(file, text, &[])
}

/// The same with drop-ins (name and text each); for each key the file that comes later wins.
pub(super) fn parse_with_drop_ins(
    file: &str,
    text: &str,
    drop_ins: &[(&str, &str)],
) -> Result<Loaded, Refused> {
    let mut reader = Reader::new(file);
    match Node::parse(text) {
        Ok(document) => reader.read(&document),
        Err(error) => reader.mistake("", Fault::new(error.at, error.to_string())),
    }
    for (name, text) in drop_ins {
        reader.files.push(name);
        reader.file = name;
        match Node::parse(text) {
            Ok(document) => reader.drop_in(&document),
            Err(error) => reader.mistake("", Fault::new(error.at, error.to_string())),
        }
    }
    reader.finish()
}

/// The configuration without any file.
pub fn built_in() -> Effective {
    let mut effective = Effective::blank(Kind::Evictd);
    fill_in_defaults(&mut effective);
    if let Ok(parsed) = effective.parse_maps() {
        effective.configured_thresholds = parsed.into_all();
    }
    effective
}

impl Reader<'_> {
    pub(super) fn read(&mut self, document: &Node) {
        self.report_duplicate_keys(document);
        // The kubelet's `/configz` answers with the configuration below this key.
        let wrapped = document.get("kubeletconfig").map(|entry| &entry.value);
        let root = wrapped.unwrap_or(document);
        let Some(kind) = self.kind(root, wrapped.is_some()) else {
            return;
        };
        self.stage = Stage::Files;
        self.effective = Effective::blank(kind);
        fill_in_defaults(&mut self.effective);
        let merge = root.get("mergeDefaultEvictionSettings");
        self.merges = kind == Kind::Evictd
            || merge.is_some_and(|entry| entry.value.content == Content::Bool(true));
        self.is_of_a_distribution = flags::is_of_a_distribution(root);
        match &root.content {
            Content::Map(entries) if !entries.is_empty() => self.entries("", entries),
            // The file may be half replaced at this moment. Taking it for all defaults could end a dry run.
            Content::Map(_) | Content::Null => self.mistake(
                "",
                Fault::new(
                    None,
                    "the file is empty, which would set every key to its default",
                )
                .advise("write kind: EvictionConfiguration if that is meant"),
            ),
            _ if self.flags_instead("", root) => {}
            _ => self.mistake("", mismatch(root, "a configuration")),
        }
    }

    /// A file whose settings are applied on top of those read before.
    fn drop_in(&mut self, document: &Node) {
        // Without a kind of the first file it is not known which keys there are.
        if self.stage == Stage::Kind {
            return;
        }
        self.report_duplicate_keys(document);
        if let Some(entry) = document.get("kind") {
            let kind = self.effective.kind.as_str();
            if entry.value.content != Content::Text(kind.to_owned()) {
                let fault = mismatch(&entry.value, "the kind of the file that this one overrides");
                self.mistake("kind", fault.advise(format!("write {kind}")));
            }
        }
        match &document.content {
            // An empty drop-in overrides nothing, unlike an empty file, which would set every default.
            Content::Map(entries) => self.entries("", entries),
            Content::Null => {}
            _ => self.mistake("", mismatch(document, "a configuration")),
        }
    }

    /// Checks the merged result of all files.
    fn check(&mut self) {
        self.stage = Stage::Whole;
        thresholds::check(self);
        image_gc::check(self);
        hook::check(self);
        if self
            .effective
            .protect
            .selectors
            .contains(&LabelSelector::default())
        {
            let message = "an empty selector matches every pod, so no pod would ever be evicted";
            self.warn_about("protect.selectors", message.to_owned(), "remove it");
        }
        let any = LabelSelector::default();
        if self.effective.evict_static_pods.selectors.contains(&any) {
            let message =
                "an empty selector matches every static pod, also those of the control plane";
            self.warn_about(
                "evictStaticPods.selectors",
                message.to_owned(),
                "name their labels",
            );
        }
        self.check_runtime_endpoint();
        self.check_memory_reclaim();
    }

    /// Reclaimed page cache moves only the figure that counts it as used.
    fn check_memory_reclaim(&mut self) {
        const KEY: &str = "reclaim.memory";
        let Effective {
            memory_reclaim,
            memory_available,
            ..
        } = self.effective;
        if (memory_reclaim, memory_available)
            == (MemoryReclaim::Cold, MemoryAvailable::MemAvailable)
        {
            let message = "memAvailable counts page cache as available, so reclaiming it would not move memory.available";
            let fault = Fault::new(self.value_place(KEY), message.to_owned());
            self.mistake(
                KEY,
                fault.advise("write memoryAvailable: workingSet, or reclaim.memory: off"),
            );
        }
    }

    fn check_runtime_endpoint(&mut self) {
        const KEY: &str = "containerRuntimeEndpoint";
        let settings = evictd_cri::Settings {
            endpoint: Some(self.effective.container_runtime_endpoint.clone())
                .filter(|endpoint| !endpoint.is_empty()),
            ..evictd_cri::Settings::default()
        };
        // The client judges the endpoint itself, so that both take the same forms.
        if evictd_cri::Client::new(settings).is_err() {
            let endpoint = &self.effective.container_runtime_endpoint;
            let message = format!("{endpoint:?} is not the absolute path of a unix socket");
            let advice = "write it as unix:///run/containerd/containerd.sock";
            let fault = Fault::new(self.value_place(KEY), message).advise(advice);
            self.mistake(KEY, fault);
        }
    }

    pub(super) fn finish(mut self) -> Result<Loaded, Refused> {
        if self.stage == Stage::Files {
            self.check();
        }
        let in_order = |mistake: &Mistake| {
            // By the order in which the files are merged, which need not be that of their names.
            let file = self.files.iter().position(|file| *file == mistake.file);
            (file, mistake.line, mistake.column)
        };
        self.mistakes.sort_by_key(in_order);
        self.warnings.sort_by_key(in_order);
        let Some(first) = self.mistakes.first() else {
            return Ok(Loaded {
                effective: self.effective,
                warnings: self.warnings,
            });
        };
        Err(Refused {
            kubelet_first_error: self
                .kubelet_first_error
                .unwrap_or_else(|| first.message.clone()),
            mistakes: self.mistakes,
            warnings: self.warnings,
        })
    }

    /// The kind of this configuration; `None` if it has no known kind, which is reported.
    fn kind(&mut self, root: &Node, wrapped: bool) -> Option<Kind> {
        const KINDS: [Kind; 2] = [Kind::Evictd, Kind::Kubelet];
        let kind = match root.get("kind") {
            Some(entry) => {
                let written = match &entry.value.content {
                    Content::Text(text) => text.as_str(),
                    _ => "",
                };
                let known = KINDS.into_iter().find(|kind| kind.as_str() == written);
                if known.is_none() {
                    let names = KINDS.map(Kind::as_str);
                    let fault = mismatch(&entry.value, "a kind of configuration");
                    let meant = nearest(written, names).unwrap_or_default();
                    self.mistake("kind", fault.advise(format!("did you mean {meant}?")));
                }
                known?
            }
            // Only a kubelet answers in that form.
            None if wrapped => Kind::Kubelet,
            None => {
                if matches!(root.content, Content::Map(_)) {
                    let message = "is missing; read as an EvictionConfiguration";
                    let advice = "add kind: EvictionConfiguration, or kind: KubeletConfiguration for a kubelet's";
                    self.warning("kind", Fault::new(root.at, message).advise(advice));
                }
                Kind::Evictd
            }
        };
        if let Some(entry) = root.get("apiVersion")
            && entry.value.content != Content::Text(kind.api_version().to_owned())
        {
            let fault = mismatch(&entry.value, "an apiVersion that is known here");
            self.mistake(
                "apiVersion",
                fault.advise(format!("write {}", kind.api_version())),
            );
        }
        Some(kind)
    }

    fn entries(&mut self, above: &str, entries: &[Entry]) {
        for entry in entries {
            let path = joined(above, &entry.key);
            if above.is_empty() && matches!(entry.key.as_str(), "kind" | "apiVersion") {
                continue;
            }
            let key = KEYS
                .iter()
                // A key with a dot would look like a path of two keys, and no key has one.
                .find(|key| self.name(key) == Some(path.as_str()) && !entry.key.contains('.'));
            if let Some(key) = key {
                self.setting(key, &path, entry);
                continue;
            }
            let inner = format!("{path}.");
            let is_above = KEYS
                .iter()
                .any(|key| self.name(key).is_some_and(|name| name.starts_with(&inner)));
            match &entry.value.content {
                Content::Map(entries) if is_above => self.entries(&path, entries),
                Content::Null if is_above => {}
                _ if is_above => {
                    let fault = mismatch(&entry.value, "a map").advise(self.known_below(&path));
                    self.mistake(&path, fault);
                }
                _ => self.unknown_key(above, entry),
            }
        }
    }

    fn setting(&mut self, key: &Key, path: &str, entry: &Entry) {
        // As in Kubernetes, null means that nothing is set, so the default stays.
        if entry.value.is_null() {
            return;
        }
        let origin = Origin::File {
            file: self.file.to_owned(),
            line: entry.at.map(|at| at.line),
        };
        self.effective.origins.insert(key.path.to_owned(), origin);
        self.places
            .insert(key.path.to_owned(), self.written(entry.at, entry.value.at));
        match key.field {
            Field::One { read, .. } => {
                for fault in read(&mut self.effective, &entry.value)
                    .err()
                    .into_iter()
                    .flatten()
                {
                    self.mistake(path, fault);
                }
            }
            Field::Signals { map, off, .. } => self.signals((key, path), map, off, entry),
        }
    }

    fn signals(
        &mut self,
        (key, path): (&Key, &str),
        map: fn(&mut Effective) -> &mut BTreeMap<String, String>,
        off: Option<&str>,
        entry: &Entry,
    ) {
        let Content::Map(entries) = &entry.value.content else {
            let meant = flags::map(&entry.value);
            let meant = meant.unwrap_or_else(|| "{memory.available: 100Mi}".to_owned());
            let fault = mismatch(&entry.value, "a map").advise(format!("write {path}: {meant}"));
            return self.mistake(key.path, fault);
        };
        let kubelet = self.effective.kind == Kind::Kubelet;
        // A kubelet takes a map of thresholds as a whole: one that is not in it is off.
        if !self.merges {
            self.forget_defaults(key.path, map);
        }
        for entry in entries {
            let path = joined(key.path, &entry.key);
            let value = match &entry.value.content {
                Content::Text(text) | Content::Number(text) => Some(text.as_str()),
                // The kubelet decodes null as the empty text.
                Content::Null if kubelet => Some(""),
                Content::Null => off,
                _ => {
                    self.mistake(&path, mismatch(&entry.value, "an amount"));
                    continue;
                }
            };
            let map = map(&mut self.effective);
            let Some(value) = value else {
                map.remove(&entry.key);
                continue;
            };
            map.insert(entry.key.clone(), value.to_owned());
            let origin = Origin::File {
                file: self.file.to_owned(),
                line: entry.at.map(|at| at.line),
            };
            self.places.insert(
                path.clone(),
                self.written(entry.at, entry.value.at.or(entry.at)),
            );
            self.effective.origins.insert(path, origin);
        }
    }

    /// Removes the defaults of a map that does not merge with them; entries of earlier files stay.
    fn forget_defaults(
        &mut self,
        above: &str,
        map: fn(&mut Effective) -> &mut BTreeMap<String, String>,
    ) {
        let places = &self.places;
        let is_written = |signal: &str| places.contains_key(&joined(above, signal));
        map(&mut self.effective).retain(|signal, _| is_written(signal));
        let inner = joined(above, "");
        self.effective
            .origins
            .retain(|path, _| path.strip_prefix(&inner).is_none_or(is_written));
    }

    /// Reports an unknown key. A kubelet has hundreds of keys that evictd does not know, so in its file only near
    /// misses are reported.
    fn unknown_key(&mut self, above: &str, entry: &Entry) {
        let path = joined(above, &entry.key);
        if self.flags_below(&path, entry) {
            return;
        }
        let other = match self.effective.kind {
            Kind::Evictd => Kind::Kubelet,
            Kind::Kubelet => Kind::Evictd,
        };
        let inner = format!("{path}.");
        // Looked for before a near miss: such a key was meant as it is written.
        let is_others = KEYS.iter().any(|key| {
            key.name(other)
                .is_some_and(|name| name == path || name.starts_with(&inner))
        });
        let siblings = self.siblings(above);
        let meant = meant_key(above, &entry.key, &siblings);
        if self.effective.kind == Kind::Kubelet {
            let advice = match meant {
                _ if is_others => format!("only an {} has it", other.as_str()),
                Some(meant) => meant,
                None => return,
            };
            let message = "is ignored, as the kubelet ignores keys that it does not know";
            return self.warning(&path, Fault::new(entry.at, message).advise(advice));
        }
        let advice = if is_others {
            format!("only a {} has it", other.as_str())
        } else if self.is_of_a_distribution {
            "a setting of the distribution, which evictd does not read; leave it out".to_owned()
        } else if let Some(meant) = meant {
            meant
        } else if let Some(elsewhere) = self.elsewhere(&entry.key) {
            format!("did you mean {elsewhere}?")
        } else {
            nearest_key(above, &entry.key, &siblings)
        };
        self.mistake(&path, Fault::new(entry.at, "unknown key").advise(advice));
    }

    /// Reports flags of a kubelet in the value of a key that is not known here; `false` if there are none.
    fn flags_below(&mut self, path: &str, entry: &Entry) -> bool {
        let found = flags::of_entry(entry);
        self.flags(path, found)
    }

    /// The same of a value that should be a map.
    fn flags_instead(&mut self, path: &str, value: &Node) -> bool {
        let found = flags::of_value(value);
        self.flags(path, found)
    }

    fn flags(&mut self, path: &str, found: Vec<flags::Flag>) -> bool {
        let is_any = !found.is_empty();
        for flag in found {
            let fault = flag.fault(self.effective.kind);
            match self.effective.kind {
                Kind::Evictd => self.mistake(path, fault),
                Kind::Kubelet => self.warning(path, fault),
            }
        }
        is_any
    }

    /// The keys directly below this one.
    fn siblings(&self, above: &str) -> Vec<&'static str> {
        let inner = joined(above, "");
        let names = KEYS.iter().filter_map(|key| self.name(key));
        let mut siblings: Vec<_> = names
            .filter_map(|name| name.strip_prefix(inner.as_str())?.split('.').next())
            .collect();
        if above.is_empty() {
            siblings.extend(["apiVersion", "kind"]);
        }
        siblings.dedup();
        siblings
    }

    /// A key with that last part at another place.
    fn elsewhere(&self, written: &str) -> Option<&'static str> {
        let names = KEYS.iter().filter_map(|key| self.name(key));
        let last = |name: &str| name.rsplit('.').next().map(str::to_lowercase);
        let written = last(written)?;
        names
            .into_iter()
            .find(|name| last(name).as_deref() == Some(written.as_str()))
    }

    fn known_below(&self, path: &str) -> String {
        format!(
            "the keys below {path} are {}",
            self.siblings(path).join(", ")
        )
    }

    fn report_duplicate_keys(&mut self, document: &Node) {
        for (path, fault) in document.duplicate_keys() {
            self.mistake(&path, fault);
        }
    }

    fn name(&self, key: &Key) -> Option<&'static str> {
        key.name(self.effective.kind)
    }
}

/// Sets the defaults.
fn fill_in_defaults(effective: &mut Effective) {
    for key in KEYS {
        let (text, origin) = match (&key.kubelet, effective.kind) {
            (Kubelet::Key { default, .. }, Kind::Kubelet) => {
                (Some(*default), Origin::KubeletDefault)
            }
            (Kubelet::Rule(rule), Kind::Kubelet) => (Some(*rule), Origin::KubeletRule),
            (Kubelet::Same, _) | (_, Kind::Evictd) => (key.default, Origin::Default),
        };
        let Some(Ok(default)) = text.map(Node::parse) else {
            continue;
        };
        effective
            .origins
            .insert(key.path.to_owned(), origin.clone());
        match (&key.field, &default.content) {
            (Field::One { read, .. }, content) if *content != Content::Null => {
                // A test ensures that every default can be read.
                let _ = read(effective, &default);
            }
            (Field::Signals { map, .. }, Content::Map(entries)) => {
                for entry in entries {
                    if let Content::Text(value) = &entry.value.content {
                        map(effective).insert(entry.key.clone(), value.clone());
                        let path = joined(key.path, &entry.key);
                        effective.origins.insert(path, origin.clone());
                    }
                }
            }
            _ => {}
        }
    }
}
