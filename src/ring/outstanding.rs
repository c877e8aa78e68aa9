//! How many glommio operations this core waits for. In normal running there are none, and the core sleeps in its own ring;
//! while there are some it must sleep through glommio, or nobody would poll glommio's rings.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// A glommio operation, or a task made of them, is outstanding on this thread until this is dropped. A task's last act
/// after dropping it should be a [`super::Waker::wake`] of its core, if somebody waits for its result.
#[derive(Debug)]
pub struct Outstanding(PhantomData<*const ()>);

/// Announces a glommio operation on this thread.
pub fn begin() -> Outstanding {
    COUNT.with(|count| count.set(count.get() + 1));
    Outstanding(PhantomData)
}

/// How many were announced and are not over.
pub fn count() -> usize {
    COUNT.with(Cell::get)
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        COUNT.with(|count| count.set(count.get() - 1));
    }
}
