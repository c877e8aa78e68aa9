//! Which topics a group of consumers needs the offsets of.

use std::collections::BTreeSet;

use crate::group::subscription;

use super::{ClassicGroup, State};

/// The topics that the members of a group subscribe to, as of the last join phase that was completed.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::group) enum Subscribed {
    /// Not known: any topic may be among them.
    Everything,
    /// These.
    Topics(BTreeSet<Box<str>>),
}

impl Subscribed {
    pub(in crate::group) fn nothing() -> Subscribed {
        Subscribed::Topics(BTreeSet::default())
    }

    pub(in crate::group) fn contains(&self, topic: &str) -> bool {
        match self {
            Subscribed::Everything => true,
            Subscribed::Topics(topics) => topics.contains(topic),
        }
    }
}

impl ClassicGroup {
    pub(in crate::group) fn subscribed(&self) -> Subscribed {
        if self.is_of_consumers() && !self.was_of_consumers {
            // They have not completed a join phase yet, and may subscribe to anything.
            return Subscribed::Everything;
        }
        let Some(round) = self.round.as_ref().filter(|_| self.is_of_consumers()) else {
            return Subscribed::nothing();
        };
        let mut topics: BTreeSet<Box<str>> = BTreeSet::default();
        for member in &round.members {
            let parsed = subscription::for_each_topic(member.metadata(), |topic| {
                if !topics.contains(topic) {
                    topics.insert(Box::from(topic));
                }
            });
            if parsed.is_none() {
                return Subscribed::Everything;
            }
        }
        Subscribed::Topics(topics)
    }

    /// From when on the age of the group's offsets counts; the inner `None`: from their commits. `None`: nothing expires.
    pub(in crate::group) fn expiry_base(&self) -> Option<Option<i64>> {
        match (&self.protocol_type, self.state) {
            (None, _) => Some(None),
            (Some(_), State::Empty) => Some((self.state_since_ms >= 0).then_some(self.state_since_ms)),
            (Some(_), State::Stable) if self.is_of_consumers() => Some(None),
            _ => None,
        }
    }
}
