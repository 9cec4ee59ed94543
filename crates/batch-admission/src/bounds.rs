//! How much one object may hold. It is counted over the text, before anything of it is kept: an object of a few hundred
//! kilobytes can take gigabytes once it is read.

use super::Endpoint;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// Tasks of a job.
pub const MOST_TASKS: usize = 1000;
/// Containers of all tasks of a job together, those that initialise pods included.
pub const MOST_CONTAINERS: usize = 10_000;
/// Lifecycle policies of a job and of its tasks, and the events that these name, together.
pub const MOST_POLICIES: usize = 2000;
/// Volumes of a job.
pub const MOST_VOLUMES: usize = 500;
/// Resources in one list of amounts of a queue: more than that count nowhere.
pub const MOST_AMOUNTS: usize = 256;
/// Parts of a pod group with policies of their own, or of the path of a queue.
pub const MOST_PARTS: usize = 1000;
/// Bytes that an object may take once it is read; honest jobs of [`MOST_TASKS`] take two thirds of it.
pub const MOST_BYTES: usize = 16 << 20;

/// The size of a map's first field: maps are trees whose nodes have room for several.
const MAP: usize = 640;
/// The size of each further field, without its texts.
const FIELD: usize = 110;
/// The size of a list that is not empty.
const LIST: usize = 128;
/// The size of each item; lists allocate up to twice the room that they need.
const ITEM: usize = 64;
/// The size of a text beside its bytes.
const TEXT: usize = 16;

/// Why an object is refused before it is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// It is no JSON.
    #[error("cannot read the object: {0}")]
    Malformed(String),
    /// A job holds too many things of a kind.
    #[error("the {of} has more than {most} {what}, which is the most that is decided on")]
    Many {
        /// `job`.
        of: &'static str,
        /// `tasks`.
        what: &'static str,
        /// How many it may have.
        most: usize,
    },
    /// It takes too much memory.
    #[error("the object would take more than {} MiB of memory, which is the most that is decided on", MOST_BYTES >> 20)]
    Large,
}

/// Counts the size of JSON text, in constant memory.
pub fn check_text(endpoint: Endpoint, text: &str) -> Result<(), Excess> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    check(endpoint, &mut deserializer)
}

/// Counts the size of a parsed object.
pub(super) fn check_value(endpoint: Endpoint, object: &Value) -> Result<(), Excess> {
    check(endpoint, object)
}

fn check<'de>(endpoint: Endpoint, object: impl Deserializer<'de>) -> Result<(), Excess> {
    let place = match endpoint {
        Endpoint::JobsMutate | Endpoint::JobsValidate => Place::Job,
        Endpoint::QueuesMutate | Endpoint::QueuesValidate => Place::Queue,
        Endpoint::PodGroupsMutate | Endpoint::PodGroupsValidate => Place::Group,
        _ => Place::Other,
    };
    let mut count = Count::default();
    let counted = Counter {
        place,
        count: &mut count,
    }
    .deserialize(object);
    let malformed = |error: &dyn fmt::Display| Excess::Malformed(error.to_string());
    match (counted, count.excess) {
        // Counting stops by an error of the deserializer, which says less than the count.
        (_, Some(excess)) => Err(excess),
        (Err(error), None) => Err(malformed(&error)),
        (Ok(()), None) => Ok(()),
    }
}

/// Where in an object a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Job,
    JobSpec,
    Tasks,
    Task,
    Template,
    PodSpec,
    Containers,
    Policies,
    Policy,
    Events,
    Volumes,
    Queue,
    QueueSpec,
    Guarantee,
    Amounts,
    Group,
    GroupSpec,
    Parts,
    Other,
}

impl Place {
    /// The place of a field of the map that is here.
    fn field(self, name: &str) -> Self {
        match (self, name) {
            (Self::Job, "spec") => Self::JobSpec,
            (Self::JobSpec, "tasks") => Self::Tasks,
            (Self::JobSpec, "volumes") => Self::Volumes,
            (Self::JobSpec | Self::Task, "policies") => Self::Policies,
            (Self::Policy, "events") => Self::Events,
            (Self::Queue, "spec") => Self::QueueSpec,
            (Self::QueueSpec, "capability" | "deserved") | (Self::Guarantee, "resource") => {
                Self::Amounts
            }
            (Self::QueueSpec, "guarantee") => Self::Guarantee,
            (Self::Group, "spec") => Self::GroupSpec,
            (Self::GroupSpec, "subGroupPolicy") => Self::Parts,
            (Self::Task, "template") => Self::Template,
            (Self::Template, "spec") => Self::PodSpec,
            (Self::PodSpec, "containers" | "initContainers" | "ephemeralContainers") => {
                Self::Containers
            }
            _ => Self::Other,
        }
    }

    /// The place of an item of the list that is here.
    fn item(self) -> Self {
        match self {
            Self::Tasks => Self::Task,
            Self::Policies => Self::Policy,
            _ => Self::Other,
        }
    }
}

#[derive(Debug, Default)]
struct Count {
    tasks: usize,
    containers: usize,
    policies: usize,
    volumes: usize,
    parts: usize,
    bytes: usize,
    /// Why counting stopped.
    excess: Option<Excess>,
}

impl Count {
    fn bytes(&mut self, more: usize) -> bool {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > MOST_BYTES {
            self.excess = Some(Excess::Large);
        }
        self.excess.is_none()
    }

    /// Counts an item of the list at this place.
    fn item(&mut self, place: Place) -> bool {
        let (count, of, what, most) = match place {
            Place::Tasks => (&mut self.tasks, "job", "tasks", MOST_TASKS),
            Place::Containers => (&mut self.containers, "job", "containers", MOST_CONTAINERS),
            Place::Policies | Place::Events => {
                (&mut self.policies, "job", "policies", MOST_POLICIES)
            }
            Place::Volumes => (&mut self.volumes, "job", "volumes", MOST_VOLUMES),
            Place::Parts => (&mut self.parts, "pod group", "sub groups", MOST_PARTS),
            _ => return self.bytes(ITEM),
        };
        *count += 1;
        let fits = *count <= most;
        self.fits(fits, Excess::Many { of, what, most }) && self.bytes(ITEM)
    }

    fn fits(&mut self, fits: bool, excess: Excess) -> bool {
        if !fits {
            self.excess = Some(excess);
        }
        fits
    }

    /// Counts the fields of the map at this place, which are so many up to now.
    fn field(&mut self, place: Place, fields: usize) -> bool {
        let excess = Excess::Many {
            of: "queue",
            what: "resources in one list",
            most: MOST_AMOUNTS,
        };
        self.fits(place != Place::Amounts || fields <= MOST_AMOUNTS, excess)
    }
}

/// Counts one value, and keeps nothing of it.
struct Counter<'c> {
    place: Place,
    count: &'c mut Count,
}

impl Counter<'_> {
    fn of_text<E: Error>(self, text: &str) -> Result<(), E> {
        let counted = self.count.bytes(TEXT + text.len());
        counted.then_some(()).ok_or_else(stopped)
    }
}

/// The reason stands in the count.
fn stopped<E: Error>() -> E {
    E::custom("too much")
}

impl<'de> DeserializeSeed<'de> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.of_text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (place, count) = (self.place, self.count);
        // An empty list allocates nothing, so a list counts with its first item.
        let mut bytes = LIST;
        loop {
            let item = Item {
                place,
                count,
                bytes,
            };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
            bytes = 0;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (place, count) = (self.place, self.count);
        // The first field allocates the node that further fields share.
        let (mut bytes, mut fields_so_far) = (MAP, 0);
        while let Some(name) = fields.next_key::<Name<'de>>()? {
            fields_so_far += 1;
            if !count.field(place, fields_so_far) || !count.bytes(bytes + TEXT + name.0.len()) {
                return Err(stopped());
            }
            bytes = FIELD;
            let place = place.field(&name.0);
            fields.next_value_seed(Counter { place, count })?;
        }
        Ok(())
    }
}

/// One item of a list, which is counted before it is looked at.
struct Item<'c> {
    /// The list's.
    place: Place,
    count: &'c mut Count,
    /// The size of the list itself, with its first item.
    bytes: usize,
}

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self {
            place,
            count,
            bytes,
        } = self;
        // Counted before it is read, so that a long list ends here and not in memory.
        if !count.bytes(bytes) || !count.item(place) {
            return Err(stopped());
        }
        let place = place.item();
        Counter { place, count }.deserialize(deserializer)
    }
}

/// The name of a field, borrowed where the text has it as it is.
struct Name<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;
        impl<'de> Visitor<'de> for Borrowing {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(name.into()))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(name.to_owned().into()))
            }
        }
        deserializer.deserialize_str(Borrowing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_job(spec: &Value) -> Result<(), Excess> {
        let job = json!({"metadata": {"name": "j"}, "spec": spec});
        let of_text = check_text(Endpoint::JobsMutate, &job.to_string());
        assert_eq!(of_text, check_value(Endpoint::JobsValidate, &job));
        of_text
    }

    #[test]
    fn each_kind_of_thing_has_its_bound_wherever_it_stands() {
        let many = |what, most| {
            Err(Excess::Many {
                of: "job",
                what,
                most,
            })
        };
        let tasks = |count: usize| json!({"tasks": vec![json!({}); count]});
        assert_eq!(of_job(&tasks(MOST_TASKS)), Ok(()));
        assert_eq!(of_job(&tasks(MOST_TASKS + 1)), many("tasks", MOST_TASKS));

        let with = |kind: &str, count: usize| {
            let containers = vec![json!({}); count];
            json!({"template": {"spec": {kind: containers}}})
        };
        let half = MOST_CONTAINERS / 2;
        for kind in ["containers", "initContainers", "ephemeralContainers"] {
            let fits = json!({"tasks": [with("containers", half), with(kind, half)]});
            assert_eq!(of_job(&fits), Ok(()));
            let over = json!({"tasks": [with("containers", half), with(kind, half + 1)]});
            assert_eq!(of_job(&over), many("containers", MOST_CONTAINERS));
        }

        let policies = vec![json!({}); MOST_POLICIES];
        let over = json!({"policies": policies, "tasks": [{"policies": [{}]}]});
        assert_eq!(of_job(&over), many("policies", MOST_POLICIES));
        let events = json!([{"events": vec!["PodFailed"; MOST_POLICIES]}]);
        let over = of_job(&json!({"tasks": [{"policies": events}]}));
        assert_eq!(over, many("policies", MOST_POLICIES));
        let volumes = json!({"volumes": vec![json!({}); MOST_VOLUMES + 1]});
        assert_eq!(of_job(&volumes), many("volumes", MOST_VOLUMES));
    }

    #[test]
    fn lists_of_queues_and_pod_groups_have_bounds() {
        let amounts = |count: usize| -> Value {
            let names = (0..count).map(|index| (format!("r{index}"), json!(1)));
            Value::Object(names.collect())
        };
        let of = |endpoint, spec: Value| check_value(endpoint, &json!({"spec": spec}));
        let all = |count| {
            json!({"capability": amounts(count), "deserved": amounts(MOST_AMOUNTS),
                "guarantee": {"resource": amounts(count)}})
        };
        assert_eq!(of(Endpoint::QueuesValidate, all(MOST_AMOUNTS)), Ok(()));
        let over = of(Endpoint::QueuesMutate, all(MOST_AMOUNTS + 1)).unwrap_err();
        let reported = "the queue has more than 256 resources in one list, which is the most that is decided on";
        assert_eq!(over.to_string(), reported);
        let parts = |count: usize| json!({"subGroupPolicy": vec![json!({}); count]});
        assert_eq!(of(Endpoint::PodGroupsMutate, parts(MOST_PARTS)), Ok(()));
        let over = of(Endpoint::PodGroupsValidate, parts(MOST_PARTS + 1)).unwrap_err();
        assert!(
            over.to_string()
                .starts_with("the pod group has more than 1000 sub groups")
        );
    }

    #[test]
    fn what_takes_much_memory_is_refused_of_every_kind() {
        let fields = MOST_BYTES / MAP;
        let small = json!({"spec": {"capability": {"cpu": 1}}});
        let large = json!({"spec": {"x": vec![json!({"": 0}); fields]}});
        for endpoint in Endpoint::ALL {
            assert_eq!(check_text(endpoint, &small.to_string()), Ok(()));
            let checked = check_text(endpoint, &large.to_string());
            assert_eq!(checked, Err(Excess::Large));
        }
        let escaped = format!(r#"{{"\u0061": "{}"}}"#, r"\u003c".repeat(100));
        assert_eq!(check_text(Endpoint::PodsValidate, &escaped), Ok(()));
        let broken = check_text(Endpoint::PodsValidate, "{");
        assert!(matches!(broken, Err(Excess::Malformed(_))), "{broken:?}");
    }
}
