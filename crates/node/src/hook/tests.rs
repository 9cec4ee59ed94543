use super::*;
use std::fs;
use tokio::{io::AsyncBufReadExt, io::BufReader, net::UnixListener};

fn command(script: &str) -> Hook {
    let words = ["/bin/sh", "-c", script].map(str::to_owned);
    Hook::of(&PreKillHook {
        command: words.to_vec(),
        socket: None,
        budget: SignedDuration::from_secs(60),
    })
    .unwrap()
}

fn request(budget: u64) -> HookRequest {
    HookRequest {
        id: "1".to_owned(),
        pod: "shop/hog".to_owned(),
        uid: "u".to_owned(),
        cgroup: "kubepods/podu".into(),
        signal: "memory.available".to_owned(),
        kind: "soft",
        budget_milliseconds: budget,
    }
}

#[tokio::test]
async fn a_command_knows_its_pod_and_its_output_and_failure_are_kept() {
    let never = Notify::new();
    let script =
        "echo \"$EVICTD_POD $EVICTD_KIND $EVICTD_CGROUP $EVICTD_BUDGET_MS\"; echo lost >&2; exit 3";
    let hook = command(script).run(&request(60_000), &never).await;
    assert_eq!(hook.outcome, HookOutcome::Failed, "{hook:?}");
    assert_eq!(hook.detail, "exit status: 3");
    assert_eq!(hook.output, "shop/hog soft kubepods/podu 60000\nlost\n");
    let hook = command("yes | head -c 1000000")
        .run(&request(60_000), &never)
        .await;
    assert_eq!(hook.outcome, HookOutcome::Succeeded, "{hook:?}");
    assert_eq!(hook.output.len(), OUTPUT);
    let absent = Hook::of(&PreKillHook {
        command: vec!["/absent".to_owned()],
        ..PreKillHook::default()
    });
    let hook = absent.unwrap().run(&request(60_000), &never).await;
    assert_eq!(hook.outcome, HookOutcome::Failed);
    assert!(hook.detail.contains("No such file"), "{hook:?}");
}

#[tokio::test]
async fn a_command_that_fills_any_of_its_outputs_ends_and_what_is_kept_is_bounded() {
    let never = Notify::new();
    for script in [
        "yes | head -c 1000000 >&2; echo late",
        "head -c 1000000 /dev/zero | tr '\\0' '\\377'",
    ] {
        let hook = command(script).run(&request(60_000), &never).await;
        assert_eq!(hook.outcome, HookOutcome::Succeeded, "{hook:?}");
        let kept = hook.output.len();
        assert!((OUTPUT - 3..=OUTPUT).contains(&kept), "{script}: {kept}");
    }
}

/// Waits until the process is gone; a deadline of the test's runner ends a wait in vain.
async fn ended(pid: &str) {
    let state = format!("/proc/{}/stat", pid.trim());
    let runs = || fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z "));
    while runs() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    let never = Notify::new();
    let script = "sleep 1000 & echo $!";
    let hook = command(script).run(&request(60_000), &never).await;
    assert_eq!(hook.outcome, HookOutcome::Succeeded, "{hook:?}");
    assert!(hook.milliseconds < 30_000, "{hook:?}");
    let left = ended(&hook.output);
    timeout(Duration::from_secs(30), left).await.unwrap();
}

#[tokio::test]
async fn no_command_is_started_while_an_earlier_start_hangs() {
    let never = Notify::new();
    let hook = command("true");
    let hangs = hook.starts.acquire().await.unwrap();
    let waited = hook.run(&request(50), &never).await;
    assert_eq!(waited.outcome, HookOutcome::TimedOut, "{waited:?}");
    drop(hangs);
    let next = hook.run(&request(60_000), &never).await;
    assert_eq!(next.outcome, HookOutcome::Succeeded, "{next:?}");
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_its_children_when_its_budget_is_over_or_it_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pid");
    // The child of the hook ignores SIGTERM.
    let script = format!(
        "trap '' TERM; sleep 1000 & echo $! > {}; wait",
        path.display()
    );
    for (budget, expected) in [(300, HookOutcome::TimedOut), (60_000, HookOutcome::Cut)] {
        let end = Notify::new();
        let (hook, request) = (command(&script), request(budget));
        let _ = fs::remove_file(&path);
        let has_begun = async {
            while fs::read_to_string(&path).map_or(true, |pid| pid.trim().is_empty()) {
                tokio::task::yield_now().await;
            }
            if expected == HookOutcome::Cut {
                end.notify_one();
            }
        };
        let (hook, ()) = tokio::join!(hook.run(&request, &end), has_begun);
        assert_eq!(hook.outcome, expected, "{hook:?}");
        let child: i32 = fs::read_to_string(&path).unwrap().trim().parse().unwrap();
        ended(&child.to_string()).await;
    }
}

#[tokio::test]
async fn a_service_gets_a_line_of_json_and_is_waited_for_until_it_hangs_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hook.sock");
    let hook = Hook::of(&PreKillHook {
        command: Vec::new(),
        socket: Some(path.clone()),
        budget: SignedDuration::from_secs(60),
    });
    let hook = hook.unwrap();
    let never = Notify::new();
    let nothing = hook.run(&request(60_000), &never).await;
    assert_eq!(nothing.outcome, HookOutcome::Failed);
    let listener = UnixListener::bind(&path).unwrap();
    let service = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let asked: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(asked["pod"], "shop/hog");
        assert_eq!(asked["budgetMilliseconds"], 60_000);
        stream.write_all(b"dumped to /var/dumps/1").await.unwrap();
    };
    let asked = request(60_000);
    let (answered, ()) = tokio::join!(hook.run(&asked, &never), service);
    assert_eq!(answered.outcome, HookOutcome::Succeeded);
    assert_eq!(answered.output, "dumped to /var/dumps/1");
    // One that accepts and says nothing.
    let silent = hook.run(&request(50), &never).await;
    assert_eq!(silent.outcome, HookOutcome::TimedOut);
}
