//! One world: the machine, its clients, the network between them, and time. Everything that happens is an event of one
//! queue; everything that is left to chance is drawn from the seed. What clients do is in [`clients`], what comes over them
//! in [`evils`].

mod clients;
mod evils;
mod network;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::io::ErrorKind;

use self::clients::Actor;
use self::network::Connection;
use super::breaks::{Break, Breaks};
use super::machine::Machine;
use super::model::Model;
use super::plan::Plan;
use super::random::Random;
use super::server::{Effect, Incoming};
use super::storage::{Begun, CONTROL_LOG, End};
use super::trace::Trace;
use crate::clock::Now;
use crate::journal::job::Job;
use crate::journal::store::WriteFailure;

/// What came of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// What cannot be, if something cannot.
    pub fault: Option<String>,
    /// Requests that were executed.
    pub requests: u64,
    /// Simulated time, in milliseconds.
    pub ended_at_ms: u64,
    /// The same for the same seed.
    pub digest: u64,
}

pub(super) struct World {
    plan: Plan,
    random: Random,
    now_us: u64,
    /// The wall clock is so far off.
    wall_offset_ms: i64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    next_sequence: u64,
    machine: Machine,
    model: Model,
    breaks: Breaks,
    actors: Vec<Actor>,
    connections: Vec<Connection>,
    groups: Vec<String>,
    topics: Vec<String>,
    /// The cores do nothing until then.
    frozen_until_us: u64,
    is_calm: bool,
    /// Something on the disk has failed for good.
    has_failed_disk: bool,
    /// Whose write or sync has failed, but not for want of space: what is on the disk is not known, and until the next start
    /// nothing is written there again. By core and by whether it was the control log.
    fenced: BTreeSet<(usize, bool)>,
}

struct Scheduled {
    at_us: u64,
    sequence: u64,
    event: Event,
}

enum Event {
    /// A core's turn.
    Turn {
        incarnation: u64,
        core: usize,
    },
    /// A connection arrives at its core.
    Open {
        connection: u64,
    },
    Frame {
        connection: u64,
        frame: Vec<u8>,
    },
    /// The server learns that a connection is gone.
    ClosedAtServer {
        connection: u64,
    },
    Reply {
        connection: u64,
        frame: Vec<u8>,
    },
    /// The client learns that a connection is gone.
    ClosedAtClient {
        connection: u64,
    },
    Act {
        actor: usize,
    },
    Respawn {
        actor: usize,
    },
    /// A write to a file ends.
    Written {
        incarnation: u64,
        core: usize,
        write: Begun,
    },
    /// Work on files that a core has asked for is done.
    Job {
        incarnation: u64,
        core: usize,
        job: Job,
    },
    FreeDisk,
    /// The process ends.
    End {
        incarnation: u64,
    },
    Evil(Evil),
    Start,
    Calm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evil {
    KillConnection,
    Crash,
    Jump,
    Freeze,
    WallJump,
    FillDisk,
    ReplaceMember,
    ReconfigureMember,
}

/// 2023-11-14T22:13:20Z.
const FIRST_UNIX_MS: i64 = 1_700_000_000_000;

/// The longest that a core's turn comes too late.
const LATE_TURN_MAX_US: u64 = 2_000_000;

/// The longest that the disk takes.
const SLOW_WRITE_MAX_US: u64 = 3_000_000;

impl World {
    pub(super) fn new(seed: u64, what: Option<Break>, trace_lines: usize) -> World {
        let mut random = Random::new(seed);
        let plan = Plan::of(&mut random.fork());
        let machine = Machine::new(&plan);
        let mut trace = Trace::new(trace_lines);
        trace.note(Now::default(), || format!("{plan:?}"));
        let model = Model::new(&machine.settings, slack_ms(&plan), trace);
        let breaks = Breaks::new(what, random.fork());
        let mut world = World {
            now_us: 1_000_000,
            wall_offset_ms: 0,
            queue: BinaryHeap::new(),
            next_sequence: 0,
            machine,
            model,
            breaks,
            actors: Vec::new(),
            connections: Vec::new(),
            groups: Vec::new(),
            topics: Vec::new(),
            frozen_until_us: 0,
            is_calm: false,
            has_failed_disk: false,
            fenced: BTreeSet::new(),
            random,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        if self.plan.retention_check_interval_ms < 60_000 {
            self.model.groups_may_have_gone();
        }
        self.topics = (0..self.plan.topics.len()).map(|topic| format!("topic-{topic}")).collect();
        self.topics.push("spare".into());
        self.groups = (0..self.plan.groups.len()).map(|group| format!("group-{group}")).collect();
        self.groups.extend(["outside-0".into(), "outside-1".into()]);
        self.at(self.now_us, Event::Start);
        self.populate();
        self.begin_evils();
        self.at(self.now_us + self.plan.evil_ms * 1_000, Event::Calm);
    }

    /// Lets everything happen.
    pub(super) fn run(&mut self) -> Ending {
        let mut end_us = u64::MAX;
        while let Some(Reverse(next)) = self.queue.pop() {
            if next.at_us >= end_us {
                break;
            }
            self.now_us = self.now_us.max(next.at_us);
            self.model.set_now(self.now());
            if matches!(next.event, Event::Calm) {
                end_us = self.now_us + self.plan.calm_ms * 1_000;
            }
            self.happen(next.event, next.at_us);
            if self.model.first_fault().is_some() {
                break;
            }
        }
        if self.model.first_fault().is_none() {
            self.check_that_all_is_well();
        }
        Ending {
            fault: self.model.first_fault().map(Into::into),
            requests: self.model.requests,
            ended_at_ms: self.now().monotonic_ms,
            digest: self.model.digest,
        }
    }

    /// The last things that happened.
    pub(super) fn print_trace(&self) {
        self.model.trace.print();
    }

    fn happen(&mut self, event: Event, at_us: u64) {
        match event {
            Event::Turn { incarnation, core } => self.turn(incarnation, core, at_us),
            Event::Open { connection } => self.open_at_server(connection),
            Event::Frame { connection, frame } => self.send_to_core(connection, |id| Incoming::Frame(id, frame)),
            Event::ClosedAtServer { connection } => self.send_to_core(connection, Incoming::Closed),
            Event::Reply { connection, frame } => self.reply_at_client(connection, &frame),
            Event::ClosedAtClient { connection } => self.closed_at_client(connection),
            Event::Act { actor } => self.act(actor, at_us),
            Event::Respawn { actor } => self.respawn(actor),
            Event::Written { incarnation, core, write } => self.written(incarnation, core, write),
            Event::Job { incarnation, core, job } => self.run_job(incarnation, core, job),
            Event::FreeDisk => self.machine.storage.set_full(false),
            Event::End { incarnation } if self.is_running(incarnation) => self.crash(),
            Event::End { .. } => {}
            Event::Evil(evil) => self.evil(evil),
            Event::Start => self.start(),
            Event::Calm => self.become_calm(),
        }
    }

    fn now(&self) -> Now {
        let monotonic_ms = self.now_us / 1_000;
        Now { monotonic_ms, unix_ms: FIRST_UNIX_MS + monotonic_ms as i64 + self.wall_offset_ms }
    }

    fn at(&mut self, at_us: u64, event: Event) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.queue.push(Reverse(Scheduled { at_us, sequence, event }));
    }

    fn after(&mut self, us: u64, event: Event) {
        self.at(self.now_us + us, event);
    }

    /// Lets a core turn at a moment, unless it turns before.
    fn turn_at(&mut self, core: usize, at_us: u64) {
        let turn_at_us = &mut self.machine.cores[core].turn_at_us;
        if turn_at_us.is_none_or(|planned| at_us < planned) {
            *turn_at_us = Some(at_us);
            self.at(at_us, Event::Turn { incarnation: self.machine.incarnation, core });
        }
    }

    /// Something has come for a core: it turns soon, as a rule.
    fn wake_core(&mut self, core: usize) {
        let is_late = !self.is_calm && self.random.chance(self.plan.late_turns);
        let delay_us = if is_late { self.random.below(LATE_TURN_MAX_US) } else { self.random.below(200) };
        self.turn_at(core, self.now_us + delay_us);
    }

    fn turn(&mut self, incarnation: u64, core: usize, at_us: u64) {
        if !self.is_running(incarnation) || self.machine.cores[core].turn_at_us != Some(at_us) {
            return;
        }
        self.machine.cores[core].turn_at_us = None;
        if self.now_us < self.frozen_until_us {
            return self.turn_at(core, self.frozen_until_us);
        }
        let now = self.now();
        self.model.turn_begins(core, now);
        let effects = self.machine.cores[core].turn(now, &mut self.model, &mut self.breaks);
        self.model.turn_ended();
        let effects = match effects {
            Ok(effects) => effects,
            Err(_) if self.ends_without_power() => return,
            // It cannot make its first segment. Its owner makes room.
            Err(_) if self.machine.storage.is_full => return self.crash(),
            Err(error) => return self.model.fault(format!("core {core} ends: {error}")),
        };
        effects.into_iter().for_each(|effect| self.take_effect(core, effect));
        for (core, job) in self.machine.storage.take_jobs() {
            let took_us = self.disk_us();
            self.after(took_us, Event::Job { incarnation, core, job });
        }
        if self.ends_without_power() {
            return;
        }
        for woken in self.machine.take_woken() {
            self.wake_core(woken);
        }
        if let Some(deadline_ms) = self.machine.cores[core].deadline_ms() {
            let took_us = if self.machine.cores[core].is_loading() { self.plan.load_step_us } else { 50 };
            // What is due already takes another turn.
            self.turn_at(core, (deadline_ms * 1_000).max(self.now_us + took_us));
        }
    }

    fn take_effect(&mut self, core: usize, effect: Effect) {
        match effect {
            Effect::Reply { connection, frame } => self.reply(connection, frame),
            Effect::Close { connection } => self.close_from_server(connection),
            Effect::Write(write) => {
                if self.fenced.contains(&(core, write.file == CONTROL_LOG)) {
                    return self.model.fault(format!("core {core} writes again after a write or a sync has failed"));
                }
                let fails = self.fails_write();
                let write = self.machine.storage.begin(write, fails);
                let (took_us, incarnation) = (self.disk_us(), self.machine.incarnation);
                self.after(took_us, Event::Written { incarnation, core, write });
                if !self.is_calm && self.random.chance(self.plan.fatal_writes) {
                    let pause_us = self.random.below(2 * took_us);
                    self.after(pause_us, Event::End { incarnation });
                }
            }
        }
    }

    /// How long the disk takes for something.
    fn disk_us(&mut self) -> u64 {
        let is_slow = !self.is_calm && self.random.chance(self.plan.slow_writes);
        self.random.between(100, if is_slow { SLOW_WRITE_MAX_US } else { 5_000 })
    }

    fn fails_write(&mut self) -> bool {
        let fails = !self.is_calm && self.random.chance(self.plan.failing_writes);
        self.has_failed_disk |= fails;
        fails
    }

    fn is_running(&self, incarnation: u64) -> bool {
        self.machine.is_up() && incarnation == self.machine.incarnation
    }

    fn written(&mut self, incarnation: u64, core: usize, write: Begun) {
        if !self.is_running(incarnation) {
            return;
        }
        let (file, token, fails) = (write.file, write.token, self.fails_write());
        let result = self.machine.storage.complete(write, fails, &mut self.breaks, &mut self.random);
        if let Err(failure) = &result {
            let now = self.now();
            self.model.trace.note(now, || format!("core {core}  {failure}"));
            if !matches!(failure, WriteFailure::Write(error) if error.kind() == ErrorKind::StorageFull) {
                self.fenced.insert((core, file == CONTROL_LOG));
            }
        }
        if !self.ends_without_power() {
            self.machine.cores[core].inbox.push(Incoming::Written(token, result));
            self.wake_core(core);
        }
    }

    /// Ends the process if the power has failed.
    fn ends_without_power(&mut self) -> bool {
        let is_off = self.machine.storage.is_off();
        if is_off {
            self.end_process(End::PowerFailure);
        }
        is_off
    }

    fn run_job(&mut self, incarnation: u64, core: usize, job: Job) {
        if !self.is_running(incarnation) {
            return;
        }
        if !self.is_calm && self.random.chance(self.plan.power_failures / 50) {
            let steps = self.random.below(8);
            self.machine.storage.fail_power_after(steps);
        }
        let done = self.machine.storage.run(job);
        if !self.ends_without_power() {
            self.machine.tell_done(core, done);
            self.wake_core(core);
        }
    }

    fn start(&mut self) {
        let mut cores = self.machine.settings.cores;
        if self.machine.incarnation > 0 && self.plan.changes_cores {
            cores = self.random.between(1, 4) as usize;
        }
        let now = self.now();
        self.model.trace.note(now, || format!("start with {cores} cores"));
        self.has_failed_disk = false;
        self.fenced.clear();
        match self.machine.start(cores, now, &mut self.breaks, &mut self.random) {
            Ok(()) => {}
            // Its owner makes room, and tries again.
            Err(_) if self.machine.storage.is_full => {
                self.machine.end(End::Killed, &mut self.random);
                return self.after(1_000_000, Event::Start);
            }
            Err(what) => return self.model.fault(what),
        }
        (0..cores).for_each(|core| self.wake_core(core));
    }
}

/// What a parked request may wait beyond its time: late turns, and the disk a few times.
fn slack_ms(plan: &Plan) -> u64 {
    let late_us = if plan.late_turns > 0 { 2 * LATE_TURN_MAX_US } else { 0 };
    let slow_us = if plan.slow_writes > 0 { 4 * SLOW_WRITE_MAX_US } else { 0 };
    (1_000_000 + late_us + slow_us) / 1_000
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.sequence).cmp(&(other.at_us, other.sequence))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}
