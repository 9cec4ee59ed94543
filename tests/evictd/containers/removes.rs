//! What can be removed goes before a pod, and a pod does not wait for what cannot be enough.

use super::{APP, Rights, Site, all_on, plain, scratch};
use crate::daemon::{Daemon, names, wait};
use crate::run_daemon::reclaim::available;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;

const MI: u64 = 1 << 20;
const COLLECTS: &str = "imageGC: {mode: pressure, minimumAge: 0s}\n";
const UNUSED: &str = "evictd.test/unused:1";
/// An eviction that waits for nothing needs far less, also on a busy machine; one that waits for a removal needs 2 s.
const AT_ONCE: f64 = 1.8;

/// Writes so many MiB more whenever its volume has a file `go`, each after so long a pause.
fn writes(mebibytes: u32, pause: &str) -> String {
    format!(
        "n=0; while true; do if [ -e /scratch/go ]; then rm /scratch/go; n=$((n + 1)); i=0; \
         while [ $i -lt {mebibytes} ]; do dd if=/dev/zero of=/scratch/$n-$i bs=1M count=1; i=$((i + 1)); \
         sleep {pause}; done; fi; sleep 0.05; done"
    )
}

fn go(volume: &Path) {
    fs::write(volume.join("go"), "").unwrap();
}

/// Seconds from the crossing to the end of the only victim, which has this name.
fn reaction(daemon: &Daemon, victim: &str, state: &str) -> f64 {
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), [format!("shop/{victim}")], "{state}");
    let reaction = decisions[0]["outcome"]["reactionSeconds"].as_f64().unwrap();
    eprintln!("{state}: {reaction:.3} s");
    reaction
}

#[test]
fn image_after_image_goes_before_a_pod_and_each_with_its_true_size() {
    let test = "image_after_image_goes_before_a_pod";
    let Some(mut site) = Site::on_disk(test, 600) else {
        return;
    };
    let disk = site.disk.as_ref().unwrap().0.clone();
    for rights in Rights::ALL {
        site.forget();
        let images = ["evictd.test/old:1", "evictd.test/recent:1"];
        for image in images {
            site.containerd.image(image, 30 << 20).unwrap();
        }
        let name = format!("writer-{rights:?}").to_lowercase();
        let writer = site.pod(&name, &plain(), &scratch(&Value::Null));
        let volume = site.scratch(&writer);
        // So slowly that there is time to remove an image.
        site.run(&writer, &writes(60, "0.02"));
        nix::unistd::sync();
        let low = (available(&disk) - 20 * MI).to_string();
        let hard = [("nodefs.available", low.as_str())];
        let Some(daemon) = site.daemon_with(test, rights, (&hard, COLLECTS)) else {
            return;
        };
        let removable = |daemon: &Daemon| daemon.command(&["disk"])["reclaimable"].clone();
        // Compressed and unpacked each holds as much.
        daemon.eventually("their size is known", |daemon| {
            let found = removable(daemon);
            found["imageBytesOnDisk"] == true
                && found["images"] == 2
                && found["imageBytes"].as_u64() > Some(110 * MI)
        });
        let ledger = daemon.command(&["disk"]);
        let others = ledger["filesystems"][0]["nobodys"].as_array().unwrap();
        let of = |what: &str| {
            let found = others.iter().find(|one| one["what"] == what);
            found.and_then(|one| one["bytes"].as_u64()).unwrap_or(0)
        };
        assert!(of("images") > 120 * MI, "{others:#?}");
        let removed =
            |daemon: &Daemon| daemon.said("reclaim for nodefs.available: removed 1 unused image");
        for count in 1..=2 {
            go(&volume);
            daemon.eventually("an image goes", |daemon| removed(daemon) >= count);
            assert_eq!(daemon.said("evicting "), 0, "{rights:?}: image {count}");
        }
        let left = site.containerd.image_names().unwrap();
        assert!(
            images
                .iter()
                .all(|image| !left.iter().any(|one| one == image)),
            "{left:?}"
        );
        go(&volume);
        reaction(
            &daemon,
            &name,
            &format!("nothing is left to remove, {rights:?}"),
        );
        drop(daemon);
        fs::remove_dir_all(volume).unwrap();
        site.cluster.delete(&name);
        site.containerd.remove(&writer.pod);
    }
}

#[test]
fn a_dead_container_of_a_few_bytes_delays_no_eviction() {
    let test = "a_dead_container_of_a_few_bytes";
    let Some(mut site) = Site::on_disk(test, 400) else {
        return;
    };
    let disk = site.disk.as_ref().unwrap().0.clone();
    let calm = site.pod("calm", &plain(), &scratch(&Value::Null));
    let remains = site.run(&calm, "exec sleep 1000");
    for (round, rights) in (0..).zip(Rights::ALL) {
        site.forget();
        let dead = [2 * round, 2 * round + 1].map(|attempt| {
            let ends = ["sh", "-c", "echo some > /tmp/few"];
            let made = site
                .containerd
                .container(&calm.pod, ("job", attempt), APP, &ends);
            let made = made.unwrap();
            assert!(wait(|| !site.lives(&made)));
            made
        });
        let name = format!("hog-{rights:?}").to_lowercase();
        let hog = site.pod(&name, &plain(), &scratch(&Value::Null));
        let volume = site.scratch(&hog);
        site.run(&hog, &writes(60, "0"));
        nix::unistd::sync();
        let low = (available(&disk) - 20 * MI).to_string();
        let hard = [("nodefs.available", low.as_str())];
        let Some(daemon) = site.daemon_with(test, rights, (&hard, COLLECTS)) else {
            return;
        };
        daemon.eventually("it knows the dead container and its size", |daemon| {
            let found = &daemon.command(&["disk"])["reclaimable"];
            // The last that ended stays; in the second round it is not the last any more.
            let removable = 1 + u64::from(round > 0);
            found["containers"] == removable && found["containerBytes"].as_u64() > Some(0)
        });
        go(&volume);
        let took = reaction(
            &daemon,
            &name,
            &format!("beside a dead container, {rights:?}"),
        );
        assert!(took < AT_ONCE, "{rights:?}: {took}");
        daemon.eventually("it is removed all the same", |_| {
            let left = site.containerd.containers().unwrap();
            left.iter().all(|one| one.id != dead[0])
        });
        assert!(site.lives(&remains));
        drop(daemon);
        fs::remove_dir_all(volume).unwrap();
        site.cluster.delete(&name);
        site.containerd.remove(&hog.pod);
    }
}

#[test]
fn what_lies_on_another_filesystem_stays_and_its_frozen_runtime_delays_nothing() {
    let test = "what_lies_on_another_filesystem_stays";
    let Some(mut site) = Site::apart(test, 300) else {
        return;
    };
    site.containerd.image(UNUSED, 20 << 20).unwrap();
    let nodefs = site.nodefs.as_ref().unwrap().0.clone();
    let wrong = format!("{COLLECTS}{}", all_on(&nodefs));
    let cases = [
        (Rights::Host, "as the runtime tells", COLLECTS, false),
        (Rights::DaemonSet, "as the runtime tells", COLLECTS, true),
        (Rights::Host, "configured wrong", &wrong, false),
    ];
    for (round, (rights, layout, lines, frozen)) in (0..).zip(cases) {
        site.forget();
        let state = format!("{rights:?}, {layout}, frozen: {frozen}");
        let name = format!("hog-{round}");
        let hog = site.pod(&name, &plain(), &scratch(&Value::Null));
        let volume = site.scratch(&hog);
        site.run(&hog, &writes(60, "0"));
        let low = (available(&nodefs) - 20 * MI).to_string();
        let hard = [("nodefs.available", low.as_str())];
        let Some(daemon) = site.daemon_with(test, rights, (&hard, lines)) else {
            return;
        };
        let is_wrong = lines.contains("filesystems:");
        daemon.eventually("it knows where the runtime keeps its files", |daemon| {
            let status = daemon.status();
            let words = if is_wrong {
                status["warnings"].to_string()
            } else {
                status["layout"].to_string()
            };
            words.contains("io.containerd.snapshotter")
        });
        let warned = daemon.said("the container runtime keeps images in ");
        assert_eq!(warned, usize::from(is_wrong), "{state}");
        if frozen {
            site.containerd.signal(Signal::SIGSTOP).unwrap();
        }
        go(&volume);
        let took = reaction(&daemon, &name, &state);
        if frozen {
            site.containerd.signal(Signal::SIGCONT).unwrap();
        }
        assert!(took < AT_ONCE, "{state}: {took}");
        let left = site.containerd.image_names().unwrap();
        assert!(left.iter().any(|one| one == UNUSED), "{state}: {left:?}");
        drop(daemon);
        fs::remove_dir_all(volume).unwrap();
        site.cluster.delete(&name);
        site.containerd.remove(&hog.pod);
    }
}
