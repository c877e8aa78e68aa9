//! The clients of a world: members, who do as Kafka's clients do, and strays, who do not.

use std::sync::Arc;

use super::{Event, World};
use crate::fleet::{Channel, Event as MemberEvent, Member, MemberSettings, Output, Versions};
use crate::sim::machine::FIRST_PORT;
use crate::sim::stray::{Gossip, Stray};

pub(super) struct Actor {
    pub(super) role: Role,
    /// Connections, by channel if it is a member.
    pub(super) links: [Option<u64>; 2],
    act_at_us: Option<u64>,
}

pub(super) enum Role {
    Member { member: Box<Member>, group: usize, instance: Option<String> },
    Stray(Box<Stray>),
}

impl World {
    /// Everybody who is there from the beginning.
    pub(super) fn populate(&mut self) {
        for group in 0..self.plan.groups.len() {
            for number in 0..self.plan.groups[group] {
                let is_static = self.random.chance(self.plan.static_share);
                let instance = is_static.then(|| format!("static-{number}"));
                let member = self.new_member(group, instance.as_deref());
                self.enter(Role::Member { member, group, instance });
            }
        }
        for _ in 0..self.plan.strays {
            let random = self.random.fork();
            self.enter(Role::Stray(Box::new(Stray::new(random))));
        }
    }

    fn enter(&mut self, role: Role) {
        self.actors.push(Actor { role, links: [None; 2], act_at_us: None });
        let pause_us = self.random.below(500_000);
        self.act_at(self.actors.len() - 1, self.now_us + pause_us);
    }

    fn new_member(&mut self, group: usize, instance: Option<&str>) -> Box<Member> {
        let settings = self.member_settings(group, instance.is_some());
        Box::new(Member::new(Arc::new(settings), instance, self.now()))
    }

    pub(super) fn member_settings(&mut self, group: usize, is_static: bool) -> MemberSettings {
        let random = &mut self.random;
        let versions = match random.chance(self.plan.mixed_versions_share) {
            true => Versions::mixed(is_static, &mut |bound| random.below(bound)),
            false => Versions::NEWEST,
        };
        let session_timeout_ms = random.between(2_000, 8_000) as i32;
        let mut topics: Vec<Box<str>> =
            (0..self.plan.topics.len()).map(|topic| format!("topic-{topic}").into()).collect();
        if random.chance(300) {
            topics.truncate(random.between(1, topics.len() as u64) as usize);
        }
        let lists: [&[&str]; 3] = [&["range"], &["range", "roundrobin"], &["roundrobin", "range"]];
        let protocols = *random.pick(&lists);
        MemberSettings {
            group_id: self.groups[group].as_str().into(),
            client_id: "member".into(),
            topics,
            protocols: protocols.iter().map(|name| (*name).into()).collect(),
            session_timeout_ms,
            rebalance_timeout_ms: random.between(3_000, 8_000) as i32,
            heartbeat_interval_ms: session_timeout_ms as u64 / 3,
            commit_interval_ms: random.chance(800).then(|| random.between(200, 3_000)),
            records_per_commit: random.below(3) as i64,
            commit_metadata: if random.chance(100) { "m".repeat(201).into() } else { "".into() },
            retry_backoff_ms: 100,
            request_timeout_ms: *random.pick(&[5_000, 20_000]),
            versions,
        }
    }

    fn act_at(&mut self, actor: usize, at_us: u64) {
        let act_at_us = &mut self.actors[actor].act_at_us;
        if act_at_us.is_none_or(|planned| at_us < planned) {
            *act_at_us = Some(at_us);
            self.at(at_us, Event::Act { actor });
        }
    }

    pub(super) fn act(&mut self, actor: usize, at_us: u64) {
        if self.actors[actor].act_at_us != Some(at_us) {
            return;
        }
        self.actors[actor].act_at_us = None;
        let now = self.now();
        match &mut self.actors[actor].role {
            Role::Member { member, .. } => {
                member.advance(now);
                self.drain(actor);
            }
            Role::Stray(_) => self.stray(actor),
        }
    }

    /// Does what a member wants done.
    pub(super) fn drain(&mut self, actor: usize) {
        let cores = self.machine.settings.cores as u64;
        loop {
            let mut frame = Vec::new();
            let Role::Member { member, .. } = &mut self.actors[actor].role else { return };
            let Some(output) = member.poll_output(&mut frame) else { break };
            match output {
                Output::Send(channel) => {
                    let coordinator = member.coordinator().map(|endpoint| endpoint.port as u16 - FIRST_PORT);
                    let core = match (channel, coordinator) {
                        (Channel::Coordinator, Some(core)) => usize::from(core),
                        _ => self.random.below(cores) as usize,
                    };
                    frame.drain(..4);
                    self.send(actor, channel as usize, core, frame);
                }
                Output::Close(channel) => self.close(actor, channel as usize),
                Output::Event(event) => self.member_event(actor, event),
            }
        }
        let Role::Member { member, .. } = &self.actors[actor].role else { return };
        if let Some(deadline_ms) = member.next_deadline_ms() {
            self.act_at(actor, (deadline_ms * 1_000).max(self.now_us));
        }
    }

    fn member_event(&mut self, actor: usize, event: MemberEvent) {
        let now = self.now();
        self.model.trace.note(now, || format!("member {actor}: {event:?}"));
        if let MemberEvent::Failed(_) | MemberEvent::Left = event {
            let pause_us = self.random.between(100_000, 3_000_000);
            self.after(pause_us, Event::Respawn { actor });
        }
    }

    /// Another member takes the place of one that has ended; a static one under the same name.
    pub(super) fn respawn(&mut self, actor: usize) {
        let Role::Member { group, instance, .. } = &self.actors[actor].role else { return };
        let (group, instance) = (*group, instance.clone());
        (0..2).for_each(|link| self.close(actor, link));
        let member = self.new_member(group, instance.as_deref());
        self.actors[actor].role = Role::Member { member, group, instance };
        self.act_at(actor, self.now_us);
    }

    pub(super) fn received(&mut self, actor: usize, link: usize, frame: &[u8]) {
        let now = self.now();
        let Role::Member { member, .. } = &mut self.actors[actor].role else { return };
        if let Err(unexpected) = member.received(channel(link), frame, now) {
            return self.model.fault(format!("member {actor} cannot make sense of a reply: {unexpected}"));
        }
        self.drain(actor);
    }

    pub(super) fn disconnected(&mut self, actor: usize, link: usize, connection: u64) {
        if self.actors[actor].links[link] != Some(connection) {
            return;
        }
        self.actors[actor].links[link] = None;
        let now = self.now();
        if let Role::Member { member, .. } = &mut self.actors[actor].role {
            member.disconnected(channel(link), now);
            self.drain(actor);
        }
    }

    fn stray(&mut self, actor: usize) {
        let mean_us = self.plan.stray_pause_ms * 1_000 * if self.is_calm { 10 } else { 1 };
        let pause_us = self.random.around(mean_us);
        self.act_at(actor, self.now_us + pause_us);
        let gossip = Gossip { model: &self.model, groups: &self.groups, topics: &self.topics, is_calm: self.is_calm };
        let Role::Stray(stray) = &mut self.actors[actor].role else { return };
        let request = stray.ask(&gossip);
        let link = self.random.below(2) as usize;
        if self.random.chance(50) {
            self.close(actor, link);
        }
        let owner = self.model.owner(&request.group_id).filter(|_| self.random.chance(850));
        let core = owner.unwrap_or_else(|| self.random.below(self.machine.settings.cores as u64) as usize);
        // Whoever has a connection asks whom it leads to, mostly.
        let leads_elsewhere = self.actors[actor].links[link]
            .is_some_and(|connection| self.connections[connection as usize].core() != core);
        if leads_elsewhere && self.random.chance(700) {
            self.close(actor, link);
        }
        self.send(actor, link, core, request.frame);
    }

    /// After calm days every member has its place, and all of a group are in one generation.
    pub(super) fn check_that_all_is_well(&mut self) {
        let max_size = usize::try_from(self.plan.max_size).unwrap_or(0);
        for group in 0..self.plan.groups.len() {
            if self.plan.groups[group] > max_size {
                continue;
            }
            let members = self.actors.iter().filter_map(|actor| match &actor.role {
                Role::Member { member, group: of, .. } if *of == group => Some(member),
                _ => None,
            });
            let states: Vec<_> = members.map(|member| (member.is_stable(), member.generation_id())).collect();
            if states.iter().any(|state| *state != (true, states[0].1)) {
                let fault = format!("group {group} is not well at the end: stable, generation {states:?}");
                return self.model.fault(fault);
            }
        }
    }
}

fn channel(link: usize) -> Channel {
    if link == Channel::Bootstrap as usize { Channel::Bootstrap } else { Channel::Coordinator }
}
