//! Work on files that may block for long, so that it is done beside the core: preparing and removing segments, writing
//! snapshots. A job is made by [`super::stream`], run anywhere, in order, and its end goes back to the stream.

use std::collections::BTreeMap;
use std::io;

use super::block::BlockBuffer;
use super::disk::{ASIDE, Disk, DiskFile, join};
use super::segment::SegmentId;
use super::snapshot::{self, SnapshotId};

/// Zeros are written in pieces of this size, one after the other, so that a journal's write never waits for more than one.
const ZEROS_BYTES: usize = 256 << 10;

/// Something to do on the disk.
#[derive(Debug)]
pub struct Job {
    folder: String,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Prepare { id: SegmentId, file_bytes: u64, direct: bool },
    Remove { bases: BTreeMap<SegmentId, u64>, keep: SegmentId },
    WriteSnapshot { id: SnapshotId, offset: u64, piece: Vec<u8>, is_last: bool },
    DropSnapshot { id: SnapshotId },
    RemoveSnapshots { superseded: Vec<SnapshotId> },
}

/// How a job ended.
pub struct JobDone(pub(super) Done);

pub(super) enum Done {
    Prepared(SegmentId, io::Result<Box<dyn DiskFile>>),
    Removed(BTreeMap<SegmentId, u64>, io::Result<()>),
    Snapshot { id: SnapshotId, is_last: bool, file_bytes: u64, result: io::Result<()> },
    Dropped,
}

impl Job {
    pub(super) fn prepare(folder: &str, id: SegmentId, file_bytes: u64, direct: bool) -> Job {
        Job { folder: folder.to_owned(), work: Work::Prepare { id, file_bytes, direct } }
    }

    /// Segments and their first positions; `keep` is the next one, which will be the first.
    pub(super) fn remove(folder: &str, bases: BTreeMap<SegmentId, u64>, keep: SegmentId) -> Job {
        Job { folder: folder.to_owned(), work: Work::Remove { bases, keep } }
    }

    pub(super) fn write_snapshot(folder: &str, id: SnapshotId, offset: u64, piece: Vec<u8>, is_last: bool) -> Job {
        Job { folder: folder.to_owned(), work: Work::WriteSnapshot { id, offset, piece, is_last } }
    }

    pub(super) fn drop_snapshot(folder: &str, id: SnapshotId) -> Job {
        Job { folder: folder.to_owned(), work: Work::DropSnapshot { id } }
    }

    /// Snapshots that there are newer ones of; what cannot be removed now goes with the next one.
    pub(super) fn remove_snapshots(folder: &str, superseded: Vec<SnapshotId>) -> Job {
        Job { folder: folder.to_owned(), work: Work::RemoveSnapshots { superseded } }
    }

    /// Does it.
    pub fn run(self, disk: &dyn Disk) -> JobDone {
        let folder = &self.folder;
        JobDone(match self.work {
            Work::Prepare { id, file_bytes, direct } => {
                Done::Prepared(id, prepare(disk, folder, id, file_bytes, direct))
            }
            Work::Remove { mut bases, keep } => {
                let result = remove(disk, folder, &mut bases, keep);
                Done::Removed(bases, result)
            }
            Work::WriteSnapshot { id, offset, piece, is_last } => {
                let result = write_snapshot(disk, folder, id, offset, &piece, is_last);
                Done::Snapshot { id, is_last, file_bytes: offset + piece.len() as u64, result }
            }
            Work::DropSnapshot { id } => {
                let _ = disk.remove(&join(folder, &format!("{}{ASIDE}", id.file_name())));
                Done::Dropped
            }
            Work::RemoveSnapshots { superseded } => {
                superseded.iter().for_each(|id| drop(disk.remove(&join(folder, &id.file_name()))));
                Done::Dropped
            }
        })
    }
}

/// Makes a segment's file: all zeros, durable, opened for appends. Zeros are written, not only allocated: a write into
/// allocated room must change the file system's metadata before it is durable (docs/decisions/0010-journal-writes.md).
pub(super) fn prepare(
    disk: &dyn Disk,
    folder: &str,
    id: SegmentId,
    file_bytes: u64,
    direct: bool,
) -> io::Result<Box<dyn DiskFile>> {
    let path = join(folder, &id.file_name());
    let aside = format!("{path}{ASIDE}");
    disk.create(&aside)?;
    let file = disk.open_for_writing(&aside, direct)?;
    let zeros = BlockBuffer::zeros(ZEROS_BYTES);
    let mut offset = 0;
    while offset < file_bytes {
        let length = (file_bytes - offset).min(ZEROS_BYTES as u64) as usize;
        if let Err(error) = file.write_at(offset, &zeros[..length]) {
            let _ = disk.remove(&aside);
            return Err(error);
        }
        offset += length as u64;
    }
    file.sync()?;
    disk.rename(&aside, &path)?;
    disk.sync_folder(folder)?;
    Ok(file)
}

/// One after the other from the oldest on, each for certain before the next: a log without its middle or without a header to
/// begin with would not open. What is left in `bases` is still there.
fn remove(disk: &dyn Disk, folder: &str, bases: &mut BTreeMap<SegmentId, u64>, keep: SegmentId) -> io::Result<()> {
    disk.open(&join(folder, &keep.file_name()))?.sync()?;
    while let Some(first) = bases.first_entry() {
        match disk.remove(&join(folder, &first.key().file_name())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => disk.sync_folder(folder)?,
        }
        first.remove();
    }
    Ok(())
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
