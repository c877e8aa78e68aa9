//! The house rules, as a test: sizes, which way imports point, where `unsafe` may stand, what the pure side may not
//! touch, golden bytes for every message, a test for every limit, and words that have no place here.
//!
//! It reads tokens, not text, where comments and strings must not count.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Modules by layer: a module may use those of lower layers, and within its own layer only where `true`.
const LAYERS: &[(&[&str], bool)] = &[
    (&["errors", "limits", "clock", "ids"], true),
    (&["wire", "group", "leadership", "topics", "auth"], false),
    (&["metrics"], false),
    (&["ring", "journal"], false),
    (&["config"], false),
    (&["control", "shard"], true),
    (&["fleet"], false),
    (&["sim"], false),
    (&["preflight"], false),
    (&["net"], false),
    (&["cli", "serve"], false),
];

/// What decides has no sockets, files, clocks, threads or rings in it.
const PURE: &[&str] = &["wire", "group", "leadership", "topics", "auth", "shard", "sim", "clock", "errors", "limits"];

/// Paths that the pure side may not name.
const IMPURE_PATHS: &[&[&str]] = &[
    &["std", "fs"],
    &["std", "thread"],
    &["std", "process"],
    &["std", "net", "TcpStream"],
    &["std", "net", "TcpListener"],
    &["std", "net", "UdpSocket"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
    &["rand", "rng"],
    &["glommio"],
    &["io_uring"],
    &["libc"],
    &["socket2"],
];

/// Files (or folders) in which `unsafe` may stand. The tests among them count what is allocated.
const UNSAFE_IN: &[&str] =
    &["src/ring/", "src/net/", "src/leadership/publish.rs", "tests/net_memory.rs", "tests/wire_allocations.rs"];

#[test]
fn files_and_functions_are_short() {
    let mut faults = Vec::new();
    for file in rust_files(&["src", "tests", "perf/src", "benches", "fuzz"]) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            faults.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", file.path));
        }
        for (name, start, end) in functions(&file.tokens()) {
            let lines = end - start + 1;
            if lines > FUNCTION_LINES_MAX {
                faults
                    .push(format!("{}:{start}: fn {name} has {lines} lines, at most {FUNCTION_LINES_MAX}", file.path));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn imports_point_one_way() {
    let mut faults = Vec::new();
    for file in rust_files(&["src"]) {
        let Some(own) = file.module() else { continue };
        let Some(layer) = layer_of(&own) else {
            faults.push(format!("{}: module {own} has no layer in tests/tidy.rs", file.path));
            continue;
        };
        for path in paths(&file.tokens()).iter().filter(|path| path[0] == "crate" && path.len() > 1) {
            let used = &path[1];
            let allowed = match layer_of(used) {
                Some(other) if used != &own => other < layer || other == layer && LAYERS[layer].1,
                _ => true,
            };
            if !allowed {
                faults.push(format!("{}: {own} may not use {}", file.path, path.join("::")));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn the_pure_side_does_no_input_or_output() {
    let mut faults = Vec::new();
    for file in rust_files(&["src"]) {
        if !file.module().is_some_and(|module| PURE.contains(&module.as_str())) {
            continue;
        }
        for path in paths(&split_tests(&file).0) {
            if let Some(impure) = IMPURE_PATHS.iter().find(|impure| starts_with(&path, impure)) {
                faults.push(format!("{}: {} is not for the pure side", file.path, impure.join("::")));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let mut faults = Vec::new();
    for file in rust_files(&["src", "tests", "benches"]) {
        let allowed = UNSAFE_IN.iter().any(|place| file.path.starts_with(place));
        if !allowed && any_token(&file.tokens(), &|token| is_word(token, "unsafe")) {
            faults.push(format!("{}: unsafe is only for {UNSAFE_IN:?}", file.path));
        }
    }
    assert_none(faults);
}

#[test]
fn every_message_has_golden_bytes_and_every_request_a_fuzz_target() {
    let vectors = fs::read_to_string(root().join("tests/vectors/messages.tsv")).unwrap_or_default();
    let known: BTreeSet<&str> = vectors.lines().filter_map(|line| line.split('\t').next()).collect();
    let mut faults = Vec::new();
    let mut seen = 0;
    for file in rust_files(&["src/wire"]) {
        let stem = file.path.trim_start_matches("src/wire/").trim_end_matches(".rs");
        let message: String = stem.split('_').map(capitalized).collect();
        let declared = words_after(&split_tests(&file).0, "struct");
        for name in [format!("{message}Request"), format!("{message}Response")] {
            if declared.contains(&name) {
                seen += 1;
                if !known.contains(name.as_str()) {
                    faults.push(format!("{}: {name} has no row in tests/vectors/messages.tsv", file.path));
                }
                let target = root().join(format!("fuzz/fuzz_targets/{stem}.rs"));
                if name.ends_with("Request") && !target.exists() {
                    faults.push(format!("{}: there is no {}", file.path, relative(&target)));
                }
            }
        }
    }
    assert_none(faults);
    assert!(seen >= 2, "no message was found in src/wire");
}

#[test]
fn every_limit_has_a_test() {
    let limits: Vec<String> = words_after(&File::read(root().join("src/limits.rs")).tokens(), "const");
    assert!(!limits.is_empty());
    let mut tested = BTreeSet::new();
    for file in rust_files(&["src", "tests"]) {
        tested.extend(words(&split_tests(&file).1).into_iter().filter(|word| limits.contains(word)));
    }
    let missing = limits.into_iter().filter(|limit| !tested.contains(limit));
    assert_none(missing.map(|limit| format!("src/limits.rs: no test names {limit}")).collect());
}

#[test]
fn a_test_that_is_left_out_says_why() {
    let mut faults = Vec::new();
    for file in rust_files(&["src", "tests"]) {
        for (number, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("#[ignore]") {
                faults.push(format!("{}:{}: #[ignore = \"...\"] with the reason", file.path, number + 1));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn some_words_have_no_place_here() {
    // In two parts, so that this file does not hold them.
    let everywhere =
        [("/wo", "rk/"), ("/fa", "rm/"), ("crates.io-", "index"), ("pypi", ".org"), ("registry.npm", "js")];
    let also_in_rust = [
        ("TO", "DO"),
        ("FIX", "ME"),
        ("XX", "X"),
        ("todo", "!("),
        ("unimplemented", "!("),
        ("db", "g!("),
        ("maven", ".org"),
    ];
    let join = |words: &[(&str, &str)]| words.iter().map(|(a, b)| format!("{a}{b}")).collect::<Vec<_>>();
    let (everywhere, also_in_rust) = (join(&everywhere), join(&also_in_rust));
    let mut faults = Vec::new();
    for path in files(&root()) {
        let name = relative(&path);
        // Lock files name registries by their nature.
        if name.ends_with("Cargo.lock") || name.ends_with("go.sum") {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let rust = if name.ends_with(".rs") { also_in_rust.as_slice() } else { &[] };
        for (number, line) in text.lines().enumerate() {
            for word in everywhere.iter().chain(rust).filter(|word| line.contains(word.as_str())) {
                faults.push(format!("{name}:{}: {word}", number + 1));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn properties_of_the_documentation_are_those_of_the_table() {
    const TABLE_BEGINS: &str = "## In use\n\n";
    let table = rallypoint::config::describe(rallypoint::config::Format::Markdown);
    let path = root().join("docs/configuration.md");
    let page = fs::read_to_string(&path).expect("docs/configuration.md");
    let (text, written) = page.split_once(TABLE_BEGINS).expect("a table");
    if written != table && std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{text}{TABLE_BEGINS}{table}")).expect("written");
    } else {
        assert!(written == table, "docs/configuration.md is old: UPDATE_DOCS=1 cargo test --test tidy writes it anew");
    }
}

// What the rules are made of.

struct File {
    /// Relative to the repository.
    path: String,
    text: String,
}

impl File {
    fn read(path: PathBuf) -> File {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        File { path: relative(&path), text }
    }

    fn tokens(&self) -> TokenStream {
        self.text.parse().unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    /// The module of the crate that the file belongs to; `None` for lib.rs and main.rs.
    fn module(&self) -> Option<String> {
        let rest = self.path.strip_prefix("src/")?;
        let first = rest.split('/').next()?.trim_end_matches(".rs");
        (first != "lib" && first != "main").then(|| first.to_owned())
    }

    /// Whether all of it is tests.
    fn is_test(&self) -> bool {
        let name = self.path.trim_end_matches(".rs");
        name.starts_with("tests/") || name.ends_with("_tests") || name.ends_with("/tests") || name.contains("/tests/")
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned()
}

/// Every file below, but for what is built or fetched.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let skipped = [".git", "target", "__pycache__", "node_modules", "rallypoint-data", "corpus", "artifacts"];
        if skipped.iter().any(|skip| name == *skip) || entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            continue;
        }
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn rust_files(folders: &[&str]) -> Vec<File> {
    let paths = folders.iter().flat_map(|folder| files(&root().join(folder)));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).map(File::read).collect()
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|(modules, _)| modules.contains(&module))
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn any_token(tokens: &TokenStream, wanted: &dyn Fn(&TokenTree) -> bool) -> bool {
    tokens.clone().into_iter().any(|token| match &token {
        TokenTree::Group(group) => any_token(&group.stream(), wanted),
        token => wanted(token),
    })
}

/// All identifiers, at any depth.
fn words(tokens: &TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    for token in tokens.clone() {
        match token {
            TokenTree::Group(group) => found.extend(words(&group.stream())),
            TokenTree::Ident(ident) => found.push(ident.to_string()),
            _ => {}
        }
    }
    found
}

/// The identifiers that follow a keyword, at any depth.
fn words_after(tokens: &TokenStream, keyword: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut after = false;
    for token in tokens.clone() {
        match &token {
            TokenTree::Group(group) => found.extend(words_after(&group.stream(), keyword)),
            TokenTree::Ident(ident) if after => found.push(ident.to_string()),
            _ => {}
        }
        after = is_word(&token, keyword);
    }
    found
}

/// Name, first and last line of each function with a body.
fn functions(tokens: &TokenStream) -> Vec<(String, usize, usize)> {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut found = Vec::new();
    let mut open: Option<(String, usize)> = None;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if ident == "fn" => {
                if let Some(TokenTree::Ident(name)) = tokens.get(index + 1) {
                    open = Some((name.to_string(), ident.span().start().line));
                }
            }
            TokenTree::Group(group) => {
                found.extend(functions(&group.stream()));
                if group.delimiter() == Delimiter::Brace
                    && let Some((name, start)) = open.take()
                {
                    found.push((name, start, group.span_close().end().line));
                }
            }
            // A declaration without a body.
            TokenTree::Punct(punct) if punct.as_char() == ';' => open = None,
            _ => {}
        }
    }
    found
}

/// Every `a::b::c`; the groups of a `use` are taken apart.
fn paths(tokens: &TokenStream) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut current: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in tokens.clone() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    end_path(&mut found, &mut current);
                }
                current.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Group(group) => {
                let inner = paths(&group.stream());
                if colons == 2 && group.delimiter() == Delimiter::Brace {
                    found.extend(inner.into_iter().map(|path| current.iter().cloned().chain(path).collect()));
                    current.clear();
                } else {
                    end_path(&mut found, &mut current);
                    found.extend(inner);
                }
                colons = 0;
            }
            _ => {
                end_path(&mut found, &mut current);
                colons = 0;
            }
        }
    }
    end_path(&mut found, &mut current);
    found
}

fn end_path(found: &mut Vec<Vec<String>>, current: &mut Vec<String>) {
    if !current.is_empty() {
        found.push(std::mem::take(current));
    }
}

fn starts_with(path: &[String], prefix: &[&str]) -> bool {
    path.len() >= prefix.len() && path.iter().zip(prefix).all(|(word, wanted)| word == wanted)
}

/// What a file does, and its tests: all of it, or what stands behind `#[cfg(test)]`.
fn split_tests(file: &File) -> (TokenStream, TokenStream) {
    if file.is_test() {
        return (TokenStream::new(), file.tokens());
    }
    let (mut code, mut tests) = (TokenStream::new(), TokenStream::new());
    let mut is_test = false;
    for token in file.tokens() {
        match &token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                is_test |= words(&group.stream()) == ["cfg", "test"];
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && is_test => {
                tests.extend(group.stream());
                is_test = false;
                continue;
            }
            // `#[cfg(test)] mod tests;`
            TokenTree::Punct(punct) if punct.as_char() == ';' => is_test = false,
            _ => {}
        }
        code.extend([token]);
    }
    (code, tests)
}

fn assert_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The rules' own test: what they find in a text that breaks them.
mod rules {
    use super::*;

    fn tokens(text: &str) -> TokenStream {
        text.parse().expect("Rust")
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let text = "trait T { fn declared(&self);\n fn long(x: [u8; 3]) -> u8\n where u8: Copy,\n {\n x[0]\n }\n}\nfn short() {}";
        let found = functions(&tokens(text));
        assert_eq!(found, [("long".to_owned(), 2, 6), ("short".to_owned(), 8, 8)]);
    }

    #[test]
    fn paths_are_found_in_uses_types_and_calls_but_not_in_strings() {
        let text = "use crate::{wire::Uuid, group::{self, settings}}; fn f() -> crate::net::Port { \"crate::no\"; std::fs::read(p) }";
        let found = paths(&tokens(text));
        for wanted in
            ["crate::wire::Uuid", "crate::group::self", "crate::group::settings", "crate::net::Port", "std::fs::read"]
        {
            assert!(found.iter().any(|path| path.join("::") == wanted), "{wanted} in {found:?}");
        }
        assert!(!found.iter().any(|path| path.join("::").starts_with("crate::no")));
    }

    #[test]
    fn tests_are_what_stands_behind_cfg_test() {
        let text = "#[cfg(test)] mod elsewhere;\nfn a() { LIMIT }\n#[cfg(test)]\nmod tests { use OTHER; }";
        let (code, tests) = split_tests(&File { path: "src/x.rs".into(), text: text.into() });
        assert_eq!(words(&tests), ["use", "OTHER"]);
        assert!(words(&code).contains(&"LIMIT".to_owned()));
        assert_eq!(split_tests(&File { path: "src/x_tests.rs".into(), text: text.into() }).0.to_string(), "");
    }
}
