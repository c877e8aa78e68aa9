//! Where a stream ends: reads all its segments once, checks every entry, and tells a torn tail from damage. Changes nothing
//! on the disk. What the entries say is read afterwards, by [`super::replay`].
//!
//! An append that the power failure interrupted may have left any part of itself, so a bad entry alone says nothing. But each
//! entry and each segment's header carries the position that was synced when it was written. If anything behind a bad entry
//! claims that the bad entry was synced, something acknowledged is gone, and the start is refused; otherwise nothing says
//! that anything behind it was synced, and the stream is cut there.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::disk::{Disk, DiskFile, join};
use super::entry::{Damage, Decoded, Entry, HEADER_BYTES as ENTRY_HEADER_BYTES, decode};
use super::failure::{At, OpenError};
use super::reader::EntryReader;
use super::segment::{DecodedHeader, HEADER_BYTES, Header, SegmentId};

/// A segment in use, and how much of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// As read.
    pub header: Header,
    /// Size of the file.
    pub file_bytes: u64,
    /// Position behind the last entry that counts.
    pub end: u64,
}

impl Extent {
    /// Bytes of entries that count.
    pub fn bytes(&self) -> u64 {
        self.end - self.header.base
    }
}

/// What a cut says. Without syncs something may have been acknowledged all the same.
pub const CUT: &str = "what stands behind is no whole append, and nothing says that it was synced";

/// Where a stream was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub path: String,
    /// In the file.
    pub offset: u64,
    /// In the stream.
    pub position: u64,
}

/// What a stream's segments hold.
#[derive(Debug, Default)]
pub struct Scan {
    /// Segments that count, in order.
    pub extents: Vec<Extent>,
    /// Position of the next entry.
    pub end: u64,
    /// Where the stream was cut, if anything stood behind its end.
    pub cut: Option<Cut>,
    /// Segments behind the last one that counts: prepared ones, and those of appends that were cut off.
    pub behind: Vec<SegmentId>,
    /// The first of `behind` if it is all zeros, and its size.
    pub prepared: Option<(SegmentId, u64)>,
    /// Position of each partition's last entry that counts.
    pub last_of: FxHashMap<i32, u64>,
    /// Everything before this was synced, says the last one who knew.
    pub synced: u64,
    /// Entries that count.
    pub entries: u64,
    /// An append of which not all entries were seen yet: where it begins, and how many were.
    incomplete: Option<(u64, u64)>,
}

/// Reads a stream's segments, some entries a step.
pub struct Scanner {
    disk: Arc<dyn Disk>,
    found: Vec<Found>,
    scan: Scan,
    /// The segment behind the last extent, if some of it was read.
    reader: Option<EntryReader>,
}

struct Found {
    id: SegmentId,
    path: String,
    header: DecodedHeader,
    file_bytes: u64,
}

/// Why reading a segment stopped.
enum Stop {
    Budget,
    /// There is no more in it, according to the next one.
    Limit,
    /// There should be more.
    Damage(Damage),
}

impl Scanner {
    /// Finds the segments of a stream.
    ///
    /// # Errors
    /// [`OpenError`], if one is missing, of another stream or of another format.
    pub fn new(disk: Arc<dyn Disk>, folder: &str, stream: u32) -> Result<Self, OpenError> {
        let found = find(disk.as_ref(), folder, stream)?;
        if let Some(first) = found.first()
            && first.id != SegmentId(1)
            && first.in_use().is_none()
        {
            return Err(misplaced(&first.path, "the header is damaged, or the segments before it are missing"));
        }
        Ok(Scanner { disk, found, scan: Scan::default(), reader: None })
    }

    /// Bytes that there are to read at most.
    pub fn bytes_total(&self) -> u64 {
        self.found.iter().map(|found| found.file_bytes).sum()
    }

    /// Bytes of entries that were read.
    pub fn bytes_done(&self) -> u64 {
        let begun = self.reader.as_ref().map_or(0, |reader| reader.offset() - HEADER_BYTES);
        self.scan.extents.iter().map(Extent::bytes).sum::<u64>() + begun
    }

    /// Reads up to `budget` entries more, all of one segment. True at the end.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn step(&mut self, budget: usize) -> Result<bool, OpenError> {
        let index = self.scan.extents.len();
        let Some(header) = self.found.get(index).and_then(Found::in_use) else {
            if self.claims_behind(index, 0)?.is_some() {
                return Err(misplaced(&self.found[index].path, "it was in use, and its header is damaged"));
            }
            return self.finish().map(|()| true);
        };
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None if self.is_rest_of_what_failed(index) => {
                self.drop_what_failed();
                let file_bytes = self.found[index].file_bytes;
                self.scan.extents.push(Extent { header, file_bytes, end: header.base });
                return Ok(false);
            }
            None => self.open(index, header)?,
        };
        let stop = self.read(index, &mut reader, budget)?;
        let (offset, position) = (reader.offset(), reader.position());
        if matches!(stop, Stop::Budget) {
            self.reader = Some(reader);
            return Ok(false);
        }
        self.scan.extents.push(Extent { header, file_bytes: self.found[index].file_bytes, end: position });
        let Stop::Damage(damage) = stop else { return Ok(false) };
        let here = &self.found[index];
        let rest = if here.is_zero_from(self.disk.as_ref(), offset)? {
            Vec::new()
        } else {
            read_from(reader.file(), offset).at(&here.path)?
        };
        if claims(&rest, Some(position), position) || self.claims_behind(index + 1, position)?.is_some() {
            return Err(OpenError::Damaged { path: here.path.clone(), offset, position, damage });
        }
        self.finish().map(|()| true)
    }

    /// What was found, after [`Scanner::step`] said true.
    pub fn into_scan(self) -> Scan {
        self.scan
    }

    fn next_in_use(&self, index: usize) -> Option<Header> {
        self.found.get(index + 1)?.in_use()
    }

    /// Whether the next segment says that the log goes on behind an append which began before this one: a full disk stopped it
    /// after some segments. Those with its begin may be gone, if nothing before it is needed any more.
    fn is_rest_of_what_failed(&self, index: usize) -> bool {
        let Some(next) = self.next_in_use(index) else { return false };
        let first_base = self.found[0].in_use().map(|first| first.base);
        let began_before_the_first = self.scan.entries == 0 && first_base.is_some_and(|base| next.previous_end < base);
        began_before_the_first || self.scan.incomplete.is_some_and(|(begin, _)| next.previous_end == begin)
    }

    /// Ends the extents where the append begins that is not all there.
    fn drop_what_failed(&mut self) {
        let Some((begin, _)) = self.scan.incomplete.take() else { return };
        for extent in self.scan.extents.iter_mut().rev().take_while(|extent| extent.end > begin) {
            extent.end = begin.max(extent.header.base);
        }
    }

    /// Where a segment ends according to the next one, if that follows it.
    fn limit(&self, index: usize) -> Option<u64> {
        let here = &self.found[index];
        let next = self.next_in_use(index)?;
        let room = here.file_bytes.saturating_sub(HEADER_BYTES);
        let base = here.in_use()?.base;
        (base..=base + room).contains(&next.previous_end).then_some(next.previous_end)
    }

    fn open(&self, index: usize, header: Header) -> Result<EntryReader, OpenError> {
        let limit = self.limit(index);
        let found = &self.found[index];
        if let (None, Some(next)) = (limit, self.next_in_use(index)) {
            // Without syncs a power failure may have left an older header here than the one that the next segment follows.
            let may_be_old = next.previous_end > header.base;
            if !may_be_old || self.claims_behind(index + 1, header.base)?.is_some() {
                return Err(misplaced(&self.found[index + 1].path, "it does not follow the segment before it"));
            }
        }
        let file = self.disk.open(&found.path).at(&found.path)?;
        let end_offset = limit.map_or(found.file_bytes, |limit| header.offset_of(limit));
        EntryReader::new(file, HEADER_BYTES, header.base, end_offset).at(&found.path)
    }

    fn read(&mut self, index: usize, reader: &mut EntryReader, budget: usize) -> Result<Stop, OpenError> {
        let limit = self.limit(index);
        for _ in 0..budget {
            if limit == Some(reader.position()) {
                return Ok(Stop::Limit);
            }
            match reader.next_entry().at(&self.found[index].path)? {
                Decoded::Entry(entry) => self.scan.count(&entry),
                Decoded::Bad(damage) => return Ok(Stop::Damage(damage)),
                Decoded::Nothing | Decoded::Needs(_) => return Ok(Stop::Damage(Damage::Zeros)),
            }
        }
        Ok(Stop::Budget)
    }

    /// The first segment from `index` on that claims that something behind `position` was synced.
    fn claims_behind(&self, index: usize, position: u64) -> Result<Option<&Found>, OpenError> {
        for found in &self.found[index..] {
            let file = self.disk.open(&found.path).at(&found.path)?;
            let header = found.in_use();
            let in_header = header.is_some_and(|header| header.synced > position);
            if !in_header && found.is_zero_from(self.disk.as_ref(), HEADER_BYTES)? {
                continue;
            }
            let content = read_from(file.as_ref(), HEADER_BYTES).at(&found.path)?;
            if in_header || claims(&content, header.map(|header| header.base), position) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Nothing behind what was read was acknowledged: settles where the stream ends.
    fn finish(&mut self) -> Result<(), OpenError> {
        let scan = &mut self.scan;
        scan.end = scan.extents.last().map_or(0, |extent| extent.end);
        if let Some((begin, _)) = scan.incomplete {
            scan.end = begin;
            while scan.extents.last().is_some_and(|extent| extent.header.base > begin) {
                scan.extents.pop();
            }
        }
        let behind = &self.found[scan.extents.len()..];
        scan.behind = behind.iter().map(|found| found.id).collect();
        let mut is_cut = behind.iter().any(|found| found.in_use().is_some());
        for (index, found) in behind.iter().enumerate() {
            let is_unused = found.is_zero_from(self.disk.as_ref(), 0)?;
            is_cut |= !is_unused;
            if index == 0 && is_unused {
                scan.prepared = Some((found.id, found.file_bytes));
            }
        }
        let Some(extent) = scan.extents.last_mut() else { return Ok(()) };
        extent.end = scan.end;
        let (offset, found) = (extent.header.offset_of(scan.end), &self.found[scan.extents.len() - 1]);
        if is_cut || !found.is_zero_from(self.disk.as_ref(), offset)? {
            scan.cut = Some(Cut { path: found.path.clone(), offset, position: scan.end });
        }
        Ok(())
    }
}

impl Scan {
    fn count(&mut self, entry: &Entry<'_>) {
        let (begin, entries) = self.incomplete.take().unwrap_or((entry.position, 0));
        self.synced = self.synced.max(entry.synced.unwrap_or(0));
        if entry.more {
            self.incomplete = Some((begin, entries + 1));
            return;
        }
        self.entries += entries + 1;
        // An append is of one partition.
        self.last_of.insert(entry.partition, entry.position);
    }
}

impl Found {
    fn in_use(&self) -> Option<Header> {
        if let DecodedHeader::Header(header) = self.header { Some(header) } else { None }
    }

    fn is_zero_from(&self, disk: &dyn Disk, offset: u64) -> Result<bool, OpenError> {
        let file = disk.open(&self.path).at(&self.path)?;
        let zeros = vec![0; 256 << 10];
        let mut chunk = zeros.clone();
        let mut offset = offset;
        loop {
            let length = file.read_at(offset, &mut chunk).at(&self.path)?;
            if chunk[..length] != zeros[..length] {
                return Ok(false);
            }
            if length == 0 {
                return Ok(true);
            }
            offset += length as u64;
        }
    }
}

fn find(disk: &dyn Disk, folder: &str, stream: u32) -> Result<Vec<Found>, OpenError> {
    let mut ids: Vec<_> =
        disk.list(folder).at(folder)?.iter().filter_map(|name| SegmentId::of_file_name(name)).collect();
    ids.sort_unstable();
    let mut found = Vec::with_capacity(ids.len());
    let mut next = ids.first().copied();
    for id in ids {
        let path = join(folder, &id.file_name());
        if next != Some(id) {
            return Err(misplaced(&path, "the segment before it is missing"));
        }
        next = Some(id.next());
        let file = disk.open(&path).at(&path)?;
        let mut block = vec![0; HEADER_BYTES as usize];
        let length = file.read_at(0, &mut block).at(&path)?;
        let header = Header::decode(&block[..length]);
        match header {
            DecodedHeader::Version(version) => return Err(OpenError::Version { path, version }),
            DecodedHeader::Header(header) if (header.stream, header.id) != (stream, id) => {
                return Err(misplaced(&path, "it is a segment of another place"));
            }
            _ => {}
        }
        found.push(Found { id, header, file_bytes: file.length().at(&path)?, path });
    }
    Ok(found)
}

fn misplaced(path: &str, problem: &str) -> OpenError {
    OpenError::Misplaced { path: path.to_owned(), problem: problem.to_owned() }
}

fn read_from(file: &dyn DiskFile, offset: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.length()?.saturating_sub(offset) as usize];
    let length = file.read_at(offset, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Whether some entry in `bytes`, at any place, claims that something behind `position` was synced. `base` is the position
/// of the first byte, if that is known.
fn claims(bytes: &[u8], base: Option<u64>, position: u64) -> bool {
    let plausible = position..position + (1 << 40);
    bytes.windows(ENTRY_HEADER_BYTES).enumerate().any(|(at, header)| {
        let stored = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
        let may_be = base.map_or_else(|| plausible.contains(&stored), |base| stored == base + at as u64);
        may_be
            && matches!(
                decode(&bytes[at..], stored, (bytes.len() - at) as u64),
                Decoded::Entry(entry) if entry.synced > Some(position)
            )
    })
}

#[cfg(test)]
#[path = "scan_tests.rs"]
pub(super) mod tests;
