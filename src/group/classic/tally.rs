//! Which protocols the members of a group propose, counted as they come and go, so that neither a join nor the choice looks at
//! every member. Members mostly propose the same list, and lists are counted, not members.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::group::index::SCAN_MAX;
use crate::group::names::ProtocolList;

/// The lists of protocols that members propose, and by how many members each.
#[derive(Debug)]
pub(super) enum Tally {
    /// Few different lists: looking through them is the quickest.
    Narrow(Vec<(Rc<ProtocolList>, u32)>),
    /// Many different lists.
    Wide(Box<Wide>),
}

#[derive(Debug, Default)]
pub(super) struct Wide {
    /// By the address of the list, of which there is one copy.
    lists: FxHashMap<usize, (Rc<ProtocolList>, u32)>,
    /// By how many members each name is proposed.
    proposers: FxHashMap<Rc<str>, u32>,
    members: u32,
}

impl Default for Tally {
    fn default() -> Self {
        Tally::Narrow(Vec::new())
    }
}

impl Tally {
    /// A member more that proposes this list.
    pub(super) fn add(&mut self, list: &Rc<ProtocolList>) {
        match self {
            Tally::Narrow(lists) => {
                if let Some((_, voters)) = lists.iter_mut().find(|(known, _)| Rc::ptr_eq(known, list)) {
                    *voters += 1;
                } else if lists.len() < SCAN_MAX {
                    lists.reserve_exact(1);
                    lists.push((list.clone(), 1));
                } else {
                    let mut wide = Wide::default();
                    for (known, voters) in lists.drain(..) {
                        wide.add(&known, voters);
                    }
                    wide.add(list, 1);
                    *self = Tally::Wide(Box::new(wide));
                }
            }
            Tally::Wide(wide) => wide.add(list, 1),
        }
    }

    /// A member less that proposes this list.
    pub(super) fn remove(&mut self, list: &Rc<ProtocolList>) {
        match self {
            Tally::Narrow(lists) => {
                let at = lists.iter().position(|(known, _)| Rc::ptr_eq(known, list)).expect("the list is counted");
                lists[at].1 -= 1;
                if lists[at].1 == 0 {
                    lists.remove(at);
                }
            }
            Tally::Wide(wide) => {
                wide.remove(list);
                if wide.members == 0 {
                    *self = Tally::default();
                }
            }
        }
    }

    /// Whether every member proposes this name. True of any name if there are no members.
    pub(super) fn is_candidate(&self, name: &str) -> bool {
        match self {
            Tally::Narrow(lists) => lists.iter().all(|(list, _)| list.place(name).is_some()),
            Tally::Wide(wide) => wide.proposers.get(name).copied().unwrap_or(0) == wide.members,
        }
    }

    /// The candidate that most members prefer to the other candidates. Kafka leaves open who wins a tie; here it is the first
    /// in alphabetical order. None only if there are no members.
    pub(super) fn choose(&self) -> Option<Rc<str>> {
        let mut votes: Vec<(&Rc<str>, u32)> = Vec::new();
        for (list, voters) in self.lists() {
            let first = list.names().iter().find(|name| self.is_candidate(name))?;
            match votes.iter_mut().find(|(name, _)| Rc::ptr_eq(name, first)) {
                Some((_, votes)) => *votes += voters,
                None => votes.push((first, voters)),
            }
        }
        let most = votes.iter().map(|(_, votes)| *votes).max()?;
        votes.into_iter().filter(|(_, votes)| *votes == most).map(|(name, _)| name).min().cloned()
    }

    /// How many members are counted.
    #[cfg(any(debug_assertions, test))]
    pub(super) fn members(&self) -> u32 {
        self.lists().map(|(_, voters)| voters).sum()
    }

    fn lists(&self) -> Box<dyn Iterator<Item = (&Rc<ProtocolList>, u32)> + '_> {
        match self {
            Tally::Narrow(lists) => Box::new(lists.iter().map(|(list, voters)| (list, *voters))),
            Tally::Wide(wide) => Box::new(wide.lists.values().map(|(list, voters)| (list, *voters))),
        }
    }
}

impl Wide {
    fn add(&mut self, list: &Rc<ProtocolList>, members: u32) {
        self.lists.entry(Rc::as_ptr(list) as usize).or_insert_with(|| (list.clone(), 0)).1 += members;
        for name in list.distinct() {
            *self.proposers.entry(name.clone()).or_insert(0) += members;
        }
        self.members += members;
    }

    fn remove(&mut self, list: &Rc<ProtocolList>) {
        let address = Rc::as_ptr(list) as usize;
        let voters = &mut self.lists.get_mut(&address).expect("the list is counted").1;
        *voters -= 1;
        if *voters == 0 {
            self.lists.remove(&address);
        }
        for name in list.distinct() {
            let proposers = self.proposers.get_mut(name).expect("the name is counted");
            *proposers -= 1;
            if *proposers == 0 {
                self.proposers.remove(name);
            }
        }
        self.members -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::names::Names;

    fn tally(names: &mut Names, lists: &[&str]) -> Tally {
        let mut tally = Tally::default();
        for list in lists {
            tally.add(&names.protocol_list(list.split(',')));
        }
        tally
    }

    #[test]
    fn the_first_candidate_of_most_members_is_chosen() {
        let mut names = Names::new(1);
        for (lists, expected) in [
            (&["range"][..], "range"),
            (&["range", "robin,range"], "range"),
            (&["range,robin", "robin,range", "range,robin"], "range"),
            (&["range,robin", "robin,range", "robin,range"], "robin"),
            // a member votes for its first candidate, not for its first proposal
            (&["range,robin", "x,robin,range", "y,robin,range"], "robin"),
            (&["b,a", "a,b"], "a"),
            (&["a,a,b", "b,a"], "a"),
        ] {
            assert_eq!(&*tally(&mut names, lists).choose().unwrap(), expected, "{lists:?}");
        }
        assert_eq!(Tally::default().choose(), None);
    }

    #[test]
    fn only_what_all_propose_is_a_candidate() {
        let mut names = Names::new(1);
        let mut tally = tally(&mut names, &["a,b", "b,c"]);
        assert!(tally.is_candidate("b") && !tally.is_candidate("a") && !tally.is_candidate("x"));
        tally.remove(&names.protocol_list("a,b".split(',')));
        assert!(tally.is_candidate("b") && tally.is_candidate("c") && !tally.is_candidate("a"));
        tally.remove(&names.protocol_list("b,c".split(',')));
        assert!(tally.is_candidate("x"));
        assert_eq!(tally.members(), 0);
    }

    #[test]
    fn many_different_lists_count_as_few_do() {
        let mut names = Names::new(1);
        let lists: Vec<String> = (0..50).map(|i| format!("own-{i},all,all-too,own-{i}")).collect();
        let mut wide = tally(&mut names, &lists.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(matches!(wide, Tally::Wide(_)));
        wide.add(&names.protocol_list("all-too,all".split(',')));
        assert_eq!((wide.members(), wide.choose().as_deref()), (51, Some("all")));
        assert!(wide.is_candidate("all-too") && !wide.is_candidate("own-1"));
        wide.remove(&names.protocol_list("all-too,all".split(',')));
        for list in &lists[1..] {
            wide.remove(&names.protocol_list(list.split(',')));
        }
        assert_eq!(wide.choose().as_deref(), Some("own-0"));
        wide.remove(&names.protocol_list(lists[0].split(',')));
        assert!(matches!(wide, Tally::Narrow(_)));
    }
}
