//! What the group coordinator answers, and what it wants written. Answers own what they carry, but share it: the members
//! that the leader is told are one list for the whole generation, the assignments are slices of one buffer.

use std::ops::{Deref, Range};
use std::rc::Rc;

use crate::errors::ErrorCode;

use super::Ticket;
use super::profile::Profile;

/// The answer of a JoinGroup.
///
/// An error carries what Kafka answers with it: generation -1, no leader, no members; `protocol_type` and `protocol_name` are
/// then `None`, which versions below 7 write as the empty name.
#[derive(Clone, Debug)]
pub struct JoinAnswer {
    /// Why the member may not join.
    pub error: ErrorCode,
    /// The generation that the member is in, or -1.
    pub generation_id: i32,
    /// The group's protocol type.
    pub protocol_type: Option<Rc<str>>,
    /// The protocol that was chosen.
    pub protocol_name: Option<Rc<str>>,
    /// The leader's member id.
    pub leader: MemberId,
    /// The id that the client must use from now on; empty if it has none.
    pub member_id: MemberId,
    /// Version 9 and above: the leader shall not compute an assignment.
    pub skip_assignment: bool,
    /// All members, for the leader; none for the others.
    pub members: JoinedMembers,
}

impl JoinAnswer {
    pub(super) fn refused(error: ErrorCode, member_id: MemberId) -> JoinAnswer {
        JoinAnswer {
            error,
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            leader: MemberId::default(),
            member_id,
            skip_assignment: false,
            members: JoinedMembers::default(),
        }
    }
}

/// The answer of a SyncGroup.
#[derive(Clone, Debug, Default)]
pub struct SyncAnswer {
    /// Why there is no assignment.
    pub error: ErrorCode,
    /// The group's protocol type; `None` with an error.
    pub protocol_type: Option<Rc<str>>,
    /// The group's protocol; `None` with an error.
    pub protocol_name: Option<Rc<str>>,
    /// What the leader assigned to the member; empty with an error.
    pub assignment: SharedBytes,
}

impl SyncAnswer {
    pub(super) fn refused(error: ErrorCode) -> SyncAnswer {
        SyncAnswer { error, ..SyncAnswer::default() }
    }
}

/// The answer of a request that was parked.
#[derive(Clone, Debug)]
pub enum Output {
    /// Of a JoinGroup.
    Join(Ticket, JoinAnswer),
    /// Of a SyncGroup.
    Sync(Ticket, SyncAnswer),
}

/// A member id in an answer.
#[derive(Clone, Default)]
pub struct MemberId(Text);

#[derive(Clone, Default)]
enum Text {
    #[default]
    Empty,
    Shared(Rc<str>),
    Of(Profile),
}

impl Deref for MemberId {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::Empty => "",
            Text::Shared(text) => text,
            Text::Of(profile) => profile.member_id(),
        }
    }
}

impl From<&Profile> for MemberId {
    fn from(profile: &Profile) -> MemberId {
        MemberId(Text::Of(profile.clone()))
    }
}

impl From<Rc<str>> for MemberId {
    fn from(text: Rc<str>) -> MemberId {
        MemberId(Text::Shared(text))
    }
}

impl From<&str> for MemberId {
    fn from(text: &str) -> MemberId {
        if text.is_empty() { MemberId::default() } else { MemberId(Text::Shared(Rc::from(text))) }
    }
}

impl PartialEq for MemberId {
    fn eq(&self, other: &MemberId) -> bool {
        **self == **other
    }
}

impl Eq for MemberId {}

impl std::fmt::Debug for MemberId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

/// A member as the leader is told of it.
#[derive(Clone, Debug)]
pub struct JoinedMember {
    profile: Profile,
    metadata: Range<u32>,
}

impl JoinedMember {
    pub(super) fn new(profile: Profile, metadata: Range<u32>) -> JoinedMember {
        JoinedMember { profile, metadata }
    }

    /// The member's id.
    pub fn member_id(&self) -> &str {
        self.profile.member_id()
    }

    /// `group.instance.id`, of static members only.
    pub fn group_instance_id(&self) -> Option<&str> {
        self.profile.group_instance_id()
    }

    /// The member's metadata for the chosen protocol.
    pub fn metadata(&self) -> &[u8] {
        self.profile.body(self.metadata.clone())
    }
}

/// All members of a generation, or none: dereferences to a slice.
#[derive(Clone, Debug, Default)]
pub struct JoinedMembers(Option<Rc<Round>>);

impl JoinedMembers {
    pub(super) fn of(round: &Rc<Round>) -> JoinedMembers {
        JoinedMembers(Some(round.clone()))
    }
}

impl Deref for JoinedMembers {
    type Target = [JoinedMember];

    fn deref(&self) -> &[JoinedMember] {
        self.0.as_ref().map_or(&[], |round| &round.members)
    }
}

/// What a join phase came to, shared by all its answers.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) generation_id: i32,
    pub(super) protocol_type: Rc<str>,
    pub(super) protocol_name: Rc<str>,
    pub(super) leader: Profile,
    pub(super) members: Box<[JoinedMember]>,
}

/// A part of a buffer that others share. Dereferences to the part.
#[derive(Clone, Default)]
pub struct SharedBytes {
    whole: Option<Rc<[u8]>>,
    start: u32,
    end: u32,
}

impl SharedBytes {
    pub(super) fn new(whole: Rc<[u8]>, range: Range<u32>) -> SharedBytes {
        if range.is_empty() {
            return SharedBytes::default();
        }
        SharedBytes { whole: Some(whole), start: range.start, end: range.end }
    }

    #[cfg(test)]
    pub(super) fn whole(&self) -> Option<&Rc<[u8]>> {
        self.whole.as_ref()
    }

    /// Copies bytes into a buffer of their own.
    pub fn copy(bytes: &[u8]) -> SharedBytes {
        SharedBytes::new(Rc::from(bytes), 0..bytes.len() as u32)
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.whole.as_ref().map_or(&[], |whole| &whole[self.start as usize..self.end as usize])
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &SharedBytes) -> bool {
        **self == **other
    }
}

impl Eq for SharedBytes {}

impl std::fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

/// Answers that wait to be taken, small enough that ten thousand of them are queued at once without harm.
#[derive(Debug)]
pub(super) enum Queued {
    /// A member of this round.
    Joined { ticket: Ticket, round: Rc<Round>, member: Profile },
    /// Any other answer of a JoinGroup.
    Join { ticket: Ticket, answer: Box<JoinAnswer> },
    /// An assignment of this round.
    Synced { ticket: Ticket, round: Rc<Round>, assignment: SharedBytes },
    /// A refused SyncGroup.
    SyncRefused { ticket: Ticket, error: ErrorCode },
}

impl Queued {
    pub(super) fn into_output(self) -> Output {
        match self {
            Queued::Joined { ticket, round, member } => Output::Join(ticket, joined(&round, &member)),
            Queued::Join { ticket, answer } => Output::Join(ticket, *answer),
            Queued::Synced { ticket, round, assignment } => Output::Sync(ticket, synced(&round, assignment)),
            Queued::SyncRefused { ticket, error } => Output::Sync(ticket, SyncAnswer::refused(error)),
        }
    }
}

/// The answer to a member that was in the join phase from beginning to end.
pub(super) fn joined(round: &Rc<Round>, member: &Profile) -> JoinAnswer {
    let leads = round.leader.member_id_bytes() == member.member_id_bytes();
    JoinAnswer {
        error: ErrorCode::NONE,
        generation_id: round.generation_id,
        protocol_type: Some(round.protocol_type.clone()),
        protocol_name: Some(round.protocol_name.clone()),
        leader: MemberId::from(&round.leader),
        member_id: MemberId::from(member),
        skip_assignment: false,
        members: if leads { JoinedMembers::of(round) } else { JoinedMembers::default() },
    }
}

pub(super) fn synced(round: &Rc<Round>, assignment: SharedBytes) -> SyncAnswer {
    SyncAnswer {
        error: ErrorCode::NONE,
        protocol_type: Some(round.protocol_type.clone()),
        protocol_name: Some(round.protocol_name.clone()),
        assignment,
    }
}
