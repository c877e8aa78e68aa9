//! The classic group protocol once more, as simply as it can be said: lists that are searched from the front, deadlines that are
//! compared one by one, nothing shared with the code that is tested. It predicts every answer.
//!
//! Two things it leaves open, because the protocol does: which of the members that rejoined leads if the leader did not, and the
//! order of things that come due in the same millisecond. The first is taken over from the answer; the second ends the comparison.

use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    /// (delay, remaining, newcomer) while the rebalance is an initial one.
    Preparing(Option<(u64, u64, bool)>),
    Completing,
    Stable,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) instance: Option<String>,
    pub(super) protocols: Vec<(String, String)>,
    pub(super) session_ms: u64,
    pub(super) rebalance_ms: u64,
    /// None: ran out while a parked request stood in for it.
    pub(super) deadline: Option<u64>,
    pub(super) is_new: bool,
    pub(super) join: Option<i32>,
    pub(super) sync: Option<i32>,
    pub(super) owes: bool,
    pub(super) assignment: String,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) state: State,
    pub(super) generation: i32,
    pub(super) protocol_type: String,
    pub(super) protocol: Option<String>,
    /// None while it is open.
    pub(super) leader: Option<String>,
    pub(super) members: Vec<Member>,
    pub(super) pending: Vec<(String, u64)>,
    pub(super) phase_deadline: Option<u64>,
    /// Of the one partition to which everybody commits.
    pub(super) offset: i64,
    /// What a restart finds.
    pub(super) durable: Option<Box<Group>>,
    disk_fails: bool,
}

/// What a join or a sync is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Join {
        error: i16,
        generation: i32,
        protocol: Option<String>,
        /// None: one of those who rejoined.
        leader: Option<String>,
        member_id: String,
        skip_assignment: bool,
        members: BTreeSet<(String, Option<String>, String)>,
    },
    Sync {
        error: i16,
        assignment: String,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Joining {
    pub(super) group: String,
    pub(super) id: String,
    pub(super) instance: Option<String>,
    pub(super) version: i16,
    pub(super) protocol_type: String,
    pub(super) protocols: Vec<(String, String)>,
    pub(super) session_ms: u64,
    pub(super) rebalance_ms: u64,
    pub(super) ticket: i32,
}

pub(super) struct Naive {
    pub(super) groups: Vec<(String, Group)>,
    pub(super) answers: Vec<(i32, Answer)>,
    pub(super) now: u64,
    pub(super) delay_ms: u64,
    pub(super) max_size: usize,
    /// The number in the next member id.
    pub(super) next_id: u64,
    /// Writes fail with NOT_ENOUGH_REPLICAS.
    pub(super) disk_fails: bool,
    /// Two things came due together.
    pub(super) is_ambiguous: bool,
}

pub(super) fn refused(error: i16, member_id: &str) -> Answer {
    Answer::Join {
        error,
        generation: -1,
        protocol: None,
        leader: Some(String::new()),
        member_id: member_id.into(),
        skip_assignment: false,
        members: BTreeSet::new(),
    }
}

fn sync_refused(error: i16) -> Answer {
    Answer::Sync { error, assignment: String::new() }
}

const FAILED: i16 = 15;

impl Naive {
    pub(super) fn group(&mut self, id: &str) -> Option<&mut Group> {
        self.groups.iter_mut().find(|(known, _)| known == id).map(|(_, group)| group)
    }

    fn forget(&mut self, id: &str) {
        self.groups.retain(|(known, _)| known != id);
    }

    fn new_id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        let number = self.next_id;
        format!("{prefix}-{:08x}-{:04x}-4{:03x}-8000-000000000007", number >> 32, number >> 16 & 0xffff, number & 0xfff)
    }

    /// Runs a step on a group; whatever it answers goes out.
    fn on(&mut self, id: &str, step: impl FnOnce(&mut Group, &mut Vec<(i32, Answer)>, u64)) {
        let (now, disk_fails, mut answers) = (self.now, self.disk_fails, std::mem::take(&mut self.answers));
        if let Some(group) = self.group(id) {
            group.disk_fails = disk_fails;
            step(group, &mut answers, now);
        }
        self.answers = answers;
    }

    pub(super) fn join(&mut self, joining: Joining) {
        let answer = self.try_join(&joining);
        if let Some(answer) = answer {
            self.answers.push((joining.ticket, answer));
        }
        self.tick();
    }

    fn try_join(&mut self, joining: &Joining) -> Option<Answer> {
        let (now, max_size, delay_ms) = (self.now, self.max_size, self.delay_ms);
        let mut is_created = false;
        if self.group(&joining.group).is_none() {
            if !joining.id.is_empty() {
                return Some(refused(25, &joining.id));
            }
            self.groups.push((joining.group.clone(), Group::new()));
            is_created = true;
        }
        let answer = self.join_group(joining, now, max_size, delay_ms);
        if is_created && self.disk_fails {
            self.forget(&joining.group);
            return Some(answer.unwrap_or(refused(FAILED, "")));
        }
        if is_created {
            let group = self.group(&joining.group).expect("it was created");
            group.durable = Some(Box::new(Group::new()));
        }
        answer
    }

    fn join_group(&mut self, joining: &Joining, now: u64, max_size: usize, delay_ms: u64) -> Option<Answer> {
        let group = self.group(&joining.group).expect("it is there");
        if !group.has_room(&joining.id, max_size) {
            let id = joining.id.clone();
            self.on(&joining.group, |group, answers, now| {
                group.pending.retain(|(pending, _)| *pending != id);
                group.remove(&id, answers);
                group.complete_if_all_joined(answers, now);
            });
            return Some(refused(81, ""));
        }
        if !group.supports(joining) {
            return Some(refused(23, &joining.id));
        }
        if joining.id.is_empty() {
            return self.join_new(joining, now, delay_ms);
        }
        if group.pending.iter().any(|(id, _)| *id == joining.id) {
            if joining.instance.is_some() {
                return Some(refused(-1, ""));
            }
            group.pending.retain(|(id, _)| *id != joining.id);
            let id = joining.id.clone();
            self.on(&joining.group, |group, answers, now| group.add(&id, joining, answers, now, delay_ms));
            return None;
        }
        if let Err(error) = group.validate(&joining.id, joining.instance.as_deref()) {
            return Some(refused(error, &joining.id));
        }
        let leads = group.leader.as_deref() == Some(&joining.id);
        let is_same = group.member(&joining.id).unwrap().protocols == joining.protocols;
        let is_at_once = match group.state {
            State::Completing => is_same,
            State::Stable => is_same && !leads,
            _ => false,
        };
        if is_at_once {
            let members = if leads { group.shown() } else { BTreeSet::new() };
            return Some(group.joined(&joining.id, members));
        }
        self.on(&joining.group, |group, answers, now| {
            let member = group.member(&joining.id).unwrap();
            member.take_over(joining);
            if let Some(ticket) = member.sync.take() {
                answers.push((ticket, sync_refused(27)));
            }
            member.join = Some(joining.ticket);
            group.rebalance(answers, now, delay_ms);
        });
        None
    }

    fn join_new(&mut self, joining: &Joining, now: u64, delay_ms: u64) -> Option<Answer> {
        let Some(instance) = &joining.instance else {
            let id = self.new_id("client");
            if joining.version >= 4 {
                let group = self.group(&joining.group).unwrap();
                group.pending.push((id.clone(), now + joining.session_ms));
                return Some(refused(79, &id));
            }
            self.on(&joining.group, |group, answers, now| group.add(&id, joining, answers, now, delay_ms));
            return None;
        };
        let id = self.new_id(instance);
        self.on(&joining.group, |group, answers, now| {
            if group.members.iter().any(|member| member.instance.as_ref() == Some(instance)) {
                group.replace(&id, joining, answers, now, delay_ms);
            } else {
                group.add(&id, joining, answers, now, delay_ms);
            }
        });
        None
    }

    pub(super) fn sync(
        &mut self,
        group_id: &str,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        plan: &[(String, String)],
        ticket: i32,
    ) {
        if self.group(group_id).is_none() {
            self.answers.push((ticket, sync_refused(25)));
        }
        self.on(group_id, |group, answers, now| {
            let error = match group.validate(id, instance) {
                Err(error) => error,
                Ok(()) if generation != group.generation => 22,
                Ok(()) => match group.state {
                    State::Empty => 25,
                    State::Preparing(_) => 27,
                    _ => 0,
                },
            };
            if error != 0 {
                answers.push((ticket, sync_refused(error)));
                return;
            }
            let (state, leads) = (group.state, group.leader.as_deref() == Some(id));
            let member = group.member(id).unwrap();
            member.owes = false;
            if state == State::Stable {
                answers.push((ticket, Answer::Sync { error: 0, assignment: member.assignment.clone() }));
                return;
            }
            member.sync = Some(ticket);
            if leads {
                group.assign(plan, answers, now);
            }
        });
        self.tick();
    }

    pub(super) fn heartbeat(&mut self, group_id: &str, id: &str, instance: Option<&str>, generation: i32) -> i16 {
        let now = self.now;
        let Some(group) = self.group(group_id) else { return 25 };
        if let Err(error) = group.validate(id, instance) {
            return error;
        }
        if generation != group.generation {
            return 22;
        }
        let is_preparing = matches!(group.state, State::Preparing(_));
        let member = group.member(id).unwrap();
        member.deadline = Some(now + member.session_ms);
        if is_preparing { 27 } else { 0 }
    }

    pub(super) fn leave(&mut self, group_id: &str, leaving: &[(String, Option<String>)]) -> Vec<i16> {
        let mut codes = Vec::new();
        if self.group(group_id).is_none() {
            return vec![25; leaving.len()];
        }
        let delay_ms = self.delay_ms;
        self.on(group_id, |group, answers, now| {
            for (id, instance) in leaving {
                codes.push(group.leave_one(id, instance.as_deref(), answers));
            }
            if codes.contains(&0) && group.state != State::Empty {
                group.rebalance(answers, now, delay_ms);
            }
        });
        self.tick();
        codes
    }

    pub(super) fn commit(
        &mut self,
        group_id: &str,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        offset: i64,
    ) -> i16 {
        let (now, disk_fails) = (self.now, self.disk_fails);
        if self.group(group_id).is_none() {
            if generation >= 0 {
                return 22;
            }
            self.groups.push((group_id.into(), Group::new()));
        }
        let group = self.group(group_id).unwrap();
        let code = group.check_commit(id, instance, generation, now);
        if code == 0 && !disk_fails {
            group.offset = offset;
            group.durable.get_or_insert_with(|| Box::new(Group::new())).offset = offset;
        }
        code
    }

    pub(super) fn delete(&mut self, group_id: &str) -> i16 {
        match self.group(group_id).map(|group| group.state) {
            None => 69,
            Some(State::Empty) if self.disk_fails => {
                self.group(group_id).unwrap().pending.clear();
                0
            }
            Some(State::Empty) => {
                self.forget(group_id);
                0
            }
            Some(_) => 68,
        }
    }

    /// The server starts again.
    pub(super) fn restart(&mut self) {
        let now = self.now;
        self.groups.retain(|(_, group)| group.durable.is_some());
        for (_, group) in &mut self.groups {
            *group = (**group.durable.as_ref().unwrap()).clone();
            group.durable = Some(Box::new(group.clone()));
            for member in &mut group.members {
                member.deadline = Some(now + member.session_ms);
            }
        }
        let max_size = self.max_size;
        let too_large: Vec<String> =
            self.groups.iter().filter(|(_, group)| group.members.len() > max_size).map(|(id, _)| id.clone()).collect();
        for id in too_large {
            self.on(&id, |group, answers, now| group.rebalance(answers, now, 0));
        }
        self.answers.clear();
    }

    /// When something comes due next.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.groups.iter().filter_map(|(_, group)| group.next_deadline()).min()
    }

    /// Nothing may be due before.
    pub(super) fn go_to(&mut self, now: u64) {
        self.now = now;
        self.tick();
    }

    /// Everything that is due.
    fn tick(&mut self) {
        let now = self.now;
        loop {
            let due = self.groups.iter().find(|(_, group)| group.next_deadline().is_some_and(|at| at <= now));
            let Some((id, group)) = due else { return };
            self.is_ambiguous |= group.deadlines().filter(|at| *at <= now).count() > 1;
            let (id, delay_ms) = (id.clone(), self.delay_ms);
            self.on(&id, |group, answers, now| group.fire(answers, now, delay_ms));
        }
    }
}

impl Member {
    fn take_over(&mut self, joining: &Joining) {
        self.protocols = joining.protocols.clone();
        (self.session_ms, self.rebalance_ms) = (joining.session_ms, joining.rebalance_ms);
    }

    fn metadata(&self, protocol: &str) -> String {
        self.protocols
            .iter()
            .find(|(name, _)| name == protocol)
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }
}

impl Group {
    fn new() -> Group {
        Group {
            state: State::Empty,
            generation: 0,
            protocol_type: String::new(),
            protocol: None,
            leader: None,
            members: Vec::new(),
            pending: Vec::new(),
            phase_deadline: None,
            offset: -1,
            durable: None,
            disk_fails: false,
        }
    }

    fn member(&mut self, id: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    fn validate(&self, id: &str, instance: Option<&str>) -> Result<(), i16> {
        match instance {
            None => self.members.iter().any(|member| member.id == id).then_some(()).ok_or(25),
            Some(instance) => match self.members.iter().find(|member| member.instance.as_deref() == Some(instance)) {
                None => Err(25),
                Some(member) if member.id != id => Err(82),
                Some(_) => Ok(()),
            },
        }
    }

    fn check_commit(&mut self, id: &str, instance: Option<&str>, generation: i32, now: u64) -> i16 {
        if generation < 0 && self.state == State::Empty {
            return 0;
        }
        if generation < 0 && id.is_empty() && instance.is_none() {
            return 25;
        }
        if let Err(error) = self.validate(id, instance) {
            return error;
        }
        if generation != self.generation {
            return 22;
        }
        if self.state == State::Completing {
            return 27;
        }
        let member = self.member(id).unwrap();
        member.deadline = Some(now + member.session_ms);
        0
    }

    fn has_room(&self, id: &str, max_size: usize) -> bool {
        let waiting = self.members.iter().filter(|member| member.join.is_some());
        match self.state {
            State::Empty => true,
            State::Preparing(_) => waiting.clone().any(|member| member.id == id) || waiting.count() < max_size,
            _ => self.members.iter().any(|member| member.id == id) || self.members.len() < max_size,
        }
    }

    fn supports(&self, joining: &Joining) -> bool {
        if self.state == State::Empty {
            return !joining.protocol_type.is_empty() && !joining.protocols.is_empty();
        }
        self.protocol_type == joining.protocol_type && joining.protocols.iter().any(|(name, _)| self.all_propose(name))
    }

    fn all_propose(&self, name: &str) -> bool {
        self.members.iter().all(|member| member.protocols.iter().any(|(known, _)| known == name))
    }

    /// The first candidate of most members; the first of the alphabet if several have as many.
    fn choice(&self) -> String {
        let votes: Vec<&String> = self
            .members
            .iter()
            .map(|member| &member.protocols.iter().find(|(name, _)| self.all_propose(name)).unwrap().0)
            .collect();
        let count = |name: &String| votes.iter().filter(|vote| **vote == name).count();
        let most = votes.iter().map(|name| count(name)).max().unwrap();
        votes.iter().filter(|name| count(name) == most).min().unwrap().to_string()
    }

    fn shown(&self) -> BTreeSet<(String, Option<String>, String)> {
        let protocol = self.protocol.clone().unwrap();
        self.members.iter().map(|m| (m.id.clone(), m.instance.clone(), m.metadata(&protocol))).collect()
    }

    fn joined(&self, id: &str, members: BTreeSet<(String, Option<String>, String)>) -> Answer {
        Answer::Join {
            error: 0,
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            member_id: id.into(),
            skip_assignment: false,
            members,
        }
    }

    fn add(&mut self, id: &str, joining: &Joining, answers: &mut Vec<(i32, Answer)>, now: u64, delay_ms: u64) {
        if self.members.is_empty() {
            self.protocol_type = joining.protocol_type.clone();
            self.leader = Some(id.into());
        }
        self.members.push(Member {
            id: id.into(),
            instance: joining.instance.clone(),
            protocols: joining.protocols.clone(),
            session_ms: joining.session_ms,
            rebalance_ms: joining.rebalance_ms,
            deadline: Some(now + 300_000),
            is_new: true,
            join: Some(joining.ticket),
            sync: None,
            owes: false,
            assignment: String::new(),
        });
        if let State::Preparing(Some((_, _, newcomer))) = &mut self.state {
            *newcomer = true;
        }
        self.rebalance(answers, now, delay_ms);
    }

    fn replace(&mut self, id: &str, joining: &Joining, answers: &mut Vec<(i32, Answer)>, now: u64, delay_ms: u64) {
        let fails = self.disk_fails;
        let before = self.clone();
        let leader_before = self.leader.clone();
        let member = self.members.iter_mut().find(|member| member.instance == joining.instance).unwrap();
        if let Some(ticket) = member.join.take() {
            answers.push((ticket, refused(82, &member.id)));
        }
        if let Some(ticket) = member.sync.take() {
            answers.push((ticket, sync_refused(82)));
        }
        let old_id = std::mem::replace(&mut member.id, id.into());
        member.take_over(joining);
        member.is_new = false;
        member.deadline = Some(now + member.session_ms);
        if self.leader.as_deref() == Some(&old_id) {
            self.leader = Some(id.into());
        }
        if self.state != State::Stable || Some(self.choice()) != self.protocol {
            self.member(id).unwrap().join = Some(joining.ticket);
            self.rebalance(answers, now, delay_ms);
            return;
        }
        let mut answer = self.joined(id, BTreeSet::new());
        let Answer::Join { error, leader, member_id, skip_assignment, members, .. } = &mut answer else {
            unreachable!()
        };
        if fails {
            (*error, *leader, *member_id) = (FAILED, leader_before, String::new());
            *self = before;
            let member = self.members.iter_mut().find(|member| member.instance == joining.instance).unwrap();
            member.deadline = Some(now + member.session_ms);
        } else if joining.version >= 9 {
            *skip_assignment = self.leader.as_deref() == Some(id);
            if *skip_assignment {
                *members = self.shown();
            }
        } else {
            *leader = leader_before;
        }
        answers.push((joining.ticket, answer));
        self.save();
    }

    fn leave_one(&mut self, id: &str, instance: Option<&str>, answers: &mut Vec<(i32, Answer)>) -> i16 {
        if id.is_empty() {
            let member =
                self.members.iter().find(|member| instance.is_some() && member.instance.as_deref() == instance);
            let Some(id) = member.map(|member| member.id.clone()) else { return 25 };
            self.remove(&id, answers);
            return 0;
        }
        if self.pending.iter().any(|(pending, _)| pending == id) {
            self.pending.retain(|(pending, _)| pending != id);
            return 0;
        }
        if let Err(error) = self.validate(id, instance) {
            return error;
        }
        self.remove(id, answers);
        0
    }

    fn remove(&mut self, id: &str, answers: &mut Vec<(i32, Answer)>) {
        let Some(at) = self.members.iter().position(|member| member.id == id) else { return };
        let member = self.members.remove(at);
        if let Some(ticket) = member.join {
            answers.push((ticket, refused(25, "")));
        }
        if let Some(ticket) = member.sync {
            answers.push((ticket, sync_refused(25)));
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = None;
        }
    }

    fn rebalance_ms(&self) -> u64 {
        self.members.iter().map(|member| member.rebalance_ms).max().unwrap_or(0)
    }

    fn rebalance(&mut self, answers: &mut Vec<(i32, Answer)>, now: u64, delay_ms: u64) {
        if matches!(self.state, State::Preparing(_)) {
            self.complete_if_all_joined(answers, now);
            return;
        }
        if self.state == State::Completing {
            self.refuse_syncs(27, answers, now);
        }
        self.members.iter_mut().for_each(|member| member.owes = false);
        if self.state == State::Empty {
            let remaining = self.rebalance_ms().saturating_sub(delay_ms);
            self.state = State::Preparing(Some((delay_ms, remaining, false)));
            self.phase_deadline = Some(now + delay_ms);
            return;
        }
        self.state = State::Preparing(None);
        self.phase_deadline = Some(now + self.rebalance_ms());
        self.complete_if_all_joined(answers, now);
    }

    fn refuse_syncs(&mut self, error: i16, answers: &mut Vec<(i32, Answer)>, now: u64) {
        for member in &mut self.members {
            member.assignment.clear();
            if let Some(ticket) = member.sync.take() {
                answers.push((ticket, sync_refused(error)));
                member.deadline = Some(now + member.session_ms);
            }
        }
    }

    fn have_all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.iter().all(|member| member.join.is_some())
    }

    fn complete_if_all_joined(&mut self, answers: &mut Vec<(i32, Answer)>, now: u64) {
        if self.state == State::Preparing(None) && self.have_all_joined() {
            self.complete(answers, now);
        }
    }

    fn complete(&mut self, answers: &mut Vec<(i32, Answer)>, now: u64) {
        let absent: Vec<String> = self
            .members
            .iter()
            .filter(|member| member.join.is_none() && member.instance.is_none())
            .map(|member| member.id.clone())
            .collect();
        for id in absent {
            self.remove(&id, answers);
        }
        if self.members.is_empty() {
            self.generation += 1;
            (self.state, self.phase_deadline, self.leader) = (State::Empty, None, None);
            self.protocol = Some(String::new());
            self.save();
            return;
        }
        if self.members.iter().all(|member| member.join.is_none()) {
            self.phase_deadline = Some(now + self.rebalance_ms());
            return;
        }
        let has_rejoined = |id: &String| self.members.iter().any(|m| m.id == *id && m.join.is_some());
        if !self.leader.as_ref().is_some_and(has_rejoined) {
            self.leader = None;
        }
        self.generation += 1;
        self.protocol = Some(self.choice());
        self.state = State::Completing;
        self.phase_deadline = Some(now + self.rebalance_ms());
        let shown = self.shown();
        let mut told = Vec::new();
        for member in &mut self.members {
            (member.is_new, member.owes, member.deadline) = (false, true, Some(now + member.session_ms));
            if let Some(ticket) = member.join.take() {
                told.push((ticket, member.id.clone()));
            }
        }
        // A leader that is open yet is filled in by whoever compares; members are then the leader's.
        answers.extend(told.into_iter().map(|(ticket, id)| (ticket, self.joined(&id, shown.clone()))));
    }

    fn assign(&mut self, plan: &[(String, String)], answers: &mut Vec<(i32, Answer)>, now: u64) {
        if self.disk_fails {
            self.refuse_syncs(FAILED, answers, now);
            self.state = State::Stable;
            self.rebalance(answers, now, 0);
            return;
        }
        self.state = State::Stable;
        for member in &mut self.members {
            let part = plan.iter().rfind(|(id, _)| *id == member.id);
            member.assignment = part.map(|(_, part)| part.clone()).unwrap_or_default();
            if let Some(ticket) = member.sync.take() {
                answers.push((ticket, Answer::Sync { error: 0, assignment: member.assignment.clone() }));
                member.deadline = Some(now + member.session_ms);
            }
        }
        self.save();
    }

    fn deadlines(&self) -> impl Iterator<Item = u64> {
        let members = self.members.iter().filter_map(|member| member.deadline);
        members.chain(self.pending.iter().map(|(_, at)| *at)).chain(self.phase_deadline)
    }

    fn next_deadline(&self) -> Option<u64> {
        self.deadlines().min()
    }

    fn fire(&mut self, answers: &mut Vec<(i32, Answer)>, now: u64, delay_ms: u64) {
        if let Some(at) = self.pending.iter().position(|(_, at)| *at <= now) {
            self.pending.remove(at);
            if matches!(self.state, State::Preparing(_)) && self.have_all_joined() {
                self.complete(answers, now);
            }
        } else if let Some(member) = self.members.iter_mut().find(|member| member.deadline.is_some_and(|at| at <= now))
        {
            member.deadline = None;
            if member.is_new || (member.join.is_none() && member.sync.is_none()) {
                let id = member.id.clone();
                self.remove(&id, answers);
                match self.state {
                    State::Preparing(_) if self.have_all_joined() => self.complete(answers, now),
                    State::Preparing(_) => {}
                    _ => self.rebalance(answers, now, delay_ms),
                }
            }
        } else {
            self.phase_deadline = None;
            self.fire_phase(answers, now, delay_ms);
        }
    }

    fn fire_phase(&mut self, answers: &mut Vec<(i32, Answer)>, now: u64, delay_ms: u64) {
        match self.state {
            State::Preparing(Some((delay, remaining, true))) if remaining > 0 => {
                let next = delay_ms.min(remaining);
                self.state = State::Preparing(Some((next, remaining.saturating_sub(delay), false)));
                self.phase_deadline = Some(now + next);
            }
            State::Preparing(_) => self.complete(answers, now),
            _ => {
                let owing: Vec<String> =
                    self.members.iter().filter(|member| member.owes).map(|member| member.id.clone()).collect();
                for id in &owing {
                    self.remove(id, answers);
                }
                if !owing.is_empty() {
                    self.rebalance(answers, now, delay_ms);
                }
            }
        }
    }

    /// What the journal now says of the group.
    fn save(&mut self) {
        if self.disk_fails {
            return;
        }
        let mut saved = Group { durable: None, pending: Vec::new(), phase_deadline: None, ..self.clone() };
        let protocol = self.protocol.clone().unwrap_or_default();
        saved.state = if saved.members.is_empty() { State::Empty } else { State::Stable };
        for member in &mut saved.members {
            member.protocols = vec![(protocol.clone(), member.metadata(&protocol))];
            (member.join, member.sync, member.owes, member.is_new) = (None, None, false, false);
        }
        self.durable = Some(Box::new(saved));
    }
}
