//! Expiry: offsets that nobody needs any more go, and with the last one an Empty group. One look at all groups every
//! `offsets.retention.check.interval.ms`, some groups at a time.

use std::rc::Rc;

use crate::clock::Now;
use crate::group::Groups;
use crate::group::core::GroupKey;
use crate::group::groups::Group;
use crate::group::settings::OffsetSettings;

use super::table::Offset;

/// The look at all groups.
#[derive(Debug)]
pub(in crate::group) struct Sweep {
    interval_ms: u64,
    next_ms: u64,
    /// The next group of the look that is under way.
    cursor: Option<u32>,
}

/// So many groups are looked at in one go, or as many as have this many offsets and members together.
pub(super) const GROUPS_MAX: u32 = 256;
pub(super) const PARTS_MAX: usize = 4_096;

impl Sweep {
    pub(in crate::group) fn new(settings: &OffsetSettings, now: Now) -> Sweep {
        let interval_ms = u64::try_from(settings.retention_check_interval_ms).unwrap_or(1).max(1);
        Sweep { interval_ms, next_ms: now.monotonic_ms + interval_ms, cursor: None }
    }

    pub(in crate::group) fn deadline_ms(&self) -> u64 {
        if self.cursor.is_some() { 0 } else { self.next_ms }
    }
}

impl Groups {
    pub(in crate::group) fn sweep_some(&mut self, now: Now) {
        // A newer commit may be still to come.
        if !self.loading.is_empty() {
            return;
        }
        if self.sweep.cursor.is_none() && now.monotonic_ms < self.sweep.next_ms {
            return;
        }
        let start = self.sweep.cursor.unwrap_or(0);
        let mut parts = 0;
        for slot in start..start.saturating_add(GROUPS_MAX).min(self.bound()) {
            if parts >= PARTS_MAX {
                self.sweep.cursor = Some(slot);
                return;
            }
            if let Some((key, group)) = self.at(slot) {
                parts += group.offsets.len() + group.classic.member_count();
                self.expire(key, now);
            }
        }
        let next = start.saturating_add(GROUPS_MAX);
        self.sweep.cursor = (next < self.bound()).then_some(next);
        if self.sweep.cursor.is_none() {
            self.sweep.next_ms = now.monotonic_ms + self.sweep.interval_ms;
            self.core.names.tidy();
        }
    }

    fn expire(&mut self, key: GroupKey, now: Now) {
        let retention_ms = i64::from(self.core.offset_settings.retention_minutes) * 60_000;
        let (group, _) = self.group_mut(key);
        let (expired, are_all) = expired(group, retention_ms, now);
        if are_all && group.classic.is_empty() {
            self.delete_with_tombstones(key, now);
            return;
        }
        for (topic, partition) in expired {
            self.delete_offset(key, &topic, partition);
        }
    }
}

/// The offsets that have expired, and whether these are all. Members are asked for their topics only if there is something to
/// keep for them.
fn expired(group: &Group, retention_ms: i64, now: Now) -> (Vec<(Rc<str>, i32)>, bool) {
    let Some(since_ms) = group.classic.expiry_base() else { return (Vec::new(), false) };
    let is_expired = |offset: &Offset| match offset.expire_timestamp_ms() {
        -1 => now.unix_ms - since_ms.unwrap_or(offset.commit_timestamp_ms) >= retention_ms,
        expire_timestamp_ms => now.unix_ms >= expire_timestamp_ms,
    };
    let mut expired = Vec::new();
    for topic in group.offsets.topics() {
        let of_topic = topic.partitions().iter().filter(|offset| is_expired(offset));
        expired.extend(of_topic.map(|offset| (topic.topic.clone(), offset.partition)));
    }
    if !expired.is_empty() {
        let subscribed = group.classic.subscribed();
        expired.retain(|(topic, _)| !subscribed.contains(topic));
    }
    let are_all = expired.len() == group.offsets.len();
    (expired, are_all)
}
