//! The identity of an object, read while its text passes by, however long the text is.

/// The depth of the deepest field, with the event around the object.
const DEEPEST: usize = 3;
/// Longer texts identify nothing.
const LONGEST_TEXT: usize = 256;
/// The fields on the way to those that are wanted.
const FIELDS: [&str; 13] = [
    "type",
    "object",
    "metadata",
    "spec",
    "status",
    "namespace",
    "name",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
    "nodeName",
    "schedulerName",
    "phase",
];

/// The identity and place of an object. A field is empty if the object lacks it, or its text has no end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub version: String,
    /// `metadata.deletionTimestamp`
    pub deleted_at: String,
    /// `spec.nodeName`
    pub node: String,
    /// `spec.schedulerName`
    pub scheduler: String,
    /// `status.phase`
    pub phase: String,
}

impl Outline {
    /// The outline of an object in JSON.
    pub(super) fn of(object: &[u8]) -> Self {
        let mut scanner = Scanner::default();
        scanner.feed(object);
        scanner.outline
    }

    /// `namespace/name`, or the name alone.
    pub fn full_name(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

/// Reads outlines byte by byte. It holds no more of the object than one short text.
#[derive(Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says where in the text the next byte stands"
)]
pub(super) struct Scanner {
    /// Whether the object is that of a watch's event.
    in_event: bool,
    outline: Outline,
    /// The type of the event.
    event: String,
    /// How many objects and arrays were opened.
    opened: usize,
    /// How many of them are open.
    depth: usize,
    /// Of the outermost ones: whether it is an object, and the field that is read now.
    levels: [(bool, &'static str); DEEPEST],
    /// Whether the next text of an object is the name of a field.
    before_key: bool,
    in_text: bool,
    escaped: bool,
    text: Vec<u8>,
}

impl Scanner {
    /// For the events of a watch.
    pub(super) fn of_event() -> Self {
        Self {
            in_event: true,
            ..Self::default()
        }
    }

    /// How many objects and arrays were opened so far.
    pub(super) const fn opened(&self) -> usize {
        self.opened
    }

    /// The type of the event, and the outline of its object.
    pub(super) fn finish(self) -> (String, Outline) {
        (self.event, self.outline)
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_text = false;
                    return self.end_of_text();
                }
                _ => {}
            }
            // Of long texts only the beginning is kept, enough to see that they are too long.
            if self.depth <= DEEPEST && self.text.len() <= LONGEST_TEXT {
                self.text.push(byte);
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_text = true;
                self.text.clear();
            }
            b'{' | b'[' => {
                if let Some(level) = self.levels.get_mut(self.depth) {
                    *level = (byte == b'{', "");
                }
                self.depth += 1;
                self.opened += 1;
                self.before_key = true;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => self.before_key = true,
            _ => {}
        }
    }

    fn end_of_text(&mut self) {
        let key = std::mem::take(&mut self.before_key);
        let Some(last) = self.depth.checked_sub(1) else {
            return;
        };
        let Some((true, field)) = self.levels.get_mut(last) else {
            return;
        };
        if key {
            let known = FIELDS.iter().find(|known| known.as_bytes() == self.text);
            *field = known.copied().unwrap_or_default();
        } else {
            self.take_value(last);
        }
    }

    fn take_value(&mut self, last: usize) {
        let fields = self.levels.map(|(_, field)| field);
        let place = match (self.in_event, &fields[..=last]) {
            (true, ["type"]) => &mut self.event,
            (true, ["object", parent, field]) | (false, [parent, field]) => {
                let outline = &mut self.outline;
                match (*parent, *field) {
                    ("metadata", "namespace") => &mut outline.namespace,
                    ("metadata", "name") => &mut outline.name,
                    ("metadata", "uid") => &mut outline.uid,
                    ("metadata", "resourceVersion") => &mut outline.version,
                    ("metadata", "deletionTimestamp") => &mut outline.deleted_at,
                    ("spec", "nodeName") => &mut outline.node,
                    ("spec", "schedulerName") => &mut outline.scheduler,
                    ("status", "phase") => &mut outline.phase,
                    _ => return,
                }
            }
            _ => return,
        };
        place.clear();
        // No name has an escape in it, and none is longer.
        if self.text.len() <= LONGEST_TEXT && !self.text.contains(&b'\\') {
            place.push_str(std::str::from_utf8(&self.text).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_outline_is_read_from_its_own_fields_only() {
        let spoof = json!({"name": "other", "nodeName": "other", "metadata": {"name": "other"}});
        let pod = json!({
            "metadata": {
                "annotations": {"name": "other", "metadata": "x", "text": "\"},{\"name\":\"other\""},
                "labels": {"uid": "other"}, "managedFields": [spoof, "name", "other"],
                "name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
                "ownerReferences": [{"name": "other", "uid": "other"}],
            },
            "name": "other",
            "spec": {"containers": [spoof, {"env": [{"name": "other"}]}], "nodeName": "one", "schedulerName": "mine"},
            "status": {"phase": "Running", "containerStatuses": [spoof]},
        });
        let expected = Outline {
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u-1".into(),
            version: "7".into(),
            node: "one".into(),
            scheduler: "mine".into(),
            phase: "Running".into(),
            ..Outline::default()
        };
        assert_eq!(Outline::of(pod.to_string().as_bytes()), expected);
        let pretty = serde_json::to_string_pretty(&pod).unwrap();
        assert_eq!(Outline::of(pretty.as_bytes()), expected);
        let mut scanner = Scanner::of_event();
        let event = json!({"object": pod, "type": "ADDED"}).to_string();
        for byte in event.as_bytes() {
            scanner.feed(&[*byte]);
        }
        assert_eq!(scanner.finish(), ("ADDED".to_owned(), expected));
    }

    #[test]
    fn json_that_is_not_an_object_has_no_outline() {
        for text in [
            "",
            "7",
            "]}",
            "\"x\"",
            "[\"metadata\"]",
            r#"{"metadata": "x"}"#,
            r#"{"metadata": {"name": 7}}"#,
        ] {
            assert_eq!(Outline::of(text.as_bytes()), Outline::default(), "{text}");
        }
        let long = json!({"metadata": {"name": "x".repeat(10_000), "uid": "a\\b"}}).to_string();
        assert_eq!(Outline::of(long.as_bytes()), Outline::default());
    }
}
