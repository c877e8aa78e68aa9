//! What the hottest requests cost in instructions: parsing, deciding, answering, and the whole request through a shard,
//! without sockets. Made to be run under callgrind by `scripts/instructions`, one case at a time; instruction counts do not
//! depend on the machine's mood. Without a name all cases run once, which only shows that they work.

mod cases;
mod world;

use std::hint::black_box;

/// Everything that is done between its call and its return is counted.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    black_box(work)();
}

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let cases = cases::all();
    if names.iter().any(|name| name == "list") {
        cases.iter().for_each(|(name, _)| println!("{name}"));
        return;
    }
    for (name, run) in &cases {
        if names.is_empty() || names.contains(name) {
            run(&mut |work| {
                // What is made at the first call, and buffers that grow, are not what a request costs.
                (0..3).for_each(|_| work());
                measured(work);
            });
        }
    }
}
