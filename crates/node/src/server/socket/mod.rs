//! The Unix socket: HTTP/1.1 and JSON for the members of its group.

mod api;
#[cfg(test)]
mod tests;

pub use api::ANSWER_ANNOTATION;

use super::state::Shared;
use evictd_daemon::server::{self, Limits};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

/// The default path of the socket.
pub const DEFAULT_PATH: &str = "/run/evictd/evictd.sock";

/// The group whose members may connect.
pub const GROUP: &str = "evictd";

const MODE: u32 = 0o660;

const LIMITS: Limits = Limits {
    connections: 16,
    per_peer: None,
    request: Duration::from_secs(30),
    idle: None,
};

/// A daemon that accepts no connection for this long counts as alive but stuck.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why the socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A daemon answers on it.
    #[error("{path} is taken by a running daemon{}; stop it first, or set another `socket`", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Taken {
        /// The path of the socket.
        path: PathBuf,
        /// The process id of that daemon, if the kernel reports it.
        pid: Option<i32>,
    },
    /// The path exists and is not a socket.
    #[error("{path} exists and is not a socket; it was left alone")]
    NotASocket {
        /// The path that was configured.
        path: PathBuf,
    },
    /// Only a directory directly below `/run` is created, because it disappears with the next boot.
    #[error("the directory of the socket {path} does not exist")]
    NoDirectory {
        /// The path of the socket.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} the socket {path}: {source}")]
    Refused {
        /// The failed action, in a few words.
        action: &'static str,
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

/// A socket that listens; dropping it removes its file.
#[derive(Debug)]
pub struct Socket {
    listener: Option<UnixListener>,
    path: PathBuf,
    inode: u64,
}

/// Opens the socket at `path`; replaces one that a dead daemon left behind.
pub async fn bind(path: &Path) -> Result<Socket, SocketError> {
    bind_below(path, Path::new("/run")).await
}

async fn bind_below(path: &Path, run: &Path) -> Result<Socket, SocketError> {
    let refused = |action: &'static str| {
        let path = path.to_owned();
        move |source| SocketError::Refused {
            action,
            path,
            source,
        }
    };
    make_directory(path, run)?;
    make_room(path).await?;
    // Created under another name and renamed when its permissions are set, so that no client can connect before.
    let unfinished = path.with_added_extension(std::process::id().to_string());
    remove_if_there(&unfinished).map_err(refused("replace"))?;
    let listener = UnixListener::bind(&unfinished).map_err(refused("create"))?;
    restrict(&unfinished)
        .and_then(|inode| fs::rename(&unfinished, path).map(|()| inode))
        .map_err(|source| {
            let _ = fs::remove_file(&unfinished);
            refused("set the permissions of")(source)
        })
        .map(|inode| Socket {
            listener: Some(listener),
            path: path.to_owned(),
            inode,
        })
}

fn make_directory(path: &Path, run: &Path) -> Result<(), SocketError> {
    let Some(directory) = path.parent() else {
        return Err(SocketError::NoDirectory {
            path: path.to_owned(),
        });
    };
    if directory.as_os_str().is_empty() || directory.is_dir() {
        return Ok(());
    }
    if directory.parent() != Some(run) {
        return Err(SocketError::NoDirectory {
            path: path.to_owned(),
        });
    }
    fs::create_dir(directory).map_err(|source| SocketError::Refused {
        action: "create the directory of",
        path: path.to_owned(),
        source,
    })
}

/// Makes sure that nothing, or a socket without a daemon, is at the path.
async fn make_room(path: &Path) -> Result<(), SocketError> {
    let owned = || path.to_owned();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(SocketError::Refused {
                action: "inspect",
                path: owned(),
                source,
            });
        }
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NotASocket { path: owned() });
        }
        Ok(_) => {}
    }
    match tokio::time::timeout(PATIENCE, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => Err(SocketError::Taken {
            path: owned(),
            pid: stream.peer_cred().ok().and_then(|peer| peer.pid()),
        }),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "replacing the socket that a daemon left behind when it ended");
            Ok(())
        }
        Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => Err(SocketError::Taken {
            path: owned(),
            pid: None,
        }),
        Ok(Err(source)) => Err(SocketError::Refused {
            action: "ask who listens on",
            path: owned(),
            source,
        }),
        Err(_) => Err(SocketError::Taken {
            path: owned(),
            pid: None,
        }),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Sets mode and group; returns the inode.
fn restrict(path: &Path) -> io::Result<u64> {
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    // Read directly from the file: the C library would load a name resolver permanently for this one number.
    match fs::read_to_string("/etc/group").map(|groups| group_id(&groups)) {
        // Under its systemd unit the process has that group from the start, and may not change owners.
        Ok(Some(group)) if fs::symlink_metadata(path)?.gid() != group => {
            if let Err(error) = std::os::unix::fs::chown(path, None, Some(group)) {
                tracing::warn!(%error, group = GROUP, "the socket cannot be given to its group; only its owner may use it");
            }
        }
        Ok(Some(_)) => {}
        Ok(None) => tracing::debug!(
            group = GROUP,
            "no such group; only the socket's owner may use it"
        ),
        // An image without users has no groups file either.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, group = GROUP, "cannot look up the socket's group"),
    }
    Ok(fs::symlink_metadata(path)?.ino())
}

/// The id of our group in the text of `/etc/group`.
fn group_id(groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(GROUP)).then(|| fields.nth(1)?.parse().ok())?
    })
}

impl Socket {
    /// Serves until the future is dropped, which removes the socket.
    pub async fn serve(mut self, shared: Arc<Shared>) {
        if let Some(listener) = self.listener.take() {
            let never = CancellationToken::new();
            server::serve(listener, None, api::router(shared), LIMITS, never).await;
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another daemon may have replaced our socket by its own.
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}
