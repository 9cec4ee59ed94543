//! An image of one static program, made without a registry.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The static program of every image: Debian's busybox.
pub(crate) const PROGRAM: &str = "/bin/busybox";

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{command:?}: {}", words.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The files of an image besides busybox.
#[derive(Debug, Clone, Copy, Default)]
pub struct Contents<'a> {
    /// Bytes of ballast.
    pub bytes: usize,
    /// Empty files, each an inode.
    pub files: usize,
    /// Commands of busybox that can be started by their own names: `sh`.
    pub commands: &'a [&'a str],
}

/// Makes an image of this name with so many bytes of ballast, and imports it into a containerd. `directory` has room for it.
pub fn import(socket: &Path, directory: &Path, name: &str, bytes: usize) -> io::Result<()> {
    let contents = Contents {
        bytes,
        ..Contents::default()
    };
    import_with(socket, directory, name, contents)
}

/// The same with these contents.
pub fn import_with(
    socket: &Path,
    directory: &Path,
    name: &str,
    contents: Contents<'_>,
) -> io::Result<()> {
    let archive = archive(directory, name, contents)?;
    run(images(socket, "import").arg(&archive))?;
    fs::remove_file(archive)
}

pub(crate) fn images(socket: &Path, does: &str) -> Command {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(socket);
    command.args(["--namespace", "k8s.io", "images", does]);
    command
}

/// Writes an archive as `docker save` does it, which has fewer digests in it than an OCI layout, and gives its path. The name is
/// in the layer too, so that images of different names share nothing; so are the contents.
fn archive(directory: &Path, name: &str, contents: Contents<'_>) -> io::Result<PathBuf> {
    let work = tempfile::tempdir_in(directory)?;
    let at = |name: &str| work.path().join(name);
    for needed in [
        "rootfs/bin",
        "rootfs/tmp",
        "rootfs/proc",
        "rootfs/dev",
        "rootfs/sys",
        "rootfs/etc",
    ] {
        fs::create_dir_all(at(needed))?;
    }
    fs::copy(PROGRAM, at("rootfs/bin/busybox"))?;
    fs::write(at("rootfs/etc/name"), name)?;
    fs::write(at("rootfs/etc/ballast"), vec![b'x'; contents.bytes])?;
    if contents.files > 0 {
        fs::create_dir(at("rootfs/etc/files"))?;
    }
    for number in 0..contents.files {
        fs::write(at(&format!("rootfs/etc/files/{number}")), "")?;
    }
    for command in contents.commands {
        symlink("busybox", at(&format!("rootfs/bin/{command}")))?;
    }
    run(Command::new("tar")
        .arg("-cf")
        .arg(at("layer.tar"))
        .arg("-C")
        .arg(at("rootfs"))
        .arg("."))?;
    let digest = run(Command::new("sha256sum").arg(at("layer.tar")))?;
    let digest = digest.split_whitespace().next().unwrap_or_default();
    let config = serde_json::json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {"Cmd": [PROGRAM, "sleep", "2147483647"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    fs::write(at("config.json"), config.to_string())?;
    let manifest = serde_json::json!([
        {"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]},
    ]);
    fs::write(at("manifest.json"), manifest.to_string())?;
    let archive = directory.join("image.tar");
    run(Command::new("tar")
        .arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(work.path())
        .args(["manifest.json", "config.json", "layer.tar"]))?;
    Ok(archive)
}
