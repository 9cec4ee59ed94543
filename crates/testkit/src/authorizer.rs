//! The variable `authorizer` of policies: the rights of the user of a request.

use crate::access::Access;
use crate::review;
use cel::common::types::{CelBool, CelString, Type};
use cel::common::value::{StaticVal, Val};
use cel::{Context, Env};
use serde_json::{Value, json};
use std::any::Any;
use std::sync::{Arc, LazyLock};

static AUTHORIZER: Type = Type::new_unspecified_type("kubernetes.authorization.Authorizer");

/// CEL as Kubernetes has it in policies, as far as it is used.
static ENVIRONMENT: LazyLock<Result<Arc<Env>, String>> =
    LazyLock::new(|| environment().map(Arc::new));

fn environment() -> Result<Env, String> {
    let mut env = Env::stdlib();
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    env.add_type(AUTHORIZER.to_owned())
        .map_err(|error| failed(&error))?;
    env.add_extension(cel::extensions::strings)
        .map_err(|error| failed(&error))?;
    cel::add_member_overload!(env, fn group: (Authorizer, CelString<'_>) -> Authorizer)
        .map_err(|error| failed(&error))?;
    cel::add_member_overload!(env, fn resource: (Authorizer, CelString<'_>) -> Authorizer)
        .map_err(|error| failed(&error))?;
    cel::add_member_overload!(env, fn namespace: (Authorizer, CelString<'_>) -> Authorizer)
        .map_err(|error| failed(&error))?;
    cel::add_member_overload!(env, fn name: (Authorizer, CelString<'_>) -> Authorizer)
        .map_err(|error| failed(&error))?;
    cel::add_member_overload!(env, fn check: (Authorizer, CelString<'_>) -> Authorizer)
        .map_err(|error| failed(&error))?;
    cel::add_member_overload!(env, fn allowed: (Authorizer) -> CelBool)
        .map_err(|error| failed(&error))?;
    Ok(env)
}

/// The environment for which policies are compiled.
pub(crate) fn env() -> Result<Arc<Env>, String> {
    ENVIRONMENT.clone()
}

/// A question about a user's rights, as far as it has been put.
#[derive(Debug, Clone)]
struct Authorizer {
    /// The rules of each token of the user; `None` allows everything.
    rules: Arc<Vec<Option<Value>>>,
    /// `spec` of a `SubjectAccessReview`.
    asked: Value,
}

/// Adds the variable for this user.
pub(crate) fn add(context: &mut Context<'_, '_>, access: &Access, user: &str) {
    let rules = access.rules_of(user).map(Option::<&Value>::cloned);
    let mut rules: Vec<_> = rules.collect();
    if access.may_do_everything(user) {
        rules.push(None);
    }
    let authorizer = Authorizer {
        rules: Arc::new(rules),
        asked: json!({"resourceAttributes": {}}),
    };
    context.add_variable_as_val("authorizer", Box::new(authorizer));
}

impl Authorizer {
    fn with(&self, field: &str, text: &CelString<'_>) -> Self {
        let mut more = self.clone();
        more.asked["resourceAttributes"][field] = text.inner().into();
        more
    }
}

fn group(this: &Authorizer, name: &CelString<'_>) -> Authorizer {
    this.with("group", name)
}

fn resource(this: &Authorizer, name: &CelString<'_>) -> Authorizer {
    this.with("resource", name)
}

fn namespace(this: &Authorizer, name: &CelString<'_>) -> Authorizer {
    this.with("namespace", name)
}

fn name(this: &Authorizer, name: &CelString<'_>) -> Authorizer {
    this.with("name", name)
}

fn check(this: &Authorizer, verb: &CelString<'_>) -> Authorizer {
    this.with("verb", verb)
}

fn allowed(this: &Authorizer) -> CelBool {
    let covers = |rules: &Option<Value>| match rules {
        Some(rules) => review::covers(rules, &this.asked),
        None => true,
    };
    this.rules.iter().any(covers).into()
}

impl Val for Authorizer {
    fn get_type(&self) -> &Type {
        &AUTHORIZER
    }

    fn cel_type() -> &'static Type {
        &AUTHORIZER
    }

    fn equals(&self, _: &dyn Val) -> bool {
        false
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Authorizer {}
