//! The disk in memory: what was synced and what was not are kept apart, so that [`MemoryDisk::crash`] can give each image
//! that a power failure may leave. Not how an image is chosen: [`super::image`].

use std::collections::BTreeMap;
use std::io::{self, Error, ErrorKind};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

use super::image::{FolderOperation, Inode};
use crate::journal::disk::{Disk, DiskFile, Lock, join};

/// What goes wrong at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write finds no space: half of it is done.
    Full,
    /// A write or sync fails; of a write a part may be done.
    Failing,
    /// The power fails: this and all later steps fail, [`MemoryDisk::crash`] gives what is left.
    PowerOff,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) folders: BTreeMap<String, Folder>,
    next_inode: u64,
    steps: u64,
    faults: BTreeMap<u64, Fault>,
    is_off: bool,
    capacity_bytes: Option<u64>,
    is_locked: bool,
    open_files: usize,
    most_open_files: usize,
}

/// Names of a folder.
#[derive(Clone, Default)]
pub(super) struct Folder {
    pub(super) now: BTreeMap<String, u64>,
    pub(super) synced: BTreeMap<String, u64>,
    pub(super) since: Vec<FolderOperation>,
}

impl MemoryDisk {
    /// A disk with an empty folder, durably.
    pub fn with_folder(name: &str) -> MemoryDisk {
        let disk = MemoryDisk::default();
        disk.create_folder(name).and_then(|()| disk.sync_folder("")).expect("nothing fails");
        disk
    }

    /// Steps (writes, syncs, creations, renames, removals) so far.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// The step with this number, counted from 0, goes wrong.
    pub fn fail_at(&self, step: u64, fault: Fault) {
        self.state().faults.insert(step, fault);
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// How many files were open at a time, at most.
    pub fn most_open_files(&self) -> usize {
        self.state().most_open_files
    }

    /// Bytes that all files together may have; `None`: no bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity_bytes = bytes;
    }

    /// A disk as a power failure may leave this one, now: everything that was synced, and of the rest what `choose(n)` says,
    /// a number below n for each question.
    pub fn crash(&self, choose: &mut dyn FnMut(u64) -> u64) -> MemoryDisk {
        let state = self.state();
        let mut image = State { next_inode: state.next_inode, ..State::default() };
        for (name, folder) in &state.folders {
            let names = folder.crash(choose);
            image.folders.insert(name.clone(), Folder { synced: names.clone(), now: names, since: Vec::new() });
        }
        let named: Vec<_> = image.folders.iter().flat_map(|(path, folder)| folder.folders(path)).collect();
        image.folders.retain(|path, _| path.is_empty() || named.contains(path));
        // Emptied, and the removal of its name is lost.
        for path in named {
            image.folders.entry(path).or_default();
        }
        let named = image.folders.values().flat_map(|folder| folder.now.values());
        for number in named.filter(|number| **number != FOLDER) {
            image.inodes.insert(*number, state.inodes[number].crash(choose));
        }
        drop(state);
        MemoryDisk(Arc::new(Mutex::new(image)))
    }

    /// A disk as the end of the process, but not of the machine, leaves this one: nothing is lost.
    pub fn killed(&self) -> MemoryDisk {
        let state = self.state();
        let folders = state.folders.clone();
        let mut image = State { next_inode: state.next_inode, folders, ..State::default() };
        for number in image.folders.values().flat_map(Folder::inodes) {
            image.inodes.insert(number, state.inodes[&number].clone());
        }
        drop(state);
        MemoryDisk(Arc::new(Mutex::new(image)))
    }

    /// Writes through a file's number, as the core's ring would.
    pub fn write(&self, fd: RawFd, offset: u64, data: &[u8]) -> io::Result<()> {
        self.state().write(fd as u64, offset, data)
    }

    /// Syncs a file by its number.
    pub fn sync(&self, fd: RawFd) -> io::Result<()> {
        self.state().sync(fd as u64)
    }

    /// Changes bytes of a file behind everyone's back.
    pub fn damage(&self, path: &str, offset: u64, change: impl FnOnce(&mut [u8])) {
        let mut state = self.state();
        let number = state.find(path).expect("the file is there");
        state.inodes.get_mut(&number).expect("an inode").damage(offset as usize, change);
    }

    /// All files.
    pub fn paths(&self) -> Vec<String> {
        let state = self.state();
        let in_folder =
            |(folder, names): (&String, &Folder)| names.now.keys().map(|name| join(folder, name)).collect::<Vec<_>>();
        state.folders.iter().flat_map(in_folder).filter(|path| !state.folders.contains_key(path)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while it is held")
    }
}

/// In place of an inode: the name is a folder's.
pub(super) const FOLDER: u64 = u64::MAX;

impl State {
    fn step(&mut self) -> io::Result<Option<Fault>> {
        if self.is_off {
            return Err(Error::other("the power is off"));
        }
        let step = self.steps;
        self.steps += 1;
        let fault = self.faults.remove(&step);
        self.is_off |= fault == Some(Fault::PowerOff);
        Ok(fault)
    }

    /// For steps that have no halfway.
    fn plain_step(&mut self) -> io::Result<()> {
        match self.step()? {
            None => Ok(()),
            Some(Fault::Full) => Err(Error::from(ErrorKind::StorageFull)),
            Some(Fault::Failing | Fault::PowerOff) => Err(Error::from_raw_os_error(5)),
        }
    }

    fn find(&self, path: &str) -> io::Result<u64> {
        let (folder, name) = split(path);
        let number = self.folders.get(folder).and_then(|folder| folder.now.get(name));
        number
            .copied()
            .filter(|number| *number != FOLDER)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, path.to_owned()))
    }

    fn change(&mut self, folder: &str, operation: FolderOperation) -> io::Result<()> {
        if !folder.is_empty() && !self.folders.contains_key(folder) {
            return Err(Error::new(ErrorKind::NotFound, folder.to_owned()));
        }
        self.plain_step()?;
        let folder = self.folders.entry(folder.to_owned()).or_default();
        operation.apply(&mut folder.now);
        folder.since.push(operation);
        Ok(())
    }

    fn write(&mut self, number: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        let fault = self.step()?;
        let used: u64 = self.inodes.values().map(Inode::length).sum();
        let inode = self.inodes.get_mut(&number).expect("an open file");
        let grows = (offset + data.len() as u64).saturating_sub(inode.length());
        if self.capacity_bytes.is_some_and(|capacity| grows > 0 && used + grows > capacity) {
            return Err(Error::from(ErrorKind::StorageFull));
        }
        match fault {
            None => inode.write(offset as usize, data),
            Some(Fault::Full) => {
                inode.write(offset as usize, &data[..data.len() / 2]);
                return Err(Error::from(ErrorKind::StorageFull));
            }
            Some(Fault::Failing | Fault::PowerOff) => {
                inode.write(offset as usize, data);
                return Err(Error::from_raw_os_error(5));
            }
        }
        Ok(())
    }

    /// A sync that fails loses what it should have kept, and the next one would not notice.
    fn sync(&mut self, number: u64) -> io::Result<()> {
        let done = self.plain_step();
        let is_off = self.is_off;
        let inode = self.inodes.get_mut(&number).expect("an open file");
        match done {
            Ok(()) => inode.sync(),
            Err(_) if !is_off => inode.forget(),
            Err(_) => {}
        }
        done
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Disk for MemoryDisk {
    fn create_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.state();
        if folder.is_empty() || state.folders.contains_key(folder) {
            state.folders.entry(folder.to_owned()).or_default();
            return Ok(());
        }
        let (parent, name) = split(folder);
        state.change(parent, FolderOperation::Put(name.to_owned(), FOLDER))?;
        state.folders.insert(folder.to_owned(), Folder::default());
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let names = state.folders.get(folder).map(|folder| folder.now.keys().cloned().collect());
        names.ok_or_else(|| Error::new(ErrorKind::NotFound, folder.to_owned()))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let number = state.find(path)?;
        Ok(Box::new(MemoryFile::new(self, &mut state, number)))
    }

    fn open_for_writing(&self, path: &str, _: bool) -> io::Result<Box<dyn DiskFile>> {
        self.open(path)
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let (folder, name) = split(path);
        let number = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(number, Inode::default());
        state.change(folder, FolderOperation::Put(name.to_owned(), number))?;
        Ok(Box::new(MemoryFile::new(self, &mut state, number)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let number = state.find(from)?;
        let ((folder, from), (same, to)) = (split(from), split(to));
        assert_eq!(folder, same, "a journal renames within a folder");
        state.change(folder, FolderOperation::Rename(from.to_owned(), to.to_owned(), number))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        state.find(path)?;
        let (folder, name) = split(path);
        state.change(folder, FolderOperation::Remove(name.to_owned()))
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        for name in self.list(folder)? {
            let path = join(folder, &name);
            if self.state().folders.contains_key(&path) {
                self.remove_folder(&path)?;
            } else {
                self.remove(&path)?;
            }
        }
        let (parent, name) = split(folder);
        let mut state = self.state();
        state.change(parent, FolderOperation::Remove(name.to_owned()))?;
        state.folders.remove(folder);
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.state();
        state.plain_step()?;
        let folder = state.folders.get_mut(folder).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
        folder.synced = folder.now.clone();
        folder.since.clear();
        Ok(())
    }

    fn lock(&self, _: &str) -> io::Result<Box<dyn Lock>> {
        if std::mem::replace(&mut self.state().is_locked, true) {
            return Err(Error::from(ErrorKind::WouldBlock));
        }
        Ok(Box::new(MemoryLock(self.clone())))
    }
}

struct MemoryLock(MemoryDisk);

impl Lock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.state().is_locked = false;
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    number: u64,
}

impl MemoryFile {
    fn new(disk: &MemoryDisk, state: &mut State, number: u64) -> MemoryFile {
        state.open_files += 1;
        state.most_open_files = state.most_open_files.max(state.open_files);
        MemoryFile { disk: disk.clone(), number }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.disk.state().open_files -= 1;
    }
}

impl DiskFile for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[&self.number].length())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.disk.state().inodes[&self.number].read(offset as usize, buffer))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.state().write(self.number, offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().sync(self.number)
    }

    fn fd(&self) -> RawFd {
        self.number as RawFd
    }
}
