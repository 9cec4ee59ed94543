//! The lives of all queues: changes in the cluster become requests, which are carried out one after the other. Queues
//! depend on each other, and there are few.

use super::groups::{Groups, queue_added, queue_changed};
use super::round::{Answer, Call, Next, Request, Round, Step};
use super::view::{Lister, View};
use evictd_batch_objects::PodGroup;
use evictd_batch_objects::bus::{Action, Event};
use evictd_reconcile::{Notice, Retries};
use jiff::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

/// Something that happens to a queue.
#[derive(Debug)]
pub enum QueueEvent {
    /// A queue appears or changed: before, if it was there, and after.
    Queue(Option<Arc<View>>, Arc<View>),
    /// A queue was deleted.
    QueueGone(Arc<View>),
    /// A PodGroup appears or changed: before, if it was there, and after.
    Group(Option<Arc<PodGroup>>, Arc<PodGroup>),
    /// A PodGroup was deleted.
    GroupGone(Arc<PodGroup>),
    /// A user's Command to the queue of this name, which has been deleted.
    Command(String, Action),
    /// The answer to [`QueueCommand::Call`].
    Answer(Answer),
    /// The time of [`QueueCommand::Wake`] has come.
    Tick,
}

/// Something that is to be done for a queue.
#[derive(Debug)]
pub enum QueueCommand {
    /// Make this call, and bring [`QueueEvent::Answer`].
    Call(Call),
    /// Record this event on the queue of this name.
    Notice(String, Notice),
    /// Bring [`QueueEvent::Tick`] at this time; it replaces the time that was said before.
    Wake(Timestamp),
}

/// All queues with their pending requests.
#[derive(Debug)]
pub struct QueueMachine {
    groups: Groups,
    waiting: VecDeque<Request>,
    retries: Retries<Request>,
    active: Option<(Request, Round)>,
    /// `None`: without end.
    most_tries: Option<u32>,
}

impl QueueMachine {
    /// No queue is known yet. `most_tries` is 15 in Volcano; `None` tries without end.
    pub fn new(most_tries: Option<u32>) -> Self {
        Self {
            groups: Groups::default(),
            waiting: VecDeque::new(),
            retries: Retries::new(),
            active: None,
            most_tries,
        }
    }

    /// Which PodGroups are in which queue.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Takes an event; returns the commands, in order.
    pub fn on_event(
        &mut self,
        now: Timestamp,
        event: QueueEvent,
        lister: &dyn Lister,
    ) -> Vec<QueueCommand> {
        let mut commands = Vec::new();
        match event {
            QueueEvent::Queue(None, new) => self.ask(queue_added(&new)),
            QueueEvent::Queue(Some(old), new) => {
                if let Some(request) = queue_changed(&old, &new) {
                    self.ask(request);
                }
            }
            QueueEvent::QueueGone(queue) => self.groups.queue_deleted(&queue),
            QueueEvent::Group(None, new) => {
                let request = self.groups.group_added(&new);
                self.ask(request);
            }
            QueueEvent::Group(Some(old), new) => {
                if let Some(request) = self.groups.group_changed(&old, &new) {
                    self.ask(request);
                }
            }
            QueueEvent::GroupGone(group) => {
                let request = self.groups.group_deleted(&group);
                self.ask(request);
            }
            QueueEvent::Command(queue, action) => self.ask(Request {
                queue,
                event: Event::CommandIssued,
                action,
            }),
            QueueEvent::Answer(answer) => {
                if let Some((request, mut round)) = self.active.take() {
                    let step = round.answered(answer, lister);
                    self.step(request, round, step, now, &mut commands);
                }
            }
            QueueEvent::Tick => {}
        }
        // A round may change several queues. A second one beside it would work on old states.
        while self.active.is_none() {
            let waiting = self.waiting.pop_front();
            let Some(request) = waiting.or_else(|| self.retries.due(now)) else {
                break;
            };
            let groups = self.groups.of(&request.queue);
            let (round, step) = Round::start(request.clone(), groups, lister);
            self.step(request, round, step, now, &mut commands);
        }
        // Anything due during a round is handled at its end.
        let next = self.retries.next().filter(|_| self.active.is_none());
        commands.extend(next.map(QueueCommand::Wake));
        commands
    }

    /// One that waits already is not added again.
    fn ask(&mut self, request: Request) {
        // The round reads the newest state, so that one of them covers all.
        if !self.waiting.contains(&request) {
            self.waiting.push_back(request);
        }
    }

    fn step(
        &mut self,
        request: Request,
        round: Round,
        step: Step,
        now: Timestamp,
        commands: &mut Vec<QueueCommand>,
    ) {
        let queue = &request.queue;
        let notices = step.notices.into_iter();
        commands.extend(notices.map(|notice| QueueCommand::Notice(queue.clone(), notice)));
        step.requests
            .into_iter()
            .for_each(|request| self.ask(request));
        for key in step.forgotten {
            self.groups.forget(queue, &key);
        }
        match step.next {
            Next::Call(call) => {
                self.active = Some((request, round));
                commands.push(QueueCommand::Call(call));
            }
            Next::Done(Ok(())) => self.retries.succeeded(&request),
            Next::Done(Err(error)) => {
                let again = self.retries.failed(request.clone(), self.most_tries, now);
                if !again {
                    let action = request.action.as_str();
                    let message = format!("{action} queue failed for {error}");
                    let notice = Notice::warning("QueueError", message);
                    commands.push(QueueCommand::Notice(request.queue, notice));
                }
            }
        }
    }
}
