//! Rules broken on purpose, outside of the product's code, to show that the model notices: `--break NAME`.

use clap::ValueEnum;

use super::conversation::{Conversation, Place};
use super::model::Model;
use super::random::Random;
use crate::group::Ids;
use crate::journal::entry::{self, Decoded, decode};
use crate::journal::segment::{self, DecodedHeader, Header, SegmentId};
use crate::journal::testing::MemoryDisk;
use crate::journal::{JournalPosition, disk};
use crate::wire::join_group::JoinGroupResponse;
use crate::wire::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use crate::wire::{ApiKey, Array, Cursor, Prefix, RequestHeader, ResponseHeader, Wire, Writer};

/// A rule to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Break {
    /// A parked SyncGroup is never answered.
    ForgetSync,
    /// A parked JoinGroup is never answered.
    ForgetJoin,
    /// Two replies of a connection change places.
    SwapReplies,
    /// A request is answered twice.
    AnswerTwice,
    /// Another offset is stored than was committed.
    BendCommit,
    /// A commit of an old generation is taken.
    UnfenceCommit,
    /// A member gets what another one was assigned.
    SwapAssignments,
    /// A follower is told that it leads.
    TwoLeaders,
    /// Member ids are made that were made before.
    RepeatIds,
    /// What was written is said to be synced when it is not.
    LieOfSync,
    /// A reply leaves before what it promises is durable.
    AcknowledgeEarly,
    /// A start leaves out a record of the journal.
    DropInApply,
}

impl Break {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }
}

/// Of a thousand occasions.
const SHARE: u64 = 50;

/// What is broken in a world.
pub(super) struct Breaks {
    what: Option<Break>,
    random: Random,
    last_assignment: Vec<u8>,
}

impl Breaks {
    pub(super) fn new(what: Option<Break>, random: Random) -> Breaks {
        Breaks { what, random, last_assignment: Vec::new() }
    }

    fn does(&mut self, what: Break) -> bool {
        self.what == Some(what) && self.random.chance(SHARE)
    }

    /// Where the journal must be for a reply to leave.
    pub(super) fn bend_position(&mut self, position: JournalPosition) -> JournalPosition {
        if self.what == Some(Break::AcknowledgeEarly) { JournalPosition::default() } else { position }
    }

    /// Makes one committed offset in the journal unreadable, in a way that no checksum shows.
    pub(super) fn drop_record(&mut self, disk: &MemoryDisk) {
        if self.what == Some(Break::DropInApply) {
            forget_record(disk, &mut self.random);
        }
    }

    /// Whether a file is not synced.
    pub(super) fn lies_of_sync(&mut self) -> bool {
        self.does(Break::LieOfSync)
    }

    /// A request that the server gets instead.
    pub(super) fn bend_request(&mut self, frame: &[u8], model: &Model) -> Option<Vec<u8>> {
        self.what?;
        let is_commit = Prefix::peek(frame).is_ok_and(|prefix| prefix.api_key() == ApiKey::OffsetCommit.number());
        if is_commit && self.does(Break::BendCommit) {
            return bend_commit(frame, |request| (request.generation_id_or_member_epoch, -1));
        }
        if is_commit && self.does(Break::UnfenceCommit) {
            return bend_commit(frame, |request| (model.newest_generation(&request.group_id), 0));
        }
        None
    }

    /// Whether the answer of a parked request gets lost.
    pub(super) fn forgets(&mut self, _reply: &[u8], connection: u64, place: Place, model: &Model) -> bool {
        match model.asked(connection, place).map(|asked| asked.api) {
            Some(ApiKey::SyncGroup) => self.does(Break::ForgetSync),
            Some(ApiKey::JoinGroup) => self.does(Break::ForgetJoin),
            _ => false,
        }
    }

    /// An answer that the client gets instead.
    pub(super) fn bend_answer(&mut self, reply: Vec<u8>, connection: u64, place: Place, model: &Model) -> Vec<u8> {
        if self.what.is_none() {
            return reply;
        }
        let Some(asked) = model.asked(connection, place) else { return reply };
        match asked.api {
            ApiKey::SyncGroup if self.what == Some(Break::SwapAssignments) => self.swap_assignment(reply),
            ApiKey::JoinGroup if self.does(Break::TwoLeaders) => lead(&reply, asked.version).unwrap_or(reply),
            _ => reply,
        }
    }

    fn swap_assignment(&mut self, mut reply: Vec<u8>) -> Vec<u8> {
        let last = std::mem::replace(&mut self.last_assignment, reply.clone());
        if last.len() == reply.len() {
            reply[8..].copy_from_slice(&last[8..]);
        }
        reply
    }

    /// Replies of one connection that change places.
    pub(super) fn disorder(&mut self, conversation: &mut Conversation) {
        if self.what == Some(Break::SwapReplies) {
            conversation.swap_last();
        }
        if self.does(Break::AnswerTwice) {
            conversation.double_last();
        }
    }

    /// The source of member ids.
    pub(super) fn ids(&self, random: Random) -> Box<dyn Ids> {
        let repeats = self.what == Some(Break::RepeatIds);
        Box::new(SimulatedIds { random, repeats, last: [0; 16] })
    }
}

struct SimulatedIds {
    random: Random,
    repeats: bool,
    last: [u8; 16],
}

impl Ids for SimulatedIds {
    fn next(&mut self) -> [u8; 16] {
        if !self.repeats || self.random.chance(900) {
            self.last = self.random.bytes();
        }
        self.last
    }
}

/// The same commit with another generation and other offsets.
fn bend_commit(frame: &[u8], how: impl FnOnce(&OffsetCommitRequest<'_>) -> (i32, i64)) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(frame);
    let prefix = *Prefix::peek(frame).ok()?;
    let (api, number) = (ApiKey::OffsetCommit, prefix.api_version());
    let header = RequestHeader::read(&mut cursor, api.request_header_version(number)).ok()?;
    let request = OffsetCommitRequest::read(&mut cursor, api.version(number)).ok()?;
    let (generation_id_or_member_epoch, more) = how(&request);
    let bent = |row: OffsetCommitRequestPartition<'_>| {
        let partition = OffsetCommitRequestPartition { committed_offset: row.committed_offset + more, ..row };
        OffsetCommitRequestPartition { committed_metadata: partition.committed_metadata.map(owned), ..partition }
    };
    let rows: Vec<_> = request
        .topics
        .iter()
        .map(|topic| (topic.clone(), topic.partitions.iter().map(bent).collect::<Vec<_>>()))
        .collect();
    let topics: Vec<_> = rows
        .iter()
        .map(|(topic, rows)| OffsetCommitRequestTopic { partitions: Array::Items(rows), ..topic.clone() })
        .collect();
    let bent = OffsetCommitRequest { generation_id_or_member_epoch, topics: Array::Items(&topics), ..request.clone() };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    header.write(&mut writer, api.request_header_version(number));
    bent.write(&mut writer, api.version(number));
    Some(bytes)
}

/// The same JoinGroup answer, but its member leads.
fn lead(reply: &[u8], number: i16) -> Option<Vec<u8>> {
    let api = ApiKey::JoinGroup;
    let mut cursor = Cursor::new(reply.get(4..)?);
    let header = ResponseHeader::read(&mut cursor, api.response_header_version(number)).ok()?;
    let response = JoinGroupResponse::read(&mut cursor, api.version(number)).ok()?;
    if response.error_code != 0 {
        return None;
    }
    let bent = JoinGroupResponse { leader: response.member_id.clone(), ..response };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    let start = writer.begin_frame();
    header.write(&mut writer, api.response_header_version(number));
    bent.write(&mut writer, api.version(number));
    writer.end_frame(start);
    Some(bytes)
}

/// Turns the key of an OffsetCommit in the journal into one of a kind that nobody knows, which a start skips.
fn forget_record(disk: &MemoryDisk, random: &mut Random) {
    let mut found = Vec::new();
    let is_segment = |path: &String| SegmentId::of_file_name(path.rsplit('/').next().unwrap_or_default()).is_some();
    for path in disk.paths().into_iter().filter(is_segment) {
        let Ok(bytes) = disk::read(disk, &path) else { continue };
        let DecodedHeader::Header(header) = Header::decode(&bytes[..segment::HEADER_BYTES as usize]) else { continue };
        let mut at = segment::HEADER_BYTES as usize;
        while let Decoded::Entry(entry) =
            decode(&bytes[at..], header.base + (at as u64 - segment::HEADER_BYTES), (bytes.len() - at) as u64)
        {
            if matches!(entry.key, [0, 0 | 1, ..]) {
                found.push((path.clone(), at, entry.length()));
            }
            at += entry.length();
        }
    }
    if found.is_empty() {
        return;
    }
    let (path, at, length) = random.pick(&found).clone();
    disk.damage(&path, at as u64, |bytes| {
        bytes[entry::HEADER_BYTES] = 0x7f;
        let checksum = crc32c::crc32c(&bytes[8..length]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    });
}

fn owned(text: std::borrow::Cow<'_, str>) -> std::borrow::Cow<'static, str> {
    std::borrow::Cow::Owned(text.into_owned())
}
