//! Topics that are gone: the offsets that groups have committed for them go too, of some groups in each turn. What the journal
//! refuses, or has taken and then failed to keep, is done again.

use super::Shard;
use super::journal::APPENDED_PER_TURN_MAX;
use super::service::JournalPosition;
use crate::group::DeletedTopics;
use crate::ids::TopicId;
use crate::journal::store::StoreState;

/// How long a journal that has refused is left alone.
const RETRY_MS: u64 = 1_000;

/// What is still to be done.
#[derive(Default)]
pub(super) struct TopicDeletions {
    /// For the next pass over the groups.
    told: DeletedTopics,
    pass: Option<Pass>,
    /// For a pass over the groups that were not there yet when there was one.
    after_loading: DeletedTopics,
    retry_at_ms: u64,
}

struct Pass {
    topics: DeletedTopics,
    step: Step,
    /// Some groups may still be loading.
    is_partial: bool,
}

enum Step {
    /// The groups from this slot on are to be looked at.
    From(u32),
    /// All were looked at. Until this is durable offsets may come back: a later change fails, or the end of their group.
    Writing(JournalPosition),
}

impl TopicDeletions {
    pub(super) fn told(&mut self, name: String, id: TopicId) {
        self.told.add(name, id.0);
    }

    /// Something that was on its way to the journal was undone.
    pub(super) fn begin_again(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.step = Step::From(0);
        }
    }

    /// Ends the pass that has come to its end, and begins the next.
    fn change_pass(&mut self, durable: JournalPosition, is_loading: bool) {
        let has_ended = |pass: &mut Pass| matches!(pass.step, Step::Writing(position) if position <= durable);
        if let Some(ended) = self.pass.take_if(has_ended).filter(|ended| ended.is_partial) {
            self.after_loading.append(ended.topics);
        }
        if !is_loading {
            self.told.append(std::mem::take(&mut self.after_loading));
        }
        if self.pass.is_none() && !self.told.is_empty() {
            let topics = std::mem::take(&mut self.told);
            self.pass = Some(Pass { topics, step: Step::From(0), is_partial: is_loading });
        }
    }

    fn deadline_ms(&self) -> Option<u64> {
        let is_due = match &self.pass {
            Some(pass) => matches!(pass.step, Step::From(_)),
            None => !self.told.is_empty(),
        };
        is_due.then_some(self.retry_at_ms)
    }
}

impl Shard {
    /// Goes on with the pass over the groups.
    pub(super) fn turn_topic_deletions(&mut self) {
        let Some(store) = self.journal.store() else { return };
        if store.state() == StoreState::Fenced {
            // Nothing can be done about them before a restart, which does not know of them.
            self.topic_deletions = TopicDeletions::default();
            return;
        }
        let (durable, is_loading, now_ms) = (store.durable(), self.is_loading(), self.now.monotonic_ms);
        self.topic_deletions.change_pass(durable, is_loading);
        if !self.may_delete_offsets() || now_ms < self.topic_deletions.retry_at_ms {
            return;
        }
        let Some(Pass { topics, step: Step::From(slot), .. }) = &self.topic_deletions.pass else { return };
        let next = self.groups.delete_offsets_of(topics, *slot);
        if self.groups.has_records() && self.persist().is_err() {
            self.topic_deletions.retry_at_ms = now_ms + RETRY_MS;
            return;
        }
        let appended = self.journal.store().map_or(durable, |store| store.appended());
        if let Some(pass) = &mut self.topic_deletions.pass {
            pass.step = next.map_or(Step::Writing(appended), Step::From);
        }
    }

    /// When there is more to do.
    pub(super) fn topic_deletions_deadline_ms(&self) -> Option<u64> {
        self.topic_deletions.deadline_ms().filter(|_| self.may_delete_offsets())
    }

    /// Not so many at a time that commits would have to wait long behind them.
    fn may_delete_offsets(&self) -> bool {
        let store = self.journal.store();
        store.is_some_and(|it| it.state() == StoreState::Open && it.unwritten_bytes() <= APPENDED_PER_TURN_MAX)
    }
}
