//! What `rallypoint journal verify|repair|dump` does: looks at a journal's folder while no server works in it.
//! Results print themselves.

use std::fmt;
use std::sync::Arc;

use super::codec::Decoder;
use super::disk::Disk;
use super::entry::Entry;
use super::failure::{At, OpenError};
use super::layout::{self, Copy};
use super::manifest::{FILE_NAME, Manifest, generation_folder, generation_of_folder};
use super::replay::Replay;
use super::salvage::{Found, Lost, salvage};
use super::scan::{CUT, Cut};
use super::segment::SegmentId;

/// Placement of a journal whose MANIFEST is lost: no rule has this name, so that the next start re-distributes.
const UNKNOWN_PLACEMENT: &str = "unknown";

/// What a journal holds, and what is wrong with it.
#[derive(Debug)]
pub struct Verification {
    /// The MANIFEST, or why there is none.
    pub manifest: Result<Manifest, OpenError>,
    /// By id.
    pub streams: Vec<StreamVerification>,
}

/// What a stream holds, and what is wrong with it.
#[derive(Debug)]
pub struct StreamVerification {
    /// Its id.
    pub stream: u32,
    /// Records that read back.
    pub entries: u64,
    /// Position of the next one.
    pub end: u64,
    /// Where a start would cut it: an append was interrupted.
    pub cut: Option<Cut>,
    /// Why a start would refuse it.
    pub refused: Option<OpenError>,
    /// What does not read back.
    pub lost: Vec<Lost>,
}

impl Verification {
    /// Whether a server would start.
    pub fn is_sound(&self) -> bool {
        self.manifest.is_ok() && self.streams.iter().all(|stream| stream.refused.is_none())
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.manifest {
            Ok(manifest) => {
                let (generation, streams) = (manifest.generation, manifest.streams.len());
                writeln!(f, "generation {generation}, {streams} streams, placed by: {}", manifest.placement)?;
            }
            Err(error) => writeln!(f, "{error}")?,
        }
        self.streams.iter().try_for_each(|stream| write!(f, "{stream}"))?;
        f.write_str(if self.is_sound() { "sound\n" } else { "NOT SOUND: a server refuses to start on it\n" })
    }
}

impl fmt::Display for StreamVerification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "stream {}: {} records, the log ends at position {}", self.stream, self.entries, self.end)?;
        if let Some(Cut { path, offset, position }) = &self.cut {
            writeln!(f, "  {path}: cut at offset {offset} (position {position}): {CUT}")?;
        }
        if let Some(refused) = &self.refused {
            writeln!(f, "  {refused}")?;
            self.lost.iter().try_for_each(|lost| writeln!(f, "  {lost}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_tail { "not readable, nothing follows" } else { "LOST" };
        write!(f, "{}: {} bytes at offset {}: {what}", self.path, self.bytes, self.offset)
    }
}

/// Reads everything and changes nothing.
///
/// # Errors
/// [`OpenError`]: the folder is locked, or the file system fails.
pub fn verify(disk: &Arc<dyn Disk>) -> Result<Verification, OpenError> {
    let _lock = layout::lock(disk.as_ref())?;
    let manifest = find_manifest(disk.as_ref())?;
    let mut streams = Vec::new();
    if let Ok(manifest) | Err(NoManifest { guess: Some(manifest), .. }) = &manifest {
        for stream in &manifest.streams {
            streams.push(verify_stream(disk, &manifest.stream_folder(*stream), *stream)?);
        }
    }
    Ok(Verification { manifest: manifest.map_err(|none| none.error), streams })
}

/// What a repair did.
#[derive(Debug)]
pub struct Repair {
    /// The new layout; the old generation is kept.
    pub manifest: Manifest,
    /// Records in it.
    pub entries: u64,
    /// What could not be read.
    pub lost: Vec<Lost>,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lost.iter().try_for_each(|lost| writeln!(f, "{lost}"))?;
        writeln!(f, "{} records are in generation {}", self.entries, self.manifest.generation)?;
        for kept in &self.manifest.kept {
            let folder = generation_folder(*kept);
            writeln!(f, "{folder} is as it was: remove it when it is not needed any more")?;
        }
        Ok(())
    }
}

/// Writes a new generation with everything that reads back, and keeps the old one beside it. To be done when
/// [`verify`] says that the journal is not sound, and there is no better copy of it.
///
/// # Errors
/// [`OpenError`]: the folder is locked, the file system fails, or nothing says which generation counts. The journal then holds
/// what it held, and a repair can be done again.
pub fn repair(disk: &Arc<dyn Disk>) -> Result<Repair, OpenError> {
    let _lock = layout::lock(disk.as_ref())?;
    let old = match find_manifest(disk.as_ref())? {
        Ok(manifest) => {
            layout::remove_other_generations(disk.as_ref(), &manifest)?;
            manifest
        }
        Err(NoManifest { guess: Some(guess), .. }) => {
            // Once there is another generation, nothing else says which one counts.
            guess.write(disk.as_ref())?;
            guess
        }
        Err(NoManifest { error, guess: None }) => return Err(error),
    };
    let mut new = layout::successor(&old, old.streams.len(), &old.placement);
    new.kept.push(old.generation);
    layout::create_folders(disk.as_ref(), &new)?;
    let (mut copy, mut entries, mut lost) = (Copy::new(disk.as_ref(), &new), 0, Vec::new());
    for (index, stream) in old.streams.iter().enumerate() {
        let mut failure = None;
        let mut take = |found: Found<'_>| {
            if failure.is_none() {
                entries += 1;
                failure = copy.entry(&found.entry, index).err();
            }
        };
        lost.extend(salvage(disk.as_ref(), &old.stream_folder(*stream), *stream, &mut take)?);
        failure.map_or(Ok(()), Err)?;
    }
    copy.finish()?;
    new.write(disk.as_ref())?;
    Ok(Repair { manifest: new, entries, lost })
}

/// Gives a line for each record that reads back, in order.
///
/// # Errors
/// [`OpenError`]: the folder is locked, or the file system fails.
pub fn dump(disk: &Arc<dyn Disk>, line: &mut dyn FnMut(&str)) -> Result<(), OpenError> {
    let _lock = layout::lock(disk.as_ref())?;
    let manifest = match find_manifest(disk.as_ref())? {
        Ok(manifest) | Err(NoManifest { guess: Some(manifest), .. }) => manifest,
        Err(NoManifest { error, guess: None }) => return Err(error),
    };
    let mut decoder = Decoder::default();
    for stream in &manifest.streams {
        let mut take = |found: Found<'_>| line(&describe(&found, &mut decoder));
        let lost = salvage(disk.as_ref(), &manifest.stream_folder(*stream), *stream, &mut take)?;
        lost.iter().for_each(|lost| line(&lost.to_string()));
    }
    Ok(())
}

fn describe(found: &Found<'_>, decoder: &mut Decoder) -> String {
    let Found { path, offset, entry } = found;
    let Entry { position, partition, leader_epoch, key, value, .. } = entry;
    let what = match decoder.decode(key, *value) {
        Ok(Some(record)) => format!("{record:?}"),
        Ok(None) => format!("unknown type: key {key:02x?}, value {value:02x?}"),
        Err(malformed) => format!("{malformed}: key {key:02x?}, value {value:02x?}"),
    };
    format!("{path}+{offset}: position {position}, partition {partition}, leader epoch {leader_epoch}: {what}")
}

fn verify_stream(disk: &Arc<dyn Disk>, folder: &str, stream: u32) -> Result<StreamVerification, OpenError> {
    let mut refused = None;
    let mut replay = Replay::new(disk.clone(), folder, stream, []).map_err(|error| refused = Some(error)).ok();
    let mut goes_on = replay.is_some();
    while let Some(replay) = replay.as_mut().filter(|_| goes_on) {
        goes_on = replay.step(10_000, &mut |_| {}).unwrap_or_else(|error| {
            refused = Some(error);
            false
        });
    }
    let found = replay.as_ref().map(|replay| (replay.scan(), replay.progress()));
    let mut verification = StreamVerification {
        stream,
        entries: found.map_or(0, |(_, progress)| progress.entries),
        end: found.map_or(0, |(scan, _)| scan.end),
        cut: found.and_then(|(scan, _)| scan.cut.clone()),
        refused,
        lost: Vec::new(),
    };
    if verification.refused.is_some() {
        (verification.entries, verification.end) = (0, 0);
        let mut take = |found: Found<'_>| {
            verification.entries += 1;
            verification.end = verification.end.max(found.entry.end());
        };
        verification.lost = salvage(disk.as_ref(), folder, stream, &mut take)?;
    }
    Ok(verification)
}

/// A MANIFEST that does not read back.
struct NoManifest {
    error: OpenError,
    /// What it must have said, if that is certain.
    guess: Option<Manifest>,
}

fn find_manifest(disk: &dyn Disk) -> Result<Result<Manifest, NoManifest>, OpenError> {
    let error = match Manifest::read(disk) {
        Ok(Some(manifest)) => return Ok(Ok(manifest)),
        Ok(None) => OpenError::Misplaced { path: FILE_NAME.to_owned(), problem: "it is missing".to_owned() },
        Err(error @ (OpenError::Io { .. } | OpenError::Version { .. })) => return Err(error),
        Err(error) => error,
    };
    let names = disk.list("").at("")?;
    let mut kept: Vec<_> = names.iter().filter_map(|name| generation_of_folder(name)).collect();
    kept.sort_unstable();
    let Some(generation) = kept.pop() else { return Ok(Err(NoManifest { error, guess: None })) };
    let placement = UNKNOWN_PLACEMENT.to_owned();
    let mut guess = Manifest { generation, streams: Vec::new(), placement, kept };
    let names = disk.list(&guess.folder()).at(&guess.folder())?;
    guess.streams = names.iter().filter_map(|name| name.strip_prefix("stream-")?.parse().ok()).collect();
    guess.streams.sort_unstable();
    if !guess.kept.is_empty() && !has_segments(disk, &guess)? {
        let folders = guess.kept.iter().chain([&generation]).map(|one| generation_folder(*one)).collect::<Vec<_>>();
        let error = OpenError::Ambiguous { path: FILE_NAME.to_owned(), folders: folders.join(", ") };
        return Ok(Err(NoManifest { error, guess: None }));
    }
    let guess = (!guess.streams.is_empty()).then_some(guess);
    Ok(Err(NoManifest { error, guess }))
}

/// Only a generation that counted has segments: what others leave behind, and repairs write, are snapshots.
fn has_segments(disk: &dyn Disk, manifest: &Manifest) -> Result<bool, OpenError> {
    for stream in &manifest.streams {
        let folder = manifest.stream_folder(*stream);
        if disk.list(&folder).at(&folder)?.iter().any(|name| SegmentId::of_file_name(name).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
