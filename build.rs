//! Lays out the text of the program that is shipped, so that little of it stays resident: packaging/layout says how.

fn main() {
    let layout = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/layout/hot.ld");
    println!("cargo::rerun-if-changed={layout}");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{layout}");
    }
}
