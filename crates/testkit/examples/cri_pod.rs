//! Makes images and pods in a real containerd, as a kubelet would, where no cluster is. `tests/vm` uses it.
//!
//! ```text
//! cri_pod SOCKET image NAME MEBIBYTES              an image of busybox with so much ballast
//! cri_pod SOCKET run NAMESPACE/NAME UID CGROUP_PARENT IMAGE MEMORY_MEBIBYTES COMMAND...
//! ```
//!
//! `run` prints the ids of the sandbox and of the container. `CGROUP_PARENT` is a path, or with systemd's driver a slice. The
//! commands are busybox's: `sleep 100`.

use evictd_testkit::cri::{driver, import};
use std::{env, fs, io, io::Write, path::Path, process::ExitCode};

const LOGS: &str = "/var/log/pods";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [socket, "image", name, mebibytes] => image(Path::new(socket), name, mebibytes),
        [
            socket,
            "run",
            name,
            uid,
            parent,
            image,
            memory,
            ref command @ ..,
        ] => run(
            Path::new(socket),
            (name, uid, parent),
            (image, memory),
            command,
        ),
        _ => Err(io::Error::other(
            "write SOCKET image NAME MEBIBYTES, or SOCKET run NAMESPACE/NAME UID CGROUP_PARENT IMAGE MEMORY_MEBIBYTES \
             COMMAND...",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cri_pod: {error}");
            ExitCode::FAILURE
        }
    }
}

fn mebibytes(text: &str) -> io::Result<usize> {
    text.parse()
        .ok()
        .and_then(|number: usize| number.checked_mul(1 << 20))
        .ok_or_else(|| io::Error::other(format!("{text:?} is no number of MiB")))
}

fn image(socket: &Path, name: &str, size: &str) -> io::Result<()> {
    import(socket, &env::temp_dir(), name, mebibytes(size)?)
}

fn run(
    socket: &Path,
    (full_name, uid, parent): (&str, &str, &str),
    (image, memory): (&str, &str),
    command: &[&str],
) -> io::Result<()> {
    let Some((namespace, name)) = full_name.split_once('/') else {
        return Err(io::Error::other(format!(
            "{full_name:?} is not NAMESPACE/NAME"
        )));
    };
    let logs = Path::new(LOGS).join(format!("{namespace}_{name}_{uid}"));
    fs::create_dir_all(logs.join("main"))?;
    let pod = driver::sandbox((namespace, name, uid), parent.to_owned(), &logs);
    let id = driver::run(socket, &pod)?;
    let limit = i64::try_from(mebibytes(memory)?).map_err(io::Error::other)?;
    let command: Vec<&str> = ["/bin/busybox"].iter().chain(command).copied().collect();
    let container = driver::start(
        socket,
        (&id, &pod),
        ("main", 0),
        image,
        &command,
        (limit, &[]),
    )?;
    writeln!(io::stdout(), "{id} {container}")
}
