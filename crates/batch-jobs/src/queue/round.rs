//! One round of a queue: a request is carried out, call by call.

use super::state::{Procedure, Wanted, procedure};
use super::view::{CLOSED_BY_PARENT, Lister, ROOT, View};
use evictd_batch_objects::QueueState;
use evictd_batch_objects::bus::{Action, Event};
use evictd_reconcile::{Notice, Tone};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// One request to a queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// The queue.
    pub queue: String,
    /// The event.
    pub event: Event,
    /// The action.
    pub action: Action,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Changes a queue. A JSON patch.
    Patch {
        /// Its name.
        queue: String,
        /// The operations.
        patch: Value,
    },
    /// Applies the state to the queue's status, and nothing else.
    ApplyState {
        /// Its name.
        queue: String,
        /// The state.
        state: QueueState,
    },
}

/// The queue as it is stored after a call; or why the call failed, in words.
pub type Answer = Result<Arc<View>, String>;

/// Why a round failed. Volcano's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RoundError {
    /// The state is none that there is.
    #[error("queue {queue} state {state} is invalid")]
    State {
        /// The queue.
        queue: String,
        /// The error.
        state: String,
    },
    /// A call failed.
    #[error("sync queue {queue} failed for {why}, event is {event}, action is {action}")]
    Failed {
        /// The queue.
        queue: String,
        /// Why.
        why: String,
        /// The event of the request.
        event: String,
        /// Its action.
        action: String,
    },
}

/// The next step of a round, and its results so far.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Events on the queue.
    pub notices: Vec<Notice>,
    /// Requests for other queues, or for this one again.
    pub requests: Vec<Request>,
    /// PodGroups of the queue that there are no longer; they counted in this round (S6-068).
    pub forgotten: Vec<String>,
    /// The next call, or the end.
    pub next: Next,
}

/// The next call, or the end of a round.
#[derive(Debug)]
pub(crate) enum Next {
    /// Make this one, and bring its answer.
    Call(Call),
    /// It is over.
    Done(Result<(), RoundError>),
}

impl Default for Next {
    fn default() -> Self {
        Self::Done(Ok(()))
    }
}

/// A round that is under way.
#[derive(Debug)]
pub(crate) struct Round {
    request: Request,
    queue: Arc<View>,
    /// The queue as the last call left it.
    newest: Arc<View>,
    /// The remaining steps, in order.
    tasks: VecDeque<Task>,
    /// That which waits for the answer to its call.
    current: Option<Task>,
    step: Step,
}

#[derive(Debug, Clone)]
enum Task {
    /// A queue without one above it gets the root (S6-070).
    Parent,
    /// Its state becomes this one, if it is not.
    State(QueueState, Why),
    /// It is brought in line with the queue above it (S6-072).
    Hierarchy,
    /// The queues below that were closed because of it are to open.
    OpenChildren,
    /// The queues below are to close.
    CloseChildren,
    /// Whether a queue is closed because of the one above it is written down.
    Annotate(Arc<View>, bool),
    /// The request follows once that is done.
    Ask(Request),
}

/// Why a state is applied; it decides the events (S6-071).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Sync,
    Open,
    Close,
}

impl Round {
    /// Begins to carry out a request; `groups` are the PodGroups that are known to be in the queue.
    pub(crate) fn start<'a>(
        request: Request,
        groups: impl Iterator<Item = &'a str>,
        lister: &dyn Lister,
    ) -> (Self, Step) {
        let found = lister.queue(&request.queue);
        let queue = found.clone().unwrap_or_default();
        let mut round = Self {
            newest: Arc::clone(&queue),
            queue,
            request,
            tasks: VecDeque::new(),
            current: None,
            step: Step::default(),
        };
        let step = match found {
            Some(_) => round.begin(&groups.collect::<Vec<_>>(), lister),
            None => round.done(Ok(())),
        };
        (round, step)
    }

    fn begin(&mut self, groups: &[&str], lister: &dyn Lister) -> Step {
        let state = &self.queue.status.state;
        let Some(known) = state.or_open() else {
            let error = RoundError::State {
                queue: self.request.queue.clone(),
                state: state.to_string(),
            };
            return self.done(Err(error));
        };
        let empty = groups.is_empty();
        match procedure(known, &self.request.action) {
            Procedure::Sync(wanted) => {
                let gone = groups.iter().filter(|key| !lister.has_group(key));
                self.step.forgotten = gone.map(|key| (*key).to_owned()).collect();
                let state = Task::State(wanted.state(empty), Why::Sync);
                self.tasks.extend([Task::Parent, state, Task::Hierarchy]);
            }
            Procedure::Open => {
                let state = Task::State(QueueState::Open, Why::Open);
                let released = Task::Annotate(Arc::clone(&self.queue), false);
                // The children first: after a failure the open request is repeated and finds its queue closed.
                self.tasks.extend([Task::OpenChildren, state, released]);
            }
            // Closing the root would close every queue of the cluster.
            Procedure::Close if self.queue.name() == ROOT => {}
            Procedure::Close => {
                let state = Wanted::ClosedWhenEmpty.state(empty);
                let state = Task::State(state, Why::Close);
                self.tasks.extend([Task::CloseChildren, state]);
            }
        }
        self.proceed(lister)
    }

    fn done(&mut self, result: Result<(), RoundError>) -> Step {
        self.tasks.clear();
        self.step.next = Next::Done(result);
        std::mem::take(&mut self.step)
    }

    fn failed(&mut self, why: String) -> Step {
        let error = RoundError::Failed {
            queue: self.request.queue.clone(),
            why,
            event: self.request.event.as_str().to_owned(),
            action: self.request.action.as_str().to_owned(),
        };
        self.done(Err(error))
    }

    /// Takes the answer to the call of the last step.
    pub(crate) fn answered(&mut self, answer: Answer, lister: &dyn Lister) -> Step {
        let taken = match (self.current.take(), answer) {
            (Some(task), Ok(queue)) => {
                self.succeeded(&task, queue);
                Ok(())
            }
            (Some(task), Err(why)) => Err(self.refused(&task, why)),
            (None, _) => Ok(()),
        };
        match taken {
            Ok(()) => self.proceed(lister),
            Err(why) => self.failed(why),
        }
    }

    fn succeeded(&mut self, task: &Task, queue: Arc<View>) {
        if let Task::State(_, Why::Close) = task {
            let message = "Close queue succeed".to_owned();
            self.notice(Tone::Normal, "CloseQueue", message);
        }
        if matches!(task, Task::Parent) {
            // The later steps compare with the parent that was just written.
            self.queue = Arc::clone(&queue);
        }
        if queue.name() == self.queue.name() {
            self.newest = queue;
        }
    }

    /// Records the event of a failed call; returns the round's error.
    fn refused(&mut self, task: &Task, why: String) -> String {
        match task {
            Task::State(new, Why::Open) => {
                let (old, new) = (&self.queue.status.state, new.as_str());
                let message = format!("Update queue status from {old} to {new} failed for {why}");
                self.notice(Tone::Warning, "OpenQueue", message);
                why
            }
            Task::State(_, Why::Close) => {
                self.notice(
                    Tone::Warning,
                    "CloseQueue",
                    format!("Close queue failed for {why}"),
                );
                why
            }
            Task::Annotate(child, _) if child.name() != self.queue.name() => {
                format!(
                    "Failed to update annotations of queue {}: {why}",
                    child.name()
                )
            }
            _ => why,
        }
    }

    fn notice(&mut self, tone: Tone, reason: &'static str, message: String) {
        self.step.notices.push(Notice {
            tone,
            reason,
            message,
        });
    }

    /// Continues until a call is due or the round is done.
    fn proceed(&mut self, lister: &dyn Lister) -> Step {
        while let Some(task) = self.tasks.pop_front() {
            match self.call(&task, lister) {
                Ok(Some(call)) => {
                    self.current = Some(task);
                    self.step.next = Next::Call(call);
                    return std::mem::take(&mut self.step);
                }
                Ok(None) => {}
                Err(why) => return self.failed(why),
            }
        }
        self.done(Ok(()))
    }

    /// The call that a task needs, if any.
    fn call(&mut self, task: &Task, lister: &dyn Lister) -> Result<Option<Call>, String> {
        let name = self.queue.name();
        match task {
            Task::Parent if name == ROOT || !self.queue.spec.parent.is_empty() => Ok(None),
            Task::Parent => Ok(Some(Call::Patch {
                queue: name.to_owned(),
                patch: json!([{"op": "add", "path": "/spec/parent", "value": ROOT}]),
            })),
            Task::State(state, _) if self.queue.status.state == *state => Ok(None),
            Task::State(state, _) => Ok(Some(Call::ApplyState {
                queue: name.to_owned(),
                state: *state,
            })),
            Task::Hierarchy => self.follow(lister).map(|()| None),
            Task::OpenChildren => self.open_children(lister).map(|()| None),
            Task::CloseChildren => {
                let children = lister.children(name).into_iter();
                for child in children.filter(|child| !child.is_closing()).rev() {
                    self.close(child);
                }
                Ok(None)
            }
            Task::Annotate(queue, value) => Ok(annotate(queue, *value)),
            Task::Ask(request) => {
                self.step.requests.push(request.clone());
                Ok(None)
            }
        }
    }

    /// A queue is written down as closed by the one above it, then it is asked to close.
    fn close(&mut self, queue: Arc<View>) {
        let request = request(&queue, Action::CloseQueue);
        self.tasks.push_front(Task::Ask(request));
        self.tasks.push_front(Task::Annotate(queue, true));
    }

    fn follow(&mut self, lister: &dyn Lister) -> Result<(), String> {
        let queue = Arc::clone(&self.newest);
        if queue.name() == ROOT {
            return Ok(());
        }
        let above = lister.queue(&queue.spec.parent);
        let above = above.ok_or_else(|| missing(&queue.spec.parent))?;
        if above.is_closing() && !queue.is_closing() {
            self.close(queue);
        } else if above.status.state == QueueState::Open
            && queue.is_closing()
            && queue.is_closed_by_parent()
        {
            self.step.requests.push(request(&queue, Action::OpenQueue));
        }
        Ok(())
    }

    fn open_children(&mut self, lister: &dyn Lister) -> Result<(), String> {
        let (name, parent) = (self.queue.name(), &self.queue.spec.parent);
        if !parent.is_empty() && parent != ROOT {
            let above = lister.queue(parent).ok_or_else(|| {
                let missing = missing(parent);
                format!("Failed to get parent queue {parent} of queue {name}: {missing}")
            })?;
            if above.is_closing() {
                return Err(format!(
                    "Failed to open queue {name} because its parent queue {parent} is closing or closed. Open the parent queue first."
                ));
            }
        }
        let children = lister.children(name).into_iter();
        let closed = children.filter(|child| child.is_closed_by_parent());
        let requests = closed.map(|child| request(&child, Action::OpenQueue));
        self.step.requests.extend(requests);
        Ok(())
    }
}

fn missing(queue: &str) -> String {
    format!("queue.scheduling.volcano.sh \"{queue}\" not found")
}

fn request(queue: &View, action: Action) -> Request {
    Request {
        queue: queue.name().to_owned(),
        event: Event::None,
        action,
    }
}

/// Annotates whether the queue is closed because of its parent; nothing if the annotation exists.
fn annotate(queue: &View, value: bool) -> Option<Call> {
    let value = if value { "true" } else { "false" };
    if queue.annotation(CLOSED_BY_PARENT) == Some(value) {
        return None;
    }
    let path = "/metadata/annotations";
    let operation = if queue.metadata.annotations.is_none() {
        json!({"op": "add", "path": path, "value": {CLOSED_BY_PARENT: value}})
    } else {
        let key = CLOSED_BY_PARENT.replace('/', "~1");
        json!({"op": "add", "path": format!("{path}/{key}"), "value": value})
    };
    Some(Call::Patch {
        queue: queue.name().to_owned(),
        patch: Value::Array(vec![operation]),
    })
}
