//! One group of the naive model.

use std::collections::BTreeSet;

use super::naive::{Answer, FAILED, Joining, refused, sync_refused};

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
    /// What could not be written when it became Empty.
    pub(super) unsaved: Option<Box<Group>>,
    pub(super) disk_fails: bool,
}

impl Member {
    pub(super) fn take_over(&mut self, joining: &Joining) {
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
    pub(super) fn new() -> Group {
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
            unsaved: None,
            disk_fails: false,
        }
    }

    pub(super) fn member(&mut self, id: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    pub(super) fn validate(&self, id: &str, instance: Option<&str>) -> Result<(), i16> {
        match instance {
            None => self.members.iter().any(|member| member.id == id).then_some(()).ok_or(25),
            Some(instance) => match self.members.iter().find(|member| member.instance.as_deref() == Some(instance)) {
                None => Err(25),
                Some(member) if member.id != id => Err(82),
                Some(_) => Ok(()),
            },
        }
    }

    pub(super) fn check_commit(&mut self, id: &str, instance: Option<&str>, generation: i32, now: u64) -> i16 {
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

    pub(super) fn has_room(&self, id: &str, max_size: usize) -> bool {
        let waiting = self.members.iter().filter(|member| member.join.is_some());
        match self.state {
            State::Empty => true,
            State::Preparing(_) => waiting.clone().any(|member| member.id == id) || waiting.count() < max_size,
            _ => self.members.iter().any(|member| member.id == id) || self.members.len() < max_size,
        }
    }

    pub(super) fn supports(&self, joining: &Joining) -> bool {
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

    pub(super) fn shown(&self) -> BTreeSet<(String, Option<String>, String)> {
        let protocol = self.protocol.clone().unwrap();
        self.members.iter().map(|m| (m.id.clone(), m.instance.clone(), m.metadata(&protocol))).collect()
    }

    pub(super) fn joined(&self, id: &str, members: BTreeSet<(String, Option<String>, String)>) -> Answer {
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

    pub(super) fn add(
        &mut self,
        id: &str,
        joining: &Joining,
        answers: &mut Vec<(i32, Answer)>,
        now: u64,
        delay_ms: u64,
    ) {
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

    pub(super) fn replace(
        &mut self,
        id: &str,
        joining: &Joining,
        answers: &mut Vec<(i32, Answer)>,
        now: u64,
        delay_ms: u64,
    ) {
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

    pub(super) fn leave_one(&mut self, id: &str, instance: Option<&str>, answers: &mut Vec<(i32, Answer)>) -> i16 {
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

    pub(super) fn remove(&mut self, id: &str, answers: &mut Vec<(i32, Answer)>) {
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

    pub(super) fn rebalance(&mut self, answers: &mut Vec<(i32, Answer)>, now: u64, delay_ms: u64) {
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

    pub(super) fn complete_if_all_joined(&mut self, answers: &mut Vec<(i32, Answer)>, now: u64) {
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

    pub(super) fn assign(&mut self, plan: &[(String, String)], answers: &mut Vec<(i32, Answer)>, now: u64) {
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

    pub(super) fn deadlines(&self) -> impl Iterator<Item = u64> {
        let members = self.members.iter().filter_map(|member| member.deadline);
        members.chain(self.pending.iter().map(|(_, at)| *at)).chain(self.phase_deadline)
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.deadlines().min()
    }

    pub(super) fn fire(&mut self, answers: &mut Vec<(i32, Answer)>, now: u64, delay_ms: u64) {
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
        let mut saved =
            Group { durable: None, unsaved: None, pending: Vec::new(), phase_deadline: None, ..self.clone() };
        let protocol = self.protocol.clone().unwrap_or_default();
        saved.state = if saved.members.is_empty() { State::Empty } else { State::Stable };
        for member in &mut saved.members {
            member.protocols = vec![(protocol.clone(), member.metadata(&protocol))];
            (member.join, member.sync, member.owes, member.is_new) = (None, None, false, false);
        }
        if !self.disk_fails {
            (self.durable, self.unsaved) = (Some(Box::new(saved)), None);
        } else if self.members.is_empty() {
            self.unsaved = Some(Box::new(saved));
        }
    }
}
