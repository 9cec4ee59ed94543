//! What packages are made from: the tree that packaging/tree lays out, and krew's manifests.

use evictd_testkit::{
    program::{self, page},
    testing::left_out,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const EVICTD: &str = env!("CARGO_BIN_EXE_evictd");

const PROGRAMS: [&str; 3] = ["evictd", "evictd-scheduler", "evictd-batch"];

struct Tree {
    directory: tempfile::TempDir,
}

impl Tree {
    /// Of the programs that were built for the tests; none, having said so, where one was not.
    fn new(test: &str) -> Option<Self> {
        let programs = Path::new(EVICTD).parent().unwrap();
        for program in PROGRAMS {
            if !programs.join(program).exists() {
                let why = format!("{program} is not built: cargo test --workspace builds it");
                left_out(test, why);
                return None;
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let made = Command::new(Path::new(ROOT).join("packaging/tree"))
            .arg(programs)
            .arg(directory.path().join("tree"))
            .status();
        assert!(made.unwrap().success());
        Some(Self { directory })
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join("tree").join(path)
    }

    /// A program that is found there as kubectl finds its plugins; what it prints.
    fn run(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let shown = Command::new(program)
            .args(arguments)
            .env("PATH", format!("{}:{path}", self.path("usr/bin").display()))
            .output()
            .ok()?;
        assert!(shown.status.success(), "{shown:?}");
        Some(String::from_utf8(shown.stdout).unwrap())
    }
}

fn unpacked(path: &Path) -> String {
    let shown = Command::new("gzip").arg("-dc").arg(path).output().unwrap();
    String::from_utf8(shown.stdout).unwrap()
}

#[test]
fn a_package_has_every_program_with_manual_completions_and_an_empty_directory_for_manifests() {
    let name = "a_package_has_every_program_with_manual_completions_and_an_empty_directory";
    let Some(tree) = Tree::new(name) else { return };
    for program in PROGRAMS {
        for file in [
            format!("usr/bin/{program}"),
            format!("usr/share/man/man8/{program}.8.gz"),
            format!("usr/share/bash-completion/completions/{program}"),
            format!("usr/share/zsh/vendor-completions/_{program}"),
            format!("usr/share/fish/vendor_completions.d/{program}.fish"),
        ] {
            let length = fs::metadata(tree.path(&file)).map(|file| file.len());
            assert!(length.is_ok_and(|length| length > 100), "{file}");
        }
    }
    for (link, program) in [
        ("kubectl-evictd", "evictd"),
        ("kubectl-evictd_scheduler", "evictd-scheduler"),
        ("kubectl-evictd_batch", "evictd-batch"),
    ] {
        let target = fs::read_link(tree.path("usr/bin").join(link)).unwrap();
        assert_eq!(target, Path::new(program));
    }
    let manifests = fs::read_dir(tree.path("etc/evictd/manifests")).unwrap();
    assert_eq!(manifests.count(), 0);
}

#[test]
fn the_pages_that_a_page_refers_to_are_there_and_the_configuration_has_one_with_every_key() {
    let name = "the_pages_that_a_page_refers_to_are_there_and_the_configuration_has_one";
    let Some(tree) = Tree::new(name) else { return };
    let pages = ["man5", "man8"].map(|section| tree.path("usr/share/man").join(section));
    let pages: Vec<PathBuf> = pages
        .iter()
        .flat_map(|section| fs::read_dir(section).unwrap())
        .map(|page| page.unwrap().path())
        .collect();
    let known: BTreeSet<String> = pages
        .iter()
        .map(|page| page.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    for page in &pages {
        let text = unpacked(page).replace('\\', "");
        for word in text.split_whitespace() {
            let reference = word.trim_end_matches([',', '.']).strip_suffix(')');
            let Some((of, section)) = reference.and_then(|word| word.rsplit_once('(')) else {
                continue;
            };
            if of.starts_with("evictd") && section.len() == 1 {
                assert!(
                    known.contains(&format!("{of}.{section}")),
                    "{page:?}: {word}"
                );
            }
        }
    }
    let page = unpacked(&tree.path("usr/share/man/man5/evictd.yaml.5.gz")).replace('\\', "");
    let file = fs::read_to_string(Path::new(ROOT).join("config/evictd.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&file).unwrap();
    for (key, value) in file.as_object().unwrap() {
        if matches!(&**key, "apiVersion" | "kind") {
            continue;
        }
        let alone = page.contains(&format!("fB{key}fR"));
        let below = |inner: &String| page.contains(&format!("fB{key}.{inner}fR"));
        let inner = value.as_object();
        let all = alone || inner.is_some_and(|inner| inner.keys().all(below));
        assert!(all, "{key}\n{page}");
    }
}

#[test]
fn all_programs_are_plugins_of_kubectl() {
    let name = "all_programs_are_plugins_of_kubectl";
    let Some(tree) = Tree::new(name) else { return };
    for (program, called, subcommand) in [
        ("kubectl-evictd", "evictd", "explain"),
        ("kubectl-evictd_scheduler", "evictd-scheduler", "plan"),
        ("kubectl-evictd_batch", "evictd-batch", "job"),
    ] {
        let usage = format!("Usage: kubectl {called} {subcommand} ");
        let program = tree.path("usr/bin").join(program);
        let shown = tree.run(program.to_str().unwrap(), &[subcommand, "--help"]);
        assert!(shown.unwrap().contains(&usage));
        match tree.run("kubectl", &[called, subcommand, "--help"]) {
            Some(shown) => assert!(shown.contains(&usage), "{shown}"),
            None => left_out(name, "there is no kubectl"),
        }
    }
}

#[test]
fn a_krew_manifest_names_its_program_and_the_archives_that_are_made() {
    for program in PROGRAMS {
        let path = Path::new(ROOT).join(format!("packaging/krew/{program}.yaml"));
        let plugin: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(plugin["metadata"]["name"], program);
        // krew refuses longer ones.
        assert!(plugin["spec"]["shortDescription"].as_str().unwrap().len() <= 50);
        let platforms = plugin["spec"]["platforms"].as_array().unwrap();
        for (platform, cpu) in platforms.iter().zip(["x86_64", "aarch64"]) {
            assert_eq!(platform["bin"], program);
            // As packaging/build names them.
            let archive = format!("kubectl-{program}-@VERSION@-{cpu}-unknown-linux-gnu.tar.gz");
            assert_eq!(platform["sha256"], format!("@SHA256 {archive}@"));
            let uri = platform["uri"].as_str().unwrap();
            assert!(uri.ends_with(&format!("/v@VERSION@/{archive}")), "{uri}");
        }
        assert_eq!(platforms.len(), 2);
    }
}

/// One of the scripts that make packages, with these arguments.
fn script(name: &str, arguments: &[&Path]) {
    let mut command = Command::new(Path::new(ROOT).join("packaging").join(name));
    command.env("SOURCE_DATE_EPOCH", "0").args(arguments);
    page(&program::run(&mut command, ""));
}

fn sum(file: &Path) -> String {
    let said = page(&program::run(Command::new("sha256sum").arg(file), ""));
    said.split(' ').next().unwrap().to_owned()
}

#[test]
fn the_krew_archive_holds_the_files_of_its_manifest() {
    let Some(tree) = Tree::new("the_krew_archive_holds_the_files_of_its_manifest") else {
        return;
    };
    // They are large, and what they do as plugins is tested above.
    for program in PROGRAMS {
        let path = tree.path("usr/bin").join(program);
        fs::write(&path, format!("#!/bin/sh\necho {program} $@\n")).unwrap();
    }
    // As packaging/build adds them.
    let licences = "usr/share/doc/evictd/third-party-licences.gz";
    fs::write(tree.path(licences), "of others").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for targets in [["x86_64"].as_slice(), &["x86_64", "aarch64"]] {
        let out = tempfile::tempdir().unwrap();
        let make = |target: &str, out: &Path| {
            let target = format!("{target}-unknown-linux-gnu");
            let [version, target] = [version, &target].map(Path::new);
            script("krew/archives", &[&tree.path(""), out, version, target]);
        };
        for target in targets {
            make(target, out.path());
        }
        script("krew/manifests", &[out.path(), Path::new(version)]);
        let again = tempfile::tempdir().unwrap();
        make("x86_64", again.path());
        for program in PROGRAMS {
            let manifest = out.path().join(format!("krew/{program}.yaml"));
            let manifest = fs::read_to_string(manifest).unwrap();
            assert!(!manifest.contains('@'), "{manifest}");
            let plugin: Value = serde_saphyr::from_str(&manifest).unwrap();
            assert_eq!(plugin["spec"]["version"], format!("v{version}"));
            let platforms = plugin["spec"]["platforms"].as_array().unwrap();
            assert_eq!(platforms.len(), targets.len(), "{manifest}");
            for (platform, target) in platforms.iter().zip(targets) {
                let uri = platform["uri"].as_str().unwrap();
                let (_, archive) = uri.rsplit_once('/').unwrap();
                assert!(archive.contains(target), "{uri}");
                assert_eq!(platform["sha256"], sum(&out.path().join(archive)));
                let bin = platform["bin"].as_str().unwrap();
                installs(&out.path().join(archive), bin, program);
            }
            // The sums hold whenever it is made.
            let archive = format!("kubectl-{program}-{version}-x86_64-unknown-linux-gnu.tar.gz");
            let both = [out.path(), again.path()].map(|made| sum(&made.join(&archive)));
            assert_eq!(both[0], both[1], "{archive}");
        }
    }
}

/// Does as krew, which unpacks everything and links to `bin`; what it says as kubectl's plugin is said by `program`.
fn installs(archive: &Path, bin: &str, program: &str) {
    let store = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--file"]).arg(archive);
    page(&program::run(tar.arg("--directory").arg(store.path()), ""));
    let mut files: Vec<_> = fs::read_dir(store.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["LICENSE", program, "third-party-licences.gz"]);
    let plugin = store
        .path()
        .join(format!("kubectl-{}", program.replace('-', "_")));
    symlink(store.path().join(bin), &plugin).unwrap();
    let said = page(&program::run(Command::new(plugin).arg("plan"), ""));
    assert_eq!(said, format!("{program} plan\n"));
}
