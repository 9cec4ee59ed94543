//! One manifest file: turns its text into pods and mistakes.

use evictd_document::{Document, DocumentError, Mistake, Place};
use evictd_pod::{Pod, defaults, pod::system_priority, wire};
use std::collections::BTreeMap;

/// The settings that turn a manifest into a pod of this node.
#[derive(Debug, Clone, Default)]
pub(crate) struct ManifestRules {
    /// The node's name, which is part of a derived UID.
    pub node_name: String,
    /// Priorities of the priority classes that manifests may name, in addition to the two built-in ones.
    pub priority_classes: BTreeMap<String, i32>,
}

/// The content of a manifest file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) pods: Vec<Pod>,
    pub(super) mistakes: Vec<Mistake>,
}

impl Contents {
    /// The content of a file that cannot be read as a whole.
    pub(super) fn unreadable(message: String) -> Self {
        Self {
            pods: Vec::new(),
            mistakes: vec![of_whole(message)],
        }
    }
}

impl ManifestRules {
    /// Reads every document of a file. A document with a mistake yields no pod and does not affect the others.
    pub(super) fn read(&self, name: &str, bytes: &[u8], static_pods: bool) -> Contents {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let line = 1 + newlines(&bytes[..error.valid_up_to()]);
                return Contents::unreadable(format!("not UTF-8 text in line {line}"));
            }
        };
        let mut contents = Contents::default();
        for part in parts_of(text) {
            match self.read_part(name, &part, static_pods) {
                Ok(pod) => contents.pods.push(pod),
                Err(mistakes) => contents.mistakes.extend(mistakes),
            }
        }
        if contents.pods.is_empty() && contents.mistakes.is_empty() {
            return Contents::unreadable("empty: no pod in it".to_owned());
        }
        contents
    }

    fn read_part(
        &self,
        name: &str,
        part: &Part<'_>,
        static_pods: bool,
    ) -> Result<Pod, Vec<Mistake>> {
        let read = || {
            let document = Document::new(name, part.text.to_owned())?;
            let (types, mut pod) = document.parse::<wire::TypedPod>()?.split();
            let mistakes = self.check(types, &mut pod, &document);
            if mistakes.is_empty() {
                self.make_ours(&mut pod, &document, static_pods)?;
            }
            Ok::<_, DocumentError>((pod, mistakes))
        };
        let mistakes = match read() {
            Ok((pod, mistakes)) if mistakes.is_empty() => return Ok(Pod::from_wire(pod)),
            Ok((_, mistakes)) => mistakes,
            Err(DocumentError::Mistakes(found)) => found.mistakes,
            Err(other) => vec![of_whole(other.to_string())],
        };
        Err(mistakes
            .into_iter()
            .map(|mistake| part.in_file(mistake))
            .collect())
    }

    /// Checks that the types cannot express; also resolves the priority class. The pod names this version and kind.
    fn check(
        &self,
        [api_version, kind]: [String; 2],
        pod: &mut wire::Pod,
        document: &Document,
    ) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let namespace =
            Some(pod.metadata.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let object = namespace
            .into_iter()
            .chain([pod.metadata.name.as_str()])
            .collect::<Vec<_>>()
            .join("/");
        let mut wrong = |keys: &[&str], message: String| {
            // A missing key is reported at the object that should contain it.
            let holder = &keys[..keys.len() - 1];
            let place = document.place_of(keys);
            mistakes.push(Mistake {
                place: place.or_else(|| document.place_of(holder)),
                object: object.clone(),
                key: keys.join("."),
                message,
            });
        };
        for (key, value, wanted) in [("apiVersion", api_version, "v1"), ("kind", kind, "Pod")] {
            if value != wanted {
                wrong(&[key], format!("must be {wanted}, is {value:?}"));
            }
        }
        if pod.metadata.name.is_empty() {
            wrong(&["metadata", "name"], "required".to_owned());
        }
        if pod.spec.containers.is_empty() {
            let message = "required: a pod has at least one container";
            wrong(&["spec", "containers"], message.to_owned());
        }
        let spec = &mut *pod.spec;
        let class = spec.priority_class_name.as_str();
        spec.priority = spec.priority.or_else(|| self.priority_of(class));
        if spec.priority.is_none() && !class.is_empty() {
            let message = format!(
                "priority class {class:?} is unknown on this node: give spec.priority, or the class under \
                 priorityClasses in the configuration"
            );
            wrong(&["spec", "priorityClassName"], message);
        }
        mistakes
    }

    fn priority_of(&self, class: &str) -> Option<i32> {
        system_priority(class).or_else(|| self.priority_classes.get(class).copied())
    }

    /// Completes a pod as the kubelet does with its own manifests: fills in requests, sets the node, and derives a
    /// missing UID from the manifest and the node's name. So an edited manifest is another pod, and a moved one is
    /// the same.
    fn make_ours(
        &self,
        pod: &mut wire::Pod,
        document: &Document,
        static_pods: bool,
    ) -> Result<(), DocumentError> {
        if pod.metadata.uid.is_empty() {
            let manifest: serde_json::Value = document.parse()?;
            pod.metadata.uid = derived_uid(&self.node_name, &manifest).into();
        }
        defaults::apply(&mut pod.spec);
        pod.spec.node_name.clone_from(&self.node_name);
        if static_pods {
            let annotations = &mut pod.metadata.annotations;
            annotations.insert("kubernetes.io/config.source", "file");
            pod.metadata.resource_version = Box::default();
        }
        Ok(())
    }
}

/// 32 hexadecimal digits, like the UIDs that the kubelet derives for static pods: FNV-1a of 128 bits over the node's name,
/// a zero byte and the manifest as JSON with sorted keys.
fn derived_uid(node_name: &str, manifest: &serde_json::Value) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let manifest = manifest.to_string();
    let bytes = node_name.bytes().chain([0]).chain(manifest.bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    });
    format!("{hash:032x}")
}

/// One document of a file.
struct Part<'a> {
    text: &'a str,
    /// The line of the file at which it begins.
    first_line: u64,
}

impl Part<'_> {
    /// The mistake with its place in the file instead of the document.
    fn in_file(&self, mut mistake: Mistake) -> Mistake {
        let place = mistake.place.get_or_insert(Place { line: 1, column: 1 });
        place.line += self.first_line - 1;
        mistake
    }
}

/// The documents of a YAML or JSON text, without those that contain only comments. In YAML a line of `---` always
/// separates documents.
fn parts_of(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = Some((text, 1));
    std::iter::from_fn(move || {
        let (text, first_line) = rest.take()?;
        let mut offset = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let after_dashes = line.strip_prefix("---");
            let border =
                after_dashes.is_some_and(|rest| rest.trim_start() != rest || rest.is_empty());
            if border && offset > 0 {
                rest = Some((&text[offset..], first_line + index as u64));
                break;
            }
            offset += line.len();
        }
        Some(Part {
            text: &text[..offset],
            first_line,
        })
    })
    .filter(|part| {
        let mut lines = part.text.lines().map(str::trim);
        !lines.all(|line| line.is_empty() || line.starts_with('#') || line == "---")
    })
}

fn of_whole(message: String) -> Mistake {
    Mistake {
        place: None,
        object: String::new(),
        key: String::new(),
        message,
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').skip(1).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_pod::{Critical, QosClass};

    fn rules() -> ManifestRules {
        ManifestRules {
            node_name: "node-1".to_owned(),
            priority_classes: [("batch".to_owned(), -10)].into(),
        }
    }

    fn read(text: &str) -> Contents {
        rules().read("a.yaml", text.as_bytes(), false)
    }

    fn line_of(mistake: &Mistake) -> Option<u64> {
        mistake.place.map(|place| place.line)
    }

    fn pod(spec: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  containers:\n  - name: c\n{spec}"
        )
    }

    #[test]
    fn yaml_and_json_and_several_documents() {
        let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j","uid":"u-1"},
	"spec":{"containers":[{"name":"c","resources":{"requests":{"memory":"64Mi"}}}]}}"#;
        let one = read(json);
        assert_eq!(one.mistakes, []);
        assert_eq!(
            (one.pods[0].full_name().as_str(), one.pods[0].uid.as_str()),
            ("default/j", "u-1")
        );
        assert_eq!(one.pods[0].qos, QosClass::Burstable);

        let several = read(&format!(
            "# two\n---\n{}---\n# nothing\n---\n{json}\n",
            pod("")
        ));
        assert_eq!(several.mistakes, []);
        let names: Vec<_> = several.pods.iter().map(Pod::full_name).collect();
        assert_eq!(names, ["shop/web", "default/j"]);
        assert_eq!(several.pods[0].node_name, "node-1");
    }

    #[test]
    fn a_mistake_names_its_line_and_key_and_spares_the_other_documents() {
        let table = [
            (
                pod("    resources:\n      requests:\n        memory: 12Q\n"),
                11,
                "spec.containers[0].resources.requests.memory",
                "12Q",
            ),
            (
                pod("  priority: high\n"),
                9,
                "spec.priority",
                "expected i32",
            ),
            (
                pod("  priorityClassName: gold\n"),
                9,
                "spec.priorityClassName",
                "\"gold\" is unknown",
            ),
            (
                pod("").replace("Pod", "Deployment"),
                2,
                "kind",
                "must be Pod",
            ),
            (pod("").replace("v1", "v2"), 1, "apiVersion", "must be v1"),
            (
                pod("").replace("  name: web\n", ""),
                4,
                "metadata.name",
                "required",
            ),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n".to_owned(),
                4,
                "spec.containers",
                "required",
            ),
        ];
        for (text, line, key, problem) in table {
            let contents = read(&format!("---\n{text}---\n{}", pod("")));
            assert_eq!(contents.pods.len(), 1, "{text}");
            let [mistake] = contents.mistakes.as_slice() else {
                panic!("{text}: {:?}", contents.mistakes)
            };
            assert_eq!(line_of(mistake), Some(line + 1), "{mistake}");
            assert_eq!(mistake.key, key, "{mistake}");
            assert!(mistake.message.contains(problem), "{mistake}");
        }
    }

    #[test]
    fn text_that_is_no_document_is_a_mistake_with_its_line() {
        let table: [(&[u8], Option<u64>); 5] = [
            (b"", None),
            (b"# only a comment\n---\n", None),
            (b"a: 1\nb: \xff\n", None),
            (b"apiVersion: v1\n kind: Pod\n", Some(2)),
            (b"{\"apiVersion\": \"v1\",", Some(1)),
        ];
        for (bytes, line) in table {
            let contents = rules().read("a", bytes, false);
            assert_eq!(contents.pods.len(), 0);
            let line_in_words = contents.mistakes[0]
                .message
                .contains("not UTF-8 text in line 2");
            assert_eq!(line_in_words, bytes.contains(&0xff));
            assert_eq!(contents.mistakes.len(), 1);
            assert_eq!(
                line_of(&contents.mistakes[0]),
                line,
                "{}",
                contents.mistakes[0]
            );
        }
    }

    #[test]
    fn priority_classes_resolve() {
        let table = [
            ("", None),
            ("  priority: 7\n  priorityClassName: gold\n", Some(7)),
            ("  priorityClassName: batch\n", Some(-10)),
            (
                "  priorityClassName: system-node-critical\n",
                Some(2_000_001_000),
            ),
            (
                "  priorityClassName: system-cluster-critical\n",
                Some(2_000_000_000),
            ),
        ];
        for (spec, priority) in table {
            assert_eq!(read(&pod(spec)).pods[0].spec_priority, priority, "{spec}");
        }
    }

    #[test]
    fn a_missing_request_defaults_to_the_limit() {
        let limited = "    resources: {limits: {cpu: 100m, memory: 96Mi}}\n";
        let pods = read(&pod(limited)).pods;
        assert_eq!(pods[0].qos, QosClass::Guaranteed);
        assert_eq!(pods[0].memory_request.value(), 96 << 20);
    }

    #[test]
    fn a_derived_uid_follows_the_manifest_and_the_node_and_nothing_else() {
        let uid = |rules: &ManifestRules, text: &str| {
            rules.read("a", text.as_bytes(), false).pods[0].uid.clone()
        };
        let ours = uid(&rules(), &pod(""));
        assert_eq!(ours.len(), 32);
        assert_eq!(ours, uid(&rules(), &format!("# moved\n---\n{}", pod(""))));
        assert_ne!(ours, uid(&rules(), &pod("    image: other\n")));
        assert_ne!(ours, uid(&ManifestRules::default(), &pod("")));
    }

    #[test]
    fn a_derived_uid_never_changes_between_versions() {
        // Computed by another program: FNV-1a of "node-1\0null".
        let uid = derived_uid("node-1", &serde_json::Value::Null);
        assert_eq!(uid, "44d78529f4c3bf6b90e0bde97ba38098");
    }

    #[test]
    fn s1_046_a_pod_from_the_static_directory_is_critical() {
        let contents = rules().read("a", pod("").as_bytes(), true);
        assert_eq!(contents.pods[0].critical, Some(Critical::Static));
        assert_eq!(read(&pod("")).pods[0].critical, None);
    }
}
