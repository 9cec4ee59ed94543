//! The pod as both wings see it.
#![forbid(unsafe_code)]
