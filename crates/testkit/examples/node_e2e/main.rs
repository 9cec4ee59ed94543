//! The kubelet's own eviction suite (`test/e2e_node/eviction_test.go` of Kubernetes 1.36) with evictd in the kubelet's place, in a
//! machine that nothing else uses. `tests/vm/run --suite kubelet-e2e` plays it.
//!
//! ```text
//! node_e2e SOCKET TEST      plays one test with the runtime at this socket; exit code 1 if something is not as upstream wants it
//! node_e2e list             the names of all tests
//! ```
//!
//! An API server and a kubelet that does not evict run in this process; the kubelet's containers are real. evictd has a
//! `KubeletConfiguration` with what upstream's test sets in it.

#![allow(clippy::print_stdout, reason = "this is how it reports")]
#![allow(
    clippy::disallowed_methods,
    reason = "its one thread has nothing else to do"
)]

mod machine;
mod pods;
mod run;
mod suite;

use std::{env, path::Path, process::ExitCode};

/// The name of the node and that of the namespace of all pods.
pub(crate) const NODE: &str = "node";
pub(crate) const NAMESPACE: &str = "e2e";
/// The class of the pods that go later.
pub(crate) const HIGH_PRIORITY: &str = "e2e-high-priority";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [socket, name] = words[..] else {
        for test in suite::all() {
            println!("{}", test.name);
        }
        return ExitCode::SUCCESS;
    };
    let Some(test) = suite::all().into_iter().find(|test| test.name == name) else {
        eprintln!("no test {name}");
        return ExitCode::FAILURE;
    };
    match run::run(Path::new(socket), &test) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("  FAIL {error}");
            ExitCode::FAILURE
        }
    }
}
