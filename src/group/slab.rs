//! A vector with holes: values keep their slot until they are taken out. Starts with room for exactly one value, because
//! most groups have one member.

/// Values in numbered slots.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    first_free: u32,
    len: u32,
}

#[derive(Debug)]
enum Slot<T> {
    Full(T),
    Free { next: u32 },
}

const NO_SLOT: u32 = u32::MAX;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), first_free: NO_SLOT, len: 0 }
    }
}

impl<T> Slab<T> {
    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// One more than the highest slot that was ever full.
    pub(super) fn bound(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Puts a value into a free slot.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.first_free != NO_SLOT {
            let slot = self.first_free;
            let Slot::Free { next } = self.slots[slot as usize] else { unreachable!("a free slot is full") };
            self.first_free = next;
            self.slots[slot as usize] = Slot::Full(value);
            return slot;
        }
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(self.slots.len().max(1));
        }
        self.slots.push(Slot::Full(value));
        (self.slots.len() - 1) as u32
    }

    /// Takes a value out; the memory of an empty slab is given back.
    pub(super) fn remove(&mut self, slot: u32) -> T {
        let Slot::Full(value) = std::mem::replace(&mut self.slots[slot as usize], Slot::Free { next: self.first_free })
        else {
            unreachable!("the slot is free")
        };
        self.first_free = slot;
        self.len -= 1;
        if self.len == 0 {
            *self = Slab::default();
        }
        value
    }

    /// The value of a slot, if it is full.
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        count_visit();
        match self.slots.get(slot as usize) {
            Some(Slot::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// The value of a slot, if it is full.
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        count_visit();
        match self.slots.get_mut(slot as usize) {
            Some(Slot::Full(value)) => Some(value),
            _ => None,
        }
    }

    /// All values with their slots, lowest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().zip(0u32..).inspect(|_| count_visit()).filter_map(|(slot, number)| match slot {
            Slot::Full(value) => Some((number, value)),
            Slot::Free { .. } => None,
        })
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        self.get(slot).expect("the slot is full")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        self.get_mut(slot).expect("the slot is full")
    }
}

/// Tests of scale count how often slots are looked at, not how long it takes.
fn count_visit() {
    #[cfg(test)]
    VISITS.set(VISITS.get() + 1);
}

#[cfg(test)]
thread_local! {
    pub(super) static VISITS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_stable_and_used_again() {
        let mut slab = Slab::default();
        let a = slab.insert("a");
        assert_eq!(slab.slots.capacity(), 1);
        let b = slab.insert("b");
        let c = slab.insert("c");
        assert_eq!(slab.remove(b), "b");
        assert_eq!((slab[a], slab[c], slab.get(b), slab.len()), ("a", "c", None, 2));
        assert_eq!(slab.insert("d"), b);
        assert_eq!(slab.iter().map(|(_, v)| *v).collect::<String>(), "adc");
    }

    #[test]
    fn an_empty_slab_holds_no_memory() {
        let mut slab = Slab::default();
        let slots: Vec<u32> = (0..100).map(|i| slab.insert(i)).collect();
        for slot in slots {
            slab.remove(slot);
        }
        assert_eq!((slab.slots.capacity(), slab.bound()), (0, 0));
    }
}
