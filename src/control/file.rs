//! The control log as a file, and the lock that keeps a second server out of the data directory. Used at a start only, with
//! plain blocking calls; what is appended later goes through the ring of the core that owns `control`.

#![allow(clippy::disallowed_methods, reason = "before the cores start, nothing waits for it")]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::log::{self, Damage, FILE_HEADER, Replay};
use super::machine::{Control, Mismatch, RandomIds, check_owner};
use super::view::NodeEndpoints;
use crate::config::Settings;
use crate::journal::files::create_durably;

const LOG_NAME: &str = "control.log";
const NEW_LOG_NAME: &str = "control.log.new";
const LOCK_NAME: &str = ".lock";
/// Is there once the journal was begun.
const JOURNAL_MANIFEST: &str = "journal/MANIFEST";

/// Why a data directory cannot be used. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error("{}: another server uses this data directory; stop it, or give this one another --data-dir", .path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The log is not what it was when it was written.
    #[error(
        "{}: {damage}; restore the file from a backup, or move the whole directory away to begin a new cluster (topics, their \
         ids, the cluster id and what groups have committed are lost then)", .path.display()
    )]
    Damaged {
        /// The log.
        path: PathBuf,
        /// What and where.
        damage: Damage,
    },
    /// Only it says where the journal's groups belong.
    #[error(
        "{} is missing or has nothing in it, but there is a journal beside it; restore the file from a backup, or move the \
         whole directory away to begin a new cluster (what groups have committed is lost then)", .path.display()
    )]
    LoneJournal {
        /// The log.
        path: PathBuf,
    },
    /// The log is another server's.
    #[error("{}: {mismatch}; set node.id as it was, or give this server another --data-dir", .path.display())]
    Mismatch {
        /// The log.
        path: PathBuf,
        /// What does not fit.
        mismatch: Mismatch,
    },
    /// The system refuses.
    #[error("{}: {error}", .path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// How it ended.
        error: io::Error,
    },
}

/// An open control log, locked against others as long as this lives.
#[derive(Debug)]
pub struct ControlFile {
    log: File,
    _lock: File,
}

impl ControlFile {
    /// For the writes of [`super::machine::Append`].
    pub fn raw_fd(&self) -> RawFd {
        self.log.as_raw_fd()
    }
}

/// Opens the data directory, making it if it is not there, and goes on from what its control log says. When this returns,
/// all that the control log must say before anything is served is on disk.
///
/// # Errors
/// A directory that is in use, damaged, of another node, or not to be written.
pub fn open(
    settings: &Settings,
    endpoints: Vec<NodeEndpoints>,
    random_ids: RandomIds,
) -> Result<(Control, ControlFile), OpenError> {
    let directory = &settings.data_dir;
    create_durably(directory).map_err(at(directory))?;
    let lock = lock(directory)?;
    let path = directory.join(LOG_NAME);
    check_log(settings)?;
    if path.exists() {
        // A run that was killed may have renamed it and not synced that: what is appended would go with it.
        sync(directory)?;
    } else {
        replace(directory, FILE_HEADER)?;
    }
    let (mut file, replay) = read(&path)?;
    let (mut control, first_frame) = Control::start(&replay, settings, endpoints, random_ids)
        .map_err(|mismatch| OpenError::Mismatch { path: path.clone(), mismatch })?;
    if !first_frame.is_empty() {
        file.write_all_at(&first_frame, replay.end).and_then(|()| file.sync_data()).map_err(at(&path))?;
    }
    if let Some(shorter) = control.compacted() {
        replace(directory, &shorter)?;
        file = open_log(&path)?;
    }
    Ok((control, ControlFile { log: file, _lock: lock }))
}

/// Whether [`open`] would succeed, as far as that can be said without changing anything.
///
/// # Errors
/// As [`open`].
pub fn examine(settings: &Settings) -> Result<(), OpenError> {
    let directory = &settings.data_dir;
    let _lock = directory.join(LOCK_NAME).exists().then(|| lock(directory)).transpose()?;
    check_log(settings)
}

/// Whether the log reads well and is this server's.
fn check_log(settings: &Settings) -> Result<(), OpenError> {
    let path = settings.data_dir.join(LOG_NAME);
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => FILE_HEADER.to_vec(),
        read => read.map_err(at(&path))?,
    };
    let replay = replay(&path, &bytes)?;
    if replay.records.is_empty() && settings.data_dir.join(JOURNAL_MANIFEST).exists() {
        return Err(OpenError::LoneJournal { path });
    }
    check_owner(&replay, settings).map_err(|mismatch| OpenError::Mismatch { path, mismatch })
}

fn replay(path: &Path, bytes: &[u8]) -> Result<Replay, OpenError> {
    log::replay(bytes).map_err(|damage| OpenError::Damaged { path: path.into(), damage })
}

fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK_NAME);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path }),
        Err(TryLockError::Error(error)) => Err(OpenError::Io { path, error }),
    }
}

/// Reads the log and cuts a torn tail off.
fn read(path: &Path) -> Result<(File, Replay), OpenError> {
    let mut file = open_log(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(at(path))?;
    let replay = replay(path, &bytes)?;
    let torn_bytes = bytes.len() as u64 - replay.end;
    if torn_bytes > 0 {
        let (path_shown, end) = (path.display(), replay.end);
        tracing::warn!(path = %path_shown, end, torn_bytes, "cutting off an unfinished write of an earlier run");
        file.set_len(replay.end).and_then(|()| file.sync_all()).map_err(at(path))?;
    }
    Ok((file, replay))
}

fn open_log(path: &Path) -> Result<File, OpenError> {
    OpenOptions::new().read(true).write(true).open(path).map_err(at(path))
}

/// Puts a whole new log in the place of the old one: after a crash there is the one or the other.
fn replace(directory: &Path, bytes: &[u8]) -> Result<(), OpenError> {
    let new = directory.join(NEW_LOG_NAME);
    let mut file = File::create(&new).map_err(at(&new))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(at(&new))?;
    let path = directory.join(LOG_NAME);
    fs::rename(&new, &path).map_err(at(&path))?;
    // The rename itself is durable only once the directory is.
    sync(directory)
}

fn sync(directory: &Path) -> Result<(), OpenError> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(at(directory))
}

fn at(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |error| OpenError::Io { path: path.into(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeclaredTopic;
    use crate::control::{Request, Tag};
    use crate::ids::TopicId;
    use crate::leadership::pin;

    fn settings(directory: &Path, cores: usize) -> Settings {
        Settings {
            data_dir: directory.into(),
            cores,
            topics: vec![DeclaredTopic { name: "demo".into(), partitions: Some(6) }],
            ..Settings::default()
        }
    }

    fn start(settings: &Settings) -> Result<(Control, ControlFile), OpenError> {
        let endpoints = (0..settings.cores).map(|core| vec![("localhost".into(), 9092 + core as u16)]).collect();
        let mut seed = settings.data_dir.as_os_str().len() as u128;
        let random_ids = move || {
            seed = seed.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
            seed.to_be_bytes()
        };
        open(settings, endpoints, Box::new(random_ids))
    }

    fn create(control: &mut Control, file: &ControlFile, name: &str) {
        let outputs = control.handle(Request::AutoCreate { names: vec![name.into()] }, Tag { core: 0, token: 0 });
        let append = outputs.append.expect("a creation is written");
        file.log.write_all_at(&append.bytes, append.offset).expect("write");
        assert!(control.synced(append.token, Ok(())).snapshots.is_some());
    }

    /// Name, id, and the leader and leader epoch of each partition.
    type Row = (String, TopicId, Vec<(u16, i32)>);

    fn topics(control: &Control) -> Vec<Row> {
        let views = control.views();
        let guard = pin();
        let topics = views.catalogue(&guard).topics().map(|topic| {
            let leaders = topic.partitions.iter().map(|p| (p.leader.0, p.leader_epoch)).collect();
            (topic.name.to_string(), topic.id, leaders)
        });
        topics.collect()
    }

    #[test]
    fn a_second_start_finds_what_the_first_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = settings(&directory.path().join("not/yet/there"), 2);
        let (mut control, file) = start(&settings).expect("a new directory");
        create(&mut control, &file, "__consumer_offsets");
        create(&mut control, &file, "other");
        let before = (control.cluster_id(), topics(&control));
        assert_eq!(before.1.len(), 3);
        drop(file);
        let (control, _file) = start(&settings).expect("the same directory");
        assert_eq!((control.cluster_id(), topics(&control)), before);
    }

    #[test]
    fn another_number_of_cores_keeps_the_ids_and_leads_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut control, file) = start(&settings(directory.path(), 2)).expect("a new directory");
        create(&mut control, &file, "__consumer_offsets");
        let before = topics(&control);
        drop(file);
        let (control, _file) = start(&settings(directory.path(), 3)).expect("the same directory");
        let after = topics(&control);
        let ids = |topics: &[Row]| -> Vec<_> {
            topics.iter().map(|(name, id, leaders)| (name.clone(), *id, leaders.len())).collect()
        };
        assert_eq!(ids(&after), ids(&before));
        assert_eq!(after[0].2[..4], [(0, 1), (1, 1), (2, 1), (0, 1)]);
        assert_eq!(before[0].2[..4], [(0, 0), (1, 0), (0, 0), (1, 0)]);
    }

    #[test]
    fn one_server_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = settings(directory.path(), 1);
        let (_control, file) = start(&settings).expect("a new directory");
        let second = start(&settings).map(drop).expect_err("locked");
        assert!(matches!(second, OpenError::Locked { .. }), "{second}");
        drop(file);
        assert!(start(&settings).is_ok());
    }

    #[test]
    fn another_node_id_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = settings(directory.path(), 1);
        drop(start(&settings).expect("a new directory"));
        let other = start(&Settings { node_id: 5, ..settings }).map(drop).expect_err("another node id");
        assert!(other.to_string().contains("node.id 1, but node.id is 5"), "{other}");
    }

    #[test]
    fn a_torn_tail_is_cut_and_damage_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = settings(directory.path(), 1);
        let (mut control, file) = start(&settings).expect("a new directory");
        create(&mut control, &file, "kept");
        let kept = topics(&control);
        let kept_bytes = file.log.metadata().expect("metadata").len();
        create(&mut control, &file, "torn");
        drop(file);

        let path = directory.path().join(LOG_NAME);
        let whole = fs::read(&path).expect("the log");
        for end in kept_bytes..whole.len() as u64 {
            fs::write(&path, &whole[..end as usize]).expect("write");
            let (control, file) = start(&settings).expect("a torn tail");
            assert_eq!(topics(&control), kept, "cut at {end}");
            assert_eq!(file.log.metadata().expect("metadata").len(), kept_bytes, "cut at {end}");
        }

        let mut damaged = whole.clone();
        damaged[FILE_HEADER.len() + 30] ^= 1;
        fs::write(&path, &damaged).expect("write");
        let error = start(&settings).map(drop).expect_err("damage").to_string();
        assert!(error.contains("control.log: bad frame at byte 12"), "{error}");
        assert!(error.contains("restore the file from a backup"), "{error}");
        assert!(error.contains("move the whole directory away"), "{error}");
        assert_eq!(fs::read(&path).expect("the log"), damaged, "the evidence stays");
    }

    #[test]
    fn a_journal_without_its_control_log_is_refused_and_left_as_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = settings(directory.path(), 1);
        drop(start(&settings).expect("a new directory"));
        fs::create_dir(directory.path().join("journal")).expect("a folder");
        drop(start(&settings).expect("the journal was not begun"));
        fs::write(directory.path().join("journal/MANIFEST"), "any").expect("write");
        drop(start(&settings).expect("both are there"));

        let path = directory.path().join(LOG_NAME);
        fs::remove_file(&path).expect("removed");
        for _ in 0..2 {
            let error = start(&settings).map(drop).expect_err("half of it").to_string();
            assert!(
                error.contains("control.log is missing") && error.contains("move the whole directory away"),
                "{error}"
            );
            assert!(!path.exists(), "nothing was begun");
        }
        fs::write(&path, FILE_HEADER).expect("write");
        let error = start(&settings).map(drop).expect_err("an empty log").to_string();
        assert!(error.contains("move the whole directory away"), "{error}");
    }

    #[test]
    fn a_long_log_of_few_facts_becomes_short() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = settings(directory.path(), 1);
        let (mut control, file) = start(&settings).expect("a new directory");
        let path = directory.path().join(LOG_NAME);
        for round in 0..30 {
            let names = (0..1_000).map(|number| format!("{number}-{}", "x".repeat(20))).collect();
            let outputs = control.handle(Request::AutoCreate { names }, Tag { core: 0, token: 0 });
            let append = outputs.append.expect("creations are written");
            file.log.write_all_at(&append.bytes, append.offset).expect("write");
            let _ = control.synced(append.token, Ok(()));
            let references = topics(&control).into_iter().filter(|topic| topic.0 != "demo");
            let request = crate::control::DeleteTopics {
                topics: references.map(|topic| crate::control::TopicReference::Id(topic.1)).collect(),
                timeout_ms: 1,
            };
            let outputs = control.handle(Request::DeleteTopics(request), Tag { core: 0, token: round });
            let append = outputs.append.expect("deletions are written");
            file.log.write_all_at(&append.bytes, append.offset).expect("write");
            let _ = control.synced(append.token, Ok(()));
        }
        let before = topics(&control);
        drop(file);
        assert!(fs::metadata(&path).expect("metadata").len() > 1 << 20);
        let (mut control, file) = start(&settings).expect("a long log");
        assert!(fs::metadata(&path).expect("metadata").len() < 1_000);
        assert_eq!(topics(&control), before);
        create(&mut control, &file, "after");
        let after = topics(&control);
        drop(file);
        let (control, _file) = start(&settings).expect("a short log");
        assert_eq!(topics(&control), after);
    }
}
