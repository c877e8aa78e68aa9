//! The file of the control log on a disk that is slow, fails, and forgets what was not synced. (The journal's own disk is
//! `journal::testing`.)

use super::random::Random;
use crate::control::log::FILE_HEADER;

/// Written whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A file of which one write at a time may be under way.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    synced: Vec<u8>,
    under_way: Option<(u64, Vec<u8>)>,
}

impl LogFile {
    pub(super) fn new() -> LogFile {
        LogFile { synced: FILE_HEADER.to_vec(), under_way: None }
    }

    /// All of it, at a start.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.synced
    }

    pub(super) fn begin(&mut self, offset: u64, data: Vec<u8>) {
        assert!(self.under_way.is_none(), "one write at a time per file");
        self.under_way = Some((offset, data));
    }

    /// The write that was under way is on the disk.
    pub(super) fn complete(&mut self) {
        let (offset, data) = self.under_way.take().expect("a write is under way");
        put(&mut self.synced, offset as usize, &data);
    }

    /// The disk says that the write is done, and forgets it.
    pub(super) fn lose(&mut self) {
        self.under_way = None;
    }

    /// The write has failed, or the power has: some of it may be on the disk, in any order.
    pub(super) fn tear(&mut self, random: &mut Random) {
        let Some((offset, data)) = self.under_way.take() else { return };
        let share = *random.pick(&[0, 500, 1_000]);
        for (index, sector) in data.chunks(SECTOR_BYTES).enumerate() {
            let keeps = if random.chance(share) { sector.len() } else { 0 };
            let at = offset as usize + index * SECTOR_BYTES;
            put(&mut self.synced, at, &sector[..keeps]);
        }
    }

    /// Another file takes its place, at a start.
    pub(super) fn replace(&mut self, bytes: Vec<u8>) {
        self.synced = bytes;
    }

    /// Cuts off what a start has found to be torn, and adds what the start has to say.
    pub(super) fn restart(&mut self, end: u64, frame: &[u8]) {
        self.synced.truncate(end as usize);
        self.synced.extend_from_slice(frame);
    }
}

fn put(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    if content.len() < offset + data.len() {
        content.resize(offset + data.len(), 0);
    }
    content[offset..offset + data.len()].copy_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::log::{frame, replay};

    #[test]
    fn what_was_not_synced_is_torn_and_cut_off() {
        let mut lost = 0;
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut file = LogFile::new();
            let end = file.bytes().len() as u64;
            file.begin(end, frame(end, &[]));
            file.complete();
            let end = file.bytes().len() as u64;
            file.begin(end, vec![7; 2_000]);
            file.tear(&mut random);
            lost += usize::from(file.bytes().len() as u64 == end);
            assert_eq!(replay(file.bytes()).expect("a torn tail is no damage").end, end);
        }
        assert!((5..45).contains(&lost), "{lost}");
    }
}
