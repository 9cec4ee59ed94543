//! A container that is started again as soon as it has ended, as a kubelet does until it hears that its pod has failed.

use super::{Site, plain, scratch};
use crate::run_daemon::cri::{HOG, LOW, PLENTY, Pods, SCARCE};
use serde_json::Value;

#[test]
fn what_is_started_again_is_ended_again_until_its_end_is_told_and_nobody_else_goes() {
    let Some(mut site) = Site::new("what_is_started_again_is_ended_again") else {
        return;
    };
    let mut hog = site.pod("hog", &plain(), &scratch(&Value::Null));
    let mut container = site.run(&hog, HOG[2]);
    let calm = site.pod("calm", &plain(), &scratch(&Value::Null));
    let calm = site.run(&calm, "exec sleep 1000");
    let pods = Pods::of(&site.containerd);
    pods.limit(PLENTY);
    let daemon = site.daemon(&LOW, "");
    daemon.eventually_knows(&["calm", "hog"]);
    // Nobody can be told for a while.
    site.cluster.api.go_away();
    pods.limit(SCARCE);
    let (mut starts, mut failed) = (0, false);
    daemon.eventually("the pod stays ended", |_| {
        if !site.lives(&container) {
            let told = site.cluster.admin.get("pods", "shop/hog").unwrap();
            failed = told["status"]["phase"] == "Failed";
            if !failed {
                container = site.start_again(&mut hog, HOG[2]);
                starts += 1;
            }
            if starts == 2 {
                site.cluster.api.come_back();
            }
        }
        failed
    });
    assert!((2..=10).contains(&starts), "{starts}");
    assert!(daemon.said("it is terminated again") >= 2);
    daemon.some_turns_pass();
    assert!(site.lives(&calm) && !site.lives(&container));
    // One decision holds for all of it.
    assert_eq!(daemon.said("evicting "), 1);
    eprintln!("started again {starts} times");
}
