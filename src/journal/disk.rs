//! What a journal needs of a file system at start-up and in the background. Appends do not go this way: they are
//! [`super::store::StoreWrite`]s, for the core's ring. Implemented by `files` (feature `server`) and by
//! [`super::testing`].
//!
//! Paths are relative to the journal's folder, with `/` between the parts.

use std::io;
use std::os::fd::RawFd;

/// A folder of files.
pub trait Disk: Send + Sync {
    /// Makes a folder, unless it is there.
    fn create_folder(&self, folder: &str) -> io::Result<()>;

    /// Names of the files and folders in a folder, in no order.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Opens a file for reading.
    fn open(&self, path: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading and writing; `direct`: past the page cache, where the file system can do that.
    fn open_for_writing(&self, path: &str, direct: bool) -> io::Result<Box<dyn DiskFile>>;

    /// Makes an empty file, or empties one.
    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, in place of the one that is there.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Removes a folder and all in it.
    fn remove_folder(&self, folder: &str) -> io::Result<()>;

    /// Makes what was created, renamed and removed in a folder durable.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;

    /// Keeps another process from working in the folder until the lock is dropped; an error of the kind `WouldBlock` if
    /// another one does.
    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>>;
}

/// Held as long as it lives.
pub trait Lock: Send + Sync {}

/// An open file.
pub trait DiskFile: Send {
    /// Its size in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on, up to the end of the file; returns how much that was.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `data`.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes its data and size durable.
    fn sync(&self) -> io::Result<()>;

    /// For the core's ring.
    fn fd(&self) -> RawFd;
}

/// Writes a whole small file so that a crash leaves the old or the new one.
pub fn replace(disk: &dyn Disk, folder: &str, name: &str, data: &[u8]) -> io::Result<()> {
    let (aside, path) = (join(folder, &format!("{name}{ASIDE}")), join(folder, name));
    let file = disk.create(&aside)?;
    file.write_at(0, data)?;
    file.sync()?;
    disk.rename(&aside, &path)?;
    disk.sync_folder(folder)
}

/// Reads a whole file.
pub fn read(disk: &dyn Disk, path: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let mut data = vec![0; file.length()? as usize];
    let length = file.read_at(0, &mut data)?;
    data.truncate(length);
    Ok(data)
}

/// `folder/name`; the name alone in the journal's own folder, which is the empty string.
pub fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Ending of files that are being written and do not count yet.
pub const ASIDE: &str = ".new";
