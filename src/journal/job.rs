//! Work on files that may block for long, so that it is done beside the core: preparing and removing segments, writing
//! snapshots. A job is made by [`super::stream`], run anywhere, in order, and its end goes back to the stream.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use super::block::BlockBuffer;
use super::disk::{ASIDE, Disk, DiskFile, join};
use super::segment::SegmentId;
use super::snapshot::{self, SnapshotId};

/// Zeros are written in pieces of this size, one after the other, so that a journal's write never waits for more than one.
const ZEROS_BYTES: usize = 256 << 10;

/// Begin of the names of segments that went and wait to be used again.
const SPARE: &str = "spare-";

/// How many wait at most: what a round of snapshots sets free.
const SPARES_MAX: usize = 4;

/// Something to do on the disk.
#[derive(Debug)]
pub struct Job {
    folder: String,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Prepare { id: SegmentId, zeros: Range<u64>, file_bytes: u64, direct: bool },
    Remove { bases: BTreeMap<SegmentId, u64>, keep: SegmentId, file_bytes: u64 },
    WriteSnapshot { taking: u64, id: SnapshotId, offset: u64, piece: Vec<u8>, is_last: bool },
    DropSnapshot { id: SnapshotId },
    RemoveSnapshots { superseded: Vec<SnapshotId> },
    RemoveSpares,
}

/// How a job ended.
pub struct JobDone(pub(super) Done);

pub(super) enum Done {
    /// Zeros up to there; the file once it has all.
    Prepared(SegmentId, u64, io::Result<Option<Box<dyn DiskFile>>>),
    Removed(BTreeMap<SegmentId, u64>, io::Result<()>),
    /// Of the [`super::taking::Taking`] with this number.
    Snapshot {
        taking: u64,
        is_last: bool,
        file_bytes: u64,
        result: io::Result<()>,
    },
    Dropped,
}

impl Job {
    /// Some zeros of a segment's file of so many; the last ones make it a segment.
    pub(super) fn prepare(folder: &str, id: SegmentId, zeros: Range<u64>, file_bytes: u64, direct: bool) -> Job {
        Job { folder: folder.to_owned(), work: Work::Prepare { id, zeros, file_bytes, direct } }
    }

    /// Segments and their first positions; `keep` is the next one, which will be the first. Some of `file_bytes` are used again.
    pub(super) fn remove(folder: &str, bases: BTreeMap<SegmentId, u64>, keep: SegmentId, file_bytes: u64) -> Job {
        Job { folder: folder.to_owned(), work: Work::Remove { bases, keep, file_bytes } }
    }

    pub(super) fn write_snapshot(
        folder: &str,
        taking: u64,
        id: SnapshotId,
        offset: u64,
        piece: Vec<u8>,
        is_last: bool,
    ) -> Job {
        Job { folder: folder.to_owned(), work: Work::WriteSnapshot { taking, id, offset, piece, is_last } }
    }

    pub(super) fn drop_snapshot(folder: &str, id: SnapshotId) -> Job {
        Job { folder: folder.to_owned(), work: Work::DropSnapshot { id } }
    }

    /// Snapshots that there are newer ones of; what cannot be removed now goes with the next one.
    pub(super) fn remove_snapshots(folder: &str, superseded: Vec<SnapshotId>) -> Job {
        Job { folder: folder.to_owned(), work: Work::RemoveSnapshots { superseded } }
    }

    /// The room that is kept for the next segments.
    pub(super) fn remove_spares(folder: &str) -> Job {
        Job { folder: folder.to_owned(), work: Work::RemoveSpares }
    }

    /// Does it.
    pub fn run(self, disk: &dyn Disk) -> JobDone {
        let folder = &self.folder;
        JobDone(match self.work {
            Work::Prepare { id, zeros, file_bytes, direct } => {
                let end = zeros.end;
                Done::Prepared(id, end, prepare(disk, folder, id, zeros, file_bytes, direct))
            }
            Work::Remove { mut bases, keep, file_bytes } => {
                let result = remove(disk, folder, &mut bases, keep, file_bytes);
                Done::Removed(bases, result)
            }
            Work::WriteSnapshot { taking, id, offset, piece, is_last } => {
                let result = write_snapshot(disk, folder, id, offset, &piece, is_last);
                Done::Snapshot { taking, is_last, file_bytes: offset + piece.len() as u64, result }
            }
            Work::DropSnapshot { id } => {
                let _ = disk.remove(&join(folder, &format!("{}{ASIDE}", id.file_name())));
                Done::Dropped
            }
            Work::RemoveSnapshots { superseded } => {
                superseded.iter().for_each(|id| drop(disk.remove(&join(folder, &id.file_name()))));
                Done::Dropped
            }
            Work::RemoveSpares => {
                spares(disk, folder).iter().flatten().for_each(|spare| drop(disk.remove(spare)));
                Done::Dropped
            }
        })
    }
}

/// Fills a part of a segment's file with zeros; with the last part it is durable, has its name and is given opened for appends.
/// Zeros are written, not only allocated: a write into allocated room must change the file system's metadata before it is durable
/// (docs/decisions/0010-journal-writes.md).
pub(super) fn prepare(
    disk: &dyn Disk,
    folder: &str,
    id: SegmentId,
    zeros: Range<u64>,
    file_bytes: u64,
    direct: bool,
) -> io::Result<Option<Box<dyn DiskFile>>> {
    let path = join(folder, &id.file_name());
    let aside = format!("{path}{ASIDE}");
    let is_last = zeros.end == file_bytes;
    if zeros.start == 0 {
        match spares(disk, folder)?.pop() {
            Some(spare) => {
                // Else a power failure could bring it back as the segment that it was, with zeros in it.
                disk.sync_folder(folder)?;
                disk.rename(&spare, &aside)?;
            }
            None => drop(disk.create(&aside)?),
        }
    }
    let file = disk.open_for_writing(&aside, direct)?;
    if let Err(error) = fill(file.as_ref(), zeros) {
        let _ = disk.remove(&aside);
        return Err(error);
    }
    if !is_last {
        return Ok(None);
    }
    file.sync()?;
    disk.rename(&aside, &path)?;
    disk.sync_folder(folder)?;
    Ok(Some(file))
}

fn fill(file: &dyn DiskFile, zeros: Range<u64>) -> io::Result<()> {
    let piece = BlockBuffer::zeros(ZEROS_BYTES);
    let mut offset = zeros.start;
    while offset < zeros.end {
        let length = (zeros.end - offset).min(ZEROS_BYTES as u64);
        file.write_at(offset, &piece[..length as usize])?;
        offset += length;
    }
    Ok(())
}

/// One after the other from the oldest on, each for certain before the next: a log without its middle or without a header to
/// begin with would not open. What is left in `bases` is still there.
///
/// Some are kept as room for the next segments. A file system that is mounted with `discard` would tell the disk of each that goes,
/// and that can hold up the log for milliseconds.
fn remove(
    disk: &dyn Disk,
    folder: &str,
    bases: &mut BTreeMap<SegmentId, u64>,
    keep: SegmentId,
    file_bytes: u64,
) -> io::Result<()> {
    disk.open(&join(folder, &keep.file_name()))?.sync()?;
    let mut room = SPARES_MAX.saturating_sub(spares(disk, folder)?.len());
    while let Some(first) = bases.first_entry() {
        let id = *first.key();
        let path = join(folder, &id.file_name());
        let is_spare =
            room > 0 && disk.open(&path).and_then(|file| file.length()).is_ok_and(|bytes| bytes == file_bytes);
        let gone = if is_spare {
            room -= 1;
            disk.rename(&path, &join(folder, &format!("{SPARE}{:012}{ASIDE}", id.0))).or_else(|_| disk.remove(&path))
        } else {
            disk.remove(&path)
        };
        match gone {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => disk.sync_folder(folder)?,
        }
        first.remove();
    }
    Ok(())
}

/// Segments that went and wait to be used again, all of the same size. A start removes them.
fn spares(disk: &dyn Disk, folder: &str) -> io::Result<Vec<String>> {
    let names = disk.list(folder)?.into_iter().filter(|name| name.starts_with(SPARE));
    Ok(names.map(|name| join(folder, &name)).collect())
}

fn write_snapshot(
    disk: &dyn Disk,
    folder: &str,
    id: SnapshotId,
    offset: u64,
    piece: &[u8],
    is_last: bool,
) -> io::Result<()> {
    let file = if offset == 0 {
        snapshot::create_aside(disk, folder, id)?
    } else {
        disk.open_for_writing(&join(folder, &format!("{}{ASIDE}", id.file_name())), false)?
    };
    file.write_at(offset, piece)?;
    if is_last {
        file.sync()?;
        snapshot::publish(disk, folder, id)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
