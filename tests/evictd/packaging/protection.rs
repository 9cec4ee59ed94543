//! Which pods may carry the label that protects, by the packaged policy's own CEL.

use crate::packaged::objects;
use cel::{Context, Env, Value as Cel};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Whether a pod with these labels may be written over one with those, in a namespace with these.
fn admitted(labels: &Value, old: Option<&Value>, namespace: &Value) -> bool {
    let policy = objects("components/protected-label/policy.yaml").remove(0);
    let spec = &policy["spec"];
    let env = Arc::new(Env::stdlib());
    let mut context = Context::with_env(Arc::clone(&env));
    let object = |labels: &Value| json!({ "metadata": { "labels": labels } });
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    for (name, value) in [
        ("object", object(labels)),
        ("oldObject", old.map_or(Value::Null, object)),
        ("namespaceObject", object(namespace)),
        ("request", json!({ "operation": operation })),
    ] {
        context.add_variable_from_value(name, cel::to_value(&value).unwrap());
    }
    let mut known: HashMap<String, Cel> = HashMap::new();
    let evaluate = |expression: &Value, context: &Context<'_, '_>| {
        let program = env.compile(expression.as_str().unwrap()).unwrap();
        program.execute(context).unwrap()
    };
    for variable in spec["variables"].as_array().unwrap() {
        let value = evaluate(&variable["expression"], &context);
        known.insert(variable["name"].as_str().unwrap().to_owned(), value);
        context.add_variable_from_value("variables", known.clone());
    }
    let verdict = evaluate(&spec["validations"][0]["expression"], &context);
    verdict == Cel::Bool(true)
}

#[test]
fn only_namespaces_that_may_protect_have_protected_pods() {
    let (plain, protected, other) = (
        json!({"app": "db"}),
        json!({"evictd.dev/protected": "true"}),
        json!({"evictd.dev/protected": ""}),
    );
    let may = json!({"evictd.dev/may-protect": ""});
    for (labels, old, namespace, expected) in [
        (&plain, None, &plain, true),
        (&protected, None, &plain, false),
        (&other, None, &plain, false),
        (&protected, None, &may, true),
        (&protected, Some(&plain), &plain, false),
        (&other, Some(&protected), &plain, false),
        (&protected, Some(&plain), &may, true),
        (&protected, Some(&protected), &plain, true),
        (&plain, Some(&protected), &plain, true),
    ] {
        let found = admitted(labels, old, namespace);
        assert_eq!(found, expected, "{labels} over {old:?} in {namespace}");
    }
}
