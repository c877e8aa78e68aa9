//! One group as it can be known from outside: its generations and who is in them, what leaders dealt out, which member ids
//! were made, how far each partition was committed.

use std::collections::{BTreeMap, BTreeSet};

use super::asked::{Join, Speaker, Sync};
use super::offsets::Trail;

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) generations: BTreeMap<i32, Generation>,
    /// The highest generation that was told before this turn.
    pub(super) told_before: i32,
    /// The highest generation that was told.
    pub(super) told: i32,
    /// The highest generation that must survive a crash.
    pub(super) promised: i32,
    /// It may have gone for want of members and offsets, or of a disk, so that generations begin again.
    pub(super) may_begin_again: bool,
    /// Of all joins so far.
    pub(super) rebalance_timeout_ms: i64,
    /// Every member id that was ever made.
    pub(super) member_ids: BTreeSet<String>,
    /// The static members behind member ids.
    instances: BTreeMap<String, String>,
    /// What was proposed under each member id.
    proposals: BTreeMap<String, BTreeSet<(String, Vec<u8>)>>,
    /// How long each member may be silent.
    patience_ms: BTreeMap<String, u64>,
    pub(super) standings: BTreeMap<String, Standing>,
    pub(super) trails: BTreeMap<(String, i32), Trail>,
}

/// Member id, or instance id of a static member, which may come back under another member id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    Dynamic(String),
    Static(String),
}

#[derive(Debug)]
pub(super) struct Generation {
    /// Type and name; where a version does not tell, `None`.
    protocol_type: Option<String>,
    protocol: String,
    leader: Identity,
    /// As the leader was told.
    members: Option<BTreeSet<Identity>>,
    /// Those who were told that they are in it.
    told: BTreeSet<Identity>,
    /// What the leader may have dealt out, in one SyncGroup or another.
    deals: Vec<BTreeMap<Identity, Vec<u8>>>,
    /// A crash lies behind, and it was not promised: another one may take its number.
    is_doubtful: bool,
}

/// How a member that has synced the newest generation stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) generation_id: i32,
    /// When it was last told that all is well.
    pub(super) well_at_ms: u64,
}

/// A successful JoinGroup.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) generation_id: i32,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: String,
    pub(super) leader: String,
    pub(super) member_id: String,
    /// Member id, instance id, metadata.
    pub(super) members: Vec<(String, Option<String>, Vec<u8>)>,
}

impl Group {
    pub(super) fn identity(&self, member_id: &str) -> Identity {
        match self.instances.get(member_id) {
            Some(instance) => Identity::Static(instance.clone()),
            None => Identity::Dynamic(member_id.into()),
        }
    }

    /// A JoinGroup was executed, whatever comes of it.
    pub(super) fn join_asked(&mut self, join: &Join) {
        self.rebalance_timeout_ms = self.rebalance_timeout_ms.max(i64::from(join.rebalance_timeout_ms));
        if !join.member_id.is_empty() {
            self.standings.remove(&join.member_id);
            self.note_proposals(&join.member_id, join);
        }
    }

    fn note_proposals(&mut self, member_id: &str, join: &Join) {
        self.proposals.entry(member_id.into()).or_default().extend(join.protocols.iter().cloned());
    }

    /// A member id was given to somebody who had none.
    pub(super) fn made_member_id(&mut self, join: &Join, member_id: &str) -> Result<(), String> {
        if let Some(instance) = &join.instance {
            self.instances.insert(member_id.into(), instance.clone());
        }
        self.note_proposals(member_id, join);
        let is_new = self.member_ids.insert(member_id.into());
        is_new.then_some(()).ok_or_else(|| format!("the member id {member_id} was given twice"))
    }

    /// A JoinGroup has succeeded.
    pub(super) fn joined(&mut self, join: &Join, joined: &Joined) -> Result<(), String> {
        let id = joined.generation_id;
        for (member_id, instance, _) in &joined.members {
            if let Some(instance) = instance {
                self.instances.insert(member_id.clone(), instance.clone());
            }
        }
        if let Some(instance) = &join.instance {
            self.instances.insert(joined.member_id.clone(), instance.clone());
        }
        let patience_ms = join.session_timeout_ms.min(join.rebalance_timeout_ms);
        self.patience_ms.insert(joined.member_id.clone(), u64::try_from(patience_ms).unwrap_or(0));
        self.check_order(id)?;
        self.told = self.told.max(id);
        if !join.protocols.iter().any(|(name, _)| *name == joined.protocol) {
            return Err(format!("a member of generation {id} does not propose {}", joined.protocol));
        }
        let (leader, member) = (self.identity(&joined.leader), self.identity(&joined.member_id));
        if self.generations.get(&id).is_some_and(|known| known.is_doubtful && known.leader != leader) {
            self.generations.remove(&id);
        }
        let known = self.generations.entry(id).or_insert_with(|| Generation {
            protocol_type: joined.protocol_type.clone(),
            protocol: joined.protocol.clone(),
            leader: leader.clone(),
            members: None,
            told: BTreeSet::new(),
            deals: Vec::new(),
            is_doubtful: false,
        });
        known.is_told(joined, &leader, &member)?;
        if !joined.members.is_empty() {
            self.led(joined, &leader, &member)?;
        }
        Ok(())
    }

    fn check_order(&mut self, id: i32) -> Result<(), String> {
        if id < self.promised {
            self.begin_again(id, "promised", self.promised)?;
        }
        if id < self.told_before && !self.generations.contains_key(&id) {
            self.begin_again(id, "told", self.told_before)?;
        } else if id < self.told_before {
            return Err(format!("generation {id} is told, though generation {} has begun", self.told_before));
        }
        Ok(())
    }

    fn begin_again(&mut self, id: i32, how: &str, highest: i32) -> Result<(), String> {
        if !self.may_begin_again {
            return Err(format!("generation {id} follows {highest}, which was {how}"));
        }
        self.new_life();
        Ok(())
    }

    /// The group is gone, or may be.
    pub(super) fn new_life(&mut self) {
        self.generations.clear();
        self.standings.clear();
        (self.told_before, self.told, self.promised) = (0, 0, 0);
    }

    /// What the leader is told of the members.
    fn led(&mut self, joined: &Joined, leader: &Identity, member: &Identity) -> Result<(), String> {
        let id = joined.generation_id;
        if leader != member {
            return Err(format!("{member:?} is told the members of generation {id}, but {leader:?} leads it"));
        }
        let identities = joined.members.iter().map(|row| self.identity(&row.0));
        let members: BTreeSet<Identity> = identities.collect();
        if members.len() != joined.members.len() || !members.contains(member) {
            return Err(format!("the members of generation {id} are {:?}", joined.members));
        }
        for (member_id, _, metadata) in &joined.members {
            let Some(proposals) = self.proposals.get(member_id) else { continue };
            if !proposals.contains(&(joined.protocol.clone(), metadata.clone())) {
                return Err(format!("{member_id} has never proposed {} with {metadata:?}", joined.protocol));
            }
        }
        let known = self.generations.get_mut(&id).expect("it was told just now");
        if let Some(stranger) = known.told.iter().find(|told| !members.contains(told)) {
            return Err(format!("{stranger:?} is in generation {id}, but its leader was not told"));
        }
        known.members = Some(members);
        Ok(())
    }

    /// A SyncGroup was taken: if a leader speaks, these may be the assignments.
    pub(super) fn sync_taken(&mut self, sync: &Sync) {
        let identity = self.identity(&sync.speaker.member_id);
        let deal = sync.assignments.iter().map(|(id, bytes)| (self.identity(id), bytes.clone())).collect();
        if let Some(known) = self.generations.get_mut(&sync.speaker.generation_id)
            && known.leader == identity
        {
            known.deals.push(deal);
        }
    }

    /// A SyncGroup has succeeded.
    pub(super) fn synced(&mut self, speaker: &Speaker, assignment: &[u8]) -> Result<(), String> {
        let id = speaker.generation_id;
        if id < self.told_before {
            return Err(format!("generation {id} is synced, though generation {} has begun", self.told_before));
        }
        let identity = self.identity(&speaker.member_id);
        let Some(known) = self.generations.get_mut(&id) else { return Ok(()) };
        let dealt = known.deals.clone();
        known.deals.retain(|deal| deal.get(&identity).map_or(&[][..], |bytes| bytes) == assignment);
        if known.deals.is_empty() {
            return Err(format!("{identity:?} got {assignment:?}, but what was dealt out is {dealt:?}"));
        }
        Ok(())
    }

    /// A member that has synced was told that all is well.
    pub(super) fn is_well(&mut self, speaker: &Speaker, has_synced: bool, now_ms: u64) {
        let is_dynamic = speaker.instance.is_none() && !self.instances.contains_key(&speaker.member_id);
        if is_dynamic && (has_synced || self.standings.contains_key(&speaker.member_id)) {
            let standing = Standing { generation_id: speaker.generation_id, well_at_ms: now_ms };
            self.standings.insert(speaker.member_id.clone(), standing);
        }
    }

    /// Whether a member has a place in the newest generation that it cannot have lost by its own silence.
    pub(super) fn has_standing(&self, member_id: &str, now_ms: u64) -> bool {
        let Some(standing) = self.standings.get(member_id) else { return false };
        let patience_ms = self.patience_ms.get(member_id).copied().unwrap_or(0);
        standing.generation_id == self.told && now_ms - standing.well_at_ms < patience_ms
    }

    /// A LeaveGroup was executed, whatever comes of it.
    pub(super) fn left(&mut self, member_id: &str) {
        self.standings.remove(member_id);
    }

    /// Whether a request that was taken speaks of the present.
    pub(super) fn check_current(&self, speaker: &Speaker, what: &str) -> Result<(), String> {
        if speaker.generation_id >= 0 && speaker.generation_id < self.told_before {
            let (id, now) = (speaker.generation_id, self.told_before);
            return Err(format!("{what} of {} in generation {id} is taken, though {now} has begun", speaker.member_id));
        }
        Ok(())
    }

    /// The process has ended. What was promised is there again, if the journal keeps anything.
    pub(super) fn crashed(&mut self, keeps: bool) {
        self.standings.clear();
        if !keeps {
            self.new_life();
            self.trails.values_mut().for_each(Trail::forget);
            return;
        }
        let promised = self.promised;
        self.generations.values_mut().for_each(|known| known.told.clear());
        self.generations.iter_mut().for_each(|(id, known)| known.is_doubtful |= *id > promised);
        (self.told, self.told_before) = (promised, promised);
        self.trails.values_mut().for_each(Trail::doubt);
    }
}

impl Generation {
    /// Somebody is told that it is in this generation.
    fn is_told(&mut self, joined: &Joined, leader: &Identity, member: &Identity) -> Result<(), String> {
        let id = joined.generation_id;
        if self.leader != *leader {
            return Err(format!("generation {id} is led by {:?} and by {leader:?}", self.leader));
        }
        if self.protocol != joined.protocol {
            return Err(format!("generation {id} speaks {} and {}", self.protocol, joined.protocol));
        }
        if let (Some(one), Some(other)) = (&self.protocol_type, &joined.protocol_type)
            && one != other
        {
            return Err(format!("generation {id} is of type {one} and {other}"));
        }
        if self.protocol_type.is_none() {
            self.protocol_type.clone_from(&joined.protocol_type);
        }
        if self.members.as_ref().is_some_and(|members| !members.contains(member)) {
            return Err(format!("{member:?} is in generation {id}, but its leader was not told"));
        }
        self.told.insert(member.clone());
        Ok(())
    }
}
