//! The simulation's seeds that have failed once, and the command.

use rallypoint::sim::{repeat, simulate};

/// Seed and what was wrong.
fn seeds() -> Vec<(u64, &'static str)> {
    let lines = include_str!("seeds.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let seed = |line: &'static str| {
        let (seed, what) = line.split_once("  ").expect("a seed, two spaces, and what was wrong");
        (seed.parse().expect("a seed"), what)
    };
    lines.map(seed).collect()
}

#[test]
fn seeds_that_have_failed_once_pass() {
    for (seed, what) in seeds() {
        let ending = simulate(seed, None, 0);
        assert_eq!(ending.fault, None, "{} # again: {what}", repeat(seed, None));
    }
}

#[cfg(feature = "server")]
#[test]
fn the_command_says_what_came_of_it_and_repeats_what_fails() {
    let sim = |words: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_rallypoint"))
            .arg("sim")
            .args(words)
            .output()
            .expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).expect("text"))
    };
    let (passes, text) = sim(&["--seeds", "2", "--from", "5"]);
    assert!(passes && text.starts_with("2 seeds, ") && text.ends_with("0 seeds failed\n"), "{text}");
    let (passes, text) = sim(&["--seeds", "50", "--break", "answer-twice"]);
    assert!(!passes, "{text}");
    let line = text.lines().find(|line| line.starts_with("rallypoint sim --seed ")).expect("a line that repeats it");
    let (command, fault) = line.split_once(" # ").expect("and what was wrong");
    let words: Vec<&str> = command.split(' ').skip(2).chain(["--trace", "20"]).collect();
    let (passes, text) = sim(&words);
    assert!(!passes && text.contains(fault) && text.contains(" ms  FAULT: "), "{text}");
}
