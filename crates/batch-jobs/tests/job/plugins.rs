//! What plugins make and add.

use super::objects::{calls, pods};
use super::support::{asked, case, pod, task, volcano};
use evictd_batch_jobs::job::{Call, Resource};
use serde_json::{Value, json};

fn job(plugins: Value, tasks: Value) -> Value {
    let mut job = case("Pending", tasks, json!([]))["job"].take();
    job["spec"]["plugins"] = plugins;
    job
}

fn two() -> Value {
    let mut master = task("master", 1);
    master["template"]["spec"]["initContainers"] = json!([{"name": "i"}]);
    json!([master, task("worker", 2)])
}

fn env<'a>(pod: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    let env = pod["spec"][list][0]["env"].as_array()?;
    env.iter().find(|variable| variable["name"] == name)
}

fn value<'a>(pod: &'a Value, name: &str) -> &'a str {
    env(pod, "containers", name).map_or("", |variable| variable["value"].as_str().unwrap())
}

fn made(plugins: Value) -> Vec<(Resource, Value)> {
    let group = json!({"metadata": {"name": "train-u1"}, "status": {"phase": "Pending"}});
    let objects = calls(&job(plugins, two()), &group)
        .into_iter()
        .filter_map(|call| match call {
            Call::CreateObject { resource, object } | Call::ApplyObject { resource, object } => {
                Some((resource, object.into()))
            }
            _ => None,
        });
    objects.collect()
}

#[test]
fn s6_055_env_tells_every_container_its_number() {
    let pods = pods(&job(json!({"env": []}), two()));
    for name in ["VK_TASK_INDEX", "VC_TASK_INDEX"] {
        assert_eq!(value(&pods[2], name), "1");
        assert_eq!(env(&pods[0], "initContainers", name).unwrap()["value"], "0");
    }
}

#[test]
fn s6_056_svc_makes_a_service_a_policy_and_a_list_of_hosts() {
    let objects = made(json!({"svc": ["--publish-not-ready-addresses"]}));
    let kinds: Vec<Resource> = objects.iter().map(|(resource, _)| *resource).collect();
    assert_eq!(
        kinds,
        [
            Resource::ConfigMap,
            Resource::Service,
            Resource::NetworkPolicy
        ]
    );
    let data = &objects[0].1["data"];
    assert_eq!(objects[0].1["metadata"]["name"], "train-svc");
    assert_eq!(
        data["worker.host"],
        "train-worker-0.train\ntrain-worker-1.train"
    );
    assert_eq!(
        (&data["VC_WORKER_HOSTS"], &data["VC_WORKER_NUM"]),
        (
            &json!("train-worker-0.train,train-worker-1.train"),
            &json!("2")
        )
    );
    let selector = json!({"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "ml"});
    let service = &objects[1].1["spec"];
    assert_eq!(
        *service,
        json!({"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": true})
    );
    let ingress = &objects[2].1["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(*ingress, selector);
    assert_eq!(
        made(json!({"svc": ["--disable-network-policy=true"]})).len(),
        2
    );
    let pods = pods(&job(json!({"svc": []}), two()));
    let spec = &pods[1]["spec"];
    assert_eq!(
        (&spec["hostname"], &spec["subdomain"]),
        (&json!("train-worker-0"), &json!("train"))
    );
    let hosts = env(&pods[0], "initContainers", "VC_MASTER_HOSTS").unwrap();
    assert_eq!(
        hosts["valueFrom"]["configMapKeyRef"],
        json!({"name": "train-svc", "key": "VC_MASTER_HOSTS"})
    );
    assert_eq!(
        spec["containers"][0]["volumeMounts"][0]["mountPath"],
        "/etc/volcano"
    );
    let quiet = self::pods(&job(json!({"svc": ["-inject-hosts-env=false"]}), two()));
    assert!(env(&quiet[0], "containers", "VC_MASTER_HOSTS").is_none());
}

#[test]
fn s6_056_a_full_kill_takes_back_what_svc_made() {
    let mut case = case("Running", two(), json!([pod("worker", 0, "Running")]));
    case["job"]["spec"]["plugins"] = json!({"svc": []});
    case["job"]["status"]["controlledResources"] = json!({"plugin-svc": "svc", "kept": "kept"});
    let answer = volcano(case, json!({"action": "AbortJob"}));
    assert_eq!(
        answer["status"]["controlledResources"],
        json!({"kept": "kept"})
    );
}

#[test]
fn s6_057_ssh_brings_keys_into_every_container() {
    let arguments = json!([
        "--ssh-private-key=PRIVATE",
        "--ssh-public-key=PUBLIC",
        "--ssh-port=2200"
    ]);
    let objects = made(json!({"ssh": arguments}));
    let (resource, secret) = &objects[0];
    assert_eq!(
        (*resource, &secret["metadata"]["name"]),
        (Resource::Secret, &json!("train-ssh"))
    );
    let data = &secret["stringData"];
    assert_eq!(
        (
            &data["id_rsa"],
            &data["id_rsa.pub"],
            &data["authorized_keys"]
        ),
        (&json!("PRIVATE"), &json!("PUBLIC"), &json!("PUBLIC"))
    );
    let config = data["config"].as_str().unwrap();
    assert!(config.contains("Host train-worker-1\n  HostName train-worker-1.train\n  Port 2200\n"));
    let pods = pods(&job(json!({"ssh": []}), two()));
    let volume = &pods[0]["spec"]["volumes"][0]["secret"];
    assert_eq!(
        (&volume["secretName"], &volume["defaultMode"]),
        (&json!("train-ssh"), &json!(0o600))
    );
    let mount = &pods[0]["spec"]["initContainers"][0]["volumeMounts"][0];
    assert_eq!(
        (&mount["mountPath"], &mount["subPath"]),
        (&json!("/root/.ssh"), &json!(".ssh"))
    );
    let elsewhere = self::pods(&job(
        json!({"ssh": ["--ssh-key-file-path=/home/x/.ssh"]}),
        two(),
    ));
    let volume = &elsewhere[0]["spec"]["volumes"][0]["secret"];
    assert_eq!(volume["defaultMode"], json!(0o644));
    // Keys that nobody gave are made.
    let group = json!({"metadata": {"name": "train-u1"}});
    assert!(calls(&job(json!({"ssh": []}), two()), &group).contains(&Call::MakeKeys));
}

#[test]
fn s6_058_plugins_write_themselves_down_and_make_things_once() {
    let mut case = case("Pending", two(), json!([]));
    case["job"]["spec"]["plugins"] = json!({"env": [], "svc": [], "ssh": []});
    let answer = volcano(case.clone(), json!({"action": "SyncJob"}));
    let wanted = json!({"plugin-env": "env", "plugin-ssh": "ssh", "plugin-svc": "svc"});
    assert_eq!(answer["status"]["controlledResources"], wanted);
    let all = [
        "ConfigMap/train-svc",
        "NetworkPolicy/train",
        "Secret/train-ssh",
        "Service/train",
    ];
    assert_eq!(answer["resources"], json!(all));
    case["job"]["status"]["controlledResources"] = wanted;
    let again = volcano(asked(case, Value::Null), json!({"action": "SyncJob"}));
    assert_eq!(again.get("resources"), None);
}

#[test]
fn s6_058_tensorflow_tells_the_whole_cluster() {
    let pods = pods(&job(
        json!({"tensorflow": ["--chief=master", "--port=3333"]}),
        two(),
    ));
    let config: Value = serde_json::from_str(value(&pods[2], "TF_CONFIG")).unwrap();
    let wanted = json!({
        "cluster": {
            "worker": ["train-worker-0.train:3333", "train-worker-1.train:3333"],
            "chief": ["train-master-0.train:3333"],
        },
        "task": {"type": "worker", "index": 1},
    });
    assert_eq!(config, wanted);
    let alone = self::pods(&job(json!({"tensorflow": []}), json!([task("worker", 1)])));
    assert_eq!(value(&alone[0], "TF_CONFIG"), "");
}

#[test]
fn s6_058_pytorch_tells_master_world_and_rank() {
    let pods = pods(&job(json!({"pytorch": ["--wait-master-enabled"]}), two()));
    let all = ["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"];
    assert_eq!(
        all.map(|name| value(&pods[0], name)),
        ["train-master-0.train", "23456", "3", "0"]
    );
    assert_eq!(
        all.map(|name| value(&pods[2], name)),
        ["train-master-0.train", "23456", "3", "2"]
    );
    assert_eq!(
        pods[2]["spec"]["containers"][0]["ports"][0]["containerPort"],
        23456
    );
    assert_eq!(
        pods[2]["spec"]["initContainers"][0]["name"],
        "wait-for-master"
    );
}

#[test]
fn s6_058_mpi_tells_the_master_its_workers() {
    let pods = pods(&job(json!({"mpi": []}), two()));
    assert_eq!(
        value(&pods[0], "MPI_HOST"),
        "train-worker-0.train,train-worker-1.train"
    );
    assert_eq!(value(&pods[1], "MPI_HOST"), "");
    assert_eq!(
        pods[1]["spec"]["containers"][0]["ports"],
        json!([{"name": "mpijob-port", "containerPort": 22}])
    );
}

#[test]
fn s6_058_ray_starts_a_head_and_its_workers_and_makes_a_service_for_the_head() {
    let arguments = json!([
        "--head=master",
        "--headContainer=c",
        "--workerContainer=c",
        "--port=2345"
    ]);
    let pods = pods(&job(json!({"ray": arguments}), two()));
    let container = |pod: &Value| pod["spec"]["containers"][0].clone();
    let head = container(&pods[0]);
    assert_eq!(
        head["command"],
        json!([
            "sh",
            "-c",
            "ray start --head --block --dashboard-host=0.0.0.0 --port=2345 --dashboard-port=8265 --ray-client-server-port=10001"
        ])
    );
    assert_eq!(
        head["ports"],
        json!([
            {"name": "gcs", "containerPort": 2345},
            {"name": "dashboard", "containerPort": 8265},
            {"name": "client-server", "containerPort": 10001},
        ])
    );
    let worker = container(&pods[2]);
    assert_eq!(
        worker["command"],
        json!([
            "sh",
            "-c",
            "ray start --block --address=train-master-0.train:2345"
        ])
    );
    assert_eq!(worker["ports"], Value::Null);
    let objects = made(json!({"ray": ["--head=master", "--port=2345"]}));
    let [(Resource::Service, service)] = &objects[..] else {
        panic!("{objects:?}");
    };
    assert_eq!(service["metadata"]["name"], "train-head-svc");
    assert_eq!(
        service["spec"]["selector"],
        json!({
            "volcano.sh/job-name": "train", "volcano.sh/job-namespace": "ml", "volcano.sh/task-spec": "master",
        })
    );
    assert_eq!(
        service["spec"]["ports"][0],
        json!({"name": "gcs", "port": 2345, "targetPort": 2345, "protocol": "TCP"})
    );
}

#[test]
fn s6_058_hcclrank_numbers_masters_before_workers() {
    let rank = |pod: &Value| pod["metadata"]["annotations"]["hccl/rankIndex"].clone();
    let ranks = |tasks: Value| -> Vec<Value> {
        let pods = pods(&job(json!({"hcclrank": []}), tasks));
        pods.iter().map(rank).collect()
    };
    assert_eq!(ranks(two()), ["0", "1", "2"]);
    assert_eq!(ranks(json!([task("other", 1)])), [Value::Null]);
    let mut told = task("worker", 1);
    told["template"]["spec"]["containers"][0]["env"] = json!([{"name": "RANK", "value": "7"}]);
    assert_eq!(ranks(json!([told])), ["7"]);
}
