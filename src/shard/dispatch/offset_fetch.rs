//! OffsetFetch: one group up to v7, many from v8 on. Nothing is checked for existence: what was never committed is -1 without
//! an error, because clients take any other answer for a failure.

use std::borrow::Cow;
use std::cell::Cell;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::group::{FetchedOffset, OffsetsView};
use crate::ids::TopicId;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::array::Rows;
use crate::wire::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use crate::wire::{Array, Uuid, Version, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: OffsetFetchRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let shard = &*shard;
    if context.version.number >= 8 {
        let are_settled = Cell::new(true);
        let each = |rows: &mut Rows<'_, '_>| {
            for group in request.groups.iter() {
                if rows.is_full() {
                    break;
                }
                let fetch = Fetch::of_group(shard, context, group);
                fetch.write_group(rows);
                are_settled.set(are_settled.get() && fetch.is_settled());
            }
        };
        let groups = Array::Each { len: request.groups.len(), each: &each };
        OffsetFetchResponse { groups, ..OffsetFetchResponse::default() }.write(reply, context.version);
        return if are_settled.get() { Verdict::Answered } else { shard.when_all_is_durable() };
    }
    let only = OffsetFetchRequestGroup { group_id: request.group_id, ..OffsetFetchRequestGroup::default() };
    let fetch = Fetch { only: Some(&request.topics), ..Fetch::of_group(shard, context, only) };
    fetch.write_only(reply);
    if fetch.is_settled() { Verdict::Answered } else { shard.when_all_is_durable() }
}

/// One group's part of the request, and what it meets.
struct Fetch<'a> {
    shard: &'a Shard,
    context: &'a RequestContext<'a>,
    request: OffsetFetchRequestGroup<'a>,
    /// To v7: the topics stand beside the group.
    only: Option<&'a Option<Array<'a, OffsetFetchRequestTopic<'a>>>>,
    /// The group's own error hides those of the topics.
    view: Result<Option<OffsetsView<'a>>, ErrorCode>,
}

impl<'a> Fetch<'a> {
    fn of_group(shard: &'a Shard, context: &'a RequestContext<'a>, request: OffsetFetchRequestGroup<'a>) -> Self {
        let view = if shard.allows(context, Operation::Describe, Resource::Group(&request.group_id)) {
            shard.group_partition(&request.group_id).map(|_| shard.groups.offsets(&request.group_id))
        } else {
            Err(ErrorCode::GROUP_AUTHORIZATION_FAILED)
        };
        Fetch { shard, context, request, only: None, view }
    }

    fn is_settled(&self) -> bool {
        let Ok(view) = self.view else { return true };
        view.is_none_or(|view| view.is_settled()) && !self.shard.groups.has_unwritten_deletions()
    }

    fn version(&self) -> Version {
        self.context.version
    }

    /// To v7.
    fn write_only(&self, reply: &mut Writer<'_>) {
        let error = self.view.err().unwrap_or(ErrorCode::NONE);
        // Versions 0 and 1 have no place for the group's error but the partitions.
        let has_rows = error.is_none() || self.version().number < 2;
        let write = |topics: Array<'_, OffsetFetchResponseTopic<'_>>, reply: &mut Writer<'_>| {
            OffsetFetchResponse { topics, error_code: error.0, ..OffsetFetchResponse::default() }
                .write(reply, self.version());
        };
        match self.only.and_then(Option::as_ref) {
            _ if !has_rows => write(Array::EMPTY, reply),
            Some(topics) => {
                let each = |rows: &mut Rows<'_, '_>| {
                    for is_allowed in [true, false] {
                        let topics = topics.iter().filter(|topic| self.may_see(&topic.name) == is_allowed);
                        topics.for_each(|topic| self.write_topic(topic, is_allowed, error, rows));
                    }
                };
                write(Array::Each { len: topics.len(), each: &each }, reply);
            }
            None => {
                let each = |rows: &mut Rows<'_, '_>| {
                    self.all(&mut |name, _, partitions| {
                        let partitions = Array::Each {
                            len: partitions.len(),
                            each: &|rows| partitions.iter().for_each(|found| rows.push(single(committed(*found)))),
                        };
                        rows.push(OffsetFetchResponseTopic { name: name.into(), partitions });
                    });
                };
                write(Array::Each { len: self.all_len(), each: &each }, reply);
            }
        }
    }

    fn write_topic(
        &self,
        topic: OffsetFetchRequestTopic<'_>,
        is_allowed: bool,
        error: ErrorCode,
        rows: &mut Rows<'_, '_>,
    ) {
        let denied = if is_allowed { ErrorCode::NONE } else { ErrorCode::TOPIC_AUTHORIZATION_FAILED };
        let error = if error.is_none() { denied } else { error };
        let row = |index: i32| single(self.row(&topic.name, None, index, error));
        let indexes = &topic.partition_indexes;
        let partitions =
            Array::Each { len: indexes.len(), each: &|rows| indexes.iter().for_each(|index| rows.push(row(index))) };
        rows.push(OffsetFetchResponseTopic { name: Cow::Borrowed(&topic.name), partitions });
    }

    /// From v8 on.
    fn write_group(&self, rows: &mut Rows<'_, '_>) {
        let mut write = |topics: Array<'_, OffsetFetchResponseTopics<'_>>, error: ErrorCode| {
            let group_id = Cow::Borrowed(&*self.request.group_id);
            rows.push(OffsetFetchResponseGroup { group_id, topics, error_code: error.0 });
        };
        match (&self.view, &self.request.topics) {
            (Err(error), _) => write(Array::EMPTY, *error),
            (Ok(_), Some(topics)) => {
                let each = |rows: &mut Rows<'_, '_>| {
                    // How many it leaves out.
                    let mut write_those = |are_good: bool| {
                        let mut others = 0;
                        for topic in topics.iter() {
                            let (name, error) = self.judge(&topic);
                            if error.is_none() == are_good {
                                self.write_topics(&topic, name.as_deref(), error, rows);
                            } else {
                                others += 1;
                            }
                        }
                        others
                    };
                    // What is refused comes behind what is answered.
                    if write_those(true) > 0 {
                        write_those(false);
                    }
                };
                write(Array::Each { len: topics.len(), each: &each }, ErrorCode::NONE);
            }
            (Ok(_), None) => {
                let each = |rows: &mut Rows<'_, '_>| {
                    self.all(&mut |name, topic_id, partitions| {
                        let partitions = Array::Each {
                            len: partitions.len(),
                            each: &|rows| partitions.iter().for_each(|found| rows.push(batched(committed(*found)))),
                        };
                        rows.push(OffsetFetchResponseTopics { name: name.into(), topic_id, partitions });
                    });
                };
                write(Array::Each { len: self.all_len(), each: &each }, ErrorCode::NONE);
            }
        }
    }

    /// The topic's name, and why its partitions are not answered.
    fn judge(&self, topic: &OffsetFetchRequestTopics<'a>) -> (Option<Cow<'a, str>>, ErrorCode) {
        let name = match self.version().number {
            10.. => match self.shard.catalogue().by_id(TopicId(topic.topic_id.0)) {
                Some(found) => Cow::Borrowed(&*found.name),
                None => return (None, ErrorCode::UNKNOWN_TOPIC_ID),
            },
            _ => topic.name.clone(),
        };
        let is_allowed = self.may_see(&name);
        (Some(name), if is_allowed { ErrorCode::NONE } else { ErrorCode::TOPIC_AUTHORIZATION_FAILED })
    }

    fn write_topics(
        &self,
        topic: &OffsetFetchRequestTopics<'_>,
        name: Option<&str>,
        error: ErrorCode,
        rows: &mut Rows<'_, '_>,
    ) {
        let topic_id = (self.version().number >= 10).then_some(topic.topic_id.0);
        let row = |index: i32| batched(self.row(name.unwrap_or_default(), topic_id, index, error));
        let indexes = &topic.partition_indexes;
        let partitions =
            Array::Each { len: indexes.len(), each: &|rows| indexes.iter().for_each(|index| rows.push(row(index))) };
        rows.push(OffsetFetchResponseTopics { name: Cow::Borrowed(&topic.name), topic_id: topic.topic_id, partitions });
    }

    fn row(
        &self,
        name: &str,
        topic_id: Option<[u8; 16]>,
        index: i32,
        error: ErrorCode,
    ) -> (FetchedOffset<'_>, ErrorCode) {
        let nothing = FetchedOffset { partition: index, offset: -1, leader_epoch: -1, metadata: "" };
        let view = self.view.ok().flatten().filter(|_| error.is_none());
        (view.and_then(|view| view.get(name, topic_id, index)).unwrap_or(nothing), error)
    }

    /// All topics of the group that its asker may see.
    fn all(&self, each: &mut dyn FnMut(&str, Uuid, &[FetchedOffset<'_>])) {
        let Some(view) = self.view.ok().flatten() else { return };
        for topic in view.topics().filter(|topic| self.is_listed(topic.topic(), topic.topic_id())) {
            let partitions: Vec<FetchedOffset<'_>> = topic.partitions().collect();
            each(topic.topic(), self.topic_id(topic.topic(), topic.topic_id()), &partitions);
        }
    }

    fn all_len(&self) -> usize {
        let Some(view) = self.view.ok().flatten() else { return 0 };
        view.topics().filter(|topic| self.is_listed(topic.topic(), topic.topic_id())).count()
    }

    /// From v10 on a topic has to have an id to be told of.
    fn is_listed(&self, name: &str, topic_id: [u8; 16]) -> bool {
        self.may_see(name) && (self.version().number < 10 || self.topic_id(name, topic_id) != Uuid::default())
    }

    /// The id under which the offsets were committed, or that of the topic of this name.
    fn topic_id(&self, name: &str, committed: [u8; 16]) -> Uuid {
        let current = || self.shard.catalogue().by_name(name).map_or(Uuid::default(), |topic| Uuid(topic.id.0));
        if committed == [0; 16] { current() } else { Uuid(committed) }
    }

    fn may_see(&self, topic: &str) -> bool {
        self.shard.allows(self.context, Operation::Describe, Resource::Topic(topic))
    }
}

fn committed(found: FetchedOffset<'_>) -> (FetchedOffset<'_>, ErrorCode) {
    (found, ErrorCode::NONE)
}

fn single((found, error): (FetchedOffset<'_>, ErrorCode)) -> OffsetFetchResponsePartition<'_> {
    OffsetFetchResponsePartition {
        partition_index: found.partition,
        committed_offset: found.offset,
        committed_leader_epoch: found.leader_epoch,
        metadata: Some(found.metadata.into()),
        error_code: error.0,
    }
}

fn batched((found, error): (FetchedOffset<'_>, ErrorCode)) -> OffsetFetchResponsePartitions<'_> {
    OffsetFetchResponsePartitions {
        partition_index: found.partition,
        committed_offset: found.offset,
        committed_leader_epoch: found.leader_epoch,
        metadata: Some(found.metadata.into()),
        error_code: error.0,
    }
}
