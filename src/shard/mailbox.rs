//! How cores talk to each other: typed mail, a queue per core, and a wake that costs a system call only when the receiver
//! may be asleep. Never a client's bytes.

use std::sync::Arc;

use crossbeam::queue::SegQueue;

/// Wakes a core from its sleep. Called from any thread; waking twice is as good as once.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

struct Mailbox<M> {
    queue: SegQueue<M>,
    wake: Wake,
}

/// The mailboxes of all cores; each core has a clone.
///
/// A queue is bounded by what may be under way: at most one request of each parked connection, those of a core together of so
/// many bytes ([`crate::limits::CHANGES_UNDER_WAY_MAX_BYTES`]), and one creation of each internal or auto-created topic.
pub struct Mailboxes<M>(Arc<[Mailbox<M>]>);

impl<M> Clone for Mailboxes<M> {
    fn clone(&self) -> Self {
        Mailboxes(self.0.clone())
    }
}

impl<M: Send> Mailboxes<M> {
    /// One mailbox per entry of `wakes`, which are the cores in order.
    pub fn new(wakes: Vec<Wake>) -> Self {
        Mailboxes(wakes.into_iter().map(|wake| Mailbox { queue: SegQueue::new(), wake }).collect())
    }

    /// Leaves `mail` for a core and wakes it.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn send(&self, core: usize, mail: M) {
        let mailbox = &self.0[core];
        mailbox.queue.push(mail);
        (mailbox.wake)();
    }

    /// The oldest mail of a core; only that core asks.
    pub fn receive(&self, core: usize) -> Option<M> {
        self.0[core].queue.pop()
    }

    /// Whether there is mail for a core.
    pub fn has_mail(&self, core: usize) -> bool {
        !self.0[core].queue.is_empty()
    }

    /// The number of cores.
    pub fn cores(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn mail_comes_in_order_and_wakes_its_receiver_only() {
        let woken: Vec<Arc<AtomicUsize>> = (0..2).map(|_| Arc::default()).collect();
        let wakes = woken.iter().cloned().map(|count| {
            Arc::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }) as Wake
        });
        let mailboxes = Mailboxes::new(wakes.collect());
        let sender = mailboxes.clone();
        std::thread::spawn(move || (0..100).for_each(|n| sender.send(1, n))).join().expect("the sender ends");
        assert_eq!(std::iter::from_fn(|| mailboxes.receive(1)).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        assert_eq!(mailboxes.receive(0), None);
        assert_eq!([0, 1].map(|core: usize| woken[core].load(Ordering::Relaxed)), [0, 100]);
    }
}
