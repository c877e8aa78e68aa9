//! What a reply says, held against what the model knows; and what it promises from when it leaves.

use super::asked::{Asked, CommitRow, FetchGroup, Join, Speaker, TopicName, What};
use super::group::{Joined, Sign};
use super::offsets::{Shown, Trail, Value, WallClock};
use super::{Model, Promise};
use crate::errors::ErrorCode;
use crate::wire::create_topics::CreateTopicsResponse;
use crate::wire::delete_groups::DeleteGroupsResponse;
use crate::wire::delete_topics::DeleteTopicsResponse;
use crate::wire::describe_cluster::DescribeClusterResponse;
use crate::wire::describe_groups::DescribeGroupsResponse;
use crate::wire::find_coordinator::FindCoordinatorResponse;
use crate::wire::heartbeat::HeartbeatResponse;
use crate::wire::join_group::JoinGroupResponse;
use crate::wire::leave_group::LeaveGroupResponse;
use crate::wire::list_groups::ListGroupsResponse;
use crate::wire::metadata::MetadataResponse;
use crate::wire::offset_commit::OffsetCommitResponse;
use crate::wire::offset_delete::OffsetDeleteResponse;
use crate::wire::offset_fetch::OffsetFetchResponse;
use crate::wire::sync_group::SyncGroupResponse;
use crate::wire::{ApiKey, Cursor, ResponseHeader, Uuid, Wire};

type Judged = Result<Vec<Promise>, String>;

const NOTHING: Vec<Promise> = Vec::new();

/// Errors that say nothing of the group, because they are found before it is looked for.
const BEFORE_THE_GROUP: [ErrorCode; 5] = [
    ErrorCode::INVALID_GROUP_ID,
    ErrorCode::INVALID_SESSION_TIMEOUT,
    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode::UNKNOWN_TOPIC_ID,
    ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
];

impl Model {
    /// What the reply to a request promises, once it has left.
    pub(super) fn judged(&mut self, asked: &Asked, was_parked: bool, reply: &[u8]) -> Vec<Promise> {
        self.digest(reply);
        match self.judge(asked, was_parked, reply) {
            Ok(promises) => promises,
            Err(what) => {
                self.fault(format!("{} v{}: {what}", asked.api.name(), asked.version));
                NOTHING
            }
        }
    }

    fn judge(&mut self, asked: &Asked, was_parked: bool, reply: &[u8]) -> Judged {
        match (&asked.what, asked.api) {
            (What::Join(join), _) => self.judge_join(join, was_parked, &read(asked, reply)?),
            (What::Sync(sync), _) => self.judge_sync(&sync.speaker, was_parked, &read(asked, reply)?),
            (What::Heartbeat(speaker), _) => self.judge_heartbeat(speaker, &read(asked, reply)?),
            (What::Leave { group_id, .. }, _) => {
                let response: LeaveGroupResponse<'_> = read(asked, reply)?;
                self.check_route(group_id, ErrorCode(response.error_code))?;
                Ok(NOTHING)
            }
            (What::Commit { speaker, rows }, _) => self.judge_commit(speaker, rows, &read(asked, reply)?),
            (What::Fetch { groups }, _) => self.judge_fetch(asked, groups, &read(asked, reply)?),
            (What::DeleteOffsets { group_id, rows }, _) => {
                self.judge_delete_offsets(group_id, rows, &read(asked, reply)?)
            }
            (What::DeleteGroups { group_ids }, _) => self.judge_delete_groups(group_ids, &read(asked, reply)?),
            (What::FindCoordinator { key_type: 0, keys }, _) => self.judge_coordinators(keys, &read(asked, reply)?),
            (What::FindCoordinator { .. }, _) => read::<FindCoordinatorResponse<'_>>(asked, reply).map(|_| NOTHING),
            (What::DeleteTopics { .. }, _) => self.judge_delete_topics(&read(asked, reply)?),
            (What::Other, ApiKey::Metadata) => self.judge_metadata(asked, &read(asked, reply)?),
            (What::Other, ApiKey::CreateTopics) => self.judge_create_topics(asked, &read(asked, reply)?),
            (What::Other, ApiKey::DescribeCluster) => {
                let response: DescribeClusterResponse<'_> = read(asked, reply)?;
                self.cluster.told_id(&response.cluster_id).map(|()| NOTHING)
            }
            (What::Other, ApiKey::DescribeGroups) => {
                let response: DescribeGroupsResponse<'_> = read(asked, reply)?;
                for group in response.groups.iter() {
                    self.check_route(&group.group_id, ErrorCode(group.error_code))?;
                }
                Ok(NOTHING)
            }
            (What::Other, ApiKey::ListGroups) => read::<ListGroupsResponse<'_>>(asked, reply).map(|_| NOTHING),
            (What::Other, api) => Err(format!("no judgement on {}", api.name())),
        }
    }

    /// The coordinator of a group answers for it, and nobody else.
    fn check_route(&mut self, group_id: &str, error: ErrorCode) -> Result<(), String> {
        match error {
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS if self.loaded.contains(group_id) => {
                return Err(format!("{group_id:?} was loaded, and is said to be loading"));
            }
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::NOT_COORDINATOR => {}
            _ if BEFORE_THE_GROUP.contains(&error) || self.loaded.contains(group_id) => {}
            _ => drop(self.loaded.insert(group_id.into())),
        }
        let Some(owner) = self.owner(group_id) else { return Ok(()) };
        let (core, is_owner) = (self.core, owner == self.core);
        match error {
            _ if BEFORE_THE_GROUP.contains(&error) => Ok(()),
            ErrorCode::NOT_COORDINATOR if is_owner => {
                Err(format!("core {core} coordinates {group_id:?} and says it does not"))
            }
            ErrorCode::NOT_COORDINATOR => Ok(()),
            _ if is_owner => Ok(()),
            _ => Err(format!("core {core} answers {error:?} for {group_id:?}, which core {owner} coordinates")),
        }
    }

    fn judge_join(&mut self, join: &Join, was_parked: bool, response: &JoinGroupResponse<'_>) -> Judged {
        let error = ErrorCode(response.error_code);
        self.check_route(&join.group_id, error)?;
        let group = self.group(&join.group_id);
        let has_new_id = join.member_id.is_empty() && !response.member_id.is_empty();
        if has_new_id && matches!(error, ErrorCode::NONE | ErrorCode::MEMBER_ID_REQUIRED) {
            group.made_member_id(join, &response.member_id)?;
        }
        if !error.is_none() {
            return Ok(NOTHING);
        }
        if was_parked && group.is_deleted {
            return Ok(NOTHING);
        }
        let members = response.members.iter().map(|row| {
            (row.member_id.to_string(), row.group_instance_id.as_deref().map(Into::into), row.metadata.to_vec())
        });
        let joined = Joined {
            generation_id: response.generation_id,
            protocol_type: response.protocol_type.as_deref().map(Into::into),
            protocol: response.protocol_name.as_deref().unwrap_or_default().into(),
            leader: response.leader.to_string(),
            member_id: response.member_id.to_string(),
            members: members.collect(),
        };
        let begins_again = group.joined(join, &joined, was_parked)?;
        if let Some(why) = begins_again {
            self.trace.note(self.now, || format!("{:?} is another group: {why}", join.group_id));
        }
        Ok(NOTHING)
    }

    fn judge_sync(&mut self, speaker: &Speaker, was_parked: bool, response: &SyncGroupResponse<'_>) -> Judged {
        let error = ErrorCode(response.error_code);
        let was_loaded = self.loaded.contains(&speaker.group_id);
        self.check_route(&speaker.group_id, error)?;
        // So is answered what comes while the group is loading.
        if error == ErrorCode::REBALANCE_IN_PROGRESS && !was_loaded {
            self.loaded.remove(&speaker.group_id);
        }
        if !error.is_none() {
            return Ok(NOTHING);
        }
        let now_ms = self.now.monotonic_ms;
        let group = self.group(&speaker.group_id);
        if was_parked && group.is_deleted {
            return Ok(NOTHING);
        }
        group.synced(speaker, response.assignment)?;
        // As in Kafka, a SyncGroup that is answered at once does not make the session last longer.
        if was_parked {
            group.is_there(speaker, Sign::Synced, now_ms);
        }
        let (group_id, generation_id) = (speaker.group_id.clone(), speaker.generation_id);
        Ok(vec![Promise::Generation { group_id, generation_id }])
    }

    fn judge_heartbeat(&mut self, speaker: &Speaker, response: &HeartbeatResponse) -> Judged {
        let error = ErrorCode(response.error_code);
        // Kafka's coordinator says to every heartbeat that all is well while it loads.
        if error.is_none() && !self.loaded.contains(&speaker.group_id) {
            return Ok(NOTHING);
        }
        self.check_route(&speaker.group_id, error)?;
        let now_ms = self.now.monotonic_ms;
        let group = self.group(&speaker.group_id);
        match error {
            ErrorCode::NONE => {
                group.check_current(speaker, "a heartbeat")?;
                group.is_there(speaker, Sign::Well, now_ms);
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION
                if group.is_in_good_standing(speaker, now_ms) =>
            {
                return Err(format!("{} is in good standing, and told {error:?}", speaker.member_id));
            }
            _ => {}
        }
        Ok(NOTHING)
    }

    fn judge_commit(&mut self, speaker: &Speaker, rows: &[CommitRow], response: &OffsetCommitResponse<'_>) -> Judged {
        let codes: Vec<ErrorCode> = response
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|row| (row.partition_index, ErrorCode(row.error_code))))
            .map(|(_, code)| code)
            .collect();
        if codes.len() != rows.len() {
            return Err(format!("{} offsets were committed, {} are answered", rows.len(), codes.len()));
        }
        let mut promises = Vec::new();
        for (row, code) in rows.iter().zip(codes) {
            self.check_route(&speaker.group_id, code)?;
            if !code.is_none() {
                continue;
            }
            let name = self.cluster.name_of(&row.topic).ok_or_else(|| format!("{:?} is not known", row.topic))?;
            let topic_id = match row.topic {
                TopicName::Id(id) => id,
                TopicName::Name(_) => self.cluster.id_of(&name),
            };
            let value = Value {
                offset: row.offset,
                leader_epoch: row.leader_epoch,
                metadata: row.metadata.clone(),
                topic_id: topic_id.0,
                expires_at_ms: row.retention_ms.map(|ms| self.unix_ms.0.saturating_add(ms)),
            };
            promises.push(self.change(&speaker.group_id, (name, row.partition), Some(value)));
        }
        if !promises.is_empty() {
            let now_ms = self.now.monotonic_ms;
            let group = self.group(&speaker.group_id);
            group.check_current(speaker, "a commit")?;
            group.is_there(speaker, Sign::Heard, now_ms);
        }
        Ok(promises)
    }

    /// An offset is another one from now on.
    fn change(&mut self, group_id: &str, key: (String, i32), value: Option<Value>) -> Promise {
        let id = self.new_id();
        let may_go = self.cluster.may_go(&key.0);
        let trail = self.group(group_id).trails.entry(key.clone()).or_insert_with(Trail::new);
        trail.push(id, value);
        if may_go {
            trail.vanish_some_time();
        }
        Promise::Changed { group_id: group_id.into(), key, id }
    }

    fn judge_fetch(&mut self, asked: &Asked, groups: &[FetchGroup], response: &OffsetFetchResponse<'_>) -> Judged {
        let mut promises = Vec::new();
        if asked.version < 8 {
            let Some(group) = groups.first() else { return Ok(promises) };
            let mut rows = Vec::new();
            for topic in response.topics.iter() {
                for row in topic.partitions.iter() {
                    let epoch = (asked.version >= 5).then_some(row.committed_leader_epoch);
                    let found = shown(row.committed_offset, epoch, row.metadata.as_deref(), Uuid::ZERO);
                    let key = (topic.name.to_string(), row.partition_index);
                    rows.push((key, ErrorCode(row.error_code), found));
                }
            }
            let of_rows = rows.iter().map(|row| row.1).find(|error| !error.is_none());
            let error = if asked.version < 2 { of_rows.unwrap_or_default() } else { ErrorCode(response.error_code) };
            self.check_fetched(group, error, rows, true, &mut promises)?;
            return Ok(promises);
        }
        let answered: Vec<_> = response.groups.iter().collect();
        if answered.len() != groups.len() {
            return Err(format!("{} groups were asked for, {} are answered", groups.len(), answered.len()));
        }
        for (group, answer) in groups.iter().zip(answered) {
            let (mut rows, mut is_complete) = (Vec::new(), true);
            for topic in answer.topics.iter() {
                let name = match asked.version {
                    10.. => self.cluster.name_of(&TopicName::Id(topic.topic_id)),
                    _ => Some(topic.name.to_string()),
                };
                let asked_id = if group.rows.is_some() { topic.topic_id } else { Uuid::ZERO };
                for row in topic.partitions.iter() {
                    let error = ErrorCode(row.error_code);
                    let epoch = Some(row.committed_leader_epoch);
                    let found = shown(row.committed_offset, epoch, row.metadata.as_deref(), asked_id);
                    match &name {
                        Some(name) => rows.push(((name.clone(), row.partition_index), error, found)),
                        // It was committed by name, and nobody has asked for its id.
                        None => is_complete = false,
                    }
                }
            }
            self.check_fetched(group, ErrorCode(answer.error_code), rows, is_complete, &mut promises)?;
        }
        Ok(promises)
    }

    fn check_fetched(
        &mut self,
        asked: &FetchGroup,
        error: ErrorCode,
        rows: Vec<((String, i32), ErrorCode, Shown)>,
        is_complete: bool,
        promises: &mut Vec<Promise>,
    ) -> Result<(), String> {
        self.check_route(&asked.group_id, error)?;
        if !error.is_none() {
            return Ok(());
        }
        let (lowest_ms, highest_ms) = self.unix_ms;
        let clock = WallClock { highest_ms, expiry_ms: lowest_ms.saturating_add(self.retention_ms) };
        let (group_id, group) = (&asked.group_id, self.group(&asked.group_id));
        let mut unseen: Vec<_> =
            if asked.rows.is_none() && is_complete { group.trails.keys().cloned().collect() } else { Vec::new() };
        for (key, error, shown) in rows {
            unseen.retain(|other| *other != key);
            if !error.is_none() {
                continue;
            }
            let trail = group.trails.entry(key.clone()).or_insert_with(Trail::new);
            let newest = trail.shows(&shown, clock).map_err(|what| format!("{group_id:?} {key:?}: {what}"))?;
            promises.push(Promise::Shown { group_id: group_id.clone(), key, shown, newest });
        }
        for key in unseen {
            let absent = shown(-1, None, None, Uuid::ZERO);
            group.trails[&key].shows(&absent, clock).map_err(|what| format!("{group_id:?} {key:?}: {what}"))?;
        }
        Ok(())
    }

    fn judge_delete_offsets(
        &mut self,
        group_id: &str,
        rows: &[(String, i32)],
        response: &OffsetDeleteResponse<'_>,
    ) -> Judged {
        let error = ErrorCode(response.error_code);
        self.check_route(group_id, error)?;
        if !error.is_none() {
            return Ok(NOTHING);
        }
        let codes: Vec<i16> =
            response.topics.iter().flat_map(|topic| topic.partitions.iter()).map(|row| row.error_code).collect();
        if codes.len() != rows.len() {
            return Err(format!("{} offsets were deleted, {} are answered", rows.len(), codes.len()));
        }
        let deleted = rows.iter().zip(codes).filter(|(_, code)| *code == 0);
        Ok(deleted.map(|(key, _)| self.change(group_id, key.clone(), None)).collect())
    }

    fn judge_delete_groups(&mut self, group_ids: &[String], response: &DeleteGroupsResponse<'_>) -> Judged {
        let mut promises = Vec::new();
        for result in response.results.iter() {
            let group_id = &*result.group_id;
            let error = ErrorCode(result.error_code);
            if !group_ids.iter().any(|asked| asked == group_id) {
                return Err(format!("{group_id:?} was not to be deleted"));
            }
            self.check_route(group_id, error)?;
            if !error.is_none() {
                continue;
            }
            let now_ms = self.now.monotonic_ms;
            let group = self.group(group_id);
            if let Some(member_id) = group.standings.keys().find(|member_id| group.has_standing(member_id, now_ms)) {
                return Err(format!("{group_id:?} is deleted, though {member_id} is in it"));
            }
            group.new_life();
            group.is_deleted = true;
            let keys: Vec<_> = group.trails.keys().cloned().collect();
            promises.extend(keys.into_iter().map(|key| self.change(group_id, key, None)));
        }
        Ok(promises)
    }

    fn judge_coordinators(&mut self, keys: &[String], response: &FindCoordinatorResponse<'_>) -> Judged {
        let mut rows: Vec<_> = response.coordinators.iter().map(|row| (row.error_code, row.node_id)).collect();
        if rows.is_empty() && keys.len() == 1 {
            rows.push((response.error_code, response.node_id));
        }
        if rows.len() != keys.len() {
            return Err(format!("{} keys were asked for, {} are answered", keys.len(), rows.len()));
        }
        for (group_id, (error_code, node_id)) in keys.iter().zip(rows) {
            match ErrorCode(error_code) {
                ErrorCode::NONE => self.cluster.told_coordinator(group_id, node_id)?,
                ErrorCode::COORDINATOR_NOT_AVAILABLE => self.cluster.told_no_coordinator(group_id)?,
                error => return Err(format!("{error:?} for {group_id:?}")),
            }
        }
        Ok(NOTHING)
    }

    fn judge_metadata(&mut self, asked: &Asked, response: &MetadataResponse<'_>) -> Judged {
        if asked.version >= 2 {
            self.cluster.told_id(response.cluster_id.as_deref().unwrap_or_default())?;
        }
        for row in response.topics.iter() {
            let Some(name) = row.name.as_deref() else { continue };
            match ErrorCode(row.error_code) {
                ErrorCode::NONE => self.cluster.told_topic(name, row.topic_id, row.partitions.len(), true)?,
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => self.cluster.told_absent(name)?,
                _ => {}
            }
        }
        Ok(NOTHING)
    }

    fn judge_create_topics(&mut self, asked: &Asked, response: &CreateTopicsResponse<'_>) -> Judged {
        for row in response.topics.iter().filter(|row| row.error_code == 0) {
            let partitions = if asked.version >= 5 { row.num_partitions as usize } else { 0 };
            self.cluster.told_topic(&row.name, row.topic_id, partitions, false)?;
        }
        Ok(NOTHING)
    }

    fn judge_delete_topics(&mut self, response: &DeleteTopicsResponse<'_>) -> Judged {
        for row in response.responses.iter() {
            let name =
                row.name.as_deref().map(Into::into).or_else(|| self.cluster.name_of(&TopicName::Id(row.topic_id)));
            if let Some(name) = name {
                self.cluster.deletion_answered(&name, row.topic_id, ErrorCode(row.error_code));
            }
        }
        Ok(NOTHING)
    }
}

fn shown(offset: i64, leader_epoch: Option<i32>, metadata: Option<&str>, topic_id: Uuid) -> Shown {
    Shown { offset, leader_epoch, metadata: metadata.unwrap_or_default().into(), topic_id: topic_id.0 }
}

/// Reads a reply frame: size, header and body, with nothing left over.
fn read<'a, T: Wire<'a>>(asked: &Asked, frame: &'a [u8]) -> Result<T, String> {
    let mut cursor = Cursor::new(frame);
    let size = cursor.i32().map_err(|malformed| malformed.to_string())?;
    if size as usize != cursor.remaining() {
        return Err(format!("a frame of {} bytes says that it has {size}", cursor.remaining()));
    }
    let header = ResponseHeader::read(&mut cursor, asked.api.response_header_version(asked.version));
    let header = header.map_err(|malformed| malformed.to_string())?;
    if header.correlation_id != asked.correlation_id {
        return Err(format!("correlation id {} instead of {}", header.correlation_id, asked.correlation_id));
    }
    let body = T::read(&mut cursor, asked.api.version(asked.version)).map_err(|malformed| malformed.to_string())?;
    match cursor.remaining() {
        0 => Ok(body),
        surplus => Err(format!("{surplus} bytes behind the reply")),
    }
}
