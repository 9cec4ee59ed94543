//! The rules, row by row: what the kubelet does, and where ours differ on purpose, both sides.
#![allow(clippy::unwrap_used, reason = "tests")]

mod awaited;
mod conditions;
mod dying;
mod eviction;
mod freeing;
mod futility;
mod gain;
mod grammar;
mod growth;
mod local_storage;
mod node;
mod preferences;
mod pressure;
mod ranking;
mod reclaim;
mod relief;
mod requests;
mod retention;
mod returning;
mod simulation;
mod stalls;
mod static_pods;
mod weighed;
mod words;
