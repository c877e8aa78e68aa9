//! Why a journal cannot be opened, in words that say where and what to do.

use std::io;

use super::entry::Damage;

/// A start that was refused. Nothing was changed on the disk.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system failed.
    #[error("{path}: {source}")]
    Io {
        /// Relative to the journal's folder.
        path: String,
        /// As the system says.
        source: io::Error,
    },
    /// Another process works here.
    #[error("{path} is locked: another server uses this folder. Stop it, or give this one a folder of its own")]
    Locked {
        /// The lock file.
        path: String,
    },
    /// What was acknowledged once does not read back.
    #[error(
        "{path}: damaged at offset {offset} (position {position}: {damage}), although what was written later says that this was \
         on the disk. Nothing was changed. Put the folder back from a copy, or see what is lost with `rallypoint journal \
         verify` and go on without it with `rallypoint journal repair`"
    )]
    Damaged {
        /// Relative to the journal's folder.
        path: String,
        /// In the file.
        offset: u64,
        /// In the stream.
        position: u64,
        /// What is there instead.
        damage: Damage,
    },
    /// A file is not there, or is not what its name and place say.
    #[error(
        "{path}: {problem}. Nothing was changed. Put the folder back from a copy, or run `rallypoint journal repair`"
    )]
    Misplaced {
        /// Relative to the journal's folder.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// Without the MANIFEST nothing says which generation counts.
    #[error(
        "{path} does not read back, and nothing else says which of {folders} counts. Nothing was changed. Put {path} back from \
         a copy, or move away all of them but the one that counts and run `rallypoint journal repair`"
    )]
    Ambiguous {
        /// Relative to the journal's folder.
        path: String,
        /// The generations' folders.
        folders: String,
    },
    /// Written by a newer version.
    #[error("{path}: format {version} is not known to this version of rallypoint: start the one that wrote it")]
    Version {
        /// Relative to the journal's folder.
        path: String,
        /// As written.
        version: u32,
    },
}

/// Gives an error of the file system the path that it is about.
pub(super) trait At<T> {
    fn at(self, path: &str) -> Result<T, OpenError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &str) -> Result<T, OpenError> {
        self.map_err(|source| OpenError::Io { path: path.to_owned(), source })
    }
}
