//! Validating admission policies: those that are stored and bound are enforced, by their own CEL.
//!
//! A policy with a field that is not implemented here denies and names the field, so that no policy is enforced in part.

use crate::access::{Access, User};
use crate::authorizer;
use crate::call::Call;
use crate::resource::Resource;
use crate::status::Status;
use crate::store::{Key, Store};
use cel::{Context, Program, Value as Cel};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The implemented part of a policy's `spec`, with `failurePolicy: Fail`.
const UNDERSTOOD: [&str; 5] = [
    "paramKind",
    "matchConstraints",
    "matchConditions",
    "variables",
    "validations",
];

/// Programs by their text, since to read one takes longer than to run it.
#[derive(Default)]
pub(crate) struct Programs(HashMap<String, Arc<Program>>);

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} programs", self.0.len())
    }
}

/// A write that is about to be carried out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Review<'a> {
    pub(crate) user: &'a User,
    pub(crate) access: &'a Access,
    pub(crate) call: &'a Call,
    /// The object as it would be stored; null if it would be deleted.
    pub(crate) object: &'a Value,
    /// As it is; null where there is none.
    pub(crate) old: &'a Value,
}

impl Review<'_> {
    fn operation(&self) -> &'static str {
        match self.call.verb {
            "delete" | "deletecollection" => "DELETE",
            "create" => "CREATE",
            _ if self.old.is_null() => "CREATE",
            _ => "UPDATE",
        }
    }

    /// The variable `request`. Empty fields are absent, as on a real server.
    fn request(&self) -> Value {
        let (call, resource) = (self.call, self.call.resource);
        let mut request = json!({
            "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
            "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            "operation": self.operation(),
            "userInfo": {"username": self.user.name},
        });
        for (field, text) in [
            ("name", &call.name),
            ("namespace", &call.namespace),
            ("subResource", &call.subresource),
        ] {
            if !text.is_empty() {
                request[field] = text.clone().into();
            }
        }
        if let Some(node) = &self.user.node {
            request["userInfo"]["extra"] =
                json!({"authentication.kubernetes.io/node-name": [node]});
        }
        request
    }
}

/// Whether there is any policy.
pub(crate) fn is_any(store: &Store) -> bool {
    store
        .list("validatingadmissionpolicies", "")
        .next()
        .is_some()
}

/// Asks every policy that has a binding.
pub(crate) fn check(
    store: &Store,
    programs: &mut Programs,
    review: Review<'_>,
) -> Result<(), Status> {
    for (_, binding) in store.list("validatingadmissionpolicybindings", "") {
        let spec = &binding["spec"];
        let policies = store.list("validatingadmissionpolicies", "");
        let mut bound = policies
            .filter(|(key, _)| spec["policyName"] == *key.name)
            .map(|(_, policy)| policy);
        let denies = spec["validationActions"] == json!(["Deny"]);
        let Some(policy) = bound.next().filter(|_| denies) else {
            continue;
        };
        let mut asked = Asked::new(programs, review)?;
        let params = params(store, &policy["spec"]["paramKind"], &spec["paramRef"]);
        if let Err(Denial { why, reason }) = asked.policy(&policy["spec"], params) {
            let name = |object: &Value| {
                let name = object["metadata"]["name"].as_str();
                name.unwrap_or_default().to_owned()
            };
            let why = format!(
                "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {why}",
                name(policy),
                name(binding)
            );
            let code = if reason == "Forbidden" { 403 } else { 422 };
            return Err(Status {
                code,
                reason,
                ..Status::forbidden(review.call.resource, &review.call.name, &why)
            });
        }
    }
    Ok(())
}

/// The parameter of a binding, one object by its name; null where there is none to have.
fn params(store: &Store, kind: &Value, reference: &Value) -> Result<Value, String> {
    if kind.is_null() {
        return Ok(Value::Null);
    }
    if reference["parameterNotFoundAction"] != "Deny" || !reference["selector"].is_null() {
        return Err("this server understands a parameter by name only, which denies".to_owned());
    }
    let resource = Resource::of(text(&kind["apiVersion"]), text(&kind["kind"]));
    let resource = resource.ok_or("this server does not understand paramKind")?;
    let found = store.get(&Key {
        stored: resource.stored,
        namespace: text(&reference["namespace"]).to_owned(),
        name: text(&reference["name"]).to_owned(),
    });
    let missing =
        "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned();
    found.map(|found| Value::clone(found)).ok_or(missing)
}

/// Why not.
struct Denial {
    why: String,
    reason: &'static str,
}

impl From<String> for Denial {
    fn from(why: String) -> Self {
        let reason = "Invalid";
        Self { why, reason }
    }
}

/// One review, as the expressions see it.
struct Asked<'a> {
    programs: &'a mut Programs,
    review: Review<'a>,
    context: Context<'a, 'a>,
    variables: HashMap<String, Cel>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl<'a> Asked<'a> {
    fn new(programs: &'a mut Programs, review: Review<'a>) -> Result<Self, Status> {
        let env = authorizer::env().map_err(Status::bad_request)?;
        let mut context = Context::with_env(env);
        authorizer::add(&mut context, review.access, &review.user.name);
        let request = review.request();
        for (name, value) in [
            ("object", review.object),
            ("oldObject", review.old),
            ("request", &request),
        ] {
            let value = cel::to_value(value);
            let value = value.map_err(|error| Status::bad_request(format!("{name}: {error}")))?;
            context.add_variable_from_value(name, value);
        }
        Ok(Self {
            programs,
            review,
            context,
            variables: HashMap::new(),
        })
    }

    fn policy(&mut self, spec: &Value, params: Result<Value, String>) -> Result<(), Denial> {
        let fields = spec.as_object().into_iter().flatten();
        for (field, value) in fields {
            let understood = match field.as_str() {
                "failurePolicy" => value == "Fail",
                field => UNDERSTOOD.contains(&field),
            };
            if !understood {
                return Err(format!("this server does not understand {field}").into());
            }
        }
        if !matches_constraints(&spec["matchConstraints"], self.review.call, self.review)? {
            return Ok(());
        }
        let params = cel::to_value(params?).map_err(|error| format!("params: {error}"))?;
        self.context.add_variable_from_value("params", params);
        for condition in list(&spec["matchConditions"]) {
            if !self.holds(text(&condition["expression"]))? {
                return Ok(());
            }
        }
        for variable in list(&spec["variables"]) {
            // One that fails is unknown to whatever needs it.
            if let Ok(value) = self.evaluate(text(&variable["expression"])) {
                self.variables
                    .insert(text(&variable["name"]).to_owned(), value);
                self.context
                    .add_variable_from_value("variables", self.variables.clone());
            }
        }
        for validation in list(&spec["validations"]) {
            if !self.holds(text(&validation["expression"]))? {
                return Err(self.denial(validation));
            }
        }
        Ok(())
    }

    fn denial(&mut self, validation: &Value) -> Denial {
        let message = match self.evaluate(text(&validation["messageExpression"])) {
            Ok(Cel::String(message)) => message.to_string(),
            _ => text(&validation["message"]).to_owned(),
        };
        let why = match message.as_str() {
            "" => format!("failed expression: {}", text(&validation["expression"])),
            message => message.to_owned(),
        };
        let reason = if validation["reason"] == "Forbidden" {
            "Forbidden"
        } else {
            "Invalid"
        };
        Denial { why, reason }
    }

    fn holds(&mut self, expression: &str) -> Result<bool, String> {
        match self.evaluate(expression)? {
            Cel::Bool(holds) => Ok(holds),
            other => Err(format!(
                "expression '{expression}' is no bool but {other:?}"
            )),
        }
    }

    fn evaluate(&mut self, expression: &str) -> Result<Cel, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("expression '{expression}' resulted in error: {error}")
        };
        let known = self.programs.0.get(expression).map(Arc::clone);
        let program = match known {
            Some(program) => program,
            None => Arc::new(
                authorizer::env()?
                    .compile(expression)
                    .map_err(|error| failed(&error))?,
            ),
        };
        let kept = Arc::clone(&program);
        self.programs.0.insert(expression.to_owned(), kept);
        program
            .execute(&self.context)
            .map_err(|error| failed(&error))
    }
}

fn matches_constraints(
    constraints: &Value,
    call: &Call,
    review: Review<'_>,
) -> Result<bool, String> {
    let fields = constraints.as_object().into_iter().flatten();
    for (field, value) in fields {
        let understood =
            field == "resourceRules" || (field == "matchPolicy" && value == "Equivalent");
        if !understood {
            return Err(format!(
                "this server does not understand matchConstraints.{field}"
            ));
        }
    }
    let matches = |rule: &Value| covers(rule, call, review.operation());
    Ok(list(&constraints["resourceRules"]).any(matches))
}

/// Whether a rule of a policy or a webhook is about this operation on these objects.
pub(crate) fn covers(rule: &Value, call: &Call, operation: &str) -> bool {
    let resource = call.resource;
    let holds =
        |field: &str, wanted: &str| list(&rule[field]).any(|one| one == wanted || one == "*");
    let what = call.what();
    let below = |one: &Value| {
        let all = text(one).strip_suffix("/*");
        !call.subresource.is_empty() && all == Some(resource.plural)
    };
    holds("apiGroups", resource.group)
        && holds("apiVersions", resource.version)
        && holds("operations", operation)
        && list(&rule["resources"]).any(|one| *one == what.as_str() || one == "*/*" || below(one))
}
