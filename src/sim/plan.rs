//! What a seed decides before anything happens: how large the world is, and which evils come over it, how often. Each evil
//! is left out of many worlds, so that the others have room.

use super::random::Random;
use crate::journal::store::Durability;
use crate::limits::MEMBERS_PER_PIECE;

/// A world to be made. Times are in milliseconds; a mean of `None` is never.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cores: usize,
    pub(super) offsets_partitions: i32,
    /// Partitions of each topic.
    pub(super) topics: Vec<i32>,
    /// Members of each group.
    pub(super) groups: Vec<usize>,
    pub(super) initial_rebalance_delay_ms: i32,
    pub(super) max_size: i32,
    /// Of a thousand members.
    pub(super) static_share: u64,
    /// Of a thousand members: they speak any mixture of versions, and not the newest.
    pub(super) mixed_versions_share: u64,
    pub(super) journal_mode: Durability,
    pub(super) segment_bytes: u64,
    /// Of a thousand ends of the process: the power fails.
    pub(super) power_failures: u64,
    pub(super) retention_minutes: i32,
    pub(super) retention_check_interval_ms: i64,
    /// How long evils last.
    pub(super) evil_ms: u64,
    /// How long it takes until all must be well again.
    pub(super) calm_ms: u64,
    /// From a client to a server or back.
    pub(super) latency_ms: u64,
    pub(super) strays: usize,
    pub(super) stray_pause_ms: u64,
    pub(super) mean: Means,
    /// Of a thousand writes.
    pub(super) slow_writes: u64,
    pub(super) failing_writes: u64,
    /// Of a thousand writes: the process ends while they are under way, or soon after.
    pub(super) fatal_writes: u64,
    /// Of a thousand turns of a core: they come late.
    pub(super) late_turns: u64,
    /// Of a group, in a turn.
    pub(super) members_per_piece: u32,
    /// The number of cores changes at a restart.
    pub(super) changes_cores: bool,
    /// Entries of the journal that a start reads at a time, and how long that takes.
    pub(super) load_step_entries: usize,
    pub(super) load_step_us: u64,
}

/// How often something happens: the mean pause between two.
#[derive(Clone, Debug, Default)]
pub(super) struct Means {
    pub(super) kill_connection_ms: Option<u64>,
    pub(super) crash_ms: Option<u64>,
    pub(super) jump_ms: Option<u64>,
    pub(super) freeze_ms: Option<u64>,
    pub(super) wall_jump_ms: Option<u64>,
    pub(super) full_disk_ms: Option<u64>,
    /// A member ends, as it should or not, and another comes.
    pub(super) replace_member_ms: Option<u64>,
    pub(super) reconfigure_member_ms: Option<u64>,
}

impl Plan {
    pub(super) fn of(random: &mut Random) -> Plan {
        let groups = random.between(1, 3);
        let mean = Means {
            kill_connection_ms: sometimes(random, 600, 300, 5_000),
            crash_ms: sometimes(random, 400, 3_000, 20_000),
            jump_ms: sometimes(random, 200, 5_000, 20_000),
            freeze_ms: sometimes(random, 250, 3_000, 15_000),
            wall_jump_ms: sometimes(random, 200, 5_000, 15_000),
            full_disk_ms: sometimes(random, 200, 3_000, 15_000),
            replace_member_ms: sometimes(random, 700, 500, 6_000),
            reconfigure_member_ms: sometimes(random, 300, 1_000, 8_000),
        };
        let modes = [Durability::Fsync, Durability::Fsync, Durability::Fsync, Durability::Os, Durability::Memory];
        let journal_mode = *random.pick(&modes);
        // What the system was given and has not synced, only a process' end leaves.
        let power_failures = if journal_mode == Durability::Fsync { *random.pick(&[0, 500, 1_000]) } else { 0 };
        let mut plan = Plan {
            journal_mode,
            segment_bytes: *random.pick(&[16 << 10, 64 << 10, 1 << 20]),
            power_failures,
            cores: random.between(1, 4) as usize,
            offsets_partitions: random.between(1, 8) as i32,
            topics: (0..random.between(1, 3)).map(|_| random.between(1, 6) as i32).collect(),
            groups: (0..groups).map(|_| random.between(1, 6) as usize).collect(),
            initial_rebalance_delay_ms: *random.pick(&[0, 0, 100, 1_000, 3_000]),
            max_size: *random.pick(&[i32::MAX, i32::MAX, i32::MAX, 6, 3]),
            static_share: *random.pick(&[0, 0, 300, 1_000]),
            mixed_versions_share: *random.pick(&[0, 300, 1_000]),
            retention_minutes: *random.pick(&[10_080, 10_080, 1]),
            retention_check_interval_ms: *random.pick(&[600_000, 600_000, 5_000]),
            evil_ms: random.between(8_000, 30_000),
            calm_ms: 45_000,
            latency_ms: *random.pick(&[0, 1, 5, 50]),
            strays: *random.pick(&[0, 1, 2, 4]),
            stray_pause_ms: *random.pick(&[20, 100, 500]),
            slow_writes: *random.pick(&[0, 20, 200]),
            failing_writes: *random.pick(&[0, 0, 0, 1, 10]),
            fatal_writes: *random.pick(&[0, 0, 2, 10]),
            late_turns: *random.pick(&[0, 10, 100]),
            members_per_piece: MEMBERS_PER_PIECE,
            changes_cores: random.chance(100),
            load_step_entries: *random.pick(&[512, 16, 2]),
            load_step_us: *random.pick(&[50, 1_000, 10_000]),
            mean,
        };
        // Nothing is drawn for it: seeds stay what they were.
        if plan.late_turns > 0 {
            plan.members_per_piece = 1;
        }
        plan
    }
}

fn sometimes(random: &mut Random, per_mille: u64, least_ms: u64, most_ms: u64) -> Option<u64> {
    let mean = random.between(least_ms, most_ms);
    random.chance(per_mille).then_some(mean)
}
