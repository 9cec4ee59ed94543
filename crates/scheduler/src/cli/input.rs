//! The cluster and the pod of `plan` and `explain`.

use crate::dump::{self, DumpError, Loaded, Nominations, PodKey, Source};
use crate::emulation::Emulation;
use crate::live::{Lists, Live, Omissions};
use crate::preemptor::PodSource;
use crate::progress::Progress;
use anyhow::anyhow;
use clap::Args;
use evictd_cluster_client::{ApiError, Credentials};
use evictd_command::{Failure, warn};
use evictd_document::{Document, DocumentError, InputFile, ObjectsError, SMALL};
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_pod::wire;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct Input {
    /// The cluster: nodes, namespaces, pods, PodDisruptionBudgets and PriorityClasses, JSON or YAML; - is stdin. Of a
    /// directory all such files are read. May be given several times.
    #[arg(long, value_name = "FILE", required_unless_present = "context")]
    cluster: Vec<PathBuf>,
    /// The context of the kubeconfig for the cluster to read. Nothing is changed in it.
    #[arg(long, value_name = "NAME", conflicts_with = "cluster")]
    context: Option<String>,
    /// The pod to schedule: a manifest, or namespace/name of a pod in the cluster.
    #[arg(long, value_name = "FILE")]
    pod: PathBuf,
    #[command(flatten)]
    emulation: Emulation,
}

impl Input {
    /// Reads the cluster and the pod, which gets the API server's defaults. `scores`: whether nodes will be scored.
    /// `in_files`: which nominations count in files. In a live cluster all of them do.
    pub(super) fn read(
        &self,
        scores: bool,
        in_files: Nominations,
    ) -> Result<(Loaded, wire::Pod), Failure> {
        check_stdin(self.cluster.iter().chain([&self.pod]))?;
        let source = pod_source(&self.pod)?;
        let loaded = self.load(&source.key(), scores, in_files)?;
        let mut loaded = loaded.map_err(|error| {
            failure(match error {
                DumpError::Objects(error) => DumpError::Objects(error.with_those_of(source.text())),
                none @ DumpError::NoNodes { .. } => none,
            })
        })?;
        let pod = source.pod(&mut loaded).map_err(Failure::input)?;
        Ok((loaded, pod))
    }

    fn load(
        &self,
        preemptor: &PodKey,
        scores: bool,
        in_files: Nominations,
    ) -> Result<Result<Loaded, DumpError>, Failure> {
        let Some(context) = &self.context else {
            let sources = open_all(&self.cluster).map_err(Failure::input)?;
            let compatibility = self.emulation.of_files()?;
            return Ok(dump::load(
                sources,
                Some(preemptor),
                in_files,
                compatibility,
            ));
        };
        let LiveCluster {
            text,
            omissions,
            compatibility,
        } = live(context, scores, &self.emulation)?;
        let loaded = dump::load([text], Some(preemptor), Nominations::All, compatibility);
        let mut loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return Ok(Err(error)),
        };
        for omission in omissions.take() {
            loaded.objects.assumptions.note(omission);
        }
        Ok(Ok(loaded))
    }
}

/// Reads the manifest. Without a file of this name, the text is the name of a pod.
fn pod_source(path: &Path) -> Result<PodSource, Failure> {
    let document = match Document::read(path, SMALL) {
        Err(DocumentError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let named = path.to_str().and_then(PodSource::of_name);
            return named.ok_or_else(|| {
                let path = path.display();
                Failure::Input(anyhow!(
                    "--pod {path}: there is no such file, and no pod has such a name; namespace/name is needed"
                ))
            });
        }
        document => document.map_err(Failure::input)?,
    };
    Ok(PodSource::Manifest(document))
}

/// A source of objects, with its length if known.
fn source(name: &str, text: impl Read + 'static, length: Option<u64>) -> Text {
    let text: Box<dyn Read> = Box::new(text);
    Source::new(name.to_owned(), Progress::new(text, name, length))
}

pub(super) type Text = Source<Progress<Box<dyn Read>>>;

/// A live cluster as a source of objects.
pub(super) struct LiveCluster {
    pub(super) text: Text,
    /// The kinds that could not be listed. Complete after the last page.
    pub(super) omissions: Omissions,
    /// As its scheduler behaves.
    pub(super) compatibility: Compatibility,
}

/// Reads the cluster of a context. `scores`: whether nodes will be scored.
pub(super) fn live(
    context: &str,
    scores: bool,
    emulation: &Emulation,
) -> Result<LiveCluster, Failure> {
    let credentials = Credentials {
        kubeconfig: None,
        context: context.to_owned(),
    };
    let lists = Lists::new(&credentials, None, scores)?;
    let release = match emulation.release() {
        Some(release) => release,
        None => release_of(&lists),
    };
    let compatibility = emulation.with(release);
    Ok(LiveCluster {
        omissions: lists.omissions(),
        text: source(&format!("context {context}"), Live::new(lists), None),
        compatibility: compatibility.map_err(|error| Failure::Input(anyhow!(error)))?,
    })
}

/// The release of the API server. If it is unknown, the answer says so.
fn release_of(lists: &Lists) -> Release {
    let reason = match lists.release() {
        Ok(Some(release)) => return release,
        Ok(None) => "/version names none".to_owned(),
        Err(error) => error.to_string(),
    };
    let release = Release::default();
    let known = release.as_str();
    let warning = format!(
        "the release of the API server is unknown, so that kube-scheduler {known} answers: {reason}"
    );
    warn("evictd-scheduler", &warning);
    release
}

/// The exit code of an error: a mistake in a dump is bad input, an error of a live cluster is a failure.
pub(super) fn failure(error: DumpError) -> Failure {
    let live = match &error {
        DumpError::Objects(ObjectsError::Document(DocumentError::Read { source, .. })) => {
            source.get_ref()
        }
        _ => None,
    };
    match live.and_then(|error| error.downcast_ref::<ApiError>()) {
        None => Failure::input(error),
        Some(ApiError::Forbidden { .. }) => Failure::not_permitted(error),
        Some(_) => Failure::from(error),
    }
}

/// Stdin can be read only once.
pub(super) fn check_stdin<'p>(inputs: impl Iterator<Item = &'p PathBuf>) -> Result<(), Failure> {
    if inputs.filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::Input(anyhow!("only one file can be - (stdin)")));
    }
    Ok(())
}

/// Opens the files, and those of directories.
pub(super) fn open_all(paths: &[PathBuf]) -> Result<Vec<Text>, DocumentError> {
    let mut texts = Vec::new();
    for path in paths {
        for file in InputFile::at(path)? {
            texts.push(if file.is_found {
                let source = file.source();
                let name = source.name.clone();
                source.map(|text| {
                    let text: Box<dyn Read> = Box::new(text);
                    Progress::new(text, &name, None)
                })
            } else {
                open(&file.path)?
            });
        }
    }
    Ok(texts)
}

fn open(path: &Path) -> Result<Text, DocumentError> {
    if path == Path::new("-") {
        return Ok(source("standard input", io::stdin().lock(), None));
    }
    let name = path.display().to_string();
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = match opened {
        Ok(opened) => opened,
        Err(source) => return Err(DocumentError::Read { name, source }),
    };
    if metadata.is_dir() {
        return Err(DocumentError::Directory(name));
    }
    let length = metadata.is_file().then_some(metadata.len());
    Ok(source(&name, file, length))
}
