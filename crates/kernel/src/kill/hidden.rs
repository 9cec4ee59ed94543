//! Checks at start whether `/proc` shows the processes of other users, rather than when the first of them has to be
//! killed.

use procfs::{FromRead, process::MountInfos};
use std::fs;
use std::io;
use std::path::Path;

/// Logs a warning if `/proc` hides processes from this process, and returns it for the status.
pub fn warn_of_hidden_processes(proc_root: &Path) -> Vec<String> {
    let warning = hidden_processes(proc_root);
    if let Some(warning) = &warning {
        tracing::warn!("{warning}");
    }
    warning.into_iter().collect()
}

/// The mechanism that hides processes from this process, and how to change it; `None` if none does.
fn hidden_processes(proc_root: &Path) -> Option<String> {
    // The first process is root's, so it shows whether those of others are hidden.
    let refused = match fs::read(proc_root.join("1/stat")) {
        Ok(_) => return None,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    let option = hidepid(proc_root);
    if option.is_none() && !refused {
        return None;
    }
    let how = option.map_or(String::new(), |option| {
        format!(" (it is mounted with {option})")
    });
    let place = proc_root.display();
    Some(format!(
        "{place} hides the processes of other users{how}: pods are terminated anyway, but the first process of a container is \
         not known, so with a grace period all its processes get SIGTERM, and survivors have no names. Mount {place} with gid= \
         and give evictd that group: in evictd.service with SupplementaryGroups= and ProtectProc=default; in a DaemonSet with \
         hostPID: true and supplementalGroups"
    ))
}

/// The mount option by which the file system there hides processes, if it does.
fn hidepid(proc_root: &Path) -> Option<String> {
    let mounts = MountInfos::from_file(proc_root.join("self/mountinfo")).ok()?;
    let mounted_last = mounts
        .0
        .into_iter()
        .rfind(|mount| mount.mount_point == proc_root)?;
    let value = mounted_last.super_options.get("hidepid")?.clone()?;
    (!matches!(value.as_str(), "0" | "off")).then(|| format!("hidepid={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_processes_are_warned_of_with_the_remedy() {
        let proc_root = tempfile::tempdir().unwrap();
        let place = proc_root.path().display().to_string();
        fs::create_dir(proc_root.path().join("self")).unwrap();
        let mounted = |options: &str| {
            let other = "22 27 0:21 / /other rw - proc proc rw,hidepid=invisible";
            let line = format!("{other}\n23 27 0:22 / {place} rw,relatime - proc proc {options}\n");
            fs::write(proc_root.path().join("self/mountinfo"), line).unwrap();
            hidden_processes(proc_root.path())
        };
        assert_eq!(mounted("rw"), None, "a fixture without a first process");
        assert_eq!(mounted("rw,hidepid=off"), None);
        for option in ["hidepid=invisible", "hidepid=2", "hidepid=noaccess"] {
            let warning = mounted(&format!("rw,gid=7,{option}")).unwrap();
            for words in [
                option,
                "gid=",
                "SupplementaryGroups=",
                "ProtectProc=default",
                "hostPID",
            ] {
                assert!(warning.contains(words), "{warning}");
            }
        }
        fs::create_dir(proc_root.path().join("1")).unwrap();
        fs::write(proc_root.path().join("1/stat"), "1 (init) S").unwrap();
        assert_eq!(
            mounted("rw,gid=7,hidepid=invisible"),
            None,
            "seen by its group"
        );
    }
}
