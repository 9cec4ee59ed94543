//! Every case of the real kubelet's critical-pod preemption, exactly.

use evictd_admission::{
    Failure, Insufficient, admit,
    critical::{Need, victims},
};
use evictd_pod::{Pod, wire};
use serde::Deserialize;
use std::{collections::BTreeMap, fs, path::Path};

#[derive(Deserialize)]
struct Case {
    input: Input,
    expected: Expected,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    admit_pod: wire::Pod,
    pods: Vec<wire::Pod>,
    requirements: Vec<Requirement>,
    #[serde(default)]
    non_resource_reasons: Vec<String>,
}

#[derive(Deserialize)]
struct Requirement {
    resource: String,
    quantity: i64,
}

#[derive(Deserialize)]
struct Expected {
    preempt: Vec<String>,
    #[serde(default)]
    error: String,
    qos: BTreeMap<String, String>,
    admission: Admission,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Admission {
    remaining_reasons: Vec<String>,
    killed: Vec<String>,
    #[serde(default)]
    error: String,
}

fn names(pods: &[Pod], indices: &[usize]) -> Vec<String> {
    indices.iter().map(|&i| pods[i].full_name()).collect()
}

fn check(case: Case) {
    let Case { input, expected } = case;
    let preemptor = Pod::from_wire(input.admit_pod);
    let pods: Vec<Pod> = input.pods.into_iter().map(Pod::from_wire).collect();

    let qos = |pod: &Pod| (pod.full_name(), pod.qos.as_str().to_owned());
    assert_eq!(
        pods.iter().map(qos).collect::<BTreeMap<_, _>>(),
        expected.qos
    );

    let need = |requirement: &Requirement| Need {
        resource: requirement.resource.clone(),
        amount: requirement.quantity,
    };
    let needs: Vec<Need> = input.requirements.iter().map(need).collect();
    match victims(&preemptor, &pods, &needs) {
        Ok(chosen) => {
            assert_eq!(names(&pods, &chosen), expected.preempt);
            assert_eq!(expected.error, "");
        }
        Err(error) => assert_eq!(error.to_string(), expected.error),
    }

    let missing = needs
        .into_iter()
        .map(|need| Failure::Insufficient(Insufficient::missing(need.resource, need.amount)));
    let others = input
        .non_resource_reasons
        .into_iter()
        .map(|name| Failure::Predicate {
            name,
            why: String::new(),
        });
    let failures: Vec<Failure> = missing.chain(others).collect();
    let answer = admit(&preemptor, &pods, &[], &failures);
    let Admission {
        remaining_reasons,
        killed,
        error,
    } = expected.admission;
    assert_eq!(names(&pods, &answer.preempt), killed);
    assert_eq!(
        answer.allowed,
        error.is_empty() && remaining_reasons.is_empty()
    );
    if let Some(first) = remaining_reasons.first() {
        let reason = first
            .strip_prefix("Insufficient ")
            .map_or(first.clone(), |resource| format!("OutOf{resource}"));
        assert_eq!(answer.reason, reason);
    } else if !error.is_empty() {
        assert_eq!(answer.reason, "UnexpectedAdmissionError");
        let prefix = "Unexpected error while attempting to recover from admission failure: ";
        assert_eq!(answer.message, format!("{prefix}{error}"));
    }
}

#[test]
fn s2_001_to_s2_015_every_case_of_the_real_kubelet() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/critical");
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 72, "{} cases found", files.len());
    for file in files {
        eprintln!("{}", file.display());
        check(serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap());
    }
}
