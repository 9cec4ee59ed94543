//! How each kind of value is read from a document and shown again.

use super::{
    address::Address,
    pattern,
    value::Value,
    words::{
        Admission, ConditionTypes, Enforcement, EvictMethod, ImageGcMode, MemoryAvailable,
        MemoryReclaim, PodsSource, PriorityUnknown, SoftTierFallback, Tell, UnknownPods,
        UsageSource,
    },
};
use evictd_configuration::{Content, Fault, Node, mismatch, text};
use evictd_eviction::rules::{MemoryAndSwap, PidRank, PodRequests, UnknownStats};
use evictd_pod::duration::{self, DurationError};
use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

impl Value for bool {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        match node.content {
            Content::Bool(value) => Ok(value),
            _ => Err(vec![mismatch(node, "true or false")]),
        }
    }

    fn show(&self) -> Json {
        json!(self)
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }
}

impl Value for String {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        text(node, "a text").map(str::to_owned)
    }

    fn show(&self) -> Json {
        json!(self)
    }

    fn schema() -> Json {
        json!({ "type": ["string", "number"] })
    }
}

macro_rules! whole_numbers {
    ($($number:ident),*) => {$(
        impl Value for $number {
            fn read(node: &Node) -> Result<Self, Vec<Fault>> {
                let expected = format!("a whole number from {} to {}", Self::MIN, Self::MAX);
                let Content::Number(digits) = &node.content else {
                    return Err(vec![mismatch(node, &expected)]);
                };
                digits.parse().map_err(|_| vec![mismatch(node, &expected)])
            }

            fn show(&self) -> Json {
                json!(self)
            }

            fn schema() -> Json {
                json!({ "type": "integer", "minimum": Self::MIN, "maximum": Self::MAX })
            }
        }
    )*};
}
whole_numbers!(i32, u32);

/// Absent if nothing is written.
macro_rules! null_is_none {
    ($($value:ident),*) => {$(
        impl Value for Option<$value> {
            fn read(node: &Node) -> Result<Self, Vec<Fault>> {
                $value::read(node).map(Some)
            }

            fn show(&self) -> Json {
                self.as_ref().map_or(Json::Null, Value::show)
            }

            fn schema() -> Json {
                $value::schema()
            }
        }
    )*};
}
null_is_none!(i32, u32, SignedDuration);

/// In Go's notation.
impl Value for SignedDuration {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let text = text(node, "a duration such as 1m30s")?;
        let duration = duration::parse(text).map_err(|error| {
            vec![Fault::new(node.at, error.to_string()).advise(duration_advice(&error))]
        })?;
        if duration.is_negative() {
            return Err(vec![Fault::new(node.at, format!("{text} is negative"))]);
        }
        Ok(duration)
    }

    fn show(&self) -> Json {
        json!(duration::format(*self))
    }

    fn schema() -> Json {
        pattern::duration()
    }
}

/// The correct form to write.
pub(super) fn duration_advice(error: &DurationError) -> String {
    match error {
        DurationError::Invalid(_) => "write it like 30s, 1m30s or 2h".to_owned(),
        DurationError::MissingUnit(text) => format!("{text}s if seconds are meant"),
        DurationError::UnknownUnit { unit, text } => match unit.as_str() {
            "M" => format!("{} if minutes are meant", text.replace('M', "m")),
            _ => "the units are ns, us, ms, s, m and h".to_owned(),
        },
    }
}

/// In whole seconds, in Go's notation.
pub(super) mod whole_seconds {
    use super::{Fault, Json, Node, SignedDuration, Value};

    pub(in super::super) fn read(node: &Node) -> Result<SignedDuration, Vec<Fault>> {
        let duration = SignedDuration::read(node)?;
        if duration.subsec_nanos() == 0 {
            Ok(duration)
        } else {
            let fault = Fault::new(node.at, "a grace period is counted in whole seconds");
            Err(vec![fault])
        }
    }

    pub(in super::super) fn show(duration: &SignedDuration) -> Json {
        duration.show()
    }

    pub(in super::super) fn schema() -> Json {
        SignedDuration::schema()
    }
}

/// In humantime's notation without months and years, because `1M` looks like a minute.
pub(super) mod human_duration {
    use super::{Fault, Json, Node, SignedDuration, Value, json, text};

    const TOO_LONG: [&str; 7] = ["M", "month", "months", "y", "yr", "year", "years"];

    pub(in super::super) fn read(node: &Node) -> Result<SignedDuration, Vec<Fault>> {
        let text = text(node, "a duration such as 1s or 1m 30s")?;
        let fault = |message: String| Fault::new(node.at, message);
        let units = text.split(|c: char| !c.is_alphabetic());
        if let Some(unit) = units.into_iter().find(|unit| TOO_LONG.contains(unit)) {
            let years = if unit.starts_with('y') {
                "years"
            } else {
                "months"
            };
            let fault = fault(format!("{text:?} is counted in {years}"));
            return Err(vec![if unit == "M" {
                fault.advise(format!("{} if minutes are meant", text.replace('M', "m")))
            } else {
                fault.advise("the longest unit is a week")
            }]);
        }
        let duration = humantime::parse_duration(text).map_err(|error| {
            let fault = fault(format!("{text:?} is no duration: {error}"));
            vec![fault.advise("write it like 500ms, 1s or 1m 30s")]
        })?;
        if duration.is_zero() {
            return Err(vec![fault("must be greater than zero".to_owned())]);
        }
        SignedDuration::try_from(duration).map_err(|error| vec![fault(error.to_string())])
    }

    pub(in super::super) fn show(duration: &SignedDuration) -> Json {
        duration.show()
    }

    pub(in super::super) fn schema() -> Json {
        json!({ "type": "string", "pattern": r"^\s*([0-9.]+\s*[a-zµ]+\s*)+$" })
    }
}

impl Value for PathBuf {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let path = PathBuf::from(text(node, "a path")?);
        if path.is_absolute() {
            Ok(path)
        } else {
            let fault = mismatch(node, "an absolute path");
            Err(vec![fault.advise("begin it with /")])
        }
    }

    fn show(&self) -> Json {
        json!(self)
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^/" })
    }
}

/// For a setting whose empty text means none.
macro_rules! empty_is_none {
    ($($value:ident),*) => {$(
        impl Value for Option<$value> {
            fn read(node: &Node) -> Result<Self, Vec<Fault>> {
                match &node.content {
                    Content::Text(text) if text.is_empty() => Ok(None),
                    _ => $value::read(node).map(Some),
                }
            }

            fn show(&self) -> Json {
                self.as_ref().map_or_else(|| json!(""), Value::show)
            }

            fn schema() -> Json {
                json!({ "anyOf": [{ "const": "" }, $value::schema()] })
            }
        }
    )*};
}
empty_is_none!(PathBuf, Address, CgroupPath);

/// A cgroup below the root of its hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupPath(PathBuf);

impl CgroupPath {
    /// Relative, without `.` and `..`.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Value for CgroupPath {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let expected = "a cgroup's path below the root, such as kubepods.slice";
        // Kubelets and systemd write it with a slash, as seen from the root of the hierarchy.
        let path = Path::new(text(node, expected)?.trim_start_matches('/'));
        let plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if plain && path.components().next().is_some() {
            Ok(Self(path.components().collect()))
        } else {
            Err(vec![mismatch(node, expected)])
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }

    fn schema() -> Json {
        json!({ "type": ["string", "number"], "minLength": 1 })
    }
}

impl<T: Value> Value for Vec<T> {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let Content::List(items) = &node.content else {
            return Err(vec![mismatch(node, "a list").advise("write [a, b]")]);
        };
        // Every wrong item is reported, not only the first.
        let (mut values, mut faults) = (Self::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            match T::read(item) {
                Ok(value) => values.push(value),
                Err(wrong) => faults.extend(
                    wrong
                        .into_iter()
                        .map(|fault| fault.inside(&format!("[{index}]"))),
                ),
            }
        }
        if faults.is_empty() {
            Ok(values)
        } else {
            Err(faults)
        }
    }

    fn show(&self) -> Json {
        self.iter().map(Value::show).collect()
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": T::schema() })
    }
}

impl<T: Value> Value for BTreeMap<String, T> {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let Content::Map(entries) = &node.content else {
            return Err(vec![mismatch(node, "a map").advise("write {name: value}")]);
        };
        let (mut values, mut faults) = (Self::new(), Vec::new());
        for entry in entries {
            match T::read(&entry.value) {
                Ok(value) => drop(values.insert(entry.key.clone(), value)),
                Err(wrong) => faults.extend(
                    wrong
                        .into_iter()
                        .map(|fault| fault.inside(&format!(".{}", entry.key))),
                ),
            }
        }
        if faults.is_empty() {
            Ok(values)
        } else {
            Err(faults)
        }
    }

    fn show(&self) -> Json {
        self.iter()
            .map(|(name, value)| (name.clone(), value.show()))
            .collect()
    }

    fn schema() -> Json {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }
}

macro_rules! words {
    ($($word:ident),*) => {$(
        impl Value for $word {
            fn read(node: &Node) -> Result<Self, Vec<Fault>> {
                evictd_configuration::read_word(node)
            }

            fn show(&self) -> Json {
                json!(self)
            }

            fn schema() -> Json {
                json!({ "enum": evictd_configuration::words::<Self>() })
            }
        }
    )*};
}
words!(
    MemoryAvailable,
    PodsSource,
    UsageSource,
    EvictMethod,
    ImageGcMode,
    MemoryReclaim,
    Admission,
    ConditionTypes,
    SoftTierFallback,
    Tell,
    UnknownPods,
    PriorityUnknown,
    Enforcement,
    UnknownStats,
    PidRank,
    PodRequests,
    MemoryAndSwap
);

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Node {
        let node = Node::parse(&format!("key: {text}")).unwrap();
        node.get("key").unwrap().value.clone()
    }

    fn faults<T: std::fmt::Debug>(result: Result<T, Vec<Fault>>) -> String {
        let faults = result.unwrap_err();
        let line = |fault: Fault| format!("{}{}; {}", fault.within, fault.message, fault.advice);
        faults.into_iter().map(line).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn human_durations_know_no_months() {
        for (text, millis) in [
            ("1s", 1000),
            ("500ms", 500),
            ("1m 30s", 90_000),
            ("1m30s", 90_000),
        ] {
            let duration = human_duration::read(&value(text)).unwrap();
            assert_eq!(duration, SignedDuration::from_millis(millis));
        }
        let table = [
            (
                "1M",
                r#""1M" is counted in months; 1m if minutes are meant"#,
            ),
            (
                "2 months",
                r#""2 months" is counted in months; the longest unit is a week"#,
            ),
            (
                "1y",
                r#""1y" is counted in years; the longest unit is a week"#,
            ),
            ("0s", "must be greater than zero; "),
        ];
        for (text, expected) in table {
            assert_eq!(faults(human_duration::read(&value(text))), expected);
        }
        for text in ["10", "-5s", "x", "[1s]", "\"\""] {
            assert!(human_duration::read(&value(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_printed_value_is_parsed_to_the_same_value() {
        fn round_trip<T: Value + PartialEq + std::fmt::Debug>(text: &str) {
            let first = T::read(&value(text)).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
            let again = T::read(&Node::from(&first.show())).unwrap();
            assert_eq!(first, again);
        }
        round_trip::<bool>("true");
        round_trip::<u32>("3");
        round_trip::<Option<i32>>("-1");
        round_trip::<SignedDuration>("1h30m");
        round_trip::<PathBuf>("/run/evictd");
        round_trip::<Option<PathBuf>>("\"\"");
        round_trip::<Option<Address>>("127.0.0.1:20261");
        round_trip::<Option<Address>>("$(POD_IP):20261");
        round_trip::<Option<CgroupPath>>("kubepods/burstable");
        round_trip::<Vec<Enforcement>>("[pods, system-reserved]");
        round_trip::<BTreeMap<String, i32>>("{batch: 10, web: 1000}");
        for text in ["1s", "90s", "1500ms", "1h", "7us"] {
            let duration = human_duration::read(&value(text)).unwrap();
            let shown = Node::from(&human_duration::show(&duration));
            assert_eq!(human_duration::read(&shown).unwrap(), duration);
        }
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        assert_eq!(
            faults(bool::read(&value("yes"))),
            "\"yes\" is not true or false; "
        );
        assert_eq!(
            faults(u32::read(&value("-1"))),
            "-1 is not a whole number from 0 to 4294967295; "
        );
        assert_eq!(
            faults(i32::read(&value("9999999999"))),
            "9999999999 is not a whole number from -2147483648 to 2147483647; "
        );
        assert_eq!(
            faults(SignedDuration::read(&value("1M"))),
            "time: unknown unit \"M\" in duration \"1M\"; 1m if minutes are meant"
        );
        assert_eq!(
            faults(SignedDuration::read(&value("10"))),
            "time: missing unit in duration \"10\"; 10s if seconds are meant"
        );
        assert_eq!(
            faults(whole_seconds::read(&value("500ms"))),
            "a grace period is counted in whole seconds; "
        );
        assert_eq!(
            faults(PathBuf::read(&value("run/x"))),
            "\"run/x\" is not an absolute path; begin it with /"
        );
        assert_eq!(
            faults(Vec::<Enforcement>::read(&value("[pods, pots, 3]"))),
            "[1]\"pots\" is not one of none, pods, system-reserved, kube-reserved, system-reserved-compressible, \
             kube-reserved-compressible; did you mean pods? | [2]3 is not one of none, pods, system-reserved, \
             kube-reserved, system-reserved-compressible, kube-reserved-compressible; "
        );
        for text in ["/", "\"..\"", "a/../b", "[a]"] {
            assert!(CgroupPath::read(&value(text)).is_err(), "{text}");
        }
    }
}
