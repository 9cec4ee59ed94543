//! The cluster and the pod of `plan` and `explain`.

use crate::dump::{self, DumpError, Loaded, Nominations, PodKey, Source};
use crate::emulation::Emulation;
use crate::live::{Lists, Live};
use crate::preemptor::PodSource;
use crate::progress::Progress;
use anyhow::anyhow;
use clap::Args;
use evictd_cluster_client::{ApiError, Credentials};
use evictd_command::{Failure, warn};
use evictd_document::{Document, DocumentError, ObjectsError, SMALL};
use evictd_pod::compatibility::Release;
use evictd_pod::wire;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct Input {
    /// The cluster: nodes, namespaces, pods, PodDisruptionBudgets and PriorityClasses, JSON or YAML; - is stdin. May be
    /// given several times.
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
        let stdin = Path::new("-");
        let inputs = self.cluster.iter().chain([&self.pod]);
        if inputs.filter(|path| *path == stdin).count() > 1 {
            return Err(Failure::Input(anyhow!("only one file can be - (stdin)")));
        }
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
            let sources = self.cluster.iter().map(|path| open(path));
            let sources: Vec<_> = sources.collect::<Result<_, _>>().map_err(Failure::input)?;
            let compatibility = self.emulation.of_files()?;
            return Ok(dump::load(
                sources,
                Some(preemptor),
                in_files,
                compatibility,
            ));
        };
        let (lists, release) = live(context, scores, &self.emulation)?;
        let compatibility = self.emulation.with(release);
        let compatibility = compatibility.map_err(|error| Failure::Input(anyhow!(error)))?;
        let omissions = lists.omissions();
        let source = source(&format!("context {context}"), Live::new(lists), None);
        let loaded = dump::load([source], Some(preemptor), Nominations::All, compatibility);
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
    Source {
        name: name.to_owned(),
        text: Progress::new(Box::new(text), name, length),
    }
}

pub(super) type Text = Source<Progress<Box<dyn Read>>>;

/// The lists of a live cluster, and the release that its scheduler has.
fn live(context: &str, scores: bool, emulation: &Emulation) -> Result<(Lists, Release), Failure> {
    let credentials = Credentials {
        kubeconfig: None,
        context: context.to_owned(),
    };
    let lists = Lists::new(&credentials, None, scores)?;
    let release = match emulation.release() {
        Some(release) => release,
        None => release_of(&lists),
    };
    Ok((lists, release))
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
fn failure(error: DumpError) -> Failure {
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

pub(super) fn open(path: &Path) -> Result<Text, DocumentError> {
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
