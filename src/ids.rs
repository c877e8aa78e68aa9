//! Identities that several layers share and none of them owns: nodes, topics, and the three internal topics. No behaviour in
//! here.

use std::fmt;

/// The place of a node in the leadership table; not its node id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u16);

impl NodeIndex {
    /// As an index into a slice of nodes.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A topic's id: random, never used again, not zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// What stands on the wire for "no id".
    pub const ZERO: TopicId = TopicId([0; 16]);

    /// A version 4 UUID of 16 random bytes.
    pub const fn from_random(mut bytes: [u8; 16]) -> TopicId {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        TopicId(bytes)
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The topics whose partition leaders are coordinators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InternalTopicKind {
    /// Coordinates groups.
    Offsets,
    /// Coordinates transactions.
    Transactions,
    /// Keeps the state of share groups.
    ShareState,
}

impl InternalTopicKind {
    /// All of them.
    pub const ALL: [InternalTopicKind; 3] =
        [InternalTopicKind::Offsets, InternalTopicKind::Transactions, InternalTopicKind::ShareState];

    /// The topic's name.
    pub const fn topic_name(self) -> &'static str {
        match self {
            InternalTopicKind::Offsets => "__consumer_offsets",
            InternalTopicKind::Transactions => "__transaction_state",
            InternalTopicKind::ShareState => "__share_group_state",
        }
    }

    /// The kind of an internal topic's name, `None` for any other name.
    pub fn of_topic_name(name: &str) -> Option<InternalTopicKind> {
        InternalTopicKind::ALL.into_iter().find(|kind| kind.topic_name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_are_version_4() {
        assert_eq!(TopicId::from_random([0xff; 16]).0[6] >> 4, 4);
        assert_eq!(TopicId::from_random([0xff; 16]).0[8] >> 6, 2);
    }

    #[test]
    fn internal_names_lead_back_to_their_kind() {
        for kind in InternalTopicKind::ALL {
            assert_eq!(InternalTopicKind::of_topic_name(kind.topic_name()), Some(kind));
        }
        assert_eq!(InternalTopicKind::of_topic_name("__consumer_offset"), None);
    }
}
