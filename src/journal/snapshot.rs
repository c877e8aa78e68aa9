//! A snapshot: one file with the live records of one partition, so that the journal before it may go. Written aside, in
//! pieces, while the journal goes on; it counts once it has its name. The journal's own segments: [`super::segment`].
//!
//! A snapshot is taken while the state changes: each record is as of some moment between `covers` and `complete_at`, and
//! replaying the journal from `covers` on gives every key its last value. It gets its name only when the journal is durable
//! up to `complete_at`.
//!
//! ```text
//! header  8 bytes magic, u32 version, u32 stream, i32 partition, u64 covers, u32 CRC-32C
//! entries as in a segment; their positions are offsets in the file
//! footer  8 bytes magic, u64 entries, u64 complete_at, u64 synced, u32 CRC-32C (of header and footer)
//! ```

use super::disk::{ASIDE, Disk, DiskFile, join};
use super::entry::{Decoded, Entry, EntryWriter, length_at, seal};
use super::failure::{At, OpenError};
use super::reader::EntryReader;
use super::store::Entries;

const HEADER_BYTES: usize = 32;

/// Where the first entry is.
pub(super) const ENTRIES_OFFSET: usize = HEADER_BYTES;

/// Bytes behind the last entry.
pub(super) const FOOTER_BYTES: usize = 36;

const HEADER_MAGIC: [u8; 8] = *b"RALLYSNP";
const FOOTER_MAGIC: [u8; 8] = *b"RALLYEND";
const VERSION: u32 = 1;
const PREFIX: &str = "snapshot-";

/// What a snapshot is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    /// Offsets partition.
    pub partition: i32,
    /// Every entry of the partition that ends here or before is in it.
    pub covers: u64,
}

impl SnapshotId {
    /// Its file's name.
    pub fn file_name(self) -> String {
        format!("{PREFIX}{:05}-{:020}", self.partition, self.covers)
    }

    /// The snapshot that a file's name says; `None` if the file is something else.
    pub fn of_file_name(name: &str) -> Option<SnapshotId> {
        let (partition, covers) = name.strip_prefix(PREFIX)?.split_once('-')?;
        if covers.len() != 20 {
            return None;
        }
        Some(SnapshotId { partition: partition.parse().ok()?, covers: covers.parse().ok()? })
    }
}

/// Makes a snapshot's bytes, piece by piece.
#[derive(Debug)]
pub struct SnapshotWriter {
    header: [u8; HEADER_BYTES],
    id: SnapshotId,
    leader_epoch: i32,
    piece: Vec<u8>,
    /// Bytes that were taken before the piece.
    taken: u64,
    entries: u64,
    sealed: usize,
}

impl SnapshotWriter {
    /// Begins a snapshot. `leader_epoch` is put on all entries.
    pub fn new(stream: u32, id: SnapshotId, leader_epoch: i32) -> Self {
        let header = encode_header(stream, id);
        SnapshotWriter { header, id, leader_epoch, piece: header.to_vec(), taken: 0, entries: 0, sealed: HEADER_BYTES }
    }

    /// What it is of.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// Appends records.
    pub fn push(&mut self, records: &dyn Entries) {
        records.write(&mut EntryWriter::new(&mut self.piece, self.taken, self.id.partition, self.leader_epoch));
        self.seal();
    }

    /// Appends a copy of an entry.
    pub fn copy(&mut self, entry: &Entry<'_>) {
        let mut writer = EntryWriter::new(&mut self.piece, self.taken, entry.partition, entry.leader_epoch);
        match entry.value {
            Some(value) => {
                writer.record(|key| key.extend_from_slice(entry.key), |bytes| bytes.extend_from_slice(value))
            }
            None => writer.tombstone(|key| key.extend_from_slice(entry.key)),
        }
        self.seal();
    }

    /// Bytes that were not taken yet.
    pub fn pending_bytes(&self) -> usize {
        self.piece.len()
    }

    /// Takes what there is so far, to be written behind what was taken before.
    pub fn take_piece(&mut self) -> Vec<u8> {
        self.taken += self.piece.len() as u64;
        self.sealed = 0;
        std::mem::take(&mut self.piece)
    }

    /// The last piece. `complete_at` is the journal's position now, `synced` where it is synced once this has its name (0
    /// if it never is).
    pub fn finish(mut self, complete_at: u64, synced: u64) -> Vec<u8> {
        let mut footer = [0; FOOTER_BYTES];
        footer[..8].copy_from_slice(&FOOTER_MAGIC);
        footer[8..16].copy_from_slice(&self.entries.to_le_bytes());
        footer[16..24].copy_from_slice(&complete_at.to_le_bytes());
        footer[24..32].copy_from_slice(&synced.to_le_bytes());
        let checksum = footer_checksum(&self.header, &footer);
        footer[32..].copy_from_slice(&checksum.to_le_bytes());
        self.piece.extend_from_slice(&footer);
        self.piece
    }

    fn seal(&mut self) {
        let mut rest = &self.piece[self.sealed..];
        while let Some(length) = length_at(rest) {
            self.entries += 1;
            rest = &rest[length..];
        }
        seal(&mut self.piece[self.sealed..], None);
        self.sealed = self.piece.len();
    }
}

/// Reads a snapshot.
pub struct SnapshotReader {
    path: String,
    /// What it is of.
    pub id: SnapshotId,
    /// The journal's position when it was complete.
    pub complete_at: u64,
    /// How far the journal was synced for certain when it got its name.
    pub synced: u64,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    entries: u64,
    reader: EntryReader,
    end_offset: u64,
}

impl SnapshotReader {
    /// Opens a snapshot of a stream, and checks that it is whole but for its entries.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(disk: &dyn Disk, folder: &str, stream: u32, id: SnapshotId) -> Result<Self, OpenError> {
        let path = join(folder, &id.file_name());
        let misplaced = |problem: &str| OpenError::Misplaced { path: path.clone(), problem: problem.to_owned() };
        let file = disk.open(&path).at(&path)?;
        let file_bytes = file.length().at(&path)?;
        let Some(end_offset) = file_bytes.checked_sub(FOOTER_BYTES as u64).filter(|end| *end >= HEADER_BYTES as u64)
        else {
            return Err(misplaced("too short for a snapshot"));
        };
        let (mut header, mut footer) = ([0; HEADER_BYTES], [0; FOOTER_BYTES]);
        file.read_at(0, &mut header).at(&path)?;
        file.read_at(end_offset, &mut footer).at(&path)?;
        let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        if header[..8] == HEADER_MAGIC && version != VERSION {
            return Err(OpenError::Version { path, version });
        }
        if header != encode_header(stream, id) {
            return Err(misplaced("the header does not belong to a snapshot of this name and place"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().expect("eight bytes"));
        let stored = u32::from_le_bytes(footer[32..].try_into().expect("four bytes"));
        if footer[..8] != FOOTER_MAGIC || stored != footer_checksum(&header, &footer) {
            return Err(misplaced("the end of the snapshot is damaged"));
        }
        let reader = EntryReader::new(file, HEADER_BYTES as u64, HEADER_BYTES as u64, end_offset).at(&path)?;
        let (entries, complete_at, synced) = (u64_at(8), u64_at(16), u64_at(24));
        Ok(SnapshotReader { path, id, complete_at, synced, file_bytes, entries, reader, end_offset })
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// [`OpenError::Damaged`], and those of the file.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, OpenError> {
        let (offset, position) = (self.reader.offset(), self.reader.position());
        if offset == self.end_offset && self.entries == 0 {
            return Ok(None);
        }
        match self.reader.next_entry().at(&self.path)? {
            Decoded::Entry(entry) if self.entries > 0 => {
                self.entries -= 1;
                Ok(Some(entry))
            }
            Decoded::Bad(damage) => Err(OpenError::Damaged { path: self.path.clone(), offset, position, damage }),
            _ => Err(OpenError::Misplaced {
                path: self.path.clone(),
                problem: format!("at offset {offset} the snapshot does not have as many entries as it says"),
            }),
        }
    }

    /// Bytes of entries read so far.
    pub fn bytes_read(&self) -> u64 {
        self.reader.offset() - HEADER_BYTES as u64
    }
}

/// Gives a snapshot that was written aside its name, durably, and removes older ones of its partition.
///
/// # Errors
/// Those of the disk; the snapshot may have its name all the same.
pub fn publish(disk: &dyn Disk, folder: &str, id: SnapshotId) -> std::io::Result<()> {
    let name = id.file_name();
    disk.rename(&join(folder, &format!("{name}{ASIDE}")), &join(folder, &name))?;
    disk.sync_folder(folder)?;
    for other in disk.list(folder)? {
        if SnapshotId::of_file_name(&other)
            .is_some_and(|other| other.partition == id.partition && other.covers < id.covers)
        {
            disk.remove(&join(folder, &other))?;
        }
    }
    Ok(())
}

/// Makes the file that a snapshot is written aside in.
///
/// # Errors
/// Those of the disk.
pub fn create_aside(disk: &dyn Disk, folder: &str, id: SnapshotId) -> std::io::Result<Box<dyn DiskFile>> {
    disk.create(&join(folder, &format!("{}{ASIDE}", id.file_name())))
}

fn encode_header(stream: u32, id: SnapshotId) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&HEADER_MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&stream.to_le_bytes());
    header[16..20].copy_from_slice(&id.partition.to_le_bytes());
    header[20..28].copy_from_slice(&id.covers.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn footer_checksum(header: &[u8; HEADER_BYTES], footer: &[u8; FOOTER_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(header), &footer[..32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::testing::MemoryDisk;

    struct Numbered(std::ops::Range<u32>);

    impl Entries for Numbered {
        fn write(&self, entries: &mut EntryWriter<'_>) {
            for number in self.0.clone() {
                entries.record(|key| key.extend(number.to_le_bytes()), |value| value.push(1));
            }
        }
    }

    const ID: SnapshotId = SnapshotId { partition: 12, covers: 77 };

    fn written(pieces: u32) -> MemoryDisk {
        let disk = MemoryDisk::default();
        disk.create_folder("s").expect("a folder");
        let file = create_aside(&disk, "s", ID).expect("a file");
        let (mut writer, mut offset) = (SnapshotWriter::new(5, ID, 2), 0);
        for piece in 0..pieces {
            writer.push(&Numbered(piece * 10..piece * 10 + 10));
            let bytes = writer.take_piece();
            file.write_at(offset, &bytes).expect("a write");
            offset += bytes.len() as u64;
        }
        file.write_at(offset, &writer.finish(99, 88)).expect("a write");
        publish(&disk, "s", ID).expect("a name");
        disk
    }

    fn numbers(disk: &MemoryDisk) -> Result<Vec<u32>, OpenError> {
        let mut reader = SnapshotReader::open(disk, "s", 5, ID)?;
        assert_eq!((reader.complete_at, reader.synced), (99, 88));
        let mut numbers = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            assert_eq!((entry.partition, entry.leader_epoch), (12, 2));
            numbers.push(u32::from_le_bytes(entry.key.try_into().expect("four bytes")));
        }
        Ok(numbers)
    }

    #[test]
    fn pieces_make_a_snapshot() {
        for pieces in [0, 1, 3] {
            let disk = written(pieces);
            assert_eq!(numbers(&disk).expect("a snapshot"), (0..pieces * 10).collect::<Vec<_>>());
            assert_eq!(disk.list("s").expect("a folder"), [ID.file_name()]);
        }
        assert_eq!(SnapshotId::of_file_name(&ID.file_name()), Some(ID));
        assert_eq!(SnapshotId::of_file_name(&format!("{}{ASIDE}", ID.file_name())), None);
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_seen() {
        let path = join("s", &ID.file_name());
        let whole = crate::journal::disk::read(&written(1), &path).expect("a file");
        for at in 0..whole.len() {
            let disk = written(1);
            disk.damage(&path, at as u64, |bytes| bytes[0] ^= 0x10);
            numbers(&disk).expect_err(&format!("byte {at}"));
            let file = disk.create(&path).expect("a file");
            file.write_at(0, &whole[..at]).expect("a write");
            numbers(&disk).expect_err(&format!("cut at {at}"));
        }
    }

    #[test]
    fn an_older_snapshot_of_the_partition_goes() {
        let disk = written(1);
        let newer = SnapshotId { partition: 12, covers: 78 };
        let other = SnapshotId { partition: 13, covers: 80 };
        for id in [other, newer] {
            let file = create_aside(&disk, "s", id).expect("a file");
            file.write_at(0, &SnapshotWriter::new(5, id, 0).finish(99, 0)).expect("a write");
            publish(&disk, "s", id).expect("a name");
        }
        assert_eq!(disk.list("s").expect("a folder"), [newer.file_name(), other.file_name()]);
    }
}
