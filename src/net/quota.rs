//! How many connections all cores have together, in all and per address. Touched when a connection comes and goes only.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const SHARDS: usize = 16;

/// Why a connection is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `max.connections`.
    Total,
    /// `max.connections.per.ip`.
    Address,
}

/// The counts, shared by all cores.
pub(super) struct Quota {
    max: usize,
    max_per_address: usize,
    open: AtomicUsize,
    per_address: [Mutex<HashMap<IpAddr, usize>>; SHARDS],
}

impl Quota {
    pub(super) fn new(max: usize, max_per_address: usize) -> Quota {
        Quota { max, max_per_address, open: AtomicUsize::new(0), per_address: Default::default() }
    }

    /// Counts a connection in, or says why not.
    pub(super) fn admit(&self, address: IpAddr) -> Result<(), Refusal> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Total);
        }
        if self.counts_addresses() {
            let mut counts = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(address).or_default();
            if *count >= self.max_per_address {
                self.open.fetch_sub(1, Ordering::Relaxed);
                return Err(Refusal::Address);
            }
            *count += 1;
        }
        Ok(())
    }

    /// Counts a connection out that was counted in.
    pub(super) fn release(&self, address: IpAddr) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if self.counts_addresses() {
            let mut counts = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = counts.get_mut(&address) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&address);
                }
            }
        }
    }

    fn counts_addresses(&self) -> bool {
        self.max_per_address != usize::MAX
    }

    fn shard(&self, address: IpAddr) -> &Mutex<HashMap<IpAddr, usize>> {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().into_iter().fold(0, |sum, byte| sum ^ byte),
            IpAddr::V6(address) => address.octets().into_iter().fold(0, |sum, byte| sum ^ byte),
        };
        &self.per_address[usize::from(bytes) % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_too_many_is_refused_until_another_goes() {
        let quota = Quota::new(3, 2);
        let [a, b] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        assert_eq!(quota.admit(a), Ok(()));
        assert_eq!(quota.admit(a), Ok(()));
        assert_eq!(quota.admit(a), Err(Refusal::Address));
        assert_eq!(quota.admit(b), Ok(()));
        assert_eq!(quota.admit(b), Err(Refusal::Total));
        quota.release(a);
        assert_eq!(quota.admit(b), Ok(()));
        assert_eq!(quota.admit(a), Err(Refusal::Total));
    }

    #[test]
    fn an_address_without_connections_costs_nothing() {
        let quota = Quota::new(10, 2);
        let address = IpAddr::from([10, 0, 0, 1]);
        quota.admit(address).expect("the first");
        quota.release(address);
        assert!(quota.shard(address).lock().expect("not poisoned").is_empty());
    }
}
