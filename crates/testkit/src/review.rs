//! Reviews of tokens and of access. They are not stored.

use crate::access::Access;
use serde_json::{Value, json};

/// `None` where the call is not for a review.
pub(crate) fn answer(access: &Access, plural: &str, review: &Value) -> Option<Value> {
    let status = match plural {
        "tokenreviews" => token(access, &review["spec"]),
        "subjectaccessreviews" => subject(access, &review["spec"]),
        _ => return None,
    };
    let mut answer = review.clone();
    answer["status"] = status;
    Some(answer)
}

fn token(access: &Access, spec: &Value) -> Value {
    let Some(user) = access.user(spec["token"].as_str().unwrap_or_default()) else {
        return json!({"user": {}, "error": "[invalid bearer token]"});
    };
    let account = user.name.strip_prefix("system:serviceaccount:");
    let namespace = account.and_then(|account| account.split(':').next());
    let mut groups = Vec::new();
    if let Some(namespace) = namespace {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    groups.push("system:authenticated".to_owned());
    json!({"authenticated": true, "user": {"username": user.name, "groups": groups}})
}

fn subject(access: &Access, spec: &Value) -> Value {
    let user = spec["user"].as_str().unwrap_or_default();
    let allowed = access
        .rules_of(user)
        .any(|rules| rules.is_none_or(|rules| covers(rules, spec)));
    if allowed {
        json!({"allowed": true, "reason": "a rule that was granted allows it"})
    } else {
        json!({"allowed": false})
    }
}

/// Whether one of these rules of a `ClusterRole` allows the request of the review.
pub(crate) fn covers(rules: &Value, spec: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let listed = |list: &Value, wanted: &str| {
        let mut list = list.as_array().into_iter().flatten();
        list.any(|one| one == wanted || one == "*")
    };
    let path = &spec["nonResourceAttributes"];
    let of = &spec["resourceAttributes"];
    let what = match text(&of["subresource"]).as_str() {
        "" => text(&of["resource"]),
        below => format!("{}/{below}", text(&of["resource"])),
    };
    rules.as_array().into_iter().flatten().any(|rule| {
        if !path.is_null() {
            let mut urls = rule["nonResourceURLs"].as_array().into_iter().flatten();
            return listed(&rule["verbs"], &text(&path["verb"]))
                && urls.any(|url| fits(&text(url), &text(&path["path"])));
        }
        let any_name = rule["resourceNames"].as_array().is_none_or(Vec::is_empty);
        listed(&rule["verbs"], &text(&of["verb"]))
            && listed(&rule["apiGroups"], &text(&of["group"]))
            && listed(&rule["resources"], &what)
            && (any_name || listed(&rule["resourceNames"], &text(&of["name"])))
    })
}

/// A star stands for the rest of a path.
fn fits(url: &str, path: &str) -> bool {
    match url.strip_suffix('*') {
        Some(begin) => path.starts_with(begin),
        None => url == path,
    }
}
