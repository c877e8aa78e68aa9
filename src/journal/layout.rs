//! The journal's folder: finds the generation that counts, makes the first one, and re-distributes to another number of
//! streams by writing a new generation beside the old one and switching the MANIFEST. A crash at any step leaves the old
//! generation or the new one, whole; the next start removes the other.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use super::disk::{ASIDE, Disk, DiskFile, Lock, join};
use super::entry::Entry;
use super::failure::{At, OpenError};
use super::manifest::{Manifest, generation_of_folder};
use super::replay::{Progress, Replay, Replayed};
use super::snapshot::{self, SnapshotId, SnapshotWriter};

/// The file that is locked while a server works in the folder.
pub const LOCK_FILE_NAME: &str = "LOCK";

/// Written at once, for each partition, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Files that a copy keeps open at a time.
const OPEN_FILES_MAX: usize = 256;

/// How partitions are placed on streams.
#[derive(Clone, Copy)]
pub struct Placement<'a> {
    /// The number of streams: one for each core.
    pub streams: usize,
    /// Names the rule. A journal that was placed by another one is re-distributed.
    pub name: &'a str,
    /// The rule: a number below `streams` for each partition.
    pub stream_of: &'a dyn Fn(i32) -> usize,
}

/// A journal's folder, ready to be replayed.
pub struct Layout {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    lock: Arc<dyn Lock>,
}

impl Layout {
    /// Opens the folder, makes it if there is none, and re-distributes if it was placed otherwise; `progress` is told how far
    /// that is.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        disk: Arc<dyn Disk>,
        placement: Placement<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Layout, OpenError> {
        disk.create_folder("").at("")?;
        let lock = lock(disk.as_ref())?;
        let mut manifest = match Manifest::read(disk.as_ref())? {
            Some(manifest) => manifest,
            None => create(disk.as_ref(), placement)?,
        };
        remove_other_generations(disk.as_ref(), &manifest)?;
        if manifest.streams.len() != placement.streams || manifest.placement != placement.name {
            manifest = redistribute(&disk, &manifest, placement, progress)?;
        }
        Ok(Layout { disk, manifest, lock })
    }

    /// The replay of a core's stream. `partitions` are those that are placed on it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn replay(&self, core: usize, partitions: impl IntoIterator<Item = i32>) -> Result<Replay, OpenError> {
        let stream = self.manifest.streams[core];
        Replay::new(self.disk.clone(), &self.manifest.stream_folder(stream), stream, partitions)
    }

    /// What counts.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The disk, for the jobs of the streams.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// To be kept as long as anything works in the folder.
    pub fn lock(&self) -> Arc<dyn Lock> {
        self.lock.clone()
    }
}

pub(super) fn lock(disk: &dyn Disk) -> Result<Arc<dyn Lock>, OpenError> {
    match disk.lock(LOCK_FILE_NAME) {
        Ok(lock) => Ok(Arc::from(lock)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            Err(OpenError::Locked { path: LOCK_FILE_NAME.to_owned() })
        }
        Err(error) => Err(error).at(LOCK_FILE_NAME),
    }
}

/// The first generation. Without a MANIFEST nothing was ever kept here; if something was, the MANIFEST is lost.
fn create(disk: &dyn Disk, placement: Placement<'_>) -> Result<Manifest, OpenError> {
    for generation in disk.list("").at("")?.into_iter().filter(|name| generation_of_folder(name).is_some()) {
        for stream in disk.list(&generation).at(&generation)? {
            let folder = join(&generation, &stream);
            if !disk.list(&folder).at(&folder)?.is_empty() {
                let problem = format!("{} is missing, although there is a journal", super::manifest::FILE_NAME);
                return Err(OpenError::Misplaced { path: folder, problem });
            }
        }
    }
    let streams = (1..=placement.streams as u32).collect();
    let manifest = Manifest { generation: 1, streams, placement: placement.name.to_owned(), kept: Vec::new() };
    create_folders(disk, &manifest)?;
    manifest.write(disk)?;
    Ok(manifest)
}

pub(super) fn create_folders(disk: &dyn Disk, manifest: &Manifest) -> Result<(), OpenError> {
    let folder = manifest.folder();
    disk.create_folder(&folder).at(&folder)?;
    for stream in &manifest.streams {
        let folder = manifest.stream_folder(*stream);
        disk.create_folder(&folder).at(&folder)?;
    }
    disk.sync_folder(&folder).at(&folder)?;
    disk.sync_folder("").at("")
}

pub(super) fn remove_other_generations(disk: &dyn Disk, manifest: &Manifest) -> Result<(), OpenError> {
    // A run that was killed may have renamed the MANIFEST and not synced that: the older one would name what is removed here.
    disk.sync_folder("").at("")?;
    for name in disk.list("").at("")? {
        let stays = |other| other == manifest.generation || manifest.kept.contains(&other);
        if generation_of_folder(&name).is_some_and(|other| !stays(other)) {
            disk.remove_folder(&name).at(&name)?;
        }
    }
    disk.sync_folder("").at("")
}

fn redistribute(
    disk: &Arc<dyn Disk>,
    old: &Manifest,
    placement: Placement<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Manifest, OpenError> {
    let new = successor(old, placement.streams, placement.name);
    create_folders(disk.as_ref(), &new)?;
    let mut replays = Vec::with_capacity(old.streams.len());
    for stream in &old.streams {
        replays.push(Replay::new(disk.clone(), &old.stream_folder(*stream), *stream, [])?);
    }
    let mut copy = Copy::new(disk.as_ref(), &new);
    for index in 0..replays.len() {
        let mut failure = None;
        let mut take = |replayed: Replayed<'_>| {
            if let (Replayed::Entry(entry), None) = (replayed, &failure) {
                failure = copy.entry(&entry, (placement.stream_of)(entry.partition)).err();
            }
        };
        while replays[index].step(10_000, &mut take)? {
            progress(total(&replays));
        }
        failure.map_or(Ok(()), Err)?;
    }
    copy.finish()?;
    new.write(disk.as_ref())?;
    remove_other_generations(disk.as_ref(), &new)?;
    Ok(new)
}

/// The next generation: with streams of its own.
pub(super) fn successor(old: &Manifest, streams: usize, placement: &str) -> Manifest {
    let first = old.streams.iter().max().map_or(1, |last| last + 1);
    Manifest {
        generation: old.generation + 1,
        streams: (first..).take(streams).collect(),
        placement: placement.to_owned(),
        kept: old.kept.clone(),
    }
}

fn total(replays: &[Replay]) -> Progress {
    let each = replays.iter().map(Replay::progress);
    each.fold(Progress::default(), |sum, one| Progress {
        bytes_done: sum.bytes_done + one.bytes_done,
        bytes_total: sum.bytes_total + one.bytes_total,
        entries: sum.entries + one.entries,
    })
}

/// A new generation in the making: everything that there is of a partition, in order, as its snapshot. The next snapshot of it
/// will have each key once.
pub(super) struct Copy<'a> {
    disk: &'a dyn Disk,
    new: &'a Manifest,
    partitions: BTreeMap<i32, Target>,
    open_files: usize,
}

struct Target {
    writer: SnapshotWriter,
    aside: Aside,
}

/// A snapshot's file, not always open.
struct Aside {
    folder: String,
    id: SnapshotId,
    file: Option<Box<dyn DiskFile>>,
    offset: u64,
}

impl<'a> Copy<'a> {
    pub(super) fn new(disk: &'a dyn Disk, new: &'a Manifest) -> Self {
        Copy { disk, new, partitions: BTreeMap::new(), open_files: 0 }
    }

    /// `index`: of the stream among the new ones; the same for all entries of a partition.
    pub(super) fn entry(&mut self, entry: &Entry<'_>, index: usize) -> Result<(), OpenError> {
        let target = self.partitions.entry(entry.partition).or_insert_with(|| {
            let stream = self.new.streams[index];
            let id = SnapshotId { partition: entry.partition, covers: 0 };
            let writer = SnapshotWriter::new(stream, id, entry.leader_epoch);
            Target { writer, aside: Aside { folder: self.new.stream_folder(stream), id, file: None, offset: 0 } }
        });
        target.writer.copy(entry);
        if target.writer.pending_bytes() < PIECE_BYTES {
            return Ok(());
        }
        if target.aside.file.is_none() {
            if self.open_files == OPEN_FILES_MAX {
                self.close_files()?;
            }
            self.open_files += 1;
        }
        let Target { writer, aside } = self.partitions.get_mut(&entry.partition).expect("it was made above");
        aside.write(self.disk, &writer.take_piece())
    }

    /// What was written is synced before: once a file is opened again, a sync need not tell what failed earlier.
    fn close_files(&mut self) -> Result<(), OpenError> {
        for Target { aside, .. } in self.partitions.values_mut() {
            aside.file.take().map_or(Ok(()), |file| file.sync()).at(&aside.folder)?;
        }
        self.open_files = 0;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), OpenError> {
        let targets = self.partitions.into_values();
        let (open, closed): (Vec<_>, Vec<_>) = targets.partition(|target| target.aside.file.is_some());
        for Target { writer, mut aside } in open.into_iter().chain(closed) {
            aside.write(self.disk, &writer.finish(0, 0))?;
            let Aside { folder, id, file, .. } = aside;
            let file = file.expect("it was written to");
            file.sync().and_then(|()| snapshot::publish(self.disk, &folder, id)).at(&folder)?;
        }
        Ok(())
    }
}

impl Aside {
    fn write(&mut self, disk: &dyn Disk, piece: &[u8]) -> Result<(), OpenError> {
        let file = match self.file.take() {
            Some(file) => file,
            None if self.offset == 0 => snapshot::create_aside(disk, &self.folder, self.id).at(&self.folder)?,
            None => {
                let path = join(&self.folder, &format!("{}{ASIDE}", self.id.file_name()));
                disk.open_for_writing(&path, false).at(&path)?
            }
        };
        file.write_at(self.offset, piece).at(&self.folder)?;
        self.offset += piece.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
pub(super) mod tests;
