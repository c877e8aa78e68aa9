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
    /// It was deleted in this turn: what was parked and is answered now may be of the time before.
    pub(super) is_deleted: bool,
    /// It was made anew since a generation was promised last: a crash may bring it back as it was.
    is_anew: bool,
    /// A crash has brought it back, perhaps.
    may_be_back: bool,
    /// JoinGroups since a generation was told last.
    joins_untold: i32,
    /// It may have gone for want of members and offsets, or of a disk, so that generations begin again.
    pub(super) may_begin_again: bool,
    /// Of all joins so far.
    pub(super) rebalance_timeout_ms: i64,
    /// Every member id that was ever made.
    pub(super) member_ids: BTreeSet<String>,
    /// The static members behind member ids.
    instances: BTreeMap<String, String>,
    /// Of all static members that have ever asked to join.
    instance_ids: BTreeSet<String>,
    /// What was proposed under each member id.
    proposals: BTreeMap<String, BTreeSet<(String, Vec<u8>)>>,
    /// What each member has asked for last, as far as it may count.
    timeouts: BTreeMap<String, Timeouts>,
    pub(super) standings: BTreeMap<String, Standing>,
    /// Generation and member: assignments that were handed in before anybody was told of the generation.
    early_deals: Vec<(i32, String, Deal)>,
    /// Whose departure was asked for; answers to them may still be under way.
    departed: BTreeSet<String>,
    pub(super) trails: BTreeMap<(String, i32), Trail>,
}

/// Members go by their member ids here. Whether two ids are the same member is asked when it matters, for a static member
/// comes back under another id, and that an id is a static member's is often learnt late.
#[derive(Debug)]
pub(super) struct Generation {
    /// Type and name; where a version does not tell, `None`.
    protocol_type: Option<String>,
    protocol: String,
    leader: String,
    /// As the leader was told.
    members: Option<BTreeSet<String>>,
    /// Those who were told that they are in it.
    told: BTreeSet<String>,
    /// What the leader may have dealt out, in one SyncGroup or another.
    deals: Vec<Deal>,
    /// A crash lies behind, and it was not promised: another one may take its number.
    is_doubtful: bool,
}

/// Member ids and assignments.
type Deal = Vec<(String, Vec<u8>)>;

/// How a member that has synced the newest generation stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) generation_id: i32,
    /// When it was last told that all is well: no rebalance was under way.
    well_at_ms: u64,
    /// When it was last heard.
    heard_at_ms: u64,
}

/// Of one member.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    session_ms: u64,
    rebalance_ms: u64,
}

/// How a reply shows a member that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Its SyncGroup was answered.
    Synced,
    /// Its heartbeat was: no rebalance is under way.
    Well,
    /// Its commit was taken, as it is while a rebalance is prepared.
    Heard,
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

impl Timeouts {
    fn of(join: &Join) -> Timeouts {
        let ms = |timeout_ms: i32| u64::try_from(timeout_ms).unwrap_or(0);
        Timeouts { session_ms: ms(join.session_timeout_ms), rebalance_ms: ms(join.rebalance_timeout_ms) }
    }

    fn least(self, other: Timeouts) -> Timeouts {
        Timeouts {
            session_ms: self.session_ms.min(other.session_ms),
            rebalance_ms: self.rebalance_ms.min(other.rebalance_ms),
        }
    }
}

/// A group that was made anew comes to its first members with one of the first generations.
const NEW_GENERATION_MAX: i32 = 3;

impl Group {
    /// The static member behind a member id, if it is one's.
    fn instance<'a>(&'a self, member_id: &'a str) -> Option<&'a str> {
        if let Some(instance) = self.instances.get(member_id) {
            return Some(instance);
        }
        // Of an id that nobody was told only its form tells: Kafka makes it of the instance id, a dash and 36 characters.
        let by_form = member_id.get(..member_id.len().checked_sub(37)?)?;
        self.instance_ids.contains(by_form).then_some(by_form)
    }

    /// Whether two member ids stand for the same member.
    fn are_same(&self, one: &str, other: &str) -> bool {
        one == other || self.instance(one).is_some() && self.instance(one) == self.instance(other)
    }

    /// A JoinGroup was executed, whatever comes of it.
    pub(super) fn join_asked(&mut self, join: &Join) {
        self.rebalance_timeout_ms = self.rebalance_timeout_ms.max(i64::from(join.rebalance_timeout_ms));
        self.instance_ids.extend(join.instance.clone());
        self.joins_untold += 1;
        if !join.member_id.is_empty() {
            self.standings.remove(&join.member_id);
            self.note_proposals(&join.member_id, join);
            // It counts, or it does not.
            let asked = Timeouts::of(join);
            let known = self.timeouts.entry(join.member_id.clone()).or_insert(asked);
            *known = known.least(asked);
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

    /// A JoinGroup has succeeded. What does not fit may be of another group of the same name; says why it is.
    pub(super) fn joined(&mut self, join: &Join, joined: &Joined, was_parked: bool) -> Result<Option<String>, String> {
        // Whoever only hears again what it missed has asked for other timeouts in vain, as in Kafka.
        if was_parked {
            self.timeouts.insert(joined.member_id.clone(), Timeouts::of(join));
        }
        match self.join(join, joined) {
            Err(why) if self.may_be_another(joined.generation_id) => {
                self.new_life();
                self.join(join, joined).map(|()| Some(why))
            }
            other => other.map(|()| None),
        }
    }

    fn join(&mut self, join: &Join, joined: &Joined) -> Result<(), String> {
        let id = joined.generation_id;
        for (member_id, instance, _) in &joined.members {
            if let Some(instance) = instance {
                self.instances.insert(member_id.clone(), instance.clone());
            }
        }
        if let Some(instance) = &join.instance {
            self.instances.insert(joined.member_id.clone(), instance.clone());
        }
        self.check_order(id)?;
        self.told = self.told.max(id);
        self.joins_untold = 0;
        if !join.protocols.iter().any(|(name, _)| *name == joined.protocol) {
            return Err(format!("a member of generation {id} does not propose {}", joined.protocol));
        }
        if self.generations.get(&id).is_some_and(|known| known.is_doubtful) && self.check_told(joined).is_err() {
            self.generations.remove(&id);
        }
        let early = self.early_deals.iter().filter(|deal| deal.0 == id && self.are_same(&deal.1, &joined.leader));
        let deals = early.map(|deal| deal.2.clone()).collect();
        self.generations.entry(id).or_insert_with(|| Generation {
            protocol_type: joined.protocol_type.clone(),
            protocol: joined.protocol.clone(),
            leader: joined.leader.clone(),
            members: None,
            told: BTreeSet::new(),
            deals,
            is_doubtful: self.may_be_back,
        });
        self.check_told(joined)?;
        if !joined.members.is_empty() {
            self.check_led(joined)?;
        }
        let known = self.generations.get_mut(&id).expect("it was added");
        known.told.insert(joined.member_id.clone());
        if known.protocol_type.is_none() {
            known.protocol_type.clone_from(&joined.protocol_type);
        }
        if !joined.members.is_empty() {
            known.members = Some(joined.members.iter().map(|row| row.0.clone()).collect());
        }
        Ok(())
    }

    /// Somebody is told that it is in a generation.
    fn check_told(&self, joined: &Joined) -> Result<(), String> {
        let Joined { generation_id: id, leader, member_id, .. } = joined;
        let known = &self.generations[id];
        if !self.are_same(&known.leader, leader) {
            return Err(format!("generation {id} is led by {:?} and by {leader:?}", known.leader));
        }
        if known.protocol != joined.protocol {
            return Err(format!("generation {id} speaks {} and {}", known.protocol, joined.protocol));
        }
        if let (Some(one), Some(other)) = (&known.protocol_type, &joined.protocol_type)
            && one != other
        {
            return Err(format!("generation {id} is of type {one} and {other}"));
        }
        let is_it = |other: &String| self.are_same(other, member_id);
        if known.members.as_ref().is_some_and(|members| !members.iter().any(is_it)) {
            return Err(format!("{member_id} is in generation {id}, but its leader was not told"));
        }
        Ok(())
    }

    /// A leader is told of the members.
    fn check_led(&self, joined: &Joined) -> Result<(), String> {
        let Joined { generation_id: id, leader, member_id, members, .. } = joined;
        if !self.are_same(leader, member_id) {
            return Err(format!("{member_id} is told the members of generation {id}, but {leader} leads it"));
        }
        for (place, (one, _, metadata)) in members.iter().enumerate() {
            if members[..place].iter().any(|(other, _, _)| self.are_same(one, other)) {
                return Err(format!("{one} is in generation {id} twice"));
            }
            let proposal = (joined.protocol.clone(), metadata.clone());
            if self.proposals.get(one).is_some_and(|proposals| !proposals.contains(&proposal)) {
                return Err(format!("{one} has never proposed {} with {metadata:?}", joined.protocol));
            }
        }
        let is_listed = |told: &&String| members.iter().any(|(listed, _, _)| self.are_same(listed, told));
        match self.generations[id].told.iter().chain([member_id]).find(|told| !is_listed(told)) {
            Some(stranger) => Err(format!("{stranger} is in generation {id}, but its leader is not told")),
            None => Ok(()),
        }
    }

    fn check_order(&self, id: i32) -> Result<(), String> {
        if id < self.promised {
            return Err(format!("generation {id} follows {}, which was promised", self.promised));
        }
        if id < self.told_before {
            return Err(format!("generation {id} is told, though generation {} has begun", self.told_before));
        }
        Ok(())
    }

    /// Whether this may be a generation of a group that was made anew. Each member that nobody heard of again can have made two:
    /// one when it came and one when it went.
    fn may_be_another(&self, generation_id: i32) -> bool {
        self.may_begin_again && generation_id <= NEW_GENERATION_MAX + 2 * self.joins_untold
    }

    /// The group is gone, or may be.
    pub(super) fn new_life(&mut self) {
        self.generations.clear();
        self.standings.clear();
        (self.told_before, self.told, self.promised) = (0, 0, 0);
        self.is_anew = true;
    }

    /// A generation was written, and a reply that says so has left.
    pub(super) fn promise(&mut self, generation_id: i32) {
        if self.generations.contains_key(&generation_id) {
            self.promised = self.promised.max(generation_id);
            (self.is_anew, self.may_be_back) = (false, false);
        }
    }

    /// A SyncGroup was taken: if a leader speaks, these may be the assignments.
    pub(super) fn sync_taken(&mut self, sync: &Sync) {
        let Speaker { generation_id, member_id, .. } = &sync.speaker;
        match self.generations.get(generation_id) {
            // Whoever guesses right speaks of a generation before its leader is told.
            None => self.early_deals.push((*generation_id, member_id.clone(), sync.assignments.clone())),
            Some(known) if self.are_same(&known.leader, member_id) => {
                let known = self.generations.get_mut(generation_id).expect("it was found");
                known.deals.push(sync.assignments.clone());
            }
            Some(_) => {}
        }
    }

    /// A SyncGroup has succeeded.
    pub(super) fn synced(&mut self, speaker: &Speaker, assignment: &[u8]) -> Result<(), String> {
        let id = speaker.generation_id;
        if id < self.told_before && self.may_be_another(id) {
            self.new_life();
        }
        if id < self.told_before {
            return Err(format!("generation {id} is synced, though generation {} has begun", self.told_before));
        }
        let Some(known) = self.generations.get(&id) else { return Ok(()) };
        let shares = |deal: &[(String, Vec<u8>)]| {
            let rows = deal.iter().filter(|(id, _)| self.are_same(id, &speaker.member_id));
            let mut shares: Vec<Vec<u8>> = rows.map(|(_, bytes)| bytes.clone()).collect();
            if !deal.iter().any(|(id, _)| self.are_same(id, &speaker.member_id)) {
                shares.push(Vec::new());
            }
            shares
        };
        let fits = |deal: &Vec<(String, Vec<u8>)>| shares(deal).iter().any(|share| share == assignment);
        let (right, wrong): (Vec<_>, Vec<_>) = known.deals.iter().cloned().partition(fits);
        if right.is_empty() && known.is_doubtful {
            // It is another one than the one that was lost, or one of a life before.
            self.generations.remove(&id);
            return Ok(());
        }
        if right.is_empty() {
            let shares: Vec<_> = wrong.iter().map(|deal| shares(deal)).collect();
            return Err(format!("{} got {assignment:?}, but {shares:?} was dealt out", speaker.member_id));
        }
        self.generations.get_mut(&id).expect("it was found").deals = right;
        Ok(())
    }

    /// A member that has synced was shown that it is there.
    pub(super) fn is_there(&mut self, speaker: &Speaker, sign: Sign, now_ms: u64) {
        let is_dynamic = speaker.instance.is_none() && self.instance(&speaker.member_id).is_none();
        let is_there = is_dynamic && !self.departed.contains(&speaker.member_id);
        let known = self.standings.get(&speaker.member_id).copied();
        if !is_there || known.is_none() && sign != Sign::Synced {
            return;
        }
        let well_at_ms = known.filter(|_| sign == Sign::Heard).map_or(now_ms, |known| known.well_at_ms);
        let standing = Standing { generation_id: speaker.generation_id, well_at_ms, heard_at_ms: now_ms };
        self.standings.insert(speaker.member_id.clone(), standing);
    }

    /// Whether a member has a place in the newest generation that it cannot have lost by its own silence.
    pub(super) fn has_standing(&self, member_id: &str, now_ms: u64) -> bool {
        let Some(standing) = self.standings.get(member_id) else { return false };
        let Some(timeouts) = self.timeouts.get(member_id) else { return false };
        standing.generation_id == self.told
            && now_ms - standing.heard_at_ms < timeouts.session_ms
            && now_ms - standing.well_at_ms < timeouts.rebalance_ms
    }

    /// Whether a request speaks of that place.
    pub(super) fn is_in_good_standing(&self, speaker: &Speaker, now_ms: u64) -> bool {
        speaker.generation_id == self.told && self.has_standing(&speaker.member_id, now_ms)
    }

    /// A LeaveGroup was executed, whatever comes of it.
    pub(super) fn left(&mut self, member_id: &str) {
        self.standings.remove(member_id);
        self.departed.insert(member_id.into());
    }

    /// Whether a request that was taken speaks of the present.
    pub(super) fn check_current(&mut self, speaker: &Speaker, what: &str) -> Result<(), String> {
        if speaker.generation_id >= 0 && speaker.generation_id < self.told_before {
            if self.may_be_another(speaker.generation_id) {
                self.new_life();
                return Ok(());
            }
            let (id, now) = (speaker.generation_id, self.told_before);
            return Err(format!("{what} of {} in generation {id} is taken, though {now} has begun", speaker.member_id));
        }
        Ok(())
    }

    /// The process has ended. What was promised is there again, if the journal keeps anything; then members go on as if
    /// nothing had been, unless a later generation had begun.
    pub(super) fn crashed(&mut self, keeps: bool, now_ms: u64) {
        if keeps && self.told == self.promised {
            let ids: Vec<String> = self.standings.keys().cloned().collect();
            let good: BTreeSet<String> = ids.into_iter().filter(|id| self.has_standing(id, now_ms)).collect();
            self.standings.retain(|id, _| good.contains(id));
            self.standings.values_mut().for_each(|known| (known.well_at_ms, known.heard_at_ms) = (now_ms, now_ms));
        } else {
            self.standings.clear();
        }
        if !keeps {
            self.new_life();
            self.is_anew = false;
            self.trails.values_mut().for_each(Trail::forget);
            return;
        }
        self.may_be_back |= self.is_anew;
        let promised = self.promised;
        self.generations.values_mut().for_each(|known| known.told.clear());
        self.generations.iter_mut().for_each(|(id, known)| known.is_doubtful |= *id > promised);
        (self.told, self.told_before) = (promised, promised);
        self.trails.values_mut().for_each(Trail::crashed);
    }
}
