//! Reads what there is to be read of a damaged stream, and says what is not. Of a stream that is whole it gives what
//! [`super::replay`] gives. Only [`super::tool`] asks for it: a file is read as a whole.

use std::collections::BTreeMap;

use super::disk::{self, Disk, join};
use super::entry::{Decoded, Entry, HEADER_BYTES as ENTRY_HEADER_BYTES, decode, decode_checked};
use super::failure::{At, OpenError};
use super::segment::{DecodedHeader, HEADER_BYTES, Header, SegmentId};
use super::snapshot::{ENTRIES_OFFSET, FOOTER_BYTES, SnapshotId, SnapshotReader};

/// Bytes that do not read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The file.
    pub path: String,
    /// In the file.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// Nothing follows them: they may be an append that was interrupted, and was never acknowledged.
    pub is_tail: bool,
}

/// An entry, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The file.
    pub path: &'a str,
    /// In the file.
    pub offset: u64,
    /// What is there.
    pub entry: Entry<'a>,
}

/// Gives all entries of a stream that read back, snapshots first, and returns what does not. Before a snapshot that is damaged
/// comes what the log still has of what it covers.
///
/// # Errors
/// Those of the disk.
pub fn salvage(
    disk: &dyn Disk,
    folder: &str,
    stream: u32,
    take: &mut dyn FnMut(Found<'_>),
) -> Result<Vec<Lost>, OpenError> {
    let names = disk.list(folder).at(folder)?;
    let snapshots: BTreeMap<i32, u64> = newest_snapshots(&names);
    let mut ids: Vec<_> = names.iter().filter_map(|name| SegmentId::of_file_name(name)).collect();
    ids.sort_unstable();
    let mut segments = ids.iter().map(|id| Segment::read(disk, folder, *id)).collect::<Result<Vec<_>, _>>()?;
    segments.truncate(segments.iter().rposition(|segment| !segment.is_unused()).map_or(0, |last| last + 1));
    let mut salvage = Salvage { lost: Vec::new(), begun: Vec::new(), take };
    for (partition, covers) in &snapshots {
        let id = SnapshotId { partition: *partition, covers: *covers };
        if !is_whole(disk, folder, stream, id) {
            // What the log has lost is said when all of it is read.
            let lost = std::mem::take(&mut salvage.lost);
            salvage.log(&segments, &|entry| entry.partition == id.partition && entry.end() <= id.covers);
            salvage.lost = lost;
        }
        salvage.snapshot(disk, folder, stream, id)?;
    }
    salvage.log(&segments, &|entry| snapshots.get(&entry.partition).is_none_or(|covers| entry.end() > *covers));
    Ok(salvage.lost)
}

fn is_whole(disk: &dyn Disk, folder: &str, stream: u32, id: SnapshotId) -> bool {
    let Ok(mut snapshot) = SnapshotReader::open(disk, folder, stream, id) else { return false };
    loop {
        match snapshot.next_entry() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn newest_snapshots(names: &[String]) -> BTreeMap<i32, u64> {
    let mut newest = BTreeMap::new();
    for id in names.iter().filter_map(|name| SnapshotId::of_file_name(name)) {
        let covers: &mut u64 = newest.entry(id.partition).or_default();
        *covers = id.covers.max(*covers);
    }
    newest
}

struct Segment {
    path: String,
    header: Option<Header>,
    bytes: Vec<u8>,
}

impl Segment {
    fn read(disk: &dyn Disk, folder: &str, id: SegmentId) -> Result<Segment, OpenError> {
        let path = join(folder, &id.file_name());
        let bytes = disk::read(disk, &path).at(&path)?;
        let block = &bytes[..bytes.len().min(HEADER_BYTES as usize)];
        let header = match Header::decode(block) {
            DecodedHeader::Header(header) if header.id == id => Some(header),
            _ => None,
        };
        Ok(Segment { path, header, bytes })
    }

    fn is_unused(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }
}

struct Salvage<'t> {
    lost: Vec<Lost>,
    /// Entries of an append that goes on: path, offset, bytes.
    begun: Vec<(String, u64, Vec<u8>)>,
    take: &'t mut dyn FnMut(Found<'_>),
}

/// A file up to where its entries end.
struct Content<'a> {
    path: &'a str,
    bytes: &'a [u8],
    /// Position of the first byte, if it is known.
    zero: Option<u64>,
    /// Whether there are entries up to the end.
    is_whole: bool,
    /// Whether nothing follows in other files.
    is_last: bool,
}

impl Salvage<'_> {
    fn snapshot(&mut self, disk: &dyn Disk, folder: &str, stream: u32, id: SnapshotId) -> Result<(), OpenError> {
        let path = join(folder, &id.file_name());
        let bytes = disk::read(disk, &path).at(&path)?;
        let end = bytes.len().saturating_sub(FOOTER_BYTES);
        if SnapshotReader::open(disk, folder, stream, id).is_err() {
            let (offset, bytes) = (end as u64, (bytes.len() - end) as u64);
            self.lost.push(Lost { path: path.clone(), offset, bytes, is_tail: false });
        }
        let content = Content { path: &path, bytes: &bytes[..end], zero: Some(0), is_whole: true, is_last: false };
        self.entries(content, ENTRIES_OFFSET, &|_| true);
        self.flush();
        Ok(())
    }

    fn log(&mut self, segments: &[Segment], takes: &dyn Fn(&Entry<'_>) -> bool) {
        for (index, segment) in segments.iter().enumerate() {
            let limit = segments.get(index + 1).and_then(|next| next.header).map(|next| next.previous_end);
            self.segment(segment, limit, index + 1 == segments.len(), takes);
        }
        self.begun.clear();
    }

    fn segment(&mut self, segment: &Segment, limit: Option<u64>, is_last: bool, takes: &dyn Fn(&Entry<'_>) -> bool) {
        let Segment { path, header, bytes } = segment;
        if let Some(limit) = limit {
            // Of an append that began in an earlier segment and failed in this one, the first entries do not count either.
            self.begun.retain(|(_, _, entry)| decode_checked(entry).position < limit);
        }
        if header.is_none() {
            self.lost.push(Lost { path: path.clone(), offset: 0, bytes: HEADER_BYTES, is_tail: is_last });
        }
        let end = match (header, limit) {
            (Some(header), Some(limit)) => bytes.len().min(header.offset_of(limit.max(header.base)) as usize),
            _ => bytes.len(),
        };
        let zero = header.map(|header| header.base.wrapping_sub(HEADER_BYTES));
        let content = Content { path, bytes: &bytes[..end], zero, is_whole: limit.is_some(), is_last };
        self.entries(content, HEADER_BYTES as usize, takes);
        // What is left of an append at the very end does not count.
        if !is_last {
            return;
        }
        if let Some((path, offset, _)) = self.begun.first() {
            let bytes = self.begun.iter().map(|(_, _, entry)| entry.len() as u64).sum();
            self.lost.push(Lost { path: path.clone(), offset: *offset, bytes, is_tail: true });
        }
    }

    fn entries(&mut self, content: Content<'_>, mut at: usize, takes: &dyn Fn(&Entry<'_>) -> bool) {
        let Content { path, bytes, mut zero, is_whole, is_last } = content;
        while at < bytes.len() {
            let Some(next) = (at..bytes.len()).find(|next| entry_at(bytes, *next, zero).is_some()) else {
                if is_whole || bytes[at..].iter().any(|byte| *byte != 0) {
                    self.lose(path, at, bytes.len(), is_last);
                }
                return;
            };
            if next > at {
                self.lose(path, at, next, false);
            }
            let entry = entry_at(bytes, next, zero).expect("it was found");
            zero = Some(entry.position.wrapping_sub(next as u64));
            if takes(&entry) {
                self.begun.push((path.to_owned(), next as u64, bytes[next..next + entry.length()].to_vec()));
            }
            if !entry.more {
                self.flush();
            }
            at = next + entry.length();
        }
    }

    fn lose(&mut self, path: &str, from: usize, to: usize, is_tail: bool) {
        self.lost.push(Lost { path: path.to_owned(), offset: from as u64, bytes: (to - from) as u64, is_tail });
    }

    fn flush(&mut self) {
        for (path, offset, bytes) in self.begun.drain(..) {
            (self.take)(Found { path: &path, offset, entry: decode_checked(&bytes) });
        }
    }
}

fn entry_at(bytes: &[u8], at: usize, zero: Option<u64>) -> Option<Entry<'_>> {
    let header = bytes.get(at..at + ENTRY_HEADER_BYTES)?;
    let stored = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
    let position = zero.map_or(stored, |zero| zero.wrapping_add(at as u64));
    if stored != position {
        return None;
    }
    match decode(&bytes[at..], position, (bytes.len() - at) as u64) {
        Decoded::Entry(entry) => Some(entry),
        _ => None,
    }
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
pub(super) mod tests;
