//! The classic group protocol once more, as simply as it can be said: lists that are searched from the front, deadlines that are
//! compared one by one, nothing shared with the code that is tested. It predicts every answer.
//!
//! Two things it leaves open, because the protocol does: which of the members that rejoined leads if the leader did not, and the
//! order of things that come due in the same millisecond. The first is taken over from the answer; the second ends the comparison.

use std::collections::BTreeSet;

use super::naive_group::{Group, State};

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

pub(super) fn sync_refused(error: i16) -> Answer {
    Answer::Sync { error, assignment: String::new() }
}

pub(super) const FAILED: i16 = 15;

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
        format!("{prefix}-{:08x}-{:04x}-4000-8000-000000000007", number >> 16, number & 0xffff)
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
            if disk_fails {
                return 0;
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

    /// What is there is written anew: where a group could not be written as Empty, it is now.
    pub(super) fn compact(&mut self) {
        for (_, group) in &mut self.groups {
            if let Some(empty) = group.unsaved.take() {
                group.durable = Some(Box::new(Group { offset: group.offset, ..*empty }));
            }
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
