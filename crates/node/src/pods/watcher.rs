//! Reports changes in the manifest directories, and when a missing directory may exist again.

use super::directories::{Changes, is_manifest_name};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    path::{Path, PathBuf},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Watches directories; if one does not exist, its nearest existing ancestor.
#[derive(Debug)]
pub(super) struct Watcher {
    inotify: AsyncFd<Instance>,
    watches: Vec<Watch>,
}

#[derive(Debug)]
struct Watch {
    descriptor: WatchDescriptor,
    directory: PathBuf,
    /// If an ancestor is watched: the name directly below it that must appear first.
    awaited: Option<OsString>,
}

#[derive(Debug)]
struct Instance(Inotify);

impl AsRawFd for Instance {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Watcher {
    /// Must be called inside the runtime.
    pub(super) fn new(directories: &[PathBuf]) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let mut watches = Vec::with_capacity(directories.len());
        for directory in directories {
            watches.push(watch(&inotify, directory)?);
        }
        #[allow(
            deprecated,
            reason = "what replaces it is unsafe, for descriptors that change, which ours does not"
        )]
        let inotify = AsyncFd::with_interest(Instance(inotify), Interest::READABLE)?;
        Ok(Self { inotify, watches })
    }

    /// Waits for a change, which the caller must then fetch with [`Self::drain`]. Cancel safe.
    pub(super) async fn changed(&self) -> io::Result<()> {
        // Later changes make the descriptor ready again, so that none is missed by draining after this.
        self.inotify.readable().await?.clear_ready();
        Ok(())
    }

    /// Adds all changes since the last call to `changes`; true if a new watcher is needed, because a directory
    /// itself appeared, disappeared or moved, or because events were lost.
    pub(super) fn drain(&self, changes: &mut Changes) -> io::Result<bool> {
        let mut stale = false;
        loop {
            let events = self.inotify.get_ref().0.read_events();
            match events {
                Ok(events) => {
                    for event in events {
                        stale |= self.note(event, changes);
                    }
                }
                Err(nix::errno::Errno::EAGAIN) => return Ok(stale),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn note(&self, event: InotifyEvent, changes: &mut Changes) -> bool {
        let directory_changed = AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_UNMOUNT
            | AddWatchFlags::IN_IGNORED
            | AddWatchFlags::IN_Q_OVERFLOW;
        if event.mask.intersects(directory_changed) {
            return true;
        }
        let Some(name) = event.name else {
            return false;
        };
        let mut stale = false;
        // One directory can be watched both as a manifest directory and as the ancestor of others.
        for watch in self
            .watches
            .iter()
            .filter(|watch| watch.descriptor == event.wd)
        {
            if let Some(awaited) = &watch.awaited {
                stale |= *awaited == name;
            } else if is_manifest_name(&name) {
                let path = watch.directory.join(&name);
                if event
                    .mask
                    .intersects(AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM)
                {
                    changes.touched.remove(&path);
                    changes.removed.insert(path);
                } else {
                    changes.removed.remove(&path);
                    changes.touched.insert(path);
                }
            }
        }
        stale
    }
}

fn watch(inotify: &Inotify, directory: &Path) -> io::Result<Watch> {
    // The same mask for all: a second watch of the same directory replaces the first one's mask.
    let mask = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    let add = |path: &Path| inotify.add_watch(path, mask);
    loop {
        let missing = match add(directory) {
            Ok(descriptor) => {
                return Ok(Watch {
                    descriptor,
                    directory: directory.to_owned(),
                    awaited: None,
                });
            }
            Err(errno) => errno,
        };
        let mut below = directory;
        let found = directory.ancestors().skip(1).find_map(|ancestor| {
            let ancestor = if ancestor.as_os_str().is_empty() {
                Path::new(".")
            } else {
                ancestor
            };
            let found = add(ancestor).ok().map(|descriptor| (descriptor, below));
            below = ancestor;
            found
        });
        let (descriptor, below) = found.ok_or(missing)?;
        // A directory that was created between the two checks causes no event.
        if below.exists() && add(below).is_ok() {
            continue;
        }
        return Ok(Watch {
            descriptor,
            directory: directory.to_owned(),
            awaited: below.file_name().map(ToOwned::to_owned),
        });
    }
}
