//! The journal's folder on a real file system, and the thread that does a stream's jobs. Appends do not go this way: the
//! core's ring writes them by [`DiskFile::fd`].
#![allow(clippy::disallowed_methods, reason = "used before a core serves, and on a thread of its own")]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use super::disk::{Disk, DiskFile, Lock};
use super::job::{Job, JobDone};

/// A folder of the file system.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The journal's folder; it is made when the journal is opened.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Folder { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

impl Disk for Folder {
    fn create_folder(&self, folder: &str) -> io::Result<()> {
        let path = self.path(folder);
        if folder.is_empty() { create_durably(&path) } else { std::fs::create_dir_all(path) }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(folder))? {
            // A name that is no text is not the journal's.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(self.path(path))?))
    }

    fn open_for_writing(&self, path: &str, direct: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(open_for_writing(&self.path(path), direct)?))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(self.path(path))?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path))
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        std::fs::remove_dir_all(self.path(folder))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        File::open(self.path(folder))?.sync_all()
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(self.path(path))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(LockedFile { _file: file })),
            Err(TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Makes a folder, and those that it is in, so that a failure of the power does not take them away.
///
/// # Errors
/// Those of the file system.
pub fn create_durably(folder: &Path) -> io::Result<()> {
    let missing = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).count();
    std::fs::create_dir_all(folder)?;
    // Also if it was there: a run that was killed may have made it. But then its parent may be one that cannot be synced.
    for (index, parent) in folder.ancestors().skip(1).take(missing.max(1)).enumerate() {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        if index < missing {
            synced?;
        }
    }
    Ok(())
}

/// Not every file system can do without its page cache: then with it.
fn open_for_writing(path: &Path, direct: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if direct {
        match options.clone().custom_flags(libc::O_DIRECT).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            opened => return opened,
        }
    }
    options.open(path)
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn fd(&self) -> RawFd {
        self.as_raw_fd()
    }
}

struct LockedFile {
    /// The system gives the lock up when the file is closed.
    _file: File,
}

impl Lock for LockedFile {}

/// The thread that does one stream's jobs, in order. It ends when this is dropped, after the jobs that it has.
pub struct Worker {
    jobs: Sender<(Job, Finished)>,
}

/// Called on the worker's thread when a job has ended: hands its end to the core and wakes it.
pub type Finished = Box<dyn FnOnce(JobDone) + Send>;

impl Worker {
    /// Starts the thread, which keeps the folder locked until it ends. From a thread that is not pinned: it would share that
    /// core.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub fn start(disk: Arc<dyn Disk>, lock: Arc<dyn Lock>) -> io::Result<Worker> {
        let (jobs, queue) = channel::<(Job, Finished)>();
        let work = move || {
            for (job, finished) in queue {
                finished(job.run(disk.as_ref()));
            }
            drop(lock);
        };
        std::thread::Builder::new().name("journal-files".into()).spawn(work)?;
        Ok(Worker { jobs })
    }

    /// Leaves a job to the thread.
    pub fn submit(&self, job: Job, finished: Finished) {
        self.jobs.send((job, finished)).expect("the thread takes jobs as long as this lives");
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
