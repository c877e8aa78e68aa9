//! Records of groups as entries of the journal.

use super::entry::EntryWriter;
use super::store::Entries;
use crate::group::Record;

/// Records of one offsets partition, which go into the journal together.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a>(pub &'a [Record]);

impl Entries for Records<'_> {
    fn write(&self, _: &mut EntryWriter<'_>) {}
}
