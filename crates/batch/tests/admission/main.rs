//! Admission: the answers of the real Volcano, and each row of its behaviour.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod oracle;
