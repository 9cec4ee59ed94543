//! Access: bearer tokens and the rules of roles.

use crate::call::Call;
use crate::status::Status;
use serde_json::Value;
use std::collections::BTreeMap;

/// Who asks without a token. That is everybody who uses kubectl over plain HTTP, which sends none.
const ANONYMOUS: &str = "system:anonymous";

/// Who asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct User {
    pub(crate) name: String,
    /// The node of the pod that a token was given to.
    pub(crate) node: Option<String>,
}

/// The rights of a user.
#[derive(Debug, Clone)]
struct Holder {
    user: User,
    /// `None`: everything.
    rules: Option<Value>,
    expired: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Access {
    holders: BTreeMap<String, Holder>,
    /// Whether who has no token may do nothing.
    pub(crate) tokens_only: bool,
}

impl Access {
    pub(crate) fn grant(&mut self, token: &str, user: User, rules: Option<Value>) {
        let holder = Holder {
            user,
            rules,
            expired: false,
        };
        self.holders.insert(token.to_owned(), holder);
    }

    pub(crate) fn expire(&mut self, token: &str) {
        if let Some(holder) = self.holders.get_mut(token) {
            holder.expired = true;
        }
    }

    /// The user of a token; `None` if it is unknown or has expired.
    pub(crate) fn user(&self, token: &str) -> Option<&User> {
        let holder = self.holders.get(token).filter(|holder| !holder.expired);
        holder.map(|holder| &holder.user)
    }

    /// The rules of each token that this user was given; `None` for everything.
    pub(crate) fn rules_of(&self, user: &str) -> impl Iterator<Item = Option<&Value>> {
        let of_user = move |holder: &&Holder| holder.user.name == user;
        let holders = self.holders.values().filter(of_user);
        holders.map(|holder| holder.rules.as_ref())
    }

    /// Whether requests without a token are reviewed, and may do everything.
    pub(crate) fn may_do_everything(&self, user: &str) -> bool {
        user == ANONYMOUS && !self.tokens_only
    }

    /// Who it is that asks, by the header `Authorization`, and whether they may.
    pub(crate) fn check(
        &self,
        authorization: &str,
        call: Option<&Call>,
    ) -> (User, Result<(), Status>) {
        let Some(token) = authorization.strip_prefix("Bearer ") else {
            let refused = self.tokens_only.then(Status::unauthorized);
            let anonymous = User {
                name: ANONYMOUS.to_owned(),
                node: None,
            };
            return (anonymous, refused.map_or(Ok(()), Err));
        };
        let Some(holder) = self
            .holders
            .get(token.trim())
            .filter(|holder| !holder.expired)
        else {
            return (User::default(), Err(Status::unauthorized()));
        };
        let allowed = match (&holder.rules, call) {
            (Some(rules), Some(call)) => rules
                .as_array()
                .into_iter()
                .flatten()
                .any(|rule| allows(rule, call)),
            _ => true,
        };
        let refused = call
            .filter(|_| !allowed)
            .map(|call| forbidden(call, &holder.user.name));
        (holder.user.clone(), refused.map_or(Ok(()), Err))
    }
}

/// Whether a rule, as a `Role` or `ClusterRole` holds it, lets this through.
fn allows(rule: &Value, call: &Call) -> bool {
    let holds = |field: &str, wanted: &str| {
        let listed = rule[field].as_array();
        listed.is_some_and(|listed| listed.iter().any(|one| one == wanted || one == "*"))
    };
    let any_name = rule["resourceNames"].as_array().is_none_or(Vec::is_empty);
    holds("verbs", call.verb)
        && holds("apiGroups", call.resource.group)
        && holds("resources", &call.what())
        && (any_name || holds("resourceNames", &call.name))
}

fn forbidden(call: &Call, user: &str) -> Status {
    let place = match call.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {user:?} cannot {} resource {:?} in API group {:?} {place}",
        call.verb,
        call.what(),
        call.resource.group
    );
    Status::forbidden(call.resource, &call.name, &why)
}
