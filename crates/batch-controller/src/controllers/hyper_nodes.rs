//! The controller of HyperNodes: one task with its machine, and the file that says which labels make HyperNodes.

use super::calls::{Calls, MERGE_PATCH, refusal};
use super::delay_queue::sleep_until;
use super::events::{Events, Involved};
use super::watches::{Delta, WatchSet, WatchedNode};
use evictd_cluster_client::{Access, NewsReceiver, NewsSender, Watches};
use evictd_daemon::followed_file::FollowedFile;
use evictd_hyper_nodes::{
    Discovery, DiscoveryConf, HyperNode, HyperNodeAnswer, HyperNodeCall, HyperNodeCommand,
    HyperNodeEvent, HyperNodeMachine,
};
use evictd_pod::wire::Metadata;
use evictd_reconcile::Refusal;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

const HYPER_NODES: &str = "/apis/topology.volcano.sh/v1alpha1/hypernodes";

/// How often the file is read again. The kubelet needs longer to renew it.
const READING: Duration = Duration::from_secs(1);

/// The number of answers that wait for the task.
const WAITING_ANSWERS: usize = 64;

/// A change of a node, a HyperNode or the file.
pub(super) enum HyperNodeNews {
    Node(Delta<WatchedNode>),
    HyperNode(Delta<HyperNode>),
    /// The file has changed.
    Discovery(Option<Discovery>),
    /// One more kind is listed.
    Listed,
}

/// The number of watched kinds.
const KINDS: usize = 2;

/// Starts the watches. Must be called inside the runtime. The tasks end with the receiver.
pub(super) fn watch(access: &Access, sender: &NewsSender<HyperNodeNews>, watches: &Watches) {
    let set = WatchSet::new(access, sender, watches, || HyperNodeNews::Listed);
    set.watch("/api/v1/nodes", HyperNodeNews::Node);
    // A cluster without the definition has none.
    set.watch(HYPER_NODES, HyperNodeNews::HyperNode);
}

/// The file with the sources of HyperNodes.
pub(super) struct DiscoveryFile {
    file: FollowedFile,
    /// The reloads that were refused.
    refused: Counter,
    /// The object that events about the file name.
    involved: Metadata,
}

impl DiscoveryFile {
    /// Reads the file, which may be missing. The error is a text with every mistake and its place.
    pub(super) fn open(
        path: PathBuf,
        refused: Counter,
        involved: Metadata,
    ) -> Result<(Self, DiscoveryConf), String> {
        let name = path.display().to_string();
        let file = FollowedFile::open_optional(path).map_err(|error| format!("{name}: {error}"))?;
        let file = Self {
            file,
            refused,
            involved,
        };
        let conf = file.read()?;
        Ok((file, conf))
    }

    fn read(&self) -> Result<DiscoveryConf, String> {
        let name = self.file.path().display().to_string();
        let conf = DiscoveryConf::parse(&name, self.file.text());
        let conf = conf.map_err(|error| error.to_string())?;
        for warning in &conf.warnings {
            warn!("{warning}");
        }
        Ok(conf)
    }

    /// Reads the file again until the receiver is dropped. A task of its own, because a disk may not answer.
    pub(super) async fn follow(mut self, events: Events, sender: NewsSender<HyperNodeNews>) {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                () = self.file.changed(READING) => {
                    if let Some(conf) = self.reload(&events) {
                        sender.send(HyperNodeNews::Discovery(conf.label));
                    }
                }
            }
        }
    }

    /// The changed configuration; `None` if it is invalid, because then the last valid one stays in force.
    fn reload(&self, events: &Events) -> Option<DiscoveryConf> {
        match self.read() {
            Ok(conf) => {
                info!("{} was reloaded", self.file.path().display());
                Some(conf)
            }
            Err(error) => {
                let note = format!("the last valid configuration stays in force: {error}");
                warn!("{note}");
                self.refused.inc();
                let involved = Involved::Lease(&self.involved);
                events.send(involved, "Warning", "InvalidConfiguration", note);
                None
            }
        }
    }
}

/// The task of this controller.
pub(super) struct HyperNodes {
    machine: HyperNodeMachine,
    listed_kinds: usize,
    calls: Calls,
    /// When the machine is due.
    due: Option<Timestamp>,
    answers: mpsc::Sender<(String, HyperNodeAnswer)>,
}

impl HyperNodes {
    /// Runs until the news end, or the task is aborted.
    pub(super) async fn run(
        discovery: Option<Discovery>,
        calls: Calls,
        mut news: NewsReceiver<HyperNodeNews>,
    ) {
        let (answers, mut answered) = mpsc::channel(WAITING_ANSWERS);
        let mut controller = Self {
            machine: HyperNodeMachine::new(),
            listed_kinds: 0,
            calls,
            due: None,
            answers,
        };
        controller.on_event(HyperNodeEvent::Discovery(discovery));
        loop {
            tokio::select! {
                // Answers first, because further calls wait for them.
                biased;
                Some((name, answer)) = answered.recv() => {
                    controller.on_event(HyperNodeEvent::Answer(name, answer));
                }
                heard = news.recv() => match heard {
                    Some(heard) => controller.hear(heard),
                    None => return,
                },
                () = sleep_until(controller.due) => controller.on_event(HyperNodeEvent::Tick),
            }
        }
    }

    fn hear(&mut self, heard: HyperNodeNews) {
        let event = match heard {
            HyperNodeNews::Listed => {
                self.listed_kinds += 1;
                if self.listed_kinds < KINDS {
                    return;
                }
                info!("nodes and HyperNodes are listed");
                HyperNodeEvent::Listed
            }
            HyperNodeNews::Node(Delta { new: Some(new), .. }) => HyperNodeEvent::Node(Metadata {
                name: new.metadata.name.clone(),
                labels: new.metadata.labels.clone(),
                ..Metadata::default()
            }),
            HyperNodeNews::Node(Delta { old: Some(old), .. }) => {
                HyperNodeEvent::NodeGone(old.metadata.name.clone())
            }
            HyperNodeNews::HyperNode(Delta { new: Some(new), .. }) => {
                HyperNodeEvent::HyperNode(new)
            }
            HyperNodeNews::HyperNode(Delta { old: Some(old), .. }) => {
                HyperNodeEvent::HyperNodeGone(old)
            }
            HyperNodeNews::Discovery(discovery) => HyperNodeEvent::Discovery(discovery),
            HyperNodeNews::Node(_) | HyperNodeNews::HyperNode(_) => return,
        };
        self.on_event(event);
    }

    /// Passes an event to the machine, and carries out its commands.
    fn on_event(&mut self, event: HyperNodeEvent) {
        let now = Timestamp::now();
        self.due = self.due.filter(|due| *due > now);
        for command in self.machine.on_event(now, event) {
            match command {
                HyperNodeCommand::Call(name, call) => {
                    debug!("HyperNode {name}: {call:?}");
                    let (calls, answers) = (self.calls.clone(), self.answers.clone());
                    tokio::spawn(async move {
                        let answer = calls.hyper_node(&name, call).await;
                        if let Err(refusal) = &answer {
                            warn!("cannot write the HyperNode {name}: {refusal}");
                        }
                        // The receiver is closed when the controllers end.
                        let _ = answers.send((name, answer)).await;
                    });
                }
                HyperNodeCommand::Suspended(reason) => warn!("{reason}"),
                HyperNodeCommand::Wake(time) => self.due = Some(time),
            }
        }
    }
}

impl Calls {
    /// Carries out a call about a HyperNode.
    async fn hyper_node(&self, name: &str, call: HyperNodeCall) -> HyperNodeAnswer {
        let path = format!("{HYPER_NODES}/{name}");
        let stored: Result<HyperNode, _> = match call {
            HyperNodeCall::Create(object) => self.create(HYPER_NODES.to_owned(), &object).await,
            HyperNodeCall::Patch(change) => self.patch(path, MERGE_PATCH, &change).await,
            HyperNodeCall::PatchStatus(change) => {
                let path = format!("{path}/status");
                self.patch(path, MERGE_PATCH, &change).await
            }
            HyperNodeCall::Delete(options) => {
                return match self
                    .delete(path, &options)
                    .await
                    .map_err(|error| refusal(&error))
                {
                    Ok(()) | Err(Refusal::NotFound) => Ok(None),
                    Err(refusal) => Err(refusal),
                };
            }
        };
        let stored = stored.map(|stored| Some(Arc::new(stored)));
        stored.map_err(|error| refusal(&error))
    }
}
