//! The connections of one core, by slot and generation.

use super::connection::Connection;
use crate::ring::Key;

/// Slots; a closed connection's slot is used again under the next generation. They lie in pages that stay where they are: to
/// move half a million connections would hold up all of them.
#[derive(Default)]
pub(super) struct Table {
    pages: Vec<Vec<Slot>>,
    free: Vec<u32>,
}

const PAGE_SLOTS: usize = 256;

enum Slot {
    Used(Connection),
    /// Holds the key of its next user.
    Free(Key),
}

impl Table {
    /// Makes a connection under a new key.
    pub(super) fn insert(&mut self, make: impl FnOnce(Key) -> Connection) -> &mut Connection {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let entry = self.slot_mut(slot).expect("it is free");
        if let Slot::Free(key) = *entry {
            *entry = Slot::Used(make(key));
        }
        match entry {
            Slot::Used(connection) => connection,
            Slot::Free(_) => unreachable!("filled above"),
        }
    }

    /// The connection of a key, if it is still there.
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Connection> {
        match self.slot_mut(key.slot) {
            Some(Slot::Used(connection)) if connection.key == key => Some(connection),
            _ => None,
        }
    }

    /// Takes a connection out; its key is never valid again.
    pub(super) fn remove(&mut self, key: Key) -> Option<Connection> {
        self.get_mut(key)?;
        self.free.push(key.slot);
        match std::mem::replace(self.slot_mut(key.slot)?, Slot::Free(key.next())) {
            Slot::Used(connection) => Some(connection),
            Slot::Free(_) => unreachable!("found above"),
        }
    }

    /// The connection for which `weight` is largest, and not 0.
    pub(super) fn largest(&self, weight: impl Fn(&Connection) -> u64) -> Option<(Key, u64)> {
        let weighed = self.slots().filter_map(|slot| match slot {
            Slot::Used(connection) => Some((connection.key, weight(connection))),
            Slot::Free(_) => None,
        });
        weighed.filter(|(_, weight)| *weight > 0).max_by_key(|(_, weight)| *weight)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.bound() - self.free.len()
    }

    /// The keys of all.
    pub(super) fn keys(&self) -> Vec<Key> {
        let used = |slot: &Slot| match slot {
            Slot::Used(connection) => Some(connection.key),
            Slot::Free(_) => None,
        };
        self.slots().filter_map(used).collect()
    }

    fn slot_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.pages.get_mut(slot as usize / PAGE_SLOTS)?.get_mut(slot as usize % PAGE_SLOTS)
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pages.iter().flatten()
    }

    /// Above all slots. All pages but the last are full.
    fn bound(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE_SLOTS + last.len())
    }

    fn grow(&mut self) -> u32 {
        let slot = u32::try_from(self.bound()).expect("fewer connections than descriptors");
        if (slot as usize).is_multiple_of(PAGE_SLOTS) {
            self.pages.push(Vec::with_capacity(PAGE_SLOTS));
        }
        self.pages.last_mut().expect("there is one with room").push(Slot::Free(Key { slot, generation: 0 }));
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::net::conversation::Conversation;
    use crate::shard::service::{ListenerIndex, Session};

    fn insert(table: &mut Table) -> Key {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let session = Session { listener: ListenerIndex(0), peer };
        let socket = std::fs::File::open("/dev/null").expect("it exists").into();
        table.insert(|key| Connection::new(key, socket, Conversation::new(session), 0)).key
    }

    #[test]
    fn an_old_key_never_finds_the_next_user_of_its_slot() {
        let mut table = Table::default();
        let old = insert(&mut table);
        assert!(table.remove(old).is_some());
        let new = insert(&mut table);
        assert_eq!(new.slot, old.slot);
        assert!(table.get_mut(old).is_none() && table.remove(old).is_none());
        assert!(table.get_mut(new).is_some());
        assert_eq!((table.len(), table.keys()), (1, vec![new]));
    }

    #[test]
    fn connections_stay_where_they_are_when_the_table_grows() {
        let mut table = Table::default();
        let first = insert(&mut table);
        let at = std::ptr::from_ref(table.get_mut(first).unwrap());
        let keys: Vec<Key> = (0..=PAGE_SLOTS).map(|_| insert(&mut table)).collect();
        assert_eq!(std::ptr::from_ref(table.get_mut(first).unwrap()), at);
        assert_eq!(table.len(), PAGE_SLOTS + 2);
        assert!(keys.iter().all(|key| table.get_mut(*key).is_some_and(|connection| connection.key == *key)));
        assert_eq!(table.keys().len(), PAGE_SLOTS + 2);
    }
}
