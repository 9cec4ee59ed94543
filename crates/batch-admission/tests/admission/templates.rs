//! Pod templates, in Kubernetes' own words.

use crate::{of_job, task_with};
use serde_json::{Value, json};

/// What is said of a task with this pod.
fn of_spec(spec: Value) -> String {
    let task = task_with(json!({"template": {"spec": spec}}));
    of_job(json!({"tasks": [task]}))
}

/// What is said of a container with these fields.
fn of_container(fields: Value) -> String {
    let mut container = json!({"name": "c", "image": "i"});
    for (field, value) in fields.as_object().unwrap() {
        container[field] = value.clone();
    }
    of_spec(json!({"containers": [container]}))
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn s6_082_containers_of_a_template() {
    let of = "spec.task[0].template.spec.containers[0]";
    let cases = [
        (json!({}), String::new()),
        (
            json!({"name": "C"}),
            format!("{of}.name: Invalid value: \"C\": {LABEL}."),
        ),
        (json!({"image": ""}), format!("{of}.image: Required value.")),
        (
            json!({"imagePullPolicy": "Often"}),
            format!(
                "{of}.imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"."
            ),
        ),
        (
            json!({"terminationMessagePolicy": "X"}),
            format!(
                "{of}.terminationMessagePolicy: Unsupported value: \"X\": supported values: \"File\", \"FallbackToLogsOnError\"."
            ),
        ),
        (
            json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1000m"}}}),
            format!(
                "{of}.resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1."
            ),
        ),
        (
            json!({"resources": {"requests": {"cpu": "-1"}}}),
            format!(
                "{of}.resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0."
            ),
        ),
        (
            json!({"resources": {"limits": {"nvidia.com/gpu": "1500m"}}}),
            format!(
                "{of}.resources.limits[nvidia.com/gpu]: Invalid value: \"1500m\": must be an integer."
            ),
        ),
        (
            json!({"resources": {"requests": {"nvidia.com/gpu": 1}}}),
            format!(
                "{of}.resources.limits: Required value: Limit must be set for non overcommitable resources."
            ),
        ),
        (
            json!({"resources": {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}}),
            format!(
                "{of}.resources.requests: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2."
            ),
        ),
        (
            json!({"resources": {"limits": {"gpu": 1}}}),
            format!(
                "{of}.resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified. template.spec.containers[0].resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers."
            ),
        ),
        (
            json!({"resources": {"limits": {"pods": 1}}}),
            format!(
                "{of}.resources.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers."
            ),
        ),
        (
            json!({"resources": {"limits": {"hugepages-2Mi": "3Mi"}}}),
            format!(
                "{of}.resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi. template.spec.containers[0].resources: Forbidden: HugePages require cpu or memory."
            ),
        ),
        (
            json!({"resources": {"claims": [{"name": "x"}]}}),
            format!("{of}.resources.claims[0]: Not found: \"x\"."),
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(of_container(fields.clone()), expected, "{fields}");
    }
}

#[test]
fn s6_082_ports_variables_mounts_and_probes_of_a_container() {
    let of = "spec.task[0].template.spec.containers[0]";
    let cases = [
        (
            json!({"ports": [{"name": "a--b", "containerPort": 80}, {"name": "x", "containerPort": 1}, {"name": "x", "containerPort": 2}]}),
            format!(
                "{of}.ports[0].name: Invalid value: \"a--b\": must not contain consecutive hyphens. template.spec.containers[0].ports[2].name: Duplicate value: \"x\"."
            ),
        ),
        (
            json!({"ports": [{}, {"containerPort": 70000, "hostPort": -1, "protocol": "ICMP"}]}),
            format!(
                "{of}.ports[0].containerPort: Required value. template.spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive. template.spec.containers[0].ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive. template.spec.containers[0].ports[1].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"."
            ),
        ),
        (
            json!({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}),
            format!("{of}.ports[1].hostPort: Duplicate value: \"TCP//80\"."),
        ),
        (
            json!({"env": [{"name": ""}, {"name": "A B"}, {"name": "C", "valueFrom": {}}, {"name": "D", "value": "x", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}),
            format!(
                "{of}.env[0].name: Required value. template.spec.containers[0].env[1].name: Invalid value: \"A B\": a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*'). template.spec.containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`. template.spec.containers[0].env[3].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty."
            ),
        ),
        (
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v"}]}),
            format!(
                "{of}.volumeMounts[0].name: Not found: \"v\". template.spec.containers[0].volumeMounts[1].name: Not found: \"v\". template.spec.containers[0].volumeMounts[1].mountPath: Required value."
            ),
        ),
        (
            json!({"livenessProbe": {"successThreshold": 2, "periodSeconds": -1, "httpGet": {"port": 0}}}),
            format!(
                "{of}.livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive. template.spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0. template.spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1."
            ),
        ),
        (
            json!({"readinessProbe": {}, "lifecycle": {"preStop": {"exec": {}}}}),
            format!(
                "{of}.lifecycle.preStop.exec.command: Required value. template.spec.containers[0].readinessProbe: Required value: must specify a handler type."
            ),
        ),
        (
            json!({"restartPolicy": "Always"}),
            format!("{of}.restartPolicy: Forbidden: may not be set for non-init containers."),
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(of_container(fields.clone()), expected, "{fields}");
    }
}

#[test]
fn s6_082_the_pod_of_a_template() {
    let container = json!({"name": "c", "image": "i"});
    let with = |fields: Value| {
        let mut spec = json!({"containers": [container]});
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        of_spec(spec)
    };
    let of = "spec.task[0].template.spec";
    let cases = [
        (
            json!({"containers": []}),
            format!("{of}.containers: Required value."),
        ),
        (
            json!({"containers": [container, container]}),
            format!("{of}.containers[1].name: Duplicate value: \"c\"."),
        ),
        (
            json!({"initContainers": [container]}),
            format!("{of}.initContainers[0].name: Duplicate value: \"c\"."),
        ),
        (
            json!({"initContainers": [{"name": "d", "image": "i", "readinessProbe": {}, "restartPolicy": "Never"}]}),
            format!(
                "{of}.initContainers[0].restartPolicy: Unsupported value: \"Never\": supported values: \"Always\". template.spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always."
            ),
        ),
        (
            json!({"restartPolicy": "Sometimes"}),
            format!(
                "{of}.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"."
            ),
        ),
        (
            json!({"dnsPolicy": "Mine"}),
            format!(
                "{of}.dnsPolicy: Unsupported value: \"Mine\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"."
            ),
        ),
        (
            json!({"volumes": [{"name": "v"}, {"name": "v", "secret": {}}, {"name": "w", "emptyDir": {}, "hostPath": {"path": "/x"}}]}),
            format!(
                "{of}.volumes[1].secret.secretName: Required value. template.spec.volumes[1].name: Duplicate value: \"v\". template.spec.volumes[2].hostPath: Forbidden: may not specify more than 1 volume type."
            ),
        ),
        (
            json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 81}]}]}),
            format!(
                "{of}.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true."
            ),
        ),
        (
            json!({"activeDeadlineSeconds": 0, "hostname": "a.b"}),
            format!(
                "{of}.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive. template.spec.hostname: Invalid value: \"a.b\": must not contain dots."
            ),
        ),
        (
            json!({"tolerations": [{"operator": "Equal"}, {"key": "a", "operator": "Near", "effect": "Never"}, {"key": "a", "tolerationSeconds": 1}]}),
            format!(
                "{of}.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\". template.spec.tolerations[1].operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\". template.spec.tolerations[1].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\". template.spec.tolerations[2].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set."
            ),
        ),
        (
            json!({"nodeSelector": {"a b": "x"}, "schedulingGates": [{"name": "g"}, {"name": "g"}]}),
            format!(
                "{of}.nodeSelector: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'). template.spec.schedulingGates[1]: Duplicate value: \"g\"."
            ),
        ),
        (
            json!({"topologySpreadConstraints": [{}]}),
            format!(
                "{of}.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero. template.spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty. template.spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"."
            ),
        ),
        (
            json!({"preemptionPolicy": "Maybe", "resourceClaims": [{"name": "x"}, {"name": "x"}]}),
            format!(
                "{of}.resourceClaims[1].name: Duplicate value: \"x\". template.spec.preemptionPolicy: Unsupported value: \"Maybe\": supported values: \"PreemptLowerPriority\", \"Never\"."
            ),
        ),
        (
            json!({"ephemeralContainers": [{"name": "e"}]}),
            format!(
                "{of}.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template."
            ),
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(with(fields.clone()), expected, "{fields}");
    }
}

#[test]
fn s6_082_affinity_of_a_template() {
    let of = |affinity: Value| {
        let container = json!({"name": "c", "image": "i"});
        of_spec(json!({"containers": [container], "affinity": affinity}))
    };
    let (required, preferred) = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    );
    let nodes = |expressions: Value| json!({"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}});
    let path = format!("template.spec.affinity.nodeAffinity.{required}.nodeSelectorTerms");
    let first = format!("spec.task[0].{path}[0].matchExpressions[0]");
    for (affinity, expected) in [
        (json!({}), String::new()),
        (
            nodes(json!([{"key": "a", "operator": "In", "values": ["b"]}])),
            String::new(),
        ),
        (
            json!({"nodeAffinity": {required: {}}}),
            format!(
                "spec.task[0].{path}: Required value: must have at least one node selector term."
            ),
        ),
        (
            nodes(json!([{"key": "a", "operator": "In"}])),
            format!(
                "{first}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'."
            ),
        ),
        (
            nodes(json!([{"key": "a", "operator": "Exists", "values": ["b"]}])),
            format!(
                "{first}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'."
            ),
        ),
        (
            nodes(json!([{"key": "a", "operator": "Gt"}])),
            format!(
                "{first}.values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'."
            ),
        ),
        (
            nodes(json!([{"key": "a", "operator": "Is"}])),
            format!("{first}.operator: Invalid value: \"Is\": not a valid selector operator."),
        ),
        (
            json!({"nodeAffinity": {preferred: [{"weight": 0, "preference": {}}]}}),
            format!(
                "spec.task[0].template.spec.affinity.nodeAffinity.{preferred}[0].weight: Invalid value: 0: must be in the range 1-100."
            ),
        ),
    ] {
        assert_eq!(of(affinity.clone()), expected, "{affinity}");
    }
    let said = of(json!({"podAntiAffinity": {required: [{}]}}));
    let path = format!("template.spec.affinity.podAntiAffinity.{required}[0].topologyKey");
    let start = format!(
        "spec.task[0].{path}: Required value: can not be empty. {path}: Invalid value: \"\": name part must be non-empty."
    );
    assert!(said.starts_with(&start), "{said}");
}
