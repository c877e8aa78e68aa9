//! One core's groups: finding them, time, and the way out of answers and records.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::limits;

use super::Ids;
use super::classic::ClassicGroup;
use super::core::{Core, GroupKey, TimerKey, Turn};
use super::index::Index;
use super::memory::GROUP_BYTES;
use super::offsets::expiry::Sweep;
use super::offsets::table::OffsetTable;
use super::outcome::{JoinAnswer, MemberId, Output, Queued};
use super::records::{GroupMetadata, Record};
use super::settings::{GroupSettings, OffsetSettings};
use super::slab::Slab;
use super::timers::Step;
use super::writes::{Taken, Wait, WriteId};

/// The groups of one core. See the module's page for how to drive it.
pub struct Groups {
    pub(super) core: Core,
    slab: Slab<Box<Group>>,
    by_id: Index,
    next_stamp: u32,
    /// [`limits::GROUPS_MAX`], less in tests.
    pub(super) groups_max: usize,
    pub(super) sweep: Sweep,
    /// Deleted groups that are there again, because their deletion was refused.
    pub(super) came_back: u64,
    /// Groups that came out of the journal and have not been started yet, by partition.
    pub(super) loading: FxHashMap<i32, Vec<GroupKey>>,
    /// How many groups had a piece to come when the last turn ended.
    piecework_before: usize,
}

/// How much a core has in its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Groups, those without members included.
    pub groups: usize,
    /// Members of all groups.
    pub members: usize,
    /// Partitions with a committed offset, of all groups.
    pub offsets: usize,
    /// Member ids that were handed out and have not joined yet.
    pub pending_members: usize,
}

/// A group: its members, if it ever had any, and its offsets.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: Rc<str>,
    stamp: u32,
    pub(super) classic: ClassicGroup,
    pub(super) offsets: OffsetTable,
    /// More of it may come out of the journal.
    pub(super) is_loading: bool,
}

impl Group {
    /// The memory that it takes, roughly.
    pub(super) fn bytes(&self) -> usize {
        GROUP_BYTES + self.id.len() + self.classic.bytes() + self.offsets.bytes()
    }
}

/// [`Groups::advance`] takes so many steps of the timer wheel at a time.
const STEPS_MAX: usize = 256;

impl Groups {
    /// No groups yet. `ids` makes member ids.
    pub fn new(settings: GroupSettings, offsets: OffsetSettings, ids: Box<dyn Ids>, now: Now) -> Groups {
        let sweep = Sweep::new(&offsets, now);
        let core = Core::new(settings, offsets, ids, now);
        Groups {
            core,
            slab: Slab::default(),
            by_id: Index::default(),
            next_stamp: 0,
            groups_max: limits::GROUPS_MAX,
            sweep,
            came_back: 0,
            loading: FxHashMap::default(),
            piecework_before: 0,
        }
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that they take, roughly.
    pub fn bytes(&self) -> usize {
        self.core.memory.used_bytes()
    }

    /// How much there is of everything; kept up to date with each change, so this costs nothing.
    pub fn census(&self) -> Census {
        Census {
            groups: self.len(),
            members: self.core.members,
            offsets: self.core.committed_offsets,
            pending_members: self.core.pending_members,
        }
    }

    /// Does a bounded piece of what has come due. Then [`Groups::do_a_piece`] has its turn.
    pub fn advance(&mut self, now: Now) {
        for _ in 0..STEPS_MAX {
            match self.core.timers.step(now.monotonic_ms) {
                Step::Moved => {}
                Step::Idle => break,
                Step::Fired(TimerKey { group, purpose }) => {
                    let stamp = self.slab[group].stamp;
                    self.with(GroupKey { slot: group, stamp }, now, |group, turn| {
                        group.classic.timer_fired(purpose, turn)
                    });
                }
            }
        }
        self.sweep_some(now);
    }

    /// Goes on with what a turn before this one has left, of one large group. Call it when the records of [`Groups::advance`] are
    /// taken: a record that is too large for the journal is refused together with all that are taken with it.
    pub fn do_a_piece(&mut self, now: Now) {
        if self.piecework_before > 0
            && let Some(piece) = self.core.piecework.pop_front()
            && self.is_there(piece.group())
        {
            self.with(piece.group(), now, |group, turn| group.classic.do_a_piece(piece, turn));
        }
        self.piecework_before = self.core.piecework.len();
    }

    /// When [`Groups::advance`] must be called at the latest, on the monotonic clock in milliseconds.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        if !self.core.piecework.is_empty() {
            return Some(0);
        }
        let sweep_ms = self.loading.is_empty().then(|| self.sweep.deadline_ms());
        [self.core.timers.next_deadline_ms(), sweep_ms].into_iter().flatten().min()
    }

    /// Whether [`Groups::poll_output`] has something.
    pub fn has_output(&self) -> bool {
        !self.core.outputs.is_empty()
    }

    /// The next answer of a parked request.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.core.outputs.pop_front()?.into_output();
        if self.core.outputs.is_empty() {
            self.core.outputs.shrink_to(OUTPUTS_KEPT);
        }
        Some(output)
    }

    /// Moves the records of the inputs since the last call to the end of `records`, in their order; `None` if there are none.
    /// They are one write: all of them succeed, or none. Call it after each input to keep the fates of requests apart.
    pub fn take_records(&mut self, records: &mut Vec<Record>) -> Option<Taken> {
        self.core.writes.take(records)
    }

    /// Whether an input has made records that were not taken yet.
    pub fn has_records(&self) -> bool {
        self.core.writes.has_records()
    }

    /// A write is durable, or failed with the error that Kafka's log would give. Writes become durable in their order. One may be
    /// refused at once, while earlier ones are on their way; if one fails on its way, so do those behind it.
    pub fn written(&mut self, write: WriteId, result: Result<(), ErrorCode>, now: Now) {
        while let Some(wait) = self.core.writes.next_ended(write, result.is_ok()) {
            match wait {
                Wait::Created(key) => {
                    if let Err(error) = result {
                        self.creation_failed(key, error, now);
                    }
                }
                Wait::Assigned(assigned) => {
                    if self.is_there(assigned.group) {
                        self.with(assigned.group, now, |group, turn| {
                            group.classic.assignments_ended(assigned, result, turn);
                        });
                    }
                }
                Wait::Replaced(mut replaced) => {
                    if result.is_err() {
                        self.core.writes.replace_said_before(write, &mut replaced);
                    }
                    if self.is_there(replaced.group) {
                        self.with(replaced.group, now, |group, turn| {
                            group.classic.replacement_ended(*replaced, result, turn);
                        });
                    } else {
                        let answer = JoinAnswer::refused(ErrorCode::UNKNOWN_MEMBER_ID, MemberId::default());
                        self.core.outputs.push_back(Queued::Join { ticket: replaced.ticket, answer: Box::new(answer) });
                    }
                }
                Wait::Committed { group, topic, partition, before } => {
                    self.commit_ended(write, group, &topic, partition, before, result);
                }
                Wait::Deleted(group) => {
                    if let Err(error) = result {
                        self.bring_back(write, group, error, now);
                    }
                }
            }
        }
    }

    /// Removes a group without members and all its offsets: DeleteGroups.
    pub fn delete_group(&mut self, group_id: &str, now: Now) -> ErrorCode {
        let Some(key) = self.find(group_id) else { return ErrorCode::GROUP_ID_NOT_FOUND };
        if !self.slab[key.slot].classic.is_empty() {
            return ErrorCode::NON_EMPTY_GROUP;
        }
        self.delete_with_tombstones(key, now);
        ErrorCode::NONE
    }

    /// A deletion was refused. If there is a group of that name again, or was, it has failed with the deletion.
    fn bring_back(&mut self, write: WriteId, group: Box<Group>, error: ErrorCode, now: Now) {
        if let Some(again) = self.find(&group.id) {
            self.creation_failed(again, error, now);
        }
        self.core.writes.forget_deleted(|waiting, again| waiting > write && again.id == group.id);
        let stamp = group.stamp;
        let key = self.put_in(group);
        self.core.writes.follow(stamp, key);
        self.came_back += 1;
    }

    pub(super) fn delete_with_tombstones(&mut self, key: GroupKey, now: Now) {
        let group = self.dissolve(key, now, |classic, turn| classic.dismantle(turn, ErrorCode::UNKNOWN_MEMBER_ID));
        for (topic, partition) in group.offsets.keys() {
            self.core.writes.push(Record::offset_tombstone(&group.id, topic, partition));
        }
        self.core.writes.push(Record::GroupTombstone { group_id: group.id.clone() });
        self.core.writes.wait(Wait::Deleted(group));
    }

    /// The groups of partitions that this core no longer leads are forgotten, without any record; whoever waits is told
    /// NOT_COORDINATOR. `belongs` says of a group id whether its partition is among them.
    pub fn unload(&mut self, belongs: impl Fn(&str) -> bool, now: Now) {
        for slot in 0..self.slab.bound() {
            let Some(group) = self.slab.get(slot).filter(|group| belongs(&group.id)) else { continue };
            let key = GroupKey { slot, stamp: group.stamp };
            self.dissolve(key, now, |classic, turn| classic.dismantle(turn, ErrorCode::NOT_COORDINATOR));
        }
        self.core.writes.forget_deleted(|_, group| belongs(&group.id));
    }

    /// A group that was never written goes, and so does all that is on its way behind its first record: that fails, too.
    fn creation_failed(&mut self, key: GroupKey, error: ErrorCode, now: Now) {
        if self.is_there(key) {
            let answer = super::writes::answer_of_failed_write(error);
            self.dissolve(key, now, |classic, turn| classic.creation_failed(answer, turn));
        } else {
            self.core.writes.forget_deleted(|_, group| group.stamp == key.stamp);
        }
    }

    /// A new Empty group, with the record that says so. It is about to take `more_bytes`.
    pub(super) fn create_written(
        &mut self,
        group_id: &str,
        more_bytes: usize,
        now: Now,
    ) -> Result<GroupKey, ErrorCode> {
        let key = self.create(group_id, more_bytes, now)?;
        let created = &mut self.slab[key.slot];
        created.classic.is_written = true;
        let group_id = created.id.clone();
        let group = Rc::new(GroupMetadata::empty(now.unix_ms));
        self.core.writes.push(Record::GroupMetadata { group_id, group });
        self.core.writes.wait(Wait::Created(key));
        Ok(key)
    }

    /// A new Empty group, which is about to take `more_bytes`.
    pub(super) fn create(&mut self, group_id: &str, more_bytes: usize, now: Now) -> Result<GroupKey, ErrorCode> {
        if self.len() >= self.groups_max {
            return Err(self.core.memory.refuse("groups", now));
        }
        if !self.core.memory.has_room(GROUP_BYTES + group_id.len() + more_bytes) {
            return Err(self.core.memory.refuse("memory", now));
        }
        Ok(self.create_unchecked(group_id, now.unix_ms))
    }

    pub(super) fn create_unchecked(&mut self, group_id: &str, unix_ms: i64) -> GroupKey {
        let classic = ClassicGroup::new(&self.core, unix_ms);
        let offsets = OffsetTable::default();
        let id = Rc::from(group_id);
        self.insert(Box::new(Group { id, stamp: 0, classic, offsets, is_loading: false }))
    }

    fn insert(&mut self, mut group: Box<Group>) -> GroupKey {
        group.stamp = self.next_stamp;
        self.next_stamp = self.next_stamp.wrapping_add(1);
        self.put_in(group)
    }

    fn put_in(&mut self, group: Box<Group>) -> GroupKey {
        let stamp = group.stamp;
        self.core.members += group.classic.member_count();
        self.core.committed_offsets += group.offsets.len();
        self.core.memory.change(0, group.bytes());
        let hash = self.core.hash(&group.id);
        let slot = self.slab.insert(group);
        self.by_id.insert(hash, slot);
        GroupKey { slot, stamp }
    }

    /// Takes a group out, with its last words.
    fn dissolve(
        &mut self,
        key: GroupKey,
        now: Now,
        last_words: impl FnOnce(&mut ClassicGroup, &mut Turn<'_>),
    ) -> Box<Group> {
        let mut group = self.remove(key);
        let group_id = group.id.clone();
        last_words(&mut group.classic, &mut Turn { core: &mut self.core, now, key, group_id: &group_id });
        group
    }

    pub(super) fn remove(&mut self, key: GroupKey) -> Box<Group> {
        let group = self.slab.remove(key.slot);
        self.core.members -= group.classic.member_count();
        self.core.committed_offsets -= group.offsets.len();
        self.core.memory.change(group.bytes(), 0);
        self.by_id.remove(self.core.hash(&group.id), key.slot);
        if self.slab.len() == 0 {
            self.by_id = Index::default();
        }
        group
    }

    pub(super) fn find(&self, group_id: &str) -> Option<GroupKey> {
        let slot = self.by_id.find(self.core.hash(group_id), |slot| *self.slab[slot].id == *group_id)?;
        Some(GroupKey { slot, stamp: self.slab[slot].stamp })
    }

    pub(super) fn get(&self, group_id: &str) -> Option<&Group> {
        self.find(group_id).map(|key| &*self.slab[key.slot])
    }

    /// The offsets of a group that is there, or that comes back if its deletion is refused.
    pub(super) fn offsets_mut(&mut self, key: GroupKey) -> Option<&mut OffsetTable> {
        if self.is_there(key) {
            return Some(&mut self.slab[key.slot].offsets);
        }
        self.core.writes.deleted(|group| group.stamp == key.stamp).map(|group| &mut group.offsets)
    }

    pub(super) fn is_there(&self, key: GroupKey) -> bool {
        self.slab.get(key.slot).is_some_and(|group| group.stamp == key.stamp)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.slab.iter().map(|(_, group)| &**group)
    }

    /// The group at a place, if there is one, for going over all of them.
    pub(super) fn at(&self, slot: u32) -> Option<(GroupKey, &Group)> {
        self.slab.get(slot).map(|group| (GroupKey { slot, stamp: group.stamp }, &**group))
    }

    /// Above all places of groups.
    pub(super) fn bound(&self) -> u32 {
        self.slab.bound()
    }

    pub(super) fn group_mut(&mut self, key: GroupKey) -> (&mut Group, &mut Core) {
        (&mut self.slab[key.slot], &mut self.core)
    }

    /// A change of a group that is no input of a client or of time.
    pub(super) fn change<R>(&mut self, key: GroupKey, change: impl FnOnce(&mut Group, &mut Core) -> R) -> R {
        let group = &mut *self.slab[key.slot];
        let before = group.bytes();
        let result = change(group, &mut self.core);
        self.core.memory.change(before, group.bytes());
        result
    }

    /// One input to one group, and in debug builds the check that it left the group whole.
    pub(super) fn with<R>(&mut self, key: GroupKey, now: Now, input: impl FnOnce(&mut Group, &mut Turn<'_>) -> R) -> R {
        let group = &mut *self.slab[key.slot];
        let group_id = group.id.clone();
        let before = group.classic.bytes();
        let result = input(group, &mut Turn { core: &mut self.core, now, key, group_id: &group_id });
        self.core.memory.change(before, group.classic.bytes());
        #[cfg(debug_assertions)]
        {
            #[cfg(test)]
            let visits = super::slab::VISITS.get();
            self.check(key, now);
            #[cfg(test)]
            super::slab::VISITS.set(visits);
        }
        result
    }

    #[cfg(debug_assertions)]
    fn check(&self, key: GroupKey, now: Now) {
        let group = &self.slab[key.slot];
        if group.classic.is_checked_now(now.monotonic_ms ^ u64::from(group.stamp))
            && let Err(broken) = group.classic.check()
        {
            panic!("group {:?}: {broken}: {:?}", group.id, group.classic);
        }
    }
}

/// Room for this many answers is kept once all are taken.
const OUTPUTS_KEPT: usize = 256;

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups").field("len", &self.len()).finish_non_exhaustive()
    }
}
