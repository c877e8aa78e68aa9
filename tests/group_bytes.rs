//! The check of the fuzz target `group`, on its seeds and on inputs that are bred from them: what CI can do without a nightly
//! compiler. RALLYPOINT_INPUTS is how many; an input that fails is printed.

#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(unreachable_pub)]
#[path = "../fuzz/src/group.rs"]
mod group;

use std::panic::{AssertUnwindSafe, catch_unwind};

fn run(input: &[u8], origin: &str) {
    if catch_unwind(AssertUnwindSafe(|| group::run(input))).is_err() {
        panic!("{origin}: {}", hex::encode(input));
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/group");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn seeds_hold() {
    let seeds = seeds();
    assert!(seeds.len() >= 15);
    for (i, seed) in seeds.iter().enumerate() {
        run(seed, &format!("seed {i}"));
    }
}

/// Pieces of seeds and single steps, strung together; some bytes changed.
#[test]
fn inputs_bred_from_the_seeds_hold() {
    let count: u64 = std::env::var("RALLYPOINT_INPUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(2_000);
    let first: u64 = std::env::var("RALLYPOINT_FROM").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    let seeds = seeds();
    for number in first..first + count {
        let mut state = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % below
        };
        let mut input = vec![random(16) as u8];
        for _ in 0..1 + random(12) {
            if random(2) == 0 {
                let steps: Vec<&[u8]> = seeds[random(seeds.len())][1..].chunks_exact(4).collect();
                let start = random(steps.len());
                input.extend(steps[start..start + 1 + random(steps.len() - start)].concat());
            } else {
                input.extend([random(12), random(256), random(256), random(256)].map(|byte| byte as u8));
            }
        }
        for _ in 0..random(4) {
            let at = random(input.len());
            input[at] = random(256) as u8;
        }
        run(&input, &format!("input {number}"));
    }
}
