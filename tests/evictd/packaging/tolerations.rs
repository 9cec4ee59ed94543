//! Which pods get tolerations of evictd's taints, by the packaged policy's own CEL.

use crate::packaged::objects;
use cel::{Context, Env, Value as Cel};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The expression with plain maps for typed objects, which the interpreter cannot put into each other.
fn untyped(expression: &str) -> String {
    let mut text = expression
        .replace("JSONPatch{", "{")
        .replace("Object.spec.tolerations{", "{");
    for field in ["op", "path", "value", "key", "operator", "effect"] {
        for before in ["{", " "] {
            let bare = format!("{before}{field}: ");
            text = text.replace(&bare, &format!("{before}'{field}': "));
        }
    }
    text
}

fn plain(value: &Cel) -> Value {
    match value {
        Cel::String(text) => text.as_str().into(),
        Cel::List(list) => list.iter().map(plain).collect(),
        Cel::Map(map) => {
            let fields = map.map.iter();
            let fields = fields.map(|(name, value)| (name.to_string(), plain(value)));
            Value::Object(fields.collect())
        }
        other => panic!("{other:?}"),
    }
}

/// The pod as the policy makes it.
fn admitted(pod: &Value) -> Value {
    let policy = objects("components/tolerations/policy.yaml").remove(0);
    let spec = &policy["spec"];
    let env = Arc::new(Env::stdlib());
    let mut context = Context::with_env(Arc::clone(&env));
    context.add_variable_from_value("object", cel::to_value(pod).unwrap());
    let mut known: HashMap<String, Cel> = HashMap::new();
    let evaluate = |expression: &Value, context: &Context<'_, '_>| {
        let program = env.compile(&untyped(expression.as_str().unwrap())).unwrap();
        program.execute(context).unwrap()
    };
    for variable in spec["variables"].as_array().unwrap() {
        let value = evaluate(&variable["expression"], &context);
        known.insert(variable["name"].as_str().unwrap().to_owned(), value);
        context.add_variable_from_value("variables", known.clone());
    }
    let patches = evaluate(&spec["mutations"][0]["jsonPatch"]["expression"], &context);
    let mut pod = pod.clone();
    for patch in plain(&patches).as_array().unwrap() {
        assert_eq!(patch["op"], "add");
        match patch["path"].as_str().unwrap() {
            "/spec/tolerations" => pod["spec"]["tolerations"] = patch["value"].clone(),
            "/spec/tolerations/-" => {
                let list = pod["spec"]["tolerations"].as_array_mut();
                list.expect("a list to add to").push(patch["value"].clone());
            }
            other => panic!("{other}"),
        }
    }
    pod
}

fn keys(pod: &Value) -> Vec<String> {
    let all = pod["spec"]["tolerations"].as_array().into_iter().flatten();
    all.map(|one| one["key"].as_str().unwrap_or("every").to_owned())
        .collect()
}

#[test]
fn a_toleration_of_a_built_in_pressure_taint_covers_ours() {
    let builtin = |pressure: &str| json!({"key": format!("node.kubernetes.io/{pressure}"), "operator": "Exists"});
    let ours =
        |pressure: &str| json!({"key": format!("evictd.dev/{pressure}"), "operator": "Exists"});
    let memory = "memory-pressure";
    let table = [
        (json!({}), vec![]),
        (
            json!({"tolerations": [{"operator": "Exists"}]}),
            vec!["every"],
        ),
        (
            json!({"tolerations": [builtin(memory), builtin("not-ready")]}),
            vec![
                "node.kubernetes.io/memory-pressure",
                "node.kubernetes.io/not-ready",
                "evictd.dev/memory-pressure",
            ],
        ),
        (
            json!({"tolerations": [ours(memory), builtin(memory)]}),
            vec![
                "evictd.dev/memory-pressure",
                "node.kubernetes.io/memory-pressure",
            ],
        ),
    ];
    for (spec, expected) in table {
        let pod = json!({"metadata": {"name": "a"}, "spec": spec});
        assert_eq!(keys(&admitted(&pod)), expected, "{pod}");
    }
    let owned = |kind: &str| json!({"metadata": {"ownerReferences": [{"kind": kind}]}, "spec": {}});
    assert_eq!(keys(&admitted(&owned("ReplicaSet"))), [""; 0]);
    let made = admitted(&owned("DaemonSet"));
    assert_eq!(
        keys(&made),
        [
            "evictd.dev/memory-pressure",
            "evictd.dev/disk-pressure",
            "evictd.dev/pid-pressure"
        ]
    );
    let toleration =
        json!({"key": "evictd.dev/memory-pressure", "operator": "Exists", "effect": "NoSchedule"});
    assert_eq!(made["spec"]["tolerations"][0], toleration);
}
