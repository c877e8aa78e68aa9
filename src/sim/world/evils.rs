//! What comes over a world, and how it ends.

use super::clients::Role;
use super::{Event, Evil, World};
use crate::journal::store::Durability;
use crate::sim::storage::End;

impl World {
    pub(super) fn begin_evils(&mut self) {
        let evils = [
            Evil::KillConnection,
            Evil::Crash,
            Evil::Jump,
            Evil::Freeze,
            Evil::WallJump,
            Evil::FillDisk,
            Evil::ReplaceMember,
            Evil::ReconfigureMember,
        ];
        evils.into_iter().for_each(|evil| self.plan_evil(evil));
    }

    fn plan_evil(&mut self, evil: Evil) {
        let mean = &self.plan.mean;
        let mean_ms = match evil {
            Evil::KillConnection => mean.kill_connection_ms,
            Evil::Crash => mean.crash_ms,
            Evil::Jump => mean.jump_ms,
            Evil::Freeze => mean.freeze_ms,
            Evil::WallJump => mean.wall_jump_ms,
            Evil::FillDisk => mean.full_disk_ms,
            Evil::ReplaceMember => mean.replace_member_ms,
            Evil::ReconfigureMember => mean.reconfigure_member_ms,
        };
        if let Some(mean_ms) = mean_ms {
            let pause_us = self.random.around(mean_ms * 1_000);
            self.after(pause_us, Event::Evil(evil));
        }
    }

    pub(super) fn evil(&mut self, evil: Evil) {
        if self.is_calm {
            return;
        }
        let now = self.now();
        self.model.trace.note(now, || format!("{evil:?}"));
        match evil {
            Evil::KillConnection => self.kill_connection(),
            Evil::Crash => self.crash(),
            Evil::Jump => self.jump(),
            Evil::Freeze => self.freeze(),
            Evil::WallJump => self.wall_jump(),
            Evil::FillDisk => self.fill_disk(),
            Evil::ReplaceMember => self.replace_member(),
            Evil::ReconfigureMember => self.reconfigure_member(),
        }
        self.plan_evil(evil);
    }

    fn kill_connection(&mut self) {
        let open: Vec<u64> =
            (0..self.connections.len() as u64).filter(|id| self.connections[*id as usize].is_open).collect();
        if !open.is_empty() {
            let connection = *self.random.pick(&open);
            self.cut(connection);
        }
    }

    pub(super) fn crash(&mut self) {
        let fails = self.random.chance(self.plan.power_failures);
        self.end_process(if fails { End::PowerFailure } else { End::Killed });
    }

    /// The process ends, and another one will start.
    pub(super) fn end_process(&mut self, how: End) {
        if !self.machine.is_up() {
            return;
        }
        self.machine.end(how, &mut self.random);
        let keeps = self.plan.journal_mode != Durability::Memory;
        self.model.crashed(keeps, self.plan.changes_cores);
        self.cut_all();
        let pause_us = self.random.between(10_000, 5_000_000);
        self.after(pause_us, Event::Start);
    }

    fn fill_disk(&mut self) {
        self.machine.storage.set_full(true);
        let pause_us = self.random.between(100_000, 8_000_000);
        self.after(pause_us, Event::FreeDisk);
    }

    /// Everybody sleeps for a while, as when the machine is suspended.
    fn jump(&mut self) {
        let ms = self.random.between(1_000, 120_000);
        self.now_us += ms * 1_000;
        self.model.stood_still(ms);
        self.model.groups_may_have_gone();
    }

    /// The server sleeps, the clients do not.
    fn freeze(&mut self) {
        let ms = self.random.between(100, 15_000);
        self.frozen_until_us = self.now_us + ms * 1_000;
        self.model.stood_still(ms);
    }

    fn wall_jump(&mut self) {
        let most_ms = *self.random.pick(&[1_000, 600_000, 7_200_000]);
        let ms = self.random.below(most_ms) as i64;
        self.wall_offset_ms += if self.random.chance(500) { ms } else { -ms };
        self.model.groups_may_have_gone();
    }

    fn some_member(&mut self) -> Option<usize> {
        let is_member = |actor: &usize| matches!(self.actors[*actor].role, Role::Member { .. });
        let members: Vec<usize> = (0..self.actors.len()).filter(is_member).collect();
        (!members.is_empty()).then(|| *self.random.pick(&members))
    }

    fn replace_member(&mut self) {
        let Some(actor) = self.some_member() else { return };
        let now = self.now();
        let Role::Member { member, .. } = &mut self.actors[actor].role else { return };
        match self.random.below(3) {
            // It goes without a word, and its connections stay open for a while.
            0 => self.respawn(actor),
            leaves => {
                member.stop(leaves == 1, now);
                self.drain(actor);
            }
        }
    }

    fn reconfigure_member(&mut self) {
        let Some(actor) = self.some_member() else { return };
        let Role::Member { group, instance, .. } = &self.actors[actor].role else { return };
        let (group, is_static) = (*group, instance.is_some());
        let settings = self.member_settings(group, is_static);
        let now = self.now();
        let Role::Member { member, .. } = &mut self.actors[actor].role else { return };
        member.reconfigure(settings.into(), now);
        self.drain(actor);
    }

    /// Evils are over. A process whose disk has failed is started again, as its owner would.
    pub(super) fn become_calm(&mut self) {
        let now = self.now();
        self.model.trace.note(now, || "calm".into());
        self.is_calm = true;
        self.machine.storage.set_full(false);
        if self.has_failed_disk {
            self.crash();
        }
    }
}
