//! DescribeGroups and ListGroups.

use crate::group::Groups;
use crate::group::groups::Group;

use super::member::Member;
use super::members::MemberSlot;
use super::{ClassicGroup, State};

/// A group as DescribeGroups shows it.
#[derive(Clone, Copy, Debug)]
pub struct GroupDescription<'a> {
    group: &'a ClassicGroup,
}

/// A member as DescribeGroups shows it.
#[derive(Clone, Copy, Debug)]
pub struct DescribedMember<'a> {
    group: &'a ClassicGroup,
    slot: MemberSlot,
    member: &'a Member,
    protocol_name: Option<&'a str>,
}

/// A group as ListGroups shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedGroup<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Empty for a simple group.
    pub protocol_type: &'a str,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Stable`.
    pub state: &'static str,
    /// `classic`.
    pub group_type: &'static str,
}

impl Groups {
    /// DescribeGroups of one group; `None`: there is no such group.
    pub fn describe(&self, group_id: &str) -> Option<GroupDescription<'_>> {
        Some(GroupDescription { group: &self.get(group_id)?.classic })
    }

    /// All groups, in no particular order. Filters are the caller's.
    pub fn list(&self) -> impl Iterator<Item = ListedGroup<'_>> {
        self.iter().map(|Group { id, classic, .. }| ListedGroup {
            group_id: id,
            protocol_type: classic.protocol_type.as_deref().unwrap_or(""),
            state: classic.state.name(),
            group_type: "classic",
        })
    }
}

impl<'a> GroupDescription<'a> {
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Stable`.
    pub fn state(&self) -> &'static str {
        self.group.state.name()
    }

    /// Empty for a simple group.
    pub fn protocol_type(&self) -> &'a str {
        self.group.protocol_type.as_deref().unwrap_or("")
    }

    /// The chosen protocol while the group is Stable, else empty.
    pub fn protocol_data(&self) -> &'a str {
        self.protocol_name().unwrap_or("")
    }

    /// The members.
    pub fn members(&self) -> impl Iterator<Item = DescribedMember<'a>> + use<'a> {
        let protocol_name = self.protocol_name();
        let group = self.group;
        group.members.iter().map(move |(slot, member)| DescribedMember { group, slot, member, protocol_name })
    }

    /// How many there are.
    pub fn member_count(&self) -> usize {
        self.group.members.len()
    }

    fn protocol_name(&self) -> Option<&'a str> {
        match (self.group.state, &self.group.round) {
            (State::Stable, Some(round)) => Some(&round.protocol_name),
            _ => None,
        }
    }
}

impl<'a> DescribedMember<'a> {
    /// The member's id.
    pub fn member_id(&self) -> &'a str {
        self.member.said.profile.member_id()
    }

    /// Of a static member.
    pub fn group_instance_id(&self) -> Option<&'a str> {
        self.member.said.profile.group_instance_id()
    }

    /// The client id with which it became a member.
    pub fn client_id(&self) -> &'a str {
        self.member.said.profile.client_id()
    }

    /// `/127.0.0.1`.
    pub fn client_host(&self) -> &'a str {
        self.member.said.profile.client_host()
    }

    /// Its metadata for the chosen protocol while the group is Stable, else empty.
    pub fn metadata(&self) -> &'a [u8] {
        let place = self.protocol_name.and_then(|name| self.member.place(name));
        place.map_or(&[], |place| self.member.said.profile.metadata(place))
    }

    /// Its assignment of the last generation that was completed.
    pub fn assignment(&self) -> &'a [u8] {
        match &self.group.handing_out {
            Some(assigned) if self.slot >= assigned.next => assigned.bytes_of(self.slot),
            _ => &self.member.assignment,
        }
    }
}
