//! LeaveGroup: members go, singly or in batches, by member id or by instance id.

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::group::Groups;
use crate::group::core::Turn;

use super::ClassicGroup;

/// A member that is to leave.
#[derive(Clone, Debug)]
pub struct LeavingMember<N> {
    /// Its id; may be empty if the instance id is given.
    pub member_id: N,
    /// Of a static member (version 3 and above).
    pub group_instance_id: Option<N>,
}

impl Groups {
    /// LeaveGroup. `each` is called with the code of every entry, in order; the result is the top-level code, and if that is an
    /// error there are no entries. Versions below 3 put the code of their one entry at the top.
    pub fn leave<N: AsRef<str>>(
        &mut self,
        group_id: &str,
        members: impl Iterator<Item = LeavingMember<N>>,
        now: Now,
        mut each: impl FnMut(ErrorCode),
    ) -> ErrorCode {
        if group_id.is_empty() {
            return ErrorCode::INVALID_GROUP_ID;
        }
        match self.find(group_id) {
            None => members.for_each(|_| each(ErrorCode::UNKNOWN_MEMBER_ID)),
            Some(key) => self.with(key, now, |group, turn| group.classic.leave(members, each, turn)),
        }
        ErrorCode::NONE
    }
}

impl ClassicGroup {
    fn leave<N: AsRef<str>>(
        &mut self,
        members: impl Iterator<Item = LeavingMember<N>>,
        mut each: impl FnMut(ErrorCode),
        turn: &mut Turn<'_>,
    ) {
        let mut has_anybody_left = false;
        for LeavingMember { member_id, group_instance_id } in members {
            let group_instance_id = group_instance_id.as_ref().map(|id| id.as_ref());
            let code = self.leave_one(member_id.as_ref(), group_instance_id, turn);
            has_anybody_left |= code.is_none();
            each(code);
        }
        // An id that was only handed out counts too: Kafka rebalances for it even in Stable.
        if has_anybody_left && !self.is_empty() {
            self.rebalance(turn);
        }
    }

    fn leave_one(&mut self, member_id: &str, group_instance_id: Option<&str>, turn: &mut Turn<'_>) -> ErrorCode {
        if member_id.is_empty() {
            let Some(slot) = group_instance_id.and_then(|id| self.members.find_instance(id)) else {
                return ErrorCode::UNKNOWN_MEMBER_ID;
            };
            self.remove_member(slot, turn);
            return ErrorCode::NONE;
        }
        if let Some(pending) = self.find_pending(member_id, turn.core) {
            self.forget_pending(pending, turn);
            return ErrorCode::NONE;
        }
        match self.members.validate(member_id, group_instance_id) {
            Err(error) => error,
            Ok(slot) => {
                self.remove_member(slot, turn);
                ErrorCode::NONE
            }
        }
    }
}
