//! `env`: every container knows its pod's number (S6-055).

use super::{Made, push_env};

pub(super) fn on_pod(made: &mut Made<'_>) {
    let index = made.index.to_string();
    made.spec.each_container(|container| {
        push_env(container, "VK_TASK_INDEX", &index);
        push_env(container, "VC_TASK_INDEX", &index);
    });
}
