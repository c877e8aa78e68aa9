//! Where a value was written, for messages and for precedence; and what a start-up says about the values.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value comes from. The order is the precedence: the greater wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the properties file.
    File {
        /// As it was named on the command line.
        path: Arc<Path>,
        /// Counted from 1.
        line: usize,
    },
    /// An option of the command line, for example `--cores`.
    Flag(&'static str),
    /// `--set`.
    Set,
}

impl Origin {
    /// Precedence: a value of higher rank hides one of lower rank.
    pub fn rank(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File { .. } => 1,
            Origin::Flag(_) => 2,
            Origin::Set => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => write!(f, "default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Flag(flag) => write!(f, "{flag}"),
            Origin::Set => write!(f, "--set"),
        }
    }
}

/// Something that the owner should know, or may want to know, about the configuration; it does not stop the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// WARN, or DEBUG for what most owners need not read.
    pub level: tracing::Level,
    /// One line, beginning with where the value was written.
    pub text: String,
}

impl Notice {
    pub(super) fn warn(text: impl Into<String>) -> Notice {
        Notice { level: tracing::Level::WARN, text: text.into() }
    }

    pub(super) fn debug(text: impl Into<String>) -> Notice {
        Notice { level: tracing::Level::DEBUG, text: text.into() }
    }

    /// Writes it to the log.
    pub fn log(&self) {
        match self.level {
            tracing::Level::WARN => tracing::warn!("{}", self.text),
            _ => tracing::debug!("{}", self.text),
        }
    }
}

/// One reason why the configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written.
    pub origin: Origin,
    /// What is wrong and, where it is not obvious, what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Default => write!(f, "{}", self.message),
            _ => write!(f, "{}: {}", self.origin, self.message),
        }
    }
}

/// Why the server does not start: every reason found, not only the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
