//! The file MANIFEST: which generation of the layout counts, and its streams. A generation is a folder; whatever other
//! generation lies beside it is what a re-distribution left over ([`super::layout`]).
//!
//! Text, so that an owner can read it; replaced as a whole:
//!
//! ```text
//! rallypoint journal 1
//! generation 2
//! streams 3 4 5 6
//! placement modulo 50 over 4
//! kept 1
//! crc32c 89abcdef
//! ```

use std::fmt::Write;
use std::io::ErrorKind;

use super::disk::{self, Disk, join};
use super::failure::{At, OpenError};

/// The file's name in the journal's folder.
pub const FILE_NAME: &str = "MANIFEST";

const FORMAT: u32 = 1;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The generation that counts.
    pub generation: u32,
    /// Ids of its streams: core i has the i-th. An id is never used again.
    pub streams: Vec<u32>,
    /// The rule by which partitions are placed on streams, in its owner's words.
    pub placement: String,
    /// Generations that do not count and are not removed: what a repair found, for its owner to look at.
    pub kept: Vec<u32>,
}

impl Manifest {
    /// Reads the file; `None` if there is none.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn read(disk: &dyn Disk) -> Result<Option<Manifest>, OpenError> {
        let bytes = match disk::read(disk, FILE_NAME) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.at(FILE_NAME)?,
        };
        let text = String::from_utf8_lossy(&bytes);
        if let Some(version) = text.strip_prefix("rallypoint journal ").and_then(|rest| rest.lines().next())
            && let Ok(version) = version.parse()
            && version != FORMAT
        {
            return Err(OpenError::Version { path: FILE_NAME.to_owned(), version });
        }
        let manifest = Manifest::parse(&text);
        manifest.map(Some).ok_or_else(|| OpenError::Misplaced {
            path: FILE_NAME.to_owned(),
            problem: "the file is damaged".to_owned(),
        })
    }

    /// Puts the file in place of the old one, durably.
    ///
    /// # Errors
    /// [`OpenError::Io`]; either of the two may be there then.
    pub fn write(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        disk::replace(disk, "", FILE_NAME, self.text().as_bytes()).at(FILE_NAME)
    }

    /// The folder of the generation.
    pub fn folder(&self) -> String {
        generation_folder(self.generation)
    }

    /// The folder of one of its streams.
    pub fn stream_folder(&self, stream: u32) -> String {
        join(&self.folder(), &format!("stream-{stream:04}"))
    }

    fn text(&self) -> String {
        let list = |numbers: &[u32]| numbers.iter().map(|number| format!(" {number}")).collect::<String>();
        let (streams, kept) = (list(&self.streams), list(&self.kept));
        let (generation, placement) = (self.generation, &self.placement);
        let mut text = format!("rallypoint journal {FORMAT}\ngeneration {generation}\nstreams{streams}\n");
        write!(text, "placement {placement}\nkept{kept}\n").expect("memory takes text");
        let checksum = crc32c::crc32c(text.as_bytes());
        writeln!(text, "crc32c {checksum:08x}").expect("memory takes text");
        text
    }

    fn parse(text: &str) -> Option<Manifest> {
        let mut lines = text.lines();
        lines.next()?;
        let mut field = |name: &str| lines.next()?.strip_prefix(name);
        let generation = field("generation ")?.parse().ok()?;
        let list = |text: &str| text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok();
        let streams = list(field("streams")?)?;
        let placement = field("placement ")?.to_owned();
        let kept = list(field("kept")?)?;
        let manifest = Manifest { generation, streams, placement, kept };
        (manifest.text() == text).then_some(manifest)
    }
}

/// The folder of a generation.
pub fn generation_folder(generation: u32) -> String {
    format!("{GENERATION_PREFIX}{generation:06}")
}

/// The generation that a folder's name says; `None` if the folder is something else.
pub fn generation_of_folder(name: &str) -> Option<u32> {
    let number = name.strip_prefix(GENERATION_PREFIX)?;
    (number.len() == 6).then(|| number.parse().ok()).flatten()
}

const GENERATION_PREFIX: &str = "generation-";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::testing::MemoryDisk;

    #[test]
    fn the_file_round_trips_and_every_flipped_bit_is_seen() {
        let disk = MemoryDisk::default();
        assert_eq!(Manifest::read(&disk).expect("none"), None);
        let placement = "modulo 50 over 2".to_owned();
        let mut manifest = Manifest { generation: 2, streams: vec![3, 4], placement, kept: Vec::new() };
        manifest.write(&disk).expect("written");
        assert_eq!(Manifest::read(&disk).expect("read"), Some(manifest.clone()));
        manifest.kept = vec![1];
        manifest.write(&disk).expect("written");
        assert_eq!(Manifest::read(&disk).expect("read"), Some(manifest.clone()));
        assert_eq!(manifest.stream_folder(3), "generation-000002/stream-0003");
        assert_eq!(generation_of_folder(&manifest.folder()), Some(2));
        let bytes = disk::read(&disk, FILE_NAME).expect("there");
        for bit in 0..bytes.len() * 8 {
            let disk = MemoryDisk::default();
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            disk::replace(&disk, "", FILE_NAME, &damaged).expect("written");
            assert!(Manifest::read(&disk).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_says_so() {
        let disk = MemoryDisk::default();
        disk::replace(&disk, "", FILE_NAME, b"rallypoint journal 2\nsomething else\n").expect("written");
        assert!(matches!(Manifest::read(&disk), Err(OpenError::Version { version: 2, .. })));
    }
}
