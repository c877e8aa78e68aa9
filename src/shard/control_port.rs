//! This core's way to the owner of what belongs to no group: on core 0 the owner itself, on the others its mailbox. A
//! request that changes something parks until its change is durable and published.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::context::RequestContext;
use super::dispatch::reply_frame;
use super::mailbox::Mailboxes;
use super::service::{ConnectionId, FileWrite, Network, Verdict, WriteFailure};
use crate::control::{Append, Control, Outputs, Reply, Request, Tag, Views};
use crate::ids::{InternalTopicKind, TopicId};
use crate::journal::job::JobDone;
use crate::limits;
use crate::metrics::CoreMetrics;
use crate::wire::{ApiKey, Version, Writer};

/// What cores send each other.
pub enum Mail {
    /// To the owner of control.
    Asked(Request, Tag),
    /// Back from it, with the token of the question.
    Told(u64, Reply),
    /// To everybody: a topic is gone, and with it the offsets that groups have committed for it.
    TopicDeleted {
        /// Of an offset may be known no more of its topic.
        name: String,
        /// A topic of that name may be there again.
        id: TopicId,
    },
    /// Work on the journal's files has ended.
    JobDone(JobDone),
}

/// The owner of control, on core 0.
pub struct Owner {
    /// The state machine.
    pub control: Control,
    /// The control log.
    pub file: RawFd,
}

/// Writes the body of a reply out of what control says.
pub(super) type WriteReply = Box<dyn FnOnce(Reply, &mut Writer<'_>, Version)>;

pub(super) struct ControlPort {
    core: usize,
    views: Arc<Views>,
    mailboxes: Mailboxes<Mail>,
    owner: Option<Owner>,
    /// The owner's next write to its log.
    append: Option<Append>,
    parked: HashMap<u64, ParkedRequest>,
    /// Of all that are parked, as their askers weigh them.
    parked_bytes: usize,
    next_token: u64,
    told: VecDeque<(u64, Reply)>,
    /// Topics that this core has asked for and not heard of yet; they are not asked for again meanwhile.
    internal_under_way: [bool; InternalTopicKind::ALL.len()],
    names_under_way: HashSet<String>,
}

struct ParkedRequest {
    bytes: usize,
    connection: ConnectionId,
    api: ApiKey,
    version: Version,
    correlation_id: i32,
    write: WriteReply,
}

impl ControlPort {
    pub(super) fn new(core: usize, views: Arc<Views>, mailboxes: Mailboxes<Mail>, owner: Option<Owner>) -> Self {
        ControlPort {
            core,
            views,
            mailboxes,
            owner,
            append: None,
            parked: HashMap::new(),
            parked_bytes: 0,
            next_token: 0,
            told: VecDeque::new(),
            internal_under_way: Default::default(),
            names_under_way: HashSet::new(),
        }
    }

    /// Whether a change of so many bytes may be asked for now: until it is made they are kept.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.parked_bytes + bytes <= limits::CHANGES_UNDER_WAY_MAX_BYTES
    }

    /// Asks for a change of `bytes`; `write` makes the body of the reply when it is done.
    pub(super) fn ask(
        &mut self,
        context: &RequestContext<'_>,
        api: ApiKey,
        request: Request,
        bytes: usize,
        write: WriteReply,
    ) -> Verdict {
        let (connection, version) = (context.connection, context.version);
        let parked = ParkedRequest { bytes, connection, api, version, correlation_id: context.correlation_id(), write };
        self.parked_bytes += bytes;
        let token = self.send(request);
        self.parked.insert(token, parked);
        Verdict::Parked
    }

    /// Wants an internal topic to exist; nobody waits for it.
    pub(super) fn create_internal(&mut self, kind: InternalTopicKind) {
        if !std::mem::replace(&mut self.internal_under_way[kind as usize], true) {
            self.send(Request::CreateInternal(kind));
        }
    }

    /// Wants topics of these legal names to exist; nobody waits for them.
    pub(super) fn auto_create(&mut self, names: impl Iterator<Item = String>) {
        let mut wanted = Vec::new();
        for name in names {
            if self.names_under_way.len() < limits::AUTO_CREATIONS_UNDER_WAY_MAX
                && self.names_under_way.insert(name.clone())
            {
                wanted.push(name);
            }
        }
        if !wanted.is_empty() {
            self.send(Request::AutoCreate { names: wanted });
        }
    }

    /// Mail to the owner: another core asks.
    pub(super) fn asked(&mut self, request: Request, tag: Tag) {
        let owner = self.owner.as_mut().expect("only the owner of control is asked");
        let outputs = owner.control.handle(request, tag);
        self.carry_out(outputs);
    }

    /// Mail from the owner.
    pub(super) fn told(&mut self, token: u64, reply: Reply) {
        self.told.push_back((token, reply));
    }

    /// The owner's write has ended.
    pub(super) fn written(&mut self, token: u64, result: Result<(), WriteFailure>) {
        let owner = self.owner.as_mut().expect("only the owner of control writes its log");
        let outputs = owner.control.synced(token, result);
        self.carry_out(outputs);
    }

    /// Writes what is to be written, and answers what has been told.
    pub(super) fn turn(&mut self, network: &mut dyn Network, metrics: &CoreMetrics) {
        if let (Some(append), Some(owner)) = (self.append.take(), &self.owner) {
            let Append { offset, bytes, token } = append;
            network.write(FileWrite { file: owner.file, offset, data: Box::new(bytes), sync: true, token });
        }
        while let Some((token, reply)) = self.told.pop_front() {
            match &reply {
                Reply::CreatedInternal(kind) => self.internal_under_way[*kind as usize] = false,
                Reply::AutoCreated { names } => {
                    names.iter().for_each(|name| drop(self.names_under_way.take(name)));
                }
                _ => {}
            }
            if let Some(parked) = self.parked.remove(&token) {
                self.parked_bytes -= parked.bytes;
                answer(parked, reply, network, metrics);
            }
        }
    }

    fn send(&mut self, request: Request) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        let tag = Tag { core: self.core as u16, token };
        match &self.owner {
            Some(_) => self.asked(request, tag),
            None => self.mailboxes.send(OWNER, Mail::Asked(request, tag)),
        }
        token
    }

    fn carry_out(&mut self, outputs: Outputs) {
        if let Some(snapshots) = outputs.snapshots {
            self.views.publish(snapshots);
        }
        for (tag, reply) in outputs.replies {
            self.tell_of_deletions(&reply);
            match usize::from(tag.core) {
                core if core == self.core => self.told(tag.token, reply),
                core => self.mailboxes.send(core, Mail::Told(tag.token, reply)),
            }
        }
        if let Some(append) = outputs.append {
            let before = self.append.replace(append);
            assert!(before.is_none(), "control writes one thing at a time");
        }
    }

    fn tell_of_deletions(&self, reply: &Reply) {
        let Reply::DeletedTopics(topics) = reply else { return };
        for topic in topics.iter().filter(|topic| topic.error_code.is_none()) {
            let Some(name) = &topic.name else { continue };
            for core in 0..self.mailboxes.cores() {
                self.mailboxes.send(core, Mail::TopicDeleted { name: name.clone(), id: topic.id });
            }
        }
    }
}

/// The core that owns control.
pub(super) const OWNER: usize = 0;

fn answer(parked: ParkedRequest, reply: Reply, network: &mut dyn Network, metrics: &CoreMetrics) {
    let ParkedRequest { connection, api, version, correlation_id, write, .. } = parked;
    let mut once = Some((write, reply));
    network.answer(connection, &mut |replies| {
        let (write, reply) = once.take().expect("a reply is written once");
        reply_frame(metrics, replies, api, version.number, correlation_id, |writer| write(reply, writer, version));
    });
}
