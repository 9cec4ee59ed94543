//! After an error of the disk the kernel lets nobody write to it, so that nothing on it can be removed.

use super::{Rights, Site, plain, scratch};
use crate::cgroup_support::left_out;
use crate::daemon::wait;
use crate::run_daemon::reclaim::available;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const MI: u64 = 1 << 20;

/// The ext4 filesystem mounted here has met an error, after which the kernel makes it read-only.
fn fail(at: &Path) -> Result<(), String> {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).arg(at).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output
            .status
            .success()
            .then_some(text)
            .ok_or_else(|| format!("{program} failed"))
    };
    run("mount", &["-o", "remount,errors=remount-ro"])?;
    let source = run("findmnt", &["-n", "-o", "SOURCE"])?;
    let name = source.rsplit('/').next().unwrap_or_default();
    let trigger = format!("/sys/fs/ext4/{name}/trigger_fs_error");
    fs::write(&trigger, "1").map_err(|error| format!("{trigger}: {error}"))
}

#[test]
fn no_pod_goes_for_a_filesystem_that_an_error_made_read_only() {
    let test = "no_pod_goes_for_a_filesystem_that_an_error_made_read_only";
    let Some(mut site) = Site::on_disk(test, 300) else {
        return;
    };
    let disk = site.disk.as_ref().unwrap().0.clone();
    let hog = site.pod("hog", &plain(), &scratch(&Value::Null));
    let volume = site.scratch(&hog);
    let container = site.run(
        &hog,
        "dd if=/dev/zero of=/scratch/data bs=1M count=60; sleep 1000",
    );
    assert!(wait(
        || fs::metadata(volume.join("data")).is_ok_and(|file| file.len() == 60 * MI)
    ));
    nix::unistd::sync();
    if let Err(why) = fail(&disk) {
        return left_out(test, why);
    }
    let low = (available(&disk) + 20 * MI).to_string();
    for rights in Rights::ALL {
        site.forget();
        let hard = [("nodefs.available", low.as_str())];
        let Some(daemon) = site.daemon_with(test, rights, (&hard, "")) else {
            return;
        };
        daemon.eventually("it says so", |daemon| {
            let status = daemon.status();
            let warnings = status["warnings"].to_string();
            warnings.contains("the filesystem of nodefs.available is read-only")
                && warnings.contains("mount it for writing")
        });
        assert_eq!(
            daemon.condition("DiskPressure")["raised"],
            true,
            "{rights:?}"
        );
        daemon.some_turns_pass();
        assert_eq!(daemon.said("evicting "), 0, "{rights:?}");
        assert!(site.lives(&container), "{rights:?}");
    }
}
