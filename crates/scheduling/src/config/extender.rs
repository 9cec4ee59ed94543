//! Who is asked over HTTP beside the plugins.

use super::text::{is_extended_resource, is_label_name};
use super::wire;
use super::{FieldErrors, Profile};
use jiff::SignedDuration;

/// Somebody who is asked over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extender {
    /// What its verbs are appended to.
    pub url_prefix: String,
    /// Takes nodes off the list; empty where it does not.
    pub filter_verb: String,
    /// Takes victims off the list.
    pub preempt_verb: String,
    /// Scores nodes.
    pub prioritize_verb: String,
    /// How much its scores count.
    pub weight: i64,
    /// Binds.
    pub bind_verb: String,
    /// Without an authority to check it by, its certificate is not checked.
    pub enable_https: bool,
    /// How both sides show who they are.
    pub tls: Option<Tls>,
    /// How long it may take.
    pub timeout: SignedDuration,
    /// It has a cache of its own, and is sent names only.
    pub node_cache_capable: bool,
    /// It is asked only about pods that ask for one of these; empty: about all.
    pub managed_resources: Vec<String>,
    /// Of these, those that no plugin looks at.
    pub ignored_resources: Vec<String>,
    /// Its errors are passed over.
    pub ignorable: bool,
}

/// How an extender and its caller show who they are. What is empty is absent; data is in base64, and comes before files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Its certificate is not checked.
    pub insecure: bool,
    /// The name that its certificate must have, in place of that of the URL.
    pub server_name: String,
    /// The certificate of the caller.
    pub cert_file: String,
    /// Its private key.
    pub key_file: String,
    /// The authorities that may have signed the extender's certificate.
    pub ca_file: String,
    /// In place of the file.
    pub cert_data: String,
    /// In place of the file.
    pub key_data: String,
    /// In place of the file.
    pub ca_data: String,
}

impl Tls {
    fn read(field: &str, wire: &wire::TlsConfig, mistakes: &mut FieldErrors) -> Self {
        let has = |file: &str, data: &str| !(file.is_empty() && data.is_empty());
        let certificate = has(&wire.cert_file, &wire.cert_data);
        let key = has(&wire.key_file, &wire.key_data);
        if certificate != key {
            mistakes.add(
                field,
                "a certificate and its private key must come together",
            );
        }
        if wire.insecure && has(&wire.ca_file, &wire.ca_data) {
            mistakes.add(
                format!("{field}.insecure"),
                "must be absent where there are authorities to check by",
            );
        }
        Self {
            insecure: wire.insecure,
            server_name: wire.server_name.clone(),
            cert_file: wire.cert_file.clone(),
            key_file: wire.key_file.clone(),
            ca_file: wire.ca_file.clone(),
            cert_data: wire.cert_data.clone(),
            key_data: wire.key_data.clone(),
            ca_data: wire.ca_data.clone(),
        }
    }
}

impl Extender {
    fn read(field: &str, wire: &wire::Extender, mistakes: &mut FieldErrors) -> Self {
        if wire.url_prefix.is_empty() {
            mistakes.add(format!("{field}.urlPrefix"), "is missing");
        }
        if !wire.prioritize_verb.is_empty() && wire.weight <= 0 {
            mistakes.add(
                format!("{field}.weight"),
                format!("{}: must be above 0 with a prioritizeVerb", wire.weight),
            );
        }
        let names = |ignored: bool| {
            wire.managed_resources
                .iter()
                .filter(|managed| !ignored || managed.ignored_by_scheduler)
                .map(|managed| managed.name.clone())
                .collect()
        };
        let tls = wire.tls_config.as_ref();
        Self {
            url_prefix: wire.url_prefix.clone(),
            filter_verb: wire.filter_verb.clone(),
            preempt_verb: wire.preempt_verb.clone(),
            prioritize_verb: wire.prioritize_verb.clone(),
            weight: wire.weight,
            bind_verb: wire.bind_verb.clone(),
            enable_https: wire.enable_https,
            tls: tls.map(|tls| Tls::read(&format!("{field}.tlsConfig"), tls, mistakes)),
            timeout: mistakes.duration(
                &format!("{field}.httpTimeout"),
                wire.http_timeout.as_deref(),
                5,
            ),
            node_cache_capable: wire.node_cache_capable,
            managed_resources: names(false),
            ignored_resources: names(true),
            ignorable: wire.ignorable,
        }
    }
}

/// Those whose errors are passed over come last (S5-050).
pub(super) fn read(wire: &[wire::Extender], mistakes: &mut FieldErrors) -> Vec<Extender> {
    let mut extenders: Vec<Extender> = Vec::new();
    let mut managed: Vec<&str> = Vec::new();
    for (index, own) in wire.iter().enumerate() {
        let field = format!("extenders[{index}]");
        if !own.bind_verb.is_empty() && extenders.iter().any(|other| !other.bind_verb.is_empty()) {
            mistakes.add(format!("{field}.bindVerb"), "only one extender may bind");
        }
        for (index, resource) in own.managed_resources.iter().enumerate() {
            let (name, at) = (
                &resource.name,
                format!("{field}.managedResources[{index}].name"),
            );
            if !is_label_name(name) || !is_extended_resource(name) {
                let message = "must be an extended resource, like example.com/gpu";
                mistakes.add(&at, format!("{name:?}: {message}"));
            }
            if managed.contains(&name.as_str()) {
                mistakes.add(&at, format!("{name:?}: is managed twice"));
            }
            managed.push(name);
        }
        extenders.push(Extender::read(&field, own, mistakes));
    }
    extenders.sort_by_key(|own| own.ignorable);
    extenders
}

/// What extenders manage alone takes the place of what the profiles' `NodeResourcesFitArgs` name, as in kube-scheduler.
pub(super) fn ignore_resources(extenders: &[Extender], profiles: &mut [Profile]) {
    let ignored: Vec<String> = extenders
        .iter()
        .flat_map(|own| &own.ignored_resources)
        .cloned()
        .collect();
    if !ignored.is_empty() {
        for profile in profiles {
            profile.args.fit.ignored.resources.clone_from(&ignored);
        }
    }
}
