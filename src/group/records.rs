//! What is written of groups and their offsets: plain data with what Kafka's `__consumer_offsets` schemas hold. Encoding is
//! the journal's matter.

use std::rc::Rc;

use super::outcome::{MemberId, SharedBytes};
use super::profile::Profile;

/// One record of a group's offsets partition.
#[derive(Clone, Debug)]
pub enum Record {
    /// Kafka's GroupMetadataKey and GroupMetadataValue.
    GroupMetadata {
        /// The key.
        group_id: Rc<str>,
        /// The value.
        group: Rc<GroupMetadata>,
    },
    /// A GroupMetadataKey without a value: the group is gone. Its offsets have tombstones of their own.
    GroupTombstone {
        /// The key.
        group_id: Rc<str>,
    },
    /// Kafka's OffsetCommitKey and OffsetCommitValue.
    OffsetCommit {
        /// The key.
        key: OffsetKey,
        /// The value.
        offset: CommittedOffset,
    },
    /// An OffsetCommitKey without a value.
    OffsetTombstone {
        /// The key.
        key: OffsetKey,
    },
}

impl Record {
    pub(super) fn offset_tombstone(group_id: &Rc<str>, topic: &Rc<str>, partition: i32) -> Record {
        Record::OffsetTombstone { key: OffsetKey { group_id: group_id.clone(), topic: topic.clone(), partition } }
    }

    /// The group whose offsets partition takes the record.
    pub fn group_id(&self) -> &Rc<str> {
        match self {
            Record::GroupMetadata { group_id, .. } | Record::GroupTombstone { group_id } => group_id,
            Record::OffsetCommit { key, .. } | Record::OffsetTombstone { key } => &key.group_id,
        }
    }
}

/// A classic group as of a completed generation, or Empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    /// Empty if no member ever set it.
    pub protocol_type: Rc<str>,
    /// The generation.
    pub generation: i32,
    /// The chosen protocol; `None` in an Empty group.
    pub protocol: Option<Rc<str>>,
    /// The leader's member id; `None` in an Empty group.
    pub leader: Option<MemberId>,
    /// When the group came into its state, milliseconds since 1970; -1 if it is not known.
    pub current_state_timestamp_ms: i64,
    /// No members: the group is Empty.
    pub members: Vec<MemberMetadata>,
}

impl GroupMetadata {
    /// A group that nobody ever joined.
    pub(super) fn empty(unix_ms: i64) -> GroupMetadata {
        GroupMetadata {
            protocol_type: Rc::from(""),
            generation: 0,
            protocol: None,
            leader: None,
            current_state_timestamp_ms: unix_ms,
            members: Vec::new(),
        }
    }
}

/// A member of a [`GroupMetadata`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberMetadata {
    profile: Profile,
    /// Of the profile's protocols, the place of the chosen one.
    place: usize,
    /// The rebalance time-out, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// The session time-out, in milliseconds.
    pub session_timeout_ms: i32,
    /// What the leader assigned to the member.
    pub assignment: SharedBytes,
}

impl MemberMetadata {
    /// A member as a record describes it.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        member_id: &str,
        group_instance_id: Option<&str>,
        client_id: &str,
        client_host: &str,
        rebalance_timeout_ms: i32,
        session_timeout_ms: i32,
        subscription: &[u8],
        assignment: &[u8],
    ) -> MemberMetadata {
        let subscription = std::iter::once(subscription);
        let profile = Profile::new(member_id, group_instance_id, client_id, client_host, subscription, &mut Vec::new());
        let assignment = SharedBytes::copy(assignment);
        MemberMetadata { profile, place: 0, rebalance_timeout_ms, session_timeout_ms, assignment }
    }

    pub(super) fn of(
        profile: Profile,
        place: usize,
        rebalance_timeout_ms: i32,
        session_timeout_ms: i32,
        assignment: SharedBytes,
    ) -> MemberMetadata {
        MemberMetadata { profile, place, rebalance_timeout_ms, session_timeout_ms, assignment }
    }

    /// The member's id.
    pub fn member_id(&self) -> &str {
        self.profile.member_id()
    }

    /// `group.instance.id`, of static members only.
    pub fn group_instance_id(&self) -> Option<&str> {
        self.profile.group_instance_id()
    }

    /// The member's client id.
    pub fn client_id(&self) -> &str {
        self.profile.client_id()
    }

    /// The member's address, `/127.0.0.1`.
    pub fn client_host(&self) -> &str {
        self.profile.client_host()
    }

    /// The member's metadata for the chosen protocol.
    pub fn subscription(&self) -> &[u8] {
        self.profile.metadata(self.place)
    }
}

/// What an offset is committed for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OffsetKey {
    /// The group.
    pub group_id: Rc<str>,
    /// The topic's name.
    pub topic: Rc<str>,
    /// The partition.
    pub partition: i32,
}

/// An offset that a group has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// As the client sent it; not checked.
    pub offset: i64,
    /// -1: none.
    pub leader_epoch: i32,
    /// The client's own text; `None` if it is empty.
    pub metadata: Option<Rc<str>>,
    /// Milliseconds since 1970.
    pub commit_timestamp_ms: i64,
    /// Milliseconds since 1970, -1 if the commit did not ask for a time of its own.
    pub expire_timestamp_ms: i64,
    /// All zero if the topic's id was not known.
    pub topic_id: [u8; 16],
}
