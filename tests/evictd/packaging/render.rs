//! What kubectl and Helm make of the packages.

use crate::packaged::{documents, objects};
use evictd_testkit::{program, testing::left_out};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::admissionregistration::v1alpha1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1 as rbac;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Objects by kind and name.
type Objects = BTreeMap<String, Value>;

fn of(text: &str) -> Objects {
    let objects = documents(text).into_iter().map(|object| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        (format!("{kind} {name}"), object)
    });
    objects.collect()
}

fn output(test: &str, command: &mut Command) -> Option<String> {
    let Ok(output) = command.output() else {
        let program = command.get_program().display();
        left_out(test, format!("there is no {program} here"));
        return None;
    };
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// `kubectl kustomize`; None, having said so, where there is no kubectl.
fn kustomize(test: &str, directory: &Path) -> Option<Objects> {
    let mut kubectl = Command::new("kubectl");
    output(test, kubectl.arg("kustomize").arg(directory)).map(|text| of(&text))
}

/// `helm template` with these values; None, having said so, where there is no Helm.
fn helm(test: &str, namespace: &str, values: &[&str]) -> Option<Objects> {
    let mut helm = Command::new("helm");
    helm.args(["template", "evictd"])
        .arg(root().join("packaging/helm/evictd"))
        .args(["--namespace", namespace, "--kube-version", "1.36.0"]);
    for value in values {
        helm.args(["--set", value]);
    }
    let rendered = output(test, &mut helm)?;
    Some(of(rendered.trim_start_matches("---\n")))
}

/// A kustomization made for a test, of these parts of the package.
fn kustomization(name: &str, resources: &[&str], components: &[&str]) -> PathBuf {
    let directory = root().join("target/tmp/kustomization").join(name);
    fs::create_dir_all(&directory).unwrap();
    let packages = "../../../../packaging/kubernetes";
    let paths = |parts: &[&str], within: &str| {
        let paths = parts
            .iter()
            .map(|part| format!("{packages}/{within}{part}"));
        paths.collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\
         resources: [{}]\ncomponents: [{}]\n",
        paths(resources, ""),
        paths(components, "components/"),
    );
    fs::write(directory.join("kustomization.yaml"), text).unwrap();
    directory
}

/// The agent with a component.
fn with_component(component: &str) -> PathBuf {
    kustomization(component, &[""], &[component])
}

/// The agent and a scheduler, or batch.
fn both(packages: &Path, other: &str) -> PathBuf {
    assert!(packages.join(other).is_dir(), "{other}");
    kustomization(other, &["", other], &[])
}

/// The agent and batch, whose controllers decide as Volcano does.
fn with_volcano_form() -> PathBuf {
    kustomization("batch-volcano-form", &["", "batch"], &["volcano-form"])
}

/// Without what differs by nature: the Namespace, which Helm wants there before, and how a new configuration becomes a new
/// rollout, which is a suffix of its name here and an annotation there.
fn comparable(objects: Objects) -> Objects {
    let mut same = Objects::new();
    for (name, mut object) in objects {
        if object["kind"] == "Namespace" {
            continue;
        }
        if object["kind"] == "DaemonSet" || object["kind"] == "Deployment" {
            let template = &mut object["spec"]["template"];
            let metadata = template["metadata"].as_object_mut().unwrap();
            let annotations = metadata.get_mut("annotations");
            if let Some(Value::Object(annotations)) = annotations {
                annotations.remove("checksum/config");
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
            let volumes = template["spec"]["volumes"].as_array_mut();
            for volume in volumes.into_iter().flatten() {
                if volume["configMap"].is_object() {
                    let name = without_suffix(&volume["configMap"]["name"]);
                    volume["configMap"]["name"] = name.into();
                }
            }
        }
        if object["kind"] == "ConfigMap" {
            let name = without_suffix(&object["metadata"]["name"]);
            object["metadata"]["name"] = name.as_str().into();
            same.insert(format!("ConfigMap {name}"), object);
        } else {
            same.insert(name, object);
        }
    }
    same
}

/// The name of a configuration: those of evictd have a suffix that depends on their content.
fn without_suffix(name: &Value) -> String {
    let name = name.as_str().unwrap();
    let ours = ["evictd-scheduler-config", "evictd-config"];
    let ours = ours.into_iter().find(|known| name.starts_with(known));
    ours.unwrap_or(name).to_owned()
}

fn container(objects: &Objects) -> &Value {
    &objects["DaemonSet evictd"]["spec"]["template"]["spec"]["containers"][0]
}

#[test]
fn the_chart_is_the_kustomization() {
    let name = "the_chart_is_the_kustomization";
    let packages = root().join("packaging/kubernetes");
    for (directory, values) in [
        (packages.clone(), &[][..]),
        (packages.join("overlays/dry-run"), &["dryRun=true"]),
        (
            packages.join("overlays/without-kubelet-eviction"),
            &["besideKubelet=false", "containerRuntime=/run/containerd"],
        ),
        (with_component("eviction-api"), &["evictionApi=true"]),
        (with_component("tolerations"), &["tolerations=true"]),
        (with_component("protected-label"), &["protectedLabel=true"]),
        (
            with_component("container-runtime"),
            &["containerRuntime=/run/containerd"],
        ),
        (
            with_component("kubelet-certificate"),
            &["kubeletCertificate=true"],
        ),
        (both(&packages, "scheduler"), &["scheduler=second"]),
        (both(&packages, "scheduler-only"), &["scheduler=only"]),
        (both(&packages, "batch"), &["batch=true"]),
        (with_volcano_form(), &["batch=true", "volcanoForm=true"]),
    ] {
        let built = kustomize(name, &directory);
        let (Some(built), Some(rendered)) = (built, helm(name, "evictd", values)) else {
            return;
        };
        let (built, rendered) = (comparable(built), comparable(rendered));
        let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&built), names(&rendered), "{values:?}");
        for (object, expected) in built {
            assert_eq!(rendered[&object], expected, "{values:?}: {object}");
        }
    }
}

/// Helm is not everywhere: what the chart replaces must be there at least.
#[test]
fn the_text_that_the_chart_replaces_is_in_the_package() {
    let part = |name: &str| fs::read_to_string(root().join("packaging").join(name)).unwrap();
    let chart = part("helm/evictd/templates/batch.yaml");
    let controllers = part("kubernetes/batch/controllers.yaml");
    for text in ["image: evictd", "args: [controllers]"] {
        assert_eq!(controllers.matches(text).count(), 1, "{text}");
        assert!(chart.contains(&format!("replace \"{text}\"")), "{text}");
    }
    let built = kustomize(
        "the_text_that_the_chart_replaces_is_in_the_package",
        &with_volcano_form(),
    );
    let Some(built) = built else { return };
    let deployment = &built["Deployment evictd-batch-controllers"];
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(*arguments, json!(["controllers", "--form=volcano"]));
    assert!(built.contains_key("ClusterRole evictd-batch-controllers-volcano-form"));
}

#[test]
fn the_chart_follows_its_release_and_its_values() {
    let name = "the_chart_follows_its_release_and_its_values";
    let values = [
        "image.repository=registry.example/evictd",
        "image.tag=7",
        "images=/var/lib/containers",
        "config.evictionHard.memory\\.available=1Gi",
    ];
    let Some(objects) = helm(name, "elsewhere", &values) else {
        return;
    };
    let all = json!(objects).to_string();
    assert!(all.contains("'system:serviceaccount:elsewhere:evictd'"));
    assert!(!all.contains("serviceaccount:evictd:"));
    assert!(!all.contains("\"namespace\":\"evictd\""), "{all}");
    let container = container(&objects);
    assert_eq!(container["image"], "registry.example/evictd:7");
    let hook = container["lifecycle"]["preStop"]["exec"]["command"].as_array();
    assert_eq!(hook.unwrap().last().unwrap(), "elsewhere/evictd");
    let config = objects["ConfigMap evictd-config"]["data"]["evictd.yaml"].as_str();
    let config: Value = serde_saphyr::from_str(config.unwrap()).unwrap();
    assert_eq!(config["evictionHard"]["memory.available"], "1Gi");
    assert_eq!(config["evictionHard"]["nodefs.available"], "12%");
    assert_eq!(config["filesystems"]["imagefs"], "/var/lib/containers");
    assert!(all.contains("\"mountPath\":\"/var/lib/containers\""));
}

#[test]
fn helm_refuses_values_that_the_schema_does_not_know() {
    let name = "helm_refuses_values_that_the_schema_does_not_know";
    for (value, named) in [
        ("dryRunn=true", "dryRunn"),
        ("config.pods.source=nowhere", "config.pods.source"),
    ] {
        let mut helm = Command::new("helm");
        let chart = root().join("packaging/helm/evictd");
        helm.args(["template", "evictd", "--set", value]).arg(chart);
        let Ok(output) = helm.output() else {
            left_out(name, "there is no helm here");
            return;
        };
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(named), "{told}");
    }
}

#[test]
fn the_manifest_for_kubectl_is_complete() {
    let Some(objects) = kustomize(
        "the_manifest_for_kubectl_is_complete",
        &root().join("packaging/kubernetes"),
    ) else {
        return;
    };
    // kustomize gives a namespace to whatever it does not know to have none.
    for (name, object) in &objects {
        let kinds = [
            "ServiceAccount",
            "Role",
            "RoleBinding",
            "ConfigMap",
            "DaemonSet",
            "NetworkPolicy",
        ];
        let namespaced = kinds.contains(&object["kind"].as_str().unwrap());
        assert_eq!(
            !object["metadata"]["namespace"].is_null(),
            namespaced,
            "{name}"
        );
    }
    // Nor must its rewriting of names reach into rights.
    let role = &objects["Role evictd"]["rules"][0];
    assert_eq!(role["resourceNames"], json!(["evictd"]));
    let volumes = &objects["DaemonSet evictd"]["spec"]["template"]["spec"]["volumes"];
    let name = volumes[0]["configMap"]["name"].as_str().unwrap();
    assert!(objects.contains_key(&format!("ConfigMap {name}")), "{name}");
    let version = format!("localhost/evictd:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(container(&objects)["image"], version);
    let security = &container(&objects)["securityContext"];
    assert_eq!(security["privileged"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
}

#[test]
fn the_controllers_of_batch_take_volcanos_lease_and_nothing_else_of_that_name() {
    let name = "the_controllers_of_batch_take_volcanos_lease_and_nothing_else_of_that_name";
    let directory = root().join("packaging/kubernetes/batch");
    let Some(objects) = kustomize(name, &directory) else {
        return;
    };
    let own = "evictd-batch-controllers";
    let rules = &objects[&format!("Role {own}")]["rules"];
    assert_eq!(rules[1]["resourceNames"], json!(["vc-controller-manager"]));
    let deployment = &objects[&format!("Deployment {own}")];
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], own);
    let container = &pod["containers"][0];
    let version = format!("localhost/evictd:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"], version);
    assert_eq!(container["command"], json!(["/usr/bin/evictd-batch"]));
    for (name, object) in &objects {
        let namespace = &object["metadata"]["namespace"];
        let cluster_wide = ["Cluster", "Mutating", "Validating"];
        let cluster_wide = cluster_wide.iter().any(|kind| name.starts_with(kind));
        let expected = (!cluster_wide).then_some("volcano-system");
        assert_eq!(namespace.as_str(), expected, "{name}");
    }
    // Nor is the namespace ours to delete.
    assert!(!objects.contains_key("Namespace volcano-system"));
    // No right to everything.
    let granted = objects.iter().filter(|(name, _)| name.contains("Role "));
    let granted = json!(granted.collect::<Vec<_>>()).to_string();
    assert!(!granted.contains("\"*\""), "{granted}");
}

#[test]
fn the_scheduler_with_sessions_has_their_configuration_and_rights() {
    let name = "the_scheduler_with_sessions_has_their_configuration_and_rights";
    let directory = root().join("packaging/kubernetes/scheduler-batch");
    let Some(objects) = kustomize(name, &directory) else {
        return;
    };
    let deployment = &objects["Deployment evictd-scheduler"];
    let pod = &deployment["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    let path = "/etc/evictd-scheduler/volcano-scheduler.conf";
    assert_eq!(arguments.last().unwrap(), &format!("--batch-conf={path}"));
    let config = pod["volumes"][0]["configMap"]["name"].as_str().unwrap();
    let files = &objects[&format!("ConfigMap {config}")]["data"];
    assert!(files["volcano-scheduler.conf"].is_string() && files["scheduler.yaml"].is_string());
    let role = &objects["Role evictd-scheduler-batch"];
    assert_eq!(role["metadata"]["namespace"], "volcano-system");
    assert_eq!(role["rules"][1]["resourceNames"], json!(["volcano"]));
}

#[test]
fn every_configuration_is_valid_and_the_kubelets_drop_in_turns_its_eviction_off() {
    let overlays = root().join("packaging/kubernetes/overlays");
    let check = |file: &str| {
        let mut command = crate::evictd(&["check-config", "-o", "json"]);
        program::answer(&program::run(command.arg(overlays.join(file)), ""))
    };
    for overlay in ["beside-kubelet", "without-kubelet-eviction"] {
        check(&format!("{overlay}/evictd.yaml"));
    }
    let drop_in = check("without-kubelet-eviction/kubelet/90-evictd.conf");
    assert_eq!(drop_in["thresholds"], json!([]));
    let text = fs::read_to_string(overlays.join("without-kubelet-eviction/kubelet/90-evictd.conf"));
    let config: Value = serde_saphyr::from_str(&text.unwrap()).unwrap();
    let hard = config["evictionHard"].as_object().unwrap();
    // One that is missing would keep what the kubelet's main file says.
    let all = [
        "imagefs.available",
        "imagefs.inodesFree",
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "pid.available",
    ];
    assert!(all.iter().all(|signal| hard[*signal] == "0%"), "{hard:?}");
}

#[test]
fn probes_have_a_port_of_their_own_and_both_are_at_the_pods_own_address() {
    let set = objects("base/daemonset.yaml").remove(0);
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    let all = |list: &Value| list.as_array().unwrap().clone();
    let port = |name: &str| {
        let mut ports = all(&container["ports"]).into_iter();
        let found = ports.find(|port| port["name"] == name).unwrap();
        found["containerPort"].as_u64().unwrap()
    };
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "probes", "{probe}");
    }
    let mut variables = all(&container["env"]).into_iter();
    let variable = variables.find(|one| one["name"] == "POD_IP").unwrap();
    assert_eq!(
        variable["valueFrom"]["fieldRef"]["fieldPath"],
        "status.podIP"
    );
    for overlay in ["beside-kubelet", "without-kubelet-eviction"] {
        let file = format!("packaging/kubernetes/overlays/{overlay}/evictd.yaml");
        let text = fs::read_to_string(root().join(file)).unwrap();
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        for name in ["metrics", "probes"] {
            let expected = format!("$(POD_IP):{}", port(name));
            assert_eq!(config[name]["address"], expected, "{overlay}");
        }
    }
    let policy = objects("base/network.yaml").remove(0);
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(policy["spec"]["podSelector"]["matchLabels"], *labels);
    let let_in = all(&policy["spec"]["ingress"]);
    let let_in: Vec<Value> = let_in.iter().flat_map(|rule| all(&rule["ports"])).collect();
    assert_eq!(let_in, [json!({"port": "metrics", "protocol": "TCP"})]);
}

/// The Deployments with the file of the `NetworkPolicy`, and the port that others than probes may reach.
const DEPLOYMENTS: [(&str, &str, &str); 3] = [
    (
        "scheduler/deployment.yaml",
        "scheduler/network.yaml",
        "https",
    ),
    ("batch/controllers.yaml", "batch/network.yaml", "metrics"),
    ("batch/webhook.yaml", "batch/network.yaml", "https"),
];

#[test]
fn every_deployment_has_limits_and_probes_on_a_port_that_no_other_client_reaches() {
    for (file, network, reachable) in DEPLOYMENTS {
        let deployment = objects(file).remove(0);
        let pod = &deployment["spec"]["template"];
        let container = &pod["spec"]["containers"][0];
        let ports = container["ports"].as_array().unwrap();
        let probes = ports.iter().find(|port| port["name"] == "probes");
        assert_eq!(probes.unwrap()["containerPort"], 11251, "{file}");
        for probe in ["livenessProbe", "readinessProbe"] {
            let probe = &container[probe];
            assert_eq!(probe["httpGet"]["port"], "probes", "{file}");
            assert!(probe["timeoutSeconds"].as_u64() > Some(1), "{file}");
        }
        for resource in ["cpu", "memory"] {
            let limit = &container["resources"]["limits"][resource];
            assert!(limit.is_string(), "{file}: {resource}");
        }
        let labels = &pod["metadata"]["labels"];
        let mut policies = objects(network).into_iter();
        let policy = policies.find(|one| one["spec"]["podSelector"]["matchLabels"] == *labels);
        let policy = policy.unwrap_or_else(|| panic!("{file}: no NetworkPolicy"));
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
        let rules = policy["spec"]["ingress"].as_array().unwrap();
        let let_in: Vec<&Value> = rules.iter().map(|rule| &rule["ports"]).collect();
        let expected = json!([{"port": reachable, "protocol": "TCP"}]);
        assert_eq!(let_in, [&expected], "{file}");
    }
}

/// A limit without the need that was measured would be a guess.
#[test]
fn each_limit_of_a_deployment_stands_beside_what_was_measured() {
    for (file, ..) in DEPLOYMENTS {
        let text = fs::read_to_string(root().join("packaging/kubernetes").join(file)).unwrap();
        let (_, limits) = text.split_once("limits:\n").unwrap();
        for resource in ["cpu: ", "memory: "] {
            let (before, _) = limits.split_once(resource).unwrap();
            let above = before.trim_end().lines().last().unwrap_or_default();
            assert!(above.trim_start().starts_with('#'), "{file}: {resource}");
        }
    }
}

/// What of this a Kubernetes object of that type does not know.
fn unknown<T: DeserializeOwned + Serialize>(object: &Value) -> Vec<String> {
    fn missing(known: &Value, given: &Value, at: &str, found: &mut Vec<String>) {
        match (known, given) {
            (Value::Object(known), Value::Object(given)) => {
                for (field, value) in given {
                    let at = format!("{at}.{field}");
                    match known.get(field) {
                        Some(known) => missing(known, value, &at, found),
                        None => found.push(at),
                    }
                }
            }
            (Value::Array(known), Value::Array(given)) if known.len() == given.len() => {
                for (known, given) in known.iter().zip(given) {
                    missing(known, given, at, found);
                }
            }
            (known, given) if known == given => {}
            _ => found.push(at.to_owned()),
        }
    }
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    let mut found = Vec::new();
    missing(
        &serde_json::to_value(typed).unwrap(),
        object,
        "",
        &mut found,
    );
    found
}

#[test]
fn every_field_is_one_that_kubernetes_knows() {
    let base = ["namespace", "rights", "policies", "network", "daemonset"];
    let base = base.map(|file| format!("base/{file}.yaml"));
    let more = [
        "eviction-api/rights",
        "protected-label/policy",
        "tolerations/policy",
    ];
    let more = more.map(|file| format!("components/{file}.yaml"));
    let batch = ["rights", "controllers", "webhook", "network"];
    let batch = batch.map(|file| format!("batch/{file}.yaml"));
    let scheduler = ["deployment", "rights", "network"];
    let scheduler = scheduler.map(|file| format!("scheduler/{file}.yaml"));
    let files = base.iter().chain(&more).chain(&batch).chain(&scheduler);
    for mut object in files.flat_map(|file| objects(file)) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        if kind.starts_with("Mutating") {
            // The same as in v1, which the bindings here are older than.
            object["apiVersion"] = "admissionregistration.k8s.io/v1alpha1".into();
        }
        let unknown = match kind.as_str() {
            "Namespace" => unknown::<core::Namespace>(&object),
            "ServiceAccount" => unknown::<core::ServiceAccount>(&object),
            "ClusterRole" => unknown::<rbac::ClusterRole>(&object),
            "ClusterRoleBinding" => unknown::<rbac::ClusterRoleBinding>(&object),
            "Role" => unknown::<rbac::Role>(&object),
            "RoleBinding" => unknown::<rbac::RoleBinding>(&object),
            "DaemonSet" => unknown::<DaemonSet>(&object),
            "Deployment" => unknown::<Deployment>(&object),
            "NetworkPolicy" => unknown::<NetworkPolicy>(&object),
            "PodDisruptionBudget" => unknown::<PodDisruptionBudget>(&object),
            "Service" => unknown::<core::Service>(&object),
            "ValidatingAdmissionPolicy" => unknown::<ValidatingAdmissionPolicy>(&object),
            "ValidatingAdmissionPolicyBinding" => {
                unknown::<ValidatingAdmissionPolicyBinding>(&object)
            }
            "MutatingAdmissionPolicy" => unknown::<MutatingAdmissionPolicy>(&object),
            "MutatingAdmissionPolicyBinding" => unknown::<MutatingAdmissionPolicyBinding>(&object),
            other => panic!("{other}"),
        };
        assert!(unknown.is_empty(), "{kind}: {unknown:?}");
    }
}
