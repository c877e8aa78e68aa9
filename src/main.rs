//! The command `rallypoint`.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

use rallypoint::cli::{self, Command, JournalArguments, JournalTask};
use rallypoint::config::{self, ConfigError, ServeArguments};
use rallypoint::journal::disk::Disk;
use rallypoint::journal::failure::OpenError;
use rallypoint::journal::files::Folder;
use rallypoint::journal::tool;
use rallypoint::preflight;
use rallypoint::sim::{SimArguments, Summary};

/// The options or the file are wrong (as clap's own mistakes).
const WRONG_USE: u8 = 2;

fn main() -> ExitCode {
    match cli::parse() {
        Command::Serve(arguments) => serve(&arguments),
        Command::Check(arguments) => check(&arguments),
        Command::ListProperties(format) => print(&config::describe(format)),
        Command::ShowConfig { arguments, all } => match config::load_all(&arguments) {
            Ok(loaded) => {
                loaded.notices.iter().for_each(|notice| eprintln!("{}", notice.text));
                print(&config::effective(&loaded.effective, all))
            }
            Err(error) => refuse(&error),
        },
        Command::Version { verbose } => print(&format!("{}\n", cli::version(verbose))),
        Command::Journal(arguments) => journal(&arguments),
        Command::Sim(arguments) => sim(&arguments),
        Command::Completions(shell) => {
            let mut script = Vec::new();
            cli::write_completions(shell, &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// Prints to stdout; a reader that has gone away (`| head`) is no failure.
fn print(text: &str) -> ExitCode {
    use std::io::Write as _;
    let _gone = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn refuse(error: &ConfigError) -> ExitCode {
    for problem in &error.problems {
        eprintln!("error: {problem}");
    }
    ExitCode::from(WRONG_USE)
}

fn check(arguments: &ServeArguments) -> ExitCode {
    match config::load(arguments) {
        Ok((settings, notices)) => {
            notices.iter().for_each(|notice| eprintln!("{}", notice.text));
            let report = preflight::examine(&settings);
            print(&format!("{report}\n"));
            if report.can_serve() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => refuse(&error),
    }
}

fn journal(arguments: &JournalArguments) -> ExitCode {
    let root = arguments.data_dir.join("journal");
    let shown = root.display();
    if !root.is_dir() {
        eprintln!("error: there is no journal in {shown}; --data-dir says where the server keeps its state");
        return ExitCode::FAILURE;
    }
    let disk: Arc<dyn Disk> = Arc::new(Folder::new(&root));
    let done = match arguments.task {
        JournalTask::Verify => tool::verify(&disk).map(|found| {
            print(&found.to_string());
            if found.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }),
        JournalTask::Repair => tool::repair(&disk).map(|done| print(&done.to_string())),
        JournalTask::Dump => dump(&disk),
    };
    done.unwrap_or_else(|error| {
        match error {
            OpenError::Locked { .. } => eprintln!("error: a server uses {shown}; stop it first"),
            error => eprintln!("error: {shown}: {error}"),
        }
        ExitCode::FAILURE
    })
}

fn dump(disk: &Arc<dyn Disk>) -> Result<ExitCode, OpenError> {
    use std::io::Write as _;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    tool::dump(disk, &mut |line| {
        if writeln!(out, "{line}").is_err() {
            // Nobody reads on.
            std::process::exit(0);
        }
    })?;
    let _gone = out.flush();
    Ok(ExitCode::SUCCESS)
}

fn sim(arguments: &SimArguments) -> ExitCode {
    let summary = rallypoint::sim::run(arguments, |_, _| {});
    let Summary { seeds, requests, simulated_ms, failed } = summary;
    let seconds = simulated_ms / 1_000;
    print(&format!("{seeds} seeds, {requests} requests, {seconds} s of simulated time, {failed} seeds failed\n"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve(arguments: &ServeArguments) -> ExitCode {
    start_log();
    let (settings, notices) = match config::load(arguments) {
        Ok(loaded) => loaded,
        Err(error) => return refuse(&error),
    };
    notices.iter().for_each(config::Notice::log);
    let report = preflight::examine_for_start(&settings);
    report.log();
    if !report.can_serve() {
        return ExitCode::FAILURE;
    }
    let ports = config::ports::PortTable::of(&settings).expect("the configuration was checked with it");
    tracing::info!("ports:\n{ports}");
    match rallypoint::serve::run(settings, &ports) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// RALLYPOINT_LOG says how much is logged; stderr takes it, so that stdout stays for what was asked for.
fn start_log() {
    use tracing_subscriber::filter::{EnvFilter, LevelFilter};
    let filter = EnvFilter::builder()
        .with_env_var("RALLYPOINT_LOG")
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(rallypoint::serve::progress::LogWriter::default)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
