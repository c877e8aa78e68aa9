//! Names that many groups share, stored once for each core: protocol types, protocol names, topics, and the whole list of
//! protocols that a client proposes.

use std::rc::Rc;

use hashbrown::HashTable;

use super::index::{self, SCAN_MAX};

/// The names that a core knows. Those that nobody uses any more are dropped now and then.
#[derive(Debug)]
pub(super) struct Names {
    seed: u64,
    texts: HashTable<Rc<str>>,
    lists: HashTable<Rc<ProtocolList>>,
    /// The count at which unused names are looked for.
    sweep_at: usize,
}

/// The names of the protocols that a member proposes, in its order of preference.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProtocolList {
    names: Box<[Rc<str>]>,
    /// Places whose name stands at an earlier place too, lowest first; seldom any.
    repeated: Box<[u32]>,
    /// Where the names are, rising; empty for a short list.
    addresses: Box<[usize]>,
    bytes: usize,
}

const SWEEP_MIN: usize = 256;

impl Names {
    pub(super) fn new(seed: u64) -> Names {
        Names { seed, texts: HashTable::new(), lists: HashTable::new(), sweep_at: SWEEP_MIN }
    }

    /// The one copy of a text.
    pub(super) fn text(&mut self, text: &str) -> Rc<str> {
        let hash = self.hash(text.as_bytes());
        if let Some(known) = self.texts.find(hash, |known| **known == *text) {
            return known.clone();
        }
        self.sweep();
        let new: Rc<str> = Rc::from(text);
        let seed = self.seed;
        self.texts.insert_unique(hash, new.clone(), |known| hash_of(seed, known.as_bytes()));
        new
    }

    /// The one copy of a text, if anybody uses it.
    pub(super) fn known_text(&self, text: &str) -> Option<Rc<str>> {
        self.texts.find(self.hash(text.as_bytes()), |known| **known == *text).cloned()
    }

    /// The one copy of a list of protocol names.
    pub(super) fn protocol_list<N: AsRef<str>>(&mut self, names: impl Iterator<Item = N> + Clone) -> Rc<ProtocolList> {
        let hash = hash_of_list(self.seed, names.clone());
        if let Some(known) = self.lists.find(hash, |known| known.is(names.clone())) {
            return known.clone();
        }
        self.sweep();
        let names: Box<[Rc<str>]> = names.map(|name| self.text(name.as_ref())).collect();
        let mut seen = rustc_hash::FxHashSet::default();
        let repeated = (0u32..).zip(&names).filter(|(_, name)| !seen.insert(Rc::as_ptr(name))).map(|(at, _)| at);
        let repeated = repeated.collect();
        let bytes = names.iter().map(|name| name.len()).sum();
        let mut addresses: Box<[usize]> = match names.len() {
            ..=SCAN_MAX => Box::default(),
            _ => names.iter().map(address).collect(),
        };
        addresses.sort_unstable();
        let new = Rc::new(ProtocolList { names, repeated, addresses, bytes });
        let seed = self.seed;
        self.lists.insert_unique(hash, new.clone(), |known| hash_of_list(seed, known.names.iter()));
        new
    }

    /// How many texts and lists are stored.
    pub(super) fn len(&self) -> usize {
        self.texts.len() + self.lists.len()
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        hash_of(self.seed, bytes)
    }

    /// Drops what nobody uses any more, if there may be much of it.
    pub(super) fn tidy(&mut self) {
        if self.len() > 2 * SWEEP_MIN {
            self.sweep_at = 0;
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        if self.len() < self.sweep_at {
            return;
        }
        self.lists.retain(|list| Rc::strong_count(list) > 1);
        self.texts.retain(|text| Rc::strong_count(text) > 1);
        self.sweep_at = (2 * self.len()).max(SWEEP_MIN);
        if self.sweep_at == SWEEP_MIN {
            let seed = self.seed;
            self.lists.shrink_to(SWEEP_MIN, |known| hash_of_list(seed, known.names.iter()));
            self.texts.shrink_to(SWEEP_MIN, |known| hash_of(seed, known.as_bytes()));
        }
    }
}

impl ProtocolList {
    /// All names, in the member's order, repeated ones included.
    pub(super) fn names(&self) -> &[Rc<str>] {
        &self.names
    }

    /// Of all names.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Each name once.
    pub(super) fn distinct(&self) -> impl Iterator<Item = &Rc<str>> {
        (0u32..).zip(&self.names).filter(|(at, _)| self.repeated.binary_search(at).is_err()).map(|(_, name)| name)
    }

    /// Whether a name stands in it, of which this is the one copy. Lists may be long and many, so no text is compared.
    pub(super) fn has(&self, name: &Rc<str>) -> bool {
        match self.names.len() {
            ..=SCAN_MAX => self.names.iter().any(|known| Rc::ptr_eq(known, name)),
            _ => self.addresses.binary_search(&address(name)).is_ok(),
        }
    }

    /// Where a name stands first.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| **known == *name)
    }

    /// Whether these are the names, in this order.
    pub(super) fn is<N: AsRef<str>>(&self, mut names: impl Iterator<Item = N>) -> bool {
        self.names.iter().all(|known| names.next().is_some_and(|name| **known == *name.as_ref()))
            && names.next().is_none()
    }
}

/// What tells names apart that are stored once.
pub(super) fn address(name: &Rc<str>) -> usize {
    Rc::as_ptr(name).cast::<u8>() as usize
}

fn hash_of(seed: u64, bytes: &[u8]) -> u64 {
    u64::from(index::hash(seed, bytes)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn hash_of_list<N: AsRef<str>>(seed: u64, names: impl Iterator<Item = N>) -> u64 {
    names.fold(seed, |hash, name| hash_of(hash, name.as_ref().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_stored_once() {
        let mut names = Names::new(1);
        assert!(names.known_text("range").is_none());
        let range = names.text("range");
        assert!(Rc::ptr_eq(&range, &names.text("range")) && Rc::ptr_eq(&range, &names.known_text("range").unwrap()));
        let list = names.protocol_list(["range", "sticky"].iter());
        assert!(Rc::ptr_eq(&list, &names.protocol_list(["range", "sticky"].iter())));
        assert!(!Rc::ptr_eq(&list, &names.protocol_list(["sticky", "range"].iter())));
        assert!(Rc::ptr_eq(&list.names()[0], &range));
        assert_eq!(names.len(), 4);
    }

    #[test]
    fn names_are_found_in_short_and_in_long_lists() {
        let mut names = Names::new(1);
        for count in [1, SCAN_MAX, SCAN_MAX + 1, 500] {
            let texts: Vec<String> = (0..count).map(|i| format!("name-{i}")).collect();
            let list = names.protocol_list(texts.iter());
            assert!(texts.iter().all(|text| list.has(&names.text(text))));
            assert!(!list.has(&names.text("another")));
        }
    }

    #[test]
    fn names_that_nobody_uses_are_dropped() {
        let mut names = Names::new(1);
        let kept: Vec<Rc<str>> = (0..10).map(|i| names.text(&format!("kept-{i}"))).collect();
        for i in 0..10_000 {
            names.protocol_list([format!("stray-{i}")].iter());
        }
        assert!(names.len() <= SWEEP_MIN + 1, "{}", names.len());
        let many: Vec<Rc<str>> = (0..10_000).map(|i| names.text(&format!("many-{i}"))).collect();
        drop(many);
        names.tidy();
        assert_eq!(names.len(), kept.len());
        assert!(kept.iter().all(|name| Rc::ptr_eq(name, &names.text(name))));
    }

    #[test]
    fn repeated_names_of_a_list_are_known() {
        let list = Names::new(1).protocol_list(["a", "b", "a", "c", "b"].iter());
        assert_eq!(list.distinct().map(|name| &**name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!((list.place("b"), list.place("c"), list.place("d")), (Some(1), Some(3), None));
        assert!(list.is(["a", "b", "a", "c", "b"].iter()) && !list.is(["a", "b", "a", "c"].iter()));
    }
}
