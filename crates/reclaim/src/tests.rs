//! What goes, in which order, and when a reclaim ends.

use super::all_removals as all;
use super::*;

const MI: u64 = 1 << 20;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn sandbox(id: &str, pod: &str, ready: bool, created: i64) -> Sandbox {
    Sandbox {
        id: id.to_owned(),
        pod: pod.to_owned(),
        ready,
        created: Some(at(created)),
    }
}

fn container(id: &str, pod: &str, name: &str, ended: Option<i64>, image: &str) -> Container {
    Container {
        id: id.to_owned(),
        sandbox: format!("{pod}-box"),
        pod: pod.to_owned(),
        name: name.to_owned(),
        exited: ended.is_some(),
        ended: ended.map(at),
        image: vec![image.to_owned()],
        layer: None,
    }
}

fn image(name: &str, first_seen: i64, last_used: i64) -> Image {
    Image {
        id: format!("sha256:{name}"),
        names: vec![format!("docker.io/library/{name}:1")],
        bytes: 10 * MI,
        first_seen: at(first_seen),
        last_used: at(last_used),
        ..Image::default()
    }
}

fn policy(active: &[&str]) -> Policy {
    Policy {
        dead_containers: true,
        unused_images: true,
        minimum_age: SignedDuration::from_mins(2),
        active_pods: Some(active.iter().map(|&pod| pod.to_owned()).collect()),
        ..Policy::default()
    }
}

fn ids(now: i64, inventory: &Inventory, policy: &Policy) -> Vec<String> {
    let all = all(at(now), inventory.clone(), policy);
    all.iter().map(|one| one.id().to_owned()).collect()
}

#[test]
fn dead_containers_go_oldest_end_first_and_each_active_pod_keeps_the_last_of_each_name() {
    let inventory = Inventory {
        sandboxes: vec![
            sandbox("web-box", "web", true, 1),
            sandbox("starting-box", "starting", false, 1),
            sandbox("ended-box", "ended", false, 1),
            sandbox("unlisted-box", "unlisted", true, 1),
        ],
        containers: vec![
            container("web-running", "web", "main", None, "a"),
            container("web-2", "web", "main", Some(20), "a"),
            container("web-1", "web", "main", Some(10), "a"),
            container("web-init", "web", "init", Some(2), "a"),
            container("starting-1", "starting", "main", Some(3), "a"),
            container("ended-2", "ended", "main", Some(30), "a"),
            container("ended-1", "ended", "main", Some(5), "a"),
            container("unlisted-1", "unlisted", "main", Some(1), "a"),
            container("foreign", "", "main", Some(1), "a"),
        ],
        ..Inventory::default()
    };
    let known = policy(&["web", "starting"]);
    let gone = ["ended-1", "web-1", "ended-2", "ended-box"];
    assert_eq!(ids(100, &inventory, &known), gone);
    // Where the pods are not known, each of them may be active.
    let unknown = Policy {
        active_pods: None,
        ..known
    };
    assert_eq!(ids(100, &inventory, &unknown), ["ended-1", "web-1"]);
}

#[test]
fn sandboxes_go_only_without_containers_and_an_active_pod_keeps_its_last() {
    let mut of_created = container("created", "b", "main", None, "a");
    of_created.sandbox = "b-1".to_owned();
    let inventory = Inventory {
        sandboxes: vec![
            sandbox("a-2", "a", false, 2),
            sandbox("a-1", "a", false, 1),
            sandbox("b-1", "b", false, 3),
            sandbox("c-1", "c", true, 4),
            sandbox("foreign", "", false, 4),
        ],
        containers: vec![of_created],
        ..Inventory::default()
    };
    assert_eq!(ids(100, &inventory, &policy(&["a"])), ["a-1"]);
    assert_eq!(ids(100, &inventory, &policy(&[])), ["a-1", "a-2"]);
}

#[test]
fn s1_039_unused_images_go_oldest_use_first() {
    let mut pinned = image("pinned", 0, 0);
    pinned.pinned = true;
    let mut of_sandboxes = image("pause", 0, 0);
    of_sandboxes.of_sandboxes = true;
    let mut not_started = container("c", "web", "main", None, "sha256:created");
    not_started.exited = false;
    let inventory = Inventory {
        sandboxes: vec![sandbox("web-box", "web", true, 1)],
        containers: vec![
            container("a", "web", "main", None, "running:1"),
            container("b", "web", "job", Some(5), "sha256:dead"),
            not_started,
            container("d", "gone", "job", Some(5), "sha256:freed"),
        ],
        images: vec![
            image("running", 0, 0),
            image("dead", 0, 0),
            image("created", 0, 0),
            image("freed", 0, 900),
            image("late", 0, 500),
            image("early", 0, 400),
            image("young", 990, 0),
            pinned,
            of_sandboxes,
        ],
        ..Inventory::default()
    };
    let web = policy(&["web"]);
    let gone = ["d", "sha256:early", "sha256:late", "sha256:freed"];
    assert_eq!(ids(1000, &inventory, &web), gone);
    let old_ones = Policy {
        dead_containers: false,
        unused_for: Some(SignedDuration::from_secs(550)),
        ..web
    };
    assert_eq!(ids(1000, &inventory, &old_ones), ["sha256:early"]);
}

#[test]
fn s1_041_images_alone_and_containers_alone() {
    let inventory = Inventory {
        containers: vec![container("a", "gone", "main", Some(5), "x")],
        images: vec![image("unused", 0, 0)],
        ..Inventory::default()
    };
    let both = policy(&[]);
    let images = Policy {
        dead_containers: false,
        ..both.clone()
    };
    let containers = Policy {
        unused_images: false,
        ..both
    };
    assert_eq!(ids(1000, &inventory, &images), ["sha256:unused"]);
    assert_eq!(ids(1000, &inventory, &containers), ["a"]);
}

#[test]
fn the_times_of_images_count_from_the_first_look() {
    let mut uses = ImageUses::default();
    let mut inventory = Inventory {
        containers: vec![container("a", "web", "main", None, "used:1")],
        images: vec![image("used", 0, 0), image("unused", 0, 0)],
        ..Inventory::default()
    };
    uses.note(at(100), &mut inventory);
    inventory.containers[0].exited = true;
    uses.note(at(160), &mut inventory);
    inventory.containers.clear();
    inventory.images.push(image("new", 0, 0));
    let text = serde_json::to_string(&uses).unwrap();
    let mut uses: ImageUses = serde_json::from_str(&text).unwrap();
    uses.note(at(200), &mut inventory);
    let times: Vec<(i64, i64)> = inventory
        .images
        .iter()
        .map(|one| (one.first_seen.as_second(), one.last_used.as_second()))
        .collect();
    assert_eq!(times, [(100, 160), (100, 100), (200, 200)]);
    // The clock was set back.
    uses.note(at(150), &mut inventory);
    assert_eq!(inventory.images[0].last_used, at(150));
}

/// A reclaim, and a filesystem that it frees.
struct Run {
    machine: Reclaiming,
    now: i64,
    available: i64,
    command: Command,
}

impl Run {
    fn start(policy: Policy) -> Self {
        let (machine, command) = Reclaiming::start(at(1000), policy, Some(0));
        Self {
            machine,
            now: 1000,
            available: 0,
            command,
        }
    }

    fn tell(&mut self, event: Event) {
        if let Some(command) = self.machine.on_event(at(self.now), event) {
            self.command = command;
        }
    }

    fn list(&mut self, images: &[&str]) {
        assert_eq!(self.command, Command::List);
        let images = images.iter().map(|name| image(name, 0, 0)).collect();
        self.tell(Event::Listed(Inventory {
            images,
            ..Inventory::default()
        }));
    }

    /// A second passes, and the filesystem has so many MiB.
    fn see(&mut self, mebibytes: i64, relieved: bool) {
        self.now += 1;
        self.available = mebibytes << 20;
        self.tell(Event::Observed {
            time: at(self.now),
            available: Some(self.available),
            relieved,
        });
    }

    fn removes(&self) -> &str {
        match &self.command {
            Command::Remove(removal) => removal.id(),
            other => panic!("{other:?}"),
        }
    }

    fn done(self) -> Reclaimed {
        match self.command {
            Command::Done(done) => done,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn it_ends_as_soon_as_it_is_enough() {
    let mut run = Run::start(policy(&[]));
    run.list(&["a", "b", "c"]);
    assert_eq!(run.removes(), "sha256:a");
    run.tell(Event::Removed);
    assert_eq!(run.command, Command::Wait);
    run.see(10, false);
    run.list(&["b", "c"]);
    assert_eq!(run.removes(), "sha256:b");
    run.tell(Event::Removed);
    run.see(20, true);
    let done = run.done();
    assert!(done.relieved);
    assert_eq!((done.images, done.image_bytes), (2, 20 * MI));
}

#[test]
fn users_15_background_deletions_are_waited_for() {
    let mut run = Run::start(policy(&[]));
    run.list(&["a"]);
    run.tell(Event::Removed);
    run.see(0, false);
    assert_eq!(run.command, Command::Wait, "nothing has moved yet");
    run.see(0, false);
    run.list(&[]);
    assert_eq!(run.command, Command::Wait, "it was the last one");
    for _ in 0..4 {
        run.see(0, false);
        assert_eq!(run.command, Command::Wait);
    }
    run.see(0, false);
    let done = run.done();
    assert_eq!(
        (done.images, done.image_bytes, done.relieved),
        (1, 0, false)
    );
}

#[test]
fn an_observation_before_a_removal_does_not_end_the_wait_for_it() {
    let mut run = Run::start(policy(&[]));
    run.list(&["a"]);
    run.now += 1;
    run.tell(Event::Removed);
    run.tell(Event::Observed {
        time: at(run.now - 1),
        available: Some(1 << 40),
        relieved: true,
    });
    assert_eq!(run.command, Command::Wait);
}

#[test]
fn failed_removals_are_reported_and_not_repeated() {
    let mut run = Run::start(policy(&[]));
    run.list(&["a", "b"]);
    run.tell(Event::Failed("in use".to_owned()));
    run.list(&["a", "b"]);
    assert_eq!(run.removes(), "sha256:b");
    run.tell(Event::Failed("in use".to_owned()));
    run.list(&["a", "b"]);
    let done = run.done();
    assert_eq!((done.images, done.failed), (0, 2));
    let first = "image docker.io/library/a:1: in use";
    assert_eq!(done.problems[0], first);
}

#[test]
fn a_runtime_that_does_nothing_for_ten_seconds_is_given_up() {
    let mut run = Run::start(policy(&[]));
    for _ in 0..9 {
        run.see(0, false);
        assert_eq!(run.command, Command::List);
    }
    run.see(0, false);
    let why = "the container runtime did not answer within 10 s";
    assert_eq!(run.done().problems, [why]);
    let mut run = Run::start(policy(&[]));
    run.tell(Event::Failed("no such socket".to_owned()));
    assert_eq!(run.done().problems, ["no such socket"]);
}

#[test]
fn a_dry_run_lists_and_removes_nothing() {
    let dry = Policy {
        dry_run: true,
        ..policy(&[])
    };
    let mut run = Run::start(dry);
    run.tell(Event::Listed(Inventory {
        containers: vec![container("c", "gone", "main", Some(5), "sha256:a")],
        images: vec![image("a", 0, 0), image("b", 0, 0)],
        ..Inventory::default()
    }));
    let done = run.done();
    assert!(!done.is_any());
    let would: Vec<&str> = done.would_remove.iter().map(Removal::id).collect();
    assert_eq!(would, ["c", "sha256:a", "sha256:b"]);
}

#[test]
fn after_the_containers_it_is_waited_and_listed_again() {
    let mut run = Run::start(policy(&[]));
    let dead = Inventory {
        containers: vec![
            container("1", "gone", "main", Some(5), "sha256:a"),
            container("2", "gone", "main", Some(6), "sha256:a"),
        ],
        sandboxes: vec![sandbox("gone-box", "gone", false, 1)],
        images: vec![image("a", 0, 0)],
        ..Inventory::default()
    };
    run.tell(Event::Listed(dead.clone()));
    assert_eq!(run.removes(), "1");
    run.tell(Event::Removed);
    assert_eq!(run.removes(), "2");
    run.tell(Event::Removed);
    assert_eq!(run.command, Command::Wait);
    run.see(3, false);
    run.see(3, false);
    assert_eq!(run.command, Command::List);
    let left = Inventory {
        containers: Vec::new(),
        ..dead
    };
    run.tell(Event::Listed(left.clone()));
    assert_eq!(run.removes(), "gone-box");
    run.tell(Event::Removed);
    run.tell(Event::Listed(Inventory {
        sandboxes: Vec::new(),
        ..left
    }));
    assert_eq!(run.removes(), "sha256:a");
    run.tell(Event::Removed);
    run.see(13, true);
    let done = run.done();
    let counts = (done.containers, done.sandboxes, done.images);
    assert_eq!(counts, (2, 1, 1));
    let bytes = (done.container_bytes, done.image_bytes);
    assert_eq!(bytes, (3 * MI, 10 * MI));
}

fn size(mebibytes: i64, inodes: i64) -> Size {
    Size {
        bytes: mebibytes << 20,
        inodes: Some(inodes),
    }
}

#[test]
fn images_free_their_share_of_the_disk_usage_and_containers_their_layers() {
    let mut dead = container("c", "gone", "main", Some(5), "elsewhere");
    dead.layer = Some(size(7, 3));
    let mut inventory = Inventory {
        containers: vec![dead, container("runs", "web", "main", None, "used:1")],
        images: vec![image("used", 0, 0), image("a", 0, 0), image("b", 0, 0)],
        images_on_disk: Some(size(240, 60)),
        ..Inventory::default()
    };
    let (machine, _) = Reclaiming::start(at(1000), policy(&["web"]), Some(0));
    let outlook = machine.outlook(at(1000), Some(&inventory), &policy(&["web"]));
    let certain = |known| Gain {
        known,
        uncertain: false,
    };
    assert_eq!(outlook.bytes, certain(167 << 20));
    assert_eq!(outlook.inodes, certain(43));
    let removals = all(at(1000), inventory.clone(), &policy(&["web"]));
    let Removal::Image { bytes, .. } = removals.last().unwrap() else {
        panic!("{removals:?}");
    };
    assert_eq!(*bytes, 80 * MI);
    // What is not known is not zero.
    inventory.images_on_disk = None;
    let outlook = machine.outlook(at(1000), Some(&inventory), &policy(&["web"]));
    assert_eq!(
        (outlook.bytes.known, outlook.bytes.uncertain),
        (7 << 20, true)
    );
    inventory.containers[0].layer = None;
    inventory.images.clear();
    let outlook = machine.outlook(at(1000), Some(&inventory), &policy(&["web"]));
    assert_eq!((outlook.bytes.known, outlook.bytes.uncertain), (0, true));
    assert!(
        machine
            .outlook(at(1000), None, &policy(&[]))
            .bytes
            .uncertain
    );
}

#[test]
fn removed_bytes_count_until_they_are_back_and_never_twice() {
    let mut run = Run::start(policy(&[]));
    let known = |run: &Run, inventory: &Inventory| {
        let outlook = run
            .machine
            .outlook(at(run.now), Some(inventory), &policy(&[]));
        outlook.bytes.known >> 20
    };
    let inventory = |names: &[&str]| Inventory {
        images: names.iter().map(|name| image(name, 0, 0)).collect(),
        images_on_disk: Some(size(20 * i64::try_from(names.len()).unwrap(), 10)),
        ..Inventory::default()
    };
    let both = inventory(&["a", "b"]);
    assert_eq!(known(&run, &both), 40);
    run.tell(Event::Listed(both.clone()));
    assert_eq!(run.removes(), "sha256:a");
    assert_eq!(known(&run, &both), 40, "it is being removed");
    run.tell(Event::Removed);
    assert_eq!(known(&run, &both), 40, "it is not back");
    run.see(5, false);
    assert_eq!(known(&run, &both), 35, "a part of it is");
    run.see(20, false);
    let one = inventory(&["b"]);
    assert_eq!(run.command, Command::List);
    assert_eq!(known(&run, &one), 20);
    run.tell(Event::Listed(one.clone()));
    run.tell(Event::Failed("in use".to_owned()));
    assert_eq!(known(&run, &one), 0, "it stays");
}
