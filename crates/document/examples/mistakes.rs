//! Prints the pods of a file, or every mistake in it with line and column: `cargo run -p evictd-document --example
//! mistakes -- pods.yaml`. Without a file it reads a built-in text with three mistakes.
#![allow(clippy::print_stdout, reason = "an example")]

use evictd_document::{Document, DocumentError, LARGE};
use std::{env, path::Path, process::ExitCode};

const WRONG: &str = "\
kind: Pod
metadata:
  name: web
  namespace: shop
spec:
  priority: high
  containers:
  - name: main
    resources:
      requests: {memory: lots}
  tolerations: none
";

fn main() -> ExitCode {
    let file = env::args_os().nth(1);
    let document = match &file {
        Some(file) => Document::read(Path::new(file), LARGE),
        None => Document::new("built-in.yaml", WRONG.to_owned()),
    };
    match document.and_then(|document| document.pods()) {
        Ok(pods) => {
            for pod in pods {
                println!("{}", pod.full_name());
            }
            ExitCode::SUCCESS
        }
        Err(DocumentError::Mistakes(found)) => {
            for mistake in &found.mistakes {
                // `{mistake}` prints all of this on one line; a program may need the parts.
                let place = mistake.place.map_or(String::new(), |place| {
                    format!("line {}, column {}: ", place.line, place.column)
                });
                println!("{place}{}: {}", mistake.key, mistake.message);
            }
            ExitCode::FAILURE
        }
        // The document cannot be read, or is empty, too large or not text.
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
