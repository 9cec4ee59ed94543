//! Lists the pods, containers and images of the container runtime on this machine.
//!
//! `cargo run -p evictd-cri --example containers`, with a socket as argument if it is not at one of the usual places.

use evictd_cri::{Client, Error, Settings};
use std::io::Write;
use std::process::ExitCode;

async fn list(endpoint: Option<String>) -> Result<Vec<String>, Error> {
    let runtime = Client::new(Settings {
        endpoint,
        ..Settings::default()
    })?;
    let version = runtime.version().await?;
    let mut lines = vec![format!("{} {}", version.runtime, version.version)];
    let containers = runtime.containers().await?;
    for sandbox in runtime.sandboxes().await? {
        let state = if sandbox.ready { "ready" } else { "not ready" };
        let pod = &sandbox.pod;
        // Escapes names, because they may contain any character.
        lines.push(format!(
            "pod {:?} of {:?}: {state}",
            pod.name, pod.namespace
        ));
        let own = containers
            .iter()
            .filter(|container| container.sandbox == sandbox.id);
        lines.extend(own.map(|container| {
            let (name, state) = (&container.name, container.state);
            format!("  {name:?} of {:?}: {state:?}", container.image)
        }));
    }
    for image in runtime.images().await? {
        let name = image.tags.first().unwrap_or(&image.id);
        lines.push(format!("image {name:?}: {} bytes", image.bytes));
    }
    Ok(lines)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (lines, code) = match list(std::env::args().nth(1)).await {
        Ok(lines) => (lines, ExitCode::SUCCESS),
        Err(error) => (vec![error.to_string()], ExitCode::FAILURE),
    };
    // The reader may have closed the pipe.
    let _ = writeln!(std::io::stdout(), "{}", lines.join("\n"));
    code
}
