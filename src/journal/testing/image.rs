//! What a power failure leaves of one file and of one folder. Sectors of unsynced writes reach the disk in any order or not
//! at all; a sector is written whole; a folder's changes survive in order, as a journalling file system has it.

use std::collections::BTreeMap;

use super::disk::{FOLDER, Folder};
use crate::journal::disk::join;

/// Written whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A file's content.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Since the last sync: offset and data.
    since: Vec<(usize, Vec<u8>)>,
}

/// A change of a folder.
#[derive(Clone, Debug)]
pub(super) enum FolderOperation {
    /// A name for an inode, maybe in place of another.
    Put(String, u64),
    /// From, to, inode.
    Rename(String, String, u64),
    Remove(String),
}

impl FolderOperation {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            FolderOperation::Put(name, number) => {
                names.insert(name.clone(), *number);
            }
            FolderOperation::Rename(from, to, number) => {
                names.remove(from);
                names.insert(to.clone(), *number);
            }
            FolderOperation::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl Folder {
    /// The folders in this one, which is at `path`.
    pub(super) fn folders(&self, path: &str) -> Vec<String> {
        let folders = self.now.iter().filter(|(_, number)| **number == FOLDER);
        folders.map(|(name, _)| join(path, name)).collect()
    }

    /// All that a name stands for, now or after a failure of the power.
    pub(super) fn inodes(&self) -> impl Iterator<Item = u64> {
        let since = self.since.iter().filter_map(|operation| match operation {
            FolderOperation::Put(_, number) | FolderOperation::Rename(_, _, number) => Some(number),
            FolderOperation::Remove(_) => None,
        });
        self.now.values().chain(self.synced.values()).chain(since).copied().filter(|number| *number != FOLDER)
    }

    pub(super) fn crash(&self, choose: &mut dyn FnMut(u64) -> u64) -> BTreeMap<String, u64> {
        let mut names = self.synced.clone();
        let survive = choose(self.since.len() as u64 + 1) as usize;
        self.since[..survive].iter().for_each(|operation| operation.apply(&mut names));
        names
    }
}

impl Inode {
    pub(super) fn length(&self) -> u64 {
        self.now.len() as u64
    }

    pub(super) fn read(&self, offset: usize, buffer: &mut [u8]) -> usize {
        let from = &self.now[offset.min(self.now.len())..];
        let length = from.len().min(buffer.len());
        buffer[..length].copy_from_slice(&from[..length]);
        length
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        put(&mut self.now, offset, data);
        self.since.push((offset, data.to_vec()));
    }

    pub(super) fn sync(&mut self) {
        for (offset, data) in self.since.drain(..) {
            put(&mut self.synced, offset, &data);
        }
    }

    /// What is not synced yet never will be.
    pub(super) fn forget(&mut self) {
        self.since.clear();
    }

    pub(super) fn damage(&mut self, offset: usize, change: impl FnOnce(&mut [u8])) {
        change(&mut self.now[offset..]);
        self.synced.clone_from(&self.now);
        self.since.clear();
    }

    pub(super) fn crash(&self, choose: &mut dyn FnMut(u64) -> u64) -> Inode {
        let mut left = self.synced.clone();
        // Of three failures one loses all and one nothing: the ends of the scale are too rare by sectors alone.
        let fate = if self.since.is_empty() { 0 } else { choose(3) };
        for (offset, data) in &self.since {
            let mut at = 0;
            while at < data.len() {
                let length = (SECTOR_BYTES - (offset + at) % SECTOR_BYTES).min(data.len() - at);
                if fate == 1 || (fate == 2 && choose(2) == 1) {
                    put(&mut left, offset + at, &data[at..at + length]);
                }
                at += length;
            }
        }
        Inode { now: left.clone(), synced: left, since: Vec::new() }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if content.len() < offset + data.len() {
        content.resize(offset + data.len(), 0);
    }
    content[offset..offset + data.len()].copy_from_slice(data);
}
