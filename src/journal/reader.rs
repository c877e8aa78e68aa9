//! Entries of a file, in order, through one buffer.

use std::io;

use super::disk::DiskFile;
use super::entry::{Decoded, HEADER_BYTES, decode, decode_checked, length_at};

/// Read at once, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// Reads entries from a place on.
pub struct EntryReader {
    file: Box<dyn DiskFile>,
    /// Read and not consumed from `start` on.
    buffer: Vec<u8>,
    start: usize,
    /// In the file, of what `start` points to.
    offset: u64,
    end_offset: u64,
    position: u64,
}

impl EntryReader {
    /// Reads from `offset` in the file, which is `position` in the stream, up to `end_offset` or the end of the file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn new(file: Box<dyn DiskFile>, offset: u64, position: u64, end_offset: u64) -> io::Result<Self> {
        let end_offset = end_offset.min(file.length()?).max(offset);
        Ok(EntryReader { file, buffer: Vec::new(), start: 0, offset, end_offset, position })
    }

    /// What stands next; steps over it if it is an entry. Never [`Decoded::Needs`].
    ///
    /// # Errors
    /// Those of the file.
    pub fn next_entry(&mut self) -> io::Result<Decoded<'_>> {
        let length = self.read_entry()?;
        let (start, position) = (self.start, self.position);
        let decoded = decode(&self.buffer[start..], position, self.end_offset - self.offset);
        if let Decoded::Entry(_) = decoded {
            (self.start, self.offset, self.position) =
                (start + length, self.offset + length as u64, position + length as u64);
        }
        Ok(decoded)
    }

    /// Like [`EntryReader::next_entry`] where every byte up to the end was checked before; `None` at the end.
    ///
    /// # Errors
    /// Those of the file, and if it is not what it was when it was checked.
    pub fn next_checked(&mut self) -> io::Result<Option<super::entry::Entry<'_>>> {
        if self.offset == self.end_offset {
            return Ok(None);
        }
        let length = self.read_entry()?;
        let start = self.start;
        if length < HEADER_BYTES || self.buffer.len() - start < length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file changed while it was read"));
        }
        (self.start, self.offset, self.position) =
            (start + length, self.offset + length as u64, self.position + length as u64);
        Ok(Some(decode_checked(&self.buffer[start..start + length])))
    }

    /// Position of what stands next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Its offset in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The file.
    pub fn file(&self) -> &dyn DiskFile {
        self.file.as_ref()
    }

    /// Reads as much of the next entry as the file has; returns its length, which is 0 if there is none.
    fn read_entry(&mut self) -> io::Result<usize> {
        self.ensure(HEADER_BYTES)?;
        let length = length_at(&self.buffer[self.start..]).unwrap_or(0);
        if length as u64 <= self.end_offset - self.offset {
            self.ensure(length)?;
        }
        Ok(length)
    }

    fn ensure(&mut self, bytes: usize) -> io::Result<()> {
        let has = self.buffer.len() - self.start;
        if has >= bytes {
            return Ok(());
        }
        self.buffer.copy_within(self.start.., 0);
        self.buffer.truncate(has);
        self.start = 0;
        let remains = self.end_offset - self.offset - has as u64;
        let want = remains.min(CHUNK_BYTES.max(bytes - has) as u64) as usize;
        self.buffer.resize(has + want, 0);
        let read = self.file.read_at(self.offset + has as u64, &mut self.buffer[has..])?;
        self.buffer.truncate(has + read);
        Ok(())
    }
}
