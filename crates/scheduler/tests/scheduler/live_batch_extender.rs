//! `evictd-scheduler run --batch-conf` with plugin extender.

use crate::live_batch::{conf_with, group, member, queue, start_at};
use crate::live_extenders::extender;
use evictd_testkit::ApiServer;
use evictd_testkit::testing::wait_until;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn s6_224_the_server_is_asked_again_although_nothing_has_changed() {
    let open = Arc::new(AtomicBool::new(false));
    let is_open = Arc::clone(&open);
    let (url, asked) = extender(move |_, request| {
        let fits = is_open.load(Ordering::Relaxed) && request["node"]["Name"] == "two";
        let status = if fits { "" } else { "not today" };
        ("200 OK", json!({"status": status, "code": 3}))
    });
    let plugin = format!(
        "{{name: extender, arguments: {{extender.urlPrefix: '{url}', extender.predicateVerb: predicate}}}}"
    );
    let conf = conf_with("allocate, backfill", &plugin);
    let api = ApiServer::start().unwrap();
    queue(&api.actor("admin"), "default");
    let live = start_at(api, &[("one", "4"), ("two", "4")], &conf);
    live.admin
        .create(group("train", "default", 1, "1"))
        .unwrap();
    live.admin.create(member("train-0", "train", "1")).unwrap();
    let refused = || {
        let group = live
            .admin
            .get("podgroups.scheduling.volcano.sh", "default/train");
        let status = group.unwrap_or_default()["status"].to_string();
        status.contains("not today")
    };
    wait_until("the condition repeats the words of the server", refused);
    // Two further sessions see the same cluster.
    let before = asked.lock().unwrap().len();
    wait_until("it is asked again", || {
        asked.lock().unwrap().len() > before + 4
    });
    open.store(true, Ordering::Relaxed);
    assert_eq!(live.bound("default/train-0"), "two");
}
