//! Finding a slot by a name that is stored elsewhere. The table keeps 32 bits of each name's hash, so that growing it
//! touches no name.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

/// Up to here a container is searched by walking over it.
pub(super) const SCAN_MAX: usize = 8;

/// The hash of a name. `seed` differs from process to process, so that a peer cannot choose names that collide.
pub(super) fn hash(seed: u64, name: &[u8]) -> u32 {
    let mut hasher = FxHasher::with_seed(seed as usize);
    hasher.write(name);
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}

/// From hashes to slots.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: HashTable<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    slot: u32,
}

impl Index {
    /// The slot with this hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.entries.find(spread(hash), |entry| entry.hash == hash && is_it(entry.slot)).map(|entry| entry.slot)
    }

    /// Adds a slot; the caller knows that its name is not in yet.
    pub(super) fn insert(&mut self, hash: u32, slot: u32) {
        self.entries.insert_unique(spread(hash), Entry { hash, slot }, |entry| spread(entry.hash));
    }

    /// Takes a slot out, which must be in.
    pub(super) fn remove(&mut self, hash: u32, slot: u32) {
        let entry =
            self.entries.find_entry(spread(hash), |entry| entry.slot == slot).expect("the slot is in the index");
        entry.remove();
    }

    /// How many slots are in.
    #[cfg(any(debug_assertions, test))]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The table takes its position from the low bits and its tag from the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_among_many_and_after_removals() {
        let names: Vec<String> = (0..2_000).map(|i| format!("member-{i}")).collect();
        let mut index = Index::default();
        for (slot, name) in names.iter().enumerate() {
            index.insert(hash(7, name.as_bytes()), slot as u32);
        }
        for slot in (0..2_000).step_by(2) {
            index.remove(hash(7, names[slot].as_bytes()), slot as u32);
        }
        for (slot, name) in names.iter().enumerate() {
            let found = index.find(hash(7, name.as_bytes()), |slot| names[slot as usize] == *name);
            assert_eq!(found, (slot % 2 == 1).then_some(slot as u32), "{name}");
        }
        assert_eq!(index.len(), 1_000);
    }

    #[test]
    fn the_seed_changes_the_hash() {
        assert_ne!(hash(1, b"group"), hash(2, b"group"));
    }
}
