//! Label selectors. They are parsed by serde; this module adds the place to its errors.

use super::value::Value;
use evictd_configuration::{Content, Fault, Node, mismatch};
use evictd_eviction::rules::LabelSelector;
use evictd_pod::selector::Operator;
use serde_json::{Value as Json, json};
use serde_path_to_error::{Path, Segment};

impl Value for LabelSelector {
    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        if !matches!(node.content, Content::Map(_)) {
            return Err(vec![mismatch(node, "a label selector")]);
        }
        let selector: Self = serde_path_to_error::deserialize(node.to_json()).map_err(|error| {
            let at = deepest(node, error.path()).at;
            let path = error.path().to_string();
            let fault = Fault::new(at, error.into_inner().to_string());
            vec![if path == "." {
                fault
            } else {
                fault.inside(&format!(".{path}"))
            }]
        })?;
        let faults: Vec<Fault> = demands_without_sense(&selector)
            .map(|(index, message)| {
                Fault::new(node.at, message).inside(&format!(".matchExpressions[{index}]"))
            })
            .collect();
        if faults.is_empty() {
            Ok(selector)
        } else {
            Err(faults)
        }
    }

    fn show(&self) -> Json {
        json!(self)
    }

    fn schema() -> Json {
        let operators = ["In", "NotIn", "Exists", "DoesNotExist"];
        let texts = json!({ "type": "array", "items": { "type": "string" } });
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "matchLabels": { "type": "object", "additionalProperties": { "type": "string" } },
                "matchExpressions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["key", "operator"],
                        "properties": {
                            "key": { "type": "string" },
                            "operator": { "enum": operators },
                            "values": texts,
                        },
                    },
                },
            },
        })
    }
}

fn demands_without_sense(selector: &LabelSelector) -> impl Iterator<Item = (usize, &'static str)> {
    let message = |operator: Operator, no_values: bool| match operator {
        Operator::In | Operator::NotIn if no_values => {
            Some("In and NotIn need at least one of values")
        }
        Operator::Exists | Operator::DoesNotExist if !no_values => {
            Some("Exists and DoesNotExist take no values")
        }
        _ => None,
    };
    selector
        .match_expressions
        .iter()
        .enumerate()
        .filter_map(move |(index, demand)| {
            Some((index, message(demand.operator, demand.values.is_empty())?))
        })
}

/// The last existing node on the path.
fn deepest<'a>(node: &'a Node, path: &Path) -> &'a Node {
    let mut node = node;
    for segment in path {
        let next = match (segment, &node.content) {
            (Segment::Seq { index }, Content::List(items)) => items.get(*index),
            (Segment::Map { key }, Content::Map(_)) => node.get(key).map(|entry| &entry.value),
            _ => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LabelSelector, String> {
        let node = Node::parse(text).unwrap();
        LabelSelector::read(&node).map_err(|faults| {
            let at = faults[0].at.unwrap();
            format!(
                "{}:{} {}: {}",
                at.line, at.column, faults[0].within, faults[0].message
            )
        })
    }

    #[test]
    fn selectors_are_read_and_shown() {
        let text = "{matchLabels: {app: db}, matchExpressions: [{key: tier, operator: In, values: [gold]}]}";
        let selector = read(text).unwrap();
        assert_eq!(
            LabelSelector::read(&Node::from(&selector.show())).unwrap(),
            selector
        );
    }

    #[test]
    fn mistakes_keep_their_place() {
        let wrong_operator = "matchExpressions:\n- key: tier\n  operator: Is\n";
        assert_eq!(
            read(wrong_operator).unwrap_err(),
            "3:13 .matchExpressions[0].operator: unknown variant `Is`, expected one of `In`, `NotIn`, `Exists`, `DoesNotExist`"
        );
        assert!(
            read("matchLabel: {a: b}")
                .unwrap_err()
                .contains("unknown field `matchLabel`")
        );
        for text in [
            "matchExpressions: [{key: a, operator: In}]",
            "matchExpressions: [{key: a, operator: Exists, values: [b]}]",
            "[]",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
