//! The command line of `rallypoint`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{Format, ServeArguments};
use crate::sim::SimArguments;

/// What the user wants.
#[derive(Clone, Debug)]
pub enum Command {
    /// Run a server.
    Serve(ServeArguments),
    /// Say whether a server could run here, and what is missing.
    Check(ServeArguments),
    /// Print the table of properties.
    ListProperties(Format),
    /// Print what a server would use.
    ShowConfig {
        /// The options that `serve` would get.
        arguments: ServeArguments,
        /// Also what nobody has set.
        all: bool,
    },
    /// Print the version.
    Version {
        /// With what it was built from and for.
        verbose: bool,
    },
    /// Look after a journal.
    Journal(JournalArguments),
    /// Simulate the server.
    Sim(SimArguments),
    /// Print a completion script.
    Completions(Shell),
}

const ABOUT: &str = "A Kafka-protocol group coordinator for huge consumer fleets";

const EXAMPLES: &str = "\
Examples:
  rallypoint serve --topic demo:6
      a coordinator on 127.0.0.1:9092 with a topic to read from
  rallypoint serve --cores 4 --listen 0.0.0.0:9092 --advertise broker.example
      four cores for clients of other machines, ports 9092 to 9096
  rallypoint serve --config server.properties --set group.max.size=500
      Kafka's file, with one value of our own

The log goes to stderr; RALLYPOINT_LOG=debug (or warn, or rallypoint::net=trace) says how much of it.";

#[derive(Parser)]
#[command(name = "rallypoint", about = ABOUT, disable_version_flag = true, arg_required_else_help = true)]
#[command(after_help = "`rallypoint help COMMAND` says more. To begin: rallypoint serve --topic demo:6")]
struct CommandLine {
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,

    /// With --version: what it was built from and for
    #[arg(long, requires = "version")]
    verbose: bool,

    #[command(subcommand)]
    command: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a coordinator until SIGTERM or Ctrl-C
    #[command(after_help = EXAMPLES)]
    Serve(ServeArguments),

    /// Say whether `serve` with the same options could run here, and what to do if not
    ///
    /// Looks at the kernel, io_uring, memory lock and open files limits, processors, the ports and the data directory.
    /// The exit status is 0 if a server could run, 1 if not, 2 if the options are wrong.
    Check(ServeArguments),

    /// List all properties, or show what `serve` with the same options would use
    Config(ConfigArguments),

    /// Look after the journal of a data directory, while no server uses it
    Journal(JournalArguments),

    /// Simulate the server's code with clients, a network and a disk that fail, and look whether it keeps its promises
    ///
    /// Each seed is a world of its own. A seed that fails prints one line that repeats it; the exit status is not 0 then.
    Sim(SimArguments),

    /// Print a completion script for a shell
    ///
    /// For bash: rallypoint completions bash > /etc/bash_completion.d/rallypoint
    Completions {
        /// For which shell
        shell: Shell,
    },
}

#[derive(Args)]
struct ConfigArguments {
    /// List all properties: name, option, type, bounds, default, and what they do
    #[arg(long)]
    list: bool,

    /// How --list writes
    #[arg(long, value_enum, default_value = "text", requires = "list")]
    format: Format,

    /// Show also what nobody has set
    #[arg(long, conflicts_with = "list")]
    all: bool,

    #[command(flatten)]
    arguments: ServeArguments,
}

/// What is to be done with which journal.
#[derive(Args, Clone, Debug)]
pub struct JournalArguments {
    /// What to do.
    #[command(subcommand)]
    pub task: JournalTask,

    /// Where the server keeps its state, as it was told
    #[arg(long, value_name = "DIR", default_value = "./rallypoint-data", global = true)]
    pub data_dir: PathBuf,
}

/// What can be done with a journal.
#[derive(Subcommand, Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalTask {
    /// Read everything and say whether a server would start on it; changes nothing
    ///
    /// The exit status is 0 if it would, 1 if not.
    Verify,

    /// Write what can still be read into a new generation, and keep the old one beside it
    ///
    /// For a journal that `verify` calls not sound, when there is no better copy of it. Prints what is lost.
    Repair,

    /// Print every record that can be read, one a line, with the file and offset where it is
    Dump,
}

/// Reads the command line of this process; on `--help` or a mistake it prints and ends the process.
pub fn parse() -> Command {
    command(CommandLine::parse())
}

fn command(line: CommandLine) -> Command {
    match line.command {
        _ if line.version => Command::Version { verbose: line.verbose },
        Some(Verb::Serve(arguments)) => Command::Serve(arguments),
        Some(Verb::Check(arguments)) => Command::Check(arguments),
        Some(Verb::Config(config)) if config.list => Command::ListProperties(config.format),
        Some(Verb::Config(config)) => Command::ShowConfig { arguments: config.arguments, all: config.all },
        Some(Verb::Journal(arguments)) => Command::Journal(arguments),
        Some(Verb::Sim(arguments)) => Command::Sim(arguments),
        Some(Verb::Completions { shell }) => Command::Completions(shell),
        None => CommandLine::command().error(clap::error::ErrorKind::MissingSubcommand, "what shall it do?").exit(),
    }
}

/// Writes the completion script of a shell.
pub fn write_completions(shell: Shell, out: &mut dyn Write) {
    clap_complete::generate(shell, &mut CommandLine::command(), "rallypoint", &mut { out });
}

/// The answer to `--version`.
pub fn version(verbose: bool) -> String {
    let version = format!("rallypoint {}", env!("CARGO_PKG_VERSION"));
    if !verbose {
        return version;
    }
    let commit = option_env!("RALLYPOINT_COMMIT").unwrap_or("unknown (RALLYPOINT_COMMIT was not set at the build)");
    let features = if cfg!(feature = "server") { "server" } else { "none" };
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{version}\ncommit: {commit}\nfeatures: {features}\nprofile: {profile}\ntarget: {arch}-{os}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;

    fn parse(words: &[&str]) -> Result<Command, clap::Error> {
        CommandLine::try_parse_from(std::iter::once(&"rallypoint").chain(words)).map(command)
    }

    #[test]
    fn the_definition_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn serve_takes_its_options_repeatedly() {
        let words =
            ["serve", "--listen", "A=h:1", "--listen", "h:2", "--topic", "demo:6", "--set", "a=b", "--set", "c=d"];
        let Ok(Command::Serve(arguments)) = parse(&words) else { panic!("serve") };
        assert_eq!((arguments.listen.len(), arguments.topic.len(), arguments.set.len()), (2, 1, 2));
    }

    #[test]
    fn version_may_be_verbose_but_verbose_is_no_command() {
        assert!(matches!(parse(&["--version", "--verbose"]), Ok(Command::Version { verbose: true })));
        assert!(matches!(parse(&["-V"]), Ok(Command::Version { verbose: false })));
        assert!(parse(&["--verbose"]).is_err());
        assert!(version(true).contains("\nfeatures: "));
    }

    #[test]
    fn a_journal_is_verified_repaired_or_dumped() {
        for (word, task) in
            [("verify", JournalTask::Verify), ("repair", JournalTask::Repair), ("dump", JournalTask::Dump)]
        {
            let Ok(Command::Journal(arguments)) = parse(&["journal", word, "--data-dir", "/d"]) else {
                panic!("{word}")
            };
            assert_eq!((arguments.task, &*arguments.data_dir), (task, std::path::Path::new("/d")));
        }
        assert!(parse(&["journal"]).is_err());
    }

    #[test]
    fn config_lists_or_shows() {
        assert!(matches!(parse(&["config", "--list"]), Ok(Command::ListProperties(Format::Text))));
        let words = ["config", "--list", "--format", "markdown"];
        assert!(matches!(parse(&words), Ok(Command::ListProperties(Format::Markdown))));
        assert!(matches!(parse(&["config", "--cores", "2"]), Ok(Command::ShowConfig { all: false, .. })));
        assert!(parse(&["config", "--list", "--all"]).is_err());
    }

    #[test]
    fn every_option_of_the_table_is_an_option_of_serve() {
        let line = CommandLine::command();
        let serve = line.find_subcommand("serve").expect("serve");
        for key in keys::all() {
            let Some(flag) = key.flag else { continue };
            let (name, placeholder) = flag.trim_start_matches("--").split_once(' ').expect("--name PLACEHOLDER");
            let option = serve.get_arguments().find(|option| option.get_long() == Some(name));
            let option = option.unwrap_or_else(|| panic!("serve has no --{name}"));
            assert_eq!(option.get_value_names().expect("a placeholder")[0].as_str(), placeholder);
        }
    }

    #[test]
    fn completions_are_written_for_every_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            write_completions(shell, &mut script);
            assert!(String::from_utf8(script).expect("text").contains("serve"));
        }
    }
}
