//! What a server tells of itself. Each core counts in cells of its own ([`CoreMetrics`], declared by one table in
//! [`table`]); a page adds them up when somebody asks. No core waits for a reader, or knows that there is one.
//!
//! - [`cells`] are the kinds of metrics, [`health`] says whether the cores are alive, [`page`] is the text.
//! - `process` reads what the kernel knows of the process, `endpoint` serves the page (feature `server`).

pub mod cells;
#[cfg(feature = "server")]
pub mod endpoint;
pub mod health;
pub mod page;
#[cfg(feature = "server")]
pub mod process;
pub mod table;

pub use page::Page;
pub use table::{CoreMetrics, Snapshot};
