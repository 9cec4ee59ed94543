//! Tests every error and its cause.

use crate::state::state;
use crate::{SOON, client, patient};
use evictd_cri::{Client, Code, Error, Settings, usual_sockets};
use evictd_testkit::cri::{Behaviour, Double};
use std::path::Path;
use std::time::Duration;

#[tokio::test]
async fn a_runtime_that_does_not_answer_is_given_up_and_may_come_back() {
    let double = Double::start(state()).unwrap();
    for (behaviour, call) in [
        (Behaviour::Hang, "ListContainers"),
        (Behaviour::Slow(Duration::from_mins(1)), "ListContainers"),
    ] {
        double.behave(call, behaviour);
        let client = client(&double.socket(), SOON);
        let error = client.containers().await.unwrap_err();
        let named = |after| after == SOON;
        assert!(
            matches!(&error, Error::TimedOut { call: "ListContainers", after, .. } if named(*after)),
            "{error}"
        );
        assert!(error.to_string().contains("cri.sock"), "{error}");
    }
    double.recover("ListContainers");
    assert_eq!(patient(&double).containers().await.unwrap().len(), 1);
    // The wait for a stop is longer by the grace period.
    double.behave("StopContainer", Behaviour::Slow(Duration::from_millis(300)));
    let hasty = client(&double.socket(), SOON);
    hasty
        .stop_container("c1", Duration::from_secs(30))
        .await
        .unwrap();
    let error = hasty
        .stop_container("c1", Duration::ZERO)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn a_refusal_carries_the_runtimes_message() {
    let double = Double::start(state()).unwrap();
    double.behave("RemoveImage", Behaviour::Refuse(9, "image is in use"));
    double.behave("ListImages", Behaviour::Refuse(7, "not you"));
    let client = patient(&double);
    let error = client.remove_image("shop/web:1").await.unwrap_err();
    assert!(
        matches!(&error, Error::Runtime { code: Code::FailedPrecondition, message, .. } if message == "image is in use"),
        "{error}"
    );
    let words = error.to_string();
    assert!(
        words.starts_with("RemoveImage: the runtime at /"),
        "{words}"
    );
    assert_eq!(double.calls("RemoveImage"), 1);
    let error = client.images().await.unwrap_err();
    assert!(matches!(error, Error::NotPermitted { .. }), "{error}");
}

#[tokio::test]
async fn too_much_is_refused_before_it_is_kept() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    double.behave("ListContainers", Behaviour::Huge(64 << 20));
    let error = client.containers().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                limit: 16_777_216,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("16777216 bytes"), "{error}");
    // 8 million containers without any field, in 16 MB.
    double.behave(
        "ListContainers",
        Behaviour::Bytes([0x0a, 0].repeat(8_000_000)),
    );
    let error = client.containers().await.unwrap_err();
    assert!(
        matches!(error, Error::TooMany { limit: 20_000, .. }),
        "{error}"
    );
    double.recover("ListContainers");
    double.change(|state| state.containers = vec![state.containers[0].clone(); 100_000]);
    let error = client.containers().await.unwrap_err();
    assert!(matches!(error, Error::TooMany { .. }), "{error}");
    double.change(|state| state.containers.truncate(20_000));
    assert_eq!(client.containers().await.unwrap().len(), 20_000);
}

#[tokio::test]
async fn a_runtime_from_before_v1_is_called_old() {
    let double = Double::start(state()).unwrap();
    double.speak("runtime.v1alpha2");
    let client = patient(&double);
    for error in [
        client.version().await.unwrap_err(),
        client.containers().await.unwrap_err(),
        client.cgroup_driver().await.unwrap_err(),
        client.events().next().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::OldVersion { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_foreign_server_is_recognized() {
    let double = Double::start(state()).unwrap();
    let client = patient(&double);
    double.speak("containerd.services.v1");
    let error = client.version().await.unwrap_err();
    assert!(
        matches!(&error, Error::NotCri { why, .. } if why.contains("plugin")),
        "{error}"
    );
    double.speak("runtime.v1");
    for status in [200, 400, 404, 500] {
        double.behave("Version", Behaviour::Http(status));
        let error = client.version().await.unwrap_err();
        assert!(matches!(error, Error::NotCri { .. }), "{status}: {error}");
    }
    double.behave("Version", Behaviour::Bytes(vec![0xff; 20]));
    let error = client.version().await.unwrap_err();
    assert!(matches!(error, Error::NotCri { .. }), "{error}");
}

#[tokio::test]
async fn a_socket_without_http2_is_reported_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let answers: [&'static [u8]; 3] = [
        b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        b"220 mail ESMTP ready\r\n",
    ];
    for (index, bytes) in answers.into_iter().enumerate() {
        let socket = directory.path().join(index.to_string());
        let _impostor = Double::impostor(&socket, bytes).unwrap();
        let error = client(&socket, Duration::from_secs(30))
            .version()
            .await
            .unwrap_err();
        assert!(matches!(error, Error::NotCri { .. }), "{index}: {error:?}");
    }
    let socket = directory.path().join("silent");
    let _silent = Double::impostor(&socket, b"").unwrap();
    let error = client(&socket, SOON).version().await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn a_missing_or_abandoned_socket_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("none.sock");
    let missing = client(&socket, SOON);
    let error = missing.version().await.unwrap_err();
    assert!(matches!(error, Error::NotThere { .. }), "{error}");
    assert!(error.to_string().contains("none.sock"), "{error}");
    // A file that is not a socket, like one whose runtime has exited.
    std::fs::write(&socket, "").unwrap();
    let error = missing.version().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    // The runtime may start later.
    std::fs::remove_file(&socket).unwrap();
    let error = missing.version().await.unwrap_err();
    assert!(matches!(error, Error::NotThere { .. }), "{error}");
}

#[tokio::test]
async fn without_a_configured_socket_all_usual_ones_are_named() {
    if usual_sockets().iter().any(|path| Path::new(path).exists()) {
        return evictd_testkit::testing::left_out("usual_sockets", "a container runtime is here");
    }
    let client = Client::new(Settings::default()).unwrap();
    assert_eq!(client.socket(), None);
    let words = client.version().await.unwrap_err().to_string();
    assert!(
        usual_sockets().iter().all(|path| words.contains(path)),
        "{words}"
    );
}
