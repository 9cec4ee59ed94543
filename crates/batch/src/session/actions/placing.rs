//! Whether a job that asks to be let in could be placed (volcano#3910, kueue#11287).

use crate::conf::{Action, Plugin, PluginName, Switch};
use crate::session::Session;
use crate::session::dispatch::{Lost, Taking};
use crate::session::gang::Gang;
use crate::session::plugins::{Drf, QueueShare};
use crate::session::resource::{Dim, Resource};
use crate::session::rooms::{Asked, Others, Rooms};
use crate::session::task::Status;
use crate::session::within::Within;
use hashbrown::HashMap;

impl Session<'_> {
    /// Whether the smallest gang of a job could be placed on the nodes as they are, or when others have gone whom its queue
    /// may send away. It is noted why it could not; if it could, it has its room from now on.
    pub(super) fn has_place(&mut self, job: usize, rooms: &mut Option<Rooms>) -> bool {
        let own = &self.model.jobs[job];
        let runs = own.count(Status::Running) + own.count(Status::Bound) > 0;
        if !self.asks_for_places() || runs {
            return true;
        }
        let mut own = match rooms.take() {
            Some(rooms) => rooms,
            None => self.rooms(),
        };
        let gang = self.smallest_gang(job);
        let tries = self.tries(job);
        let mut placed = self.first_room(&mut own, (job, &gang), &tries, None);
        if placed.is_err() {
            for others in self.others_for(job, &gang) {
                if !own.knows(others) {
                    own.learn(others, self.held_by(others, job));
                }
                placed = self
                    .first_room(&mut own, (job, &gang), &tries, Some(others))
                    .or(placed);
            }
        }
        match placed {
            Err(at) => {
                let words = self.kept_out_words(&gang, at);
                let words = self.with_domains(&mut own, (job, &gang), &tries, words);
                self.model.jobs[job].kept_out = Some(words);
            }
            Ok(()) => self.withdraw_unschedulable(job),
        }
        *rooms = Some(own);
        placed.is_ok()
    }

    /// Places a gang in the first of these domains in which all of it fits. As an error the place of the part that does not fit
    /// into the last one.
    fn first_room(
        &mut self,
        rooms: &mut Rooms,
        (job, gang): (usize, &Gang),
        tries: &[Option<Within>],
        others: Option<Others>,
    ) -> Result<(), usize> {
        let mut placed = match gang {
            Gang::Nothing => Ok(()),
            _ => Err(0),
        };
        for within in tries {
            let (judge, view) = self.asking();
            let asked = Asked {
                job,
                gang,
                within: *within,
            };
            placed = rooms.place(judge, view, asked, others);
            if placed.is_ok() {
                break;
            }
        }
        placed
    }

    /// Why a job is not let in, with what there is to say of the domains that its pods could be in.
    fn with_domains(
        &mut self,
        rooms: &mut Rooms,
        (job, gang): (usize, &Gang),
        tries: &[Option<Within>],
        words: String,
    ) -> String {
        if tries.is_empty() {
            return self.no_domain_words(job);
        }
        let mut best: Option<(Within, usize)> = None;
        for within in tries.iter().flatten() {
            let asked = Asked {
                job,
                gang,
                within: Some(*within),
            };
            let (judge, view) = self.asking();
            let count = rooms.count(judge, view, asked);
            if best.is_none_or(|(_, most)| count > most) {
                best = Some((*within, count));
            }
        }
        let Some((within, fit)) = best else {
            return words;
        };
        let all = match gang {
            Gang::Parts(parts) => parts.iter().map(|part| part.count).sum(),
            Gang::Nothing | Gang::Sum(..) => 0,
        };
        format!("{words}. {}", self.domain_words(job, within, (fit, all)))
    }

    /// Whether jobs that ask to be let in are asked for a place.
    pub(crate) fn asks_for_places(&self) -> bool {
        let arguments = self.conf.arguments_of(Action::Enqueue);
        let asks = arguments.is_none_or(|own| own.boolean("placementEnable", true));
        self.form.admits_what_fits && asks
    }

    /// What is left when those have been placed that were let in before.
    fn rooms(&mut self) -> Rooms {
        let mut rooms = Rooms::new(self.asking().1);
        for job in self.model.live.clone() {
            if !self.is_on_its_way(job) {
                continue;
            }
            let gang = self.smallest_gang(job);
            let tries = self.tries(job);
            // One that does not fit holds nothing, as when room is given out.
            let _ = self.first_room(&mut rooms, (job, &gang), &tries, None);
        }
        rooms
    }

    /// Whether a job was let in and is still to be placed.
    fn is_on_its_way(&self, job: usize) -> bool {
        let own = &self.model.jobs[job];
        !own.is_pending() && !own.is_ready() && !self.model.is_in_vain(job)
    }

    /// Of whom a job's queue may send some away for it.
    fn others_for(&self, job: usize, gang: &Gang) -> Vec<Others> {
        let own = &self.model.jobs[job];
        if let Gang::Parts(parts) = gang {
            let mut tasks = parts.iter().filter_map(|part| part.task);
            if tasks.any(|task| self.model.tasks[task].never_preempts) {
                return Vec::new();
            }
        }
        let need = gang.need();
        let mut all = Vec::new();
        if self.conf.actions.contains(&Action::Preempt) && !own.has_topology {
            all.push((Taking::Preempt, own.queue, own.priority));
        }
        let shared = self.plugins.proportion.is_some() || self.plugins.capacity.is_some();
        let reclaims = self.conf.actions.contains(&Action::Reclaim);
        if reclaims && (!shared || self.may_reclaim(job, &need)) {
            all.push((Taking::Reclaim, own.queue, 0));
        }
        all
    }

    /// What those hold on each node who could go for a job. More of them may be counted than would be granted in the end:
    /// whom plugins grant depends on who has gone before.
    fn held_by(&self, (taking, queue, _): Others, job: usize) -> Vec<Resource> {
        let mut held = vec![Resource::default(); self.model.nodes.len()];
        // By job, since it is the same for all of its tasks.
        let mut gives: HashMap<usize, bool> = HashMap::new();
        for (node, own) in self.model.nodes.iter().enumerate() {
            for task in &own.tasks {
                let could_go = self.could_go(taking, queue, *task);
                let task = &self.model.tasks[*task];
                let may_go = match taking {
                    _ if !could_go => false,
                    Taking::Preempt => *gives.entry(task.job).or_insert_with(|| {
                        self.might_give_way(task.job, job) && self.might_go_whole(task.job, job)
                    }),
                    Taking::Reclaim => {
                        let other = self.model.jobs[task.job].queue;
                        self.has_more_than_its_share(other, queue)
                    }
                };
                if may_go {
                    held[node].add(&task.request);
                }
            }
        }
        held
    }

    /// Whether a job may lose pods to another one of its queue: all plugins of a tier that have an opinion say so.
    fn might_give_way(&self, job: usize, to: usize) -> bool {
        let own = &self.model.jobs[job];
        let grants = |plugin: &Plugin| match plugin.name {
            PluginName::Conformance => Some(true),
            PluginName::Gang if self.form.whole_gangs => None,
            PluginName::Gang => Some(own.ready() > own.min_member),
            PluginName::Priority => Some(own.priority < self.model.jobs[to].priority),
            PluginName::Drf => {
                let drf = self.plugins.drf.as_ref();
                drf.map(|drf| drf.share(job) > drf.share(to))
            }
            _ => None,
        };
        self.at(Switch::Preemptable).any(|tier| {
            let mut opinions = tier.filter_map(grants).peekable();
            opinions.peek().is_some() && opinions.all(|grants| grants)
        })
    }

    /// Whether a job that cannot spare a pod could go, all of it, for another one: if that one comes first also when nothing is
    /// left of this one. Of jobs that can spare pods it says nothing against it.
    fn might_go_whole(&self, job: usize, to: usize) -> bool {
        let own = &self.model.jobs[job];
        let whole = self.spares_gangs() && !own.can_spare(own.ready().saturating_sub(1));
        // The answer is used for all jobs of a queue and a priority, which may be of several namespaces.
        let by_namespace = self.plugins.drf.as_ref().is_some_and(Drf::has_namespaces);
        if !whole || !self.form.keeps_order || by_namespace {
            return true;
        }
        let Some(task) = self.model.tasks_of(to, Status::Pending).next() else {
            return true;
        };
        let lost = Lost {
            tasks: own.ready(),
            amount: own.allocated.clone(),
        };
        self.precedes(task, job, &lost)
    }

    /// Whether a queue holds more of anything than it would deserve if another one wanted all that there is, as far as anybody
    /// says what queues deserve.
    fn has_more_than_its_share(&self, queue: usize, other: usize) -> bool {
        let more = |own: &QueueShare, deserved: &Resource| {
            let mut held = own.allocated.iter();
            held.any(|(dim, held)| dim != Dim::PODS && held > deserved.get(dim))
        };
        if let Some(own) = &self.plugins.proportion {
            let deserved = &own.if_wanted(other)[queue];
            return own.shares.of(queue).is_none_or(|own| more(own, deserved));
        }
        let capacity = self.plugins.capacity.as_ref();
        let share = capacity.and_then(|own| own.shares.of(queue));
        share.is_none_or(|own| more(own, &own.deserved))
    }

    /// Why a job is not let in.
    fn kept_out_words(&self, gang: &Gang, at: usize) -> String {
        let Gang::Parts(parts) = gang else {
            return "there is no room now for its minResources".to_owned();
        };
        let Some(part) = parts.get(at) else {
            return "there is no room now for its gang".to_owned();
        };
        let role = match &*self.model.roles[part.role as usize] {
            "" => String::new(),
            role => format!(" of task {role}"),
        };
        let amounts = self.amounts_text(&part.request);
        let count = part.count;
        let beside = if parts.len() > 1 {
            " beside the rest of its gang"
        } else {
            ""
        };
        let pods = match count {
            1 => format!("1 pod{role} that asks for {amounts}"),
            count => format!("{count} pods{role} that ask for {amounts} each"),
        };
        format!("there is no room now for {pods}{beside}")
    }

    /// `cpu 2, memory 1Gi`.
    fn amounts_text(&self, amounts: &Resource) -> String {
        let some = amounts.some().filter(|(dim, _)| *dim != Dim::PODS);
        let texts: Vec<String> = some
            .map(|(dim, amount)| {
                let name = self.model.dims.name(dim);
                format!("{name} {}", crate::session::objects::quantity(name, amount))
            })
            .collect();
        texts.join(", ")
    }
}
