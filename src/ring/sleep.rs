//! How a core waits for its ring. Normally it blocks in the ring itself. While glommio operations are outstanding it pends
//! as a glommio task instead, on an eventfd that the ring notifies; and however busy it is, it does so at least every half
//! millisecond, because glommio polls its rings only when its tasks pend.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use glommio::io::BufferedFile;

use super::outstanding;
use super::submit::Ring;
use super::wake::{eventfd, notify};

/// How long a busy ring may keep glommio's rings unpolled.
const BUSY_AT_MOST: Duration = Duration::from_micros(500);

/// The waiting side of a core.
#[derive(Default)]
pub struct Sleeper {
    through_glommio: Option<ThroughGlommio>,
}

struct ThroughGlommio {
    eventfd: OwnedFd,
    /// glommio reads only files that it opened: this one's descriptor was then made to name the eventfd.
    file: BufferedFile,
    pended: Instant,
}

impl Sleeper {
    /// Submits what the ring has and waits until something completed, or until other glommio tasks had their turn. Does not sleep
    /// if the core is busy: it has something to go on with.
    pub async fn wait(&mut self, ring: &mut Ring, is_busy: bool) -> io::Result<()> {
        if outstanding::count() == 0 {
            if let Some(glommio) = self.through_glommio.take() {
                glommio.close(ring).await?;
            }
            return if ring.is_submitted() && ring.has_completions() {
                Ok(())
            } else {
                ring.enter(u32::from(!is_busy))
            };
        }
        if self.through_glommio.is_none() {
            self.through_glommio = Some(ThroughGlommio::open(ring).await?);
        }
        let glommio = self.through_glommio.as_mut().expect("opened above");
        ring.enter(0)?;
        if is_busy || ring.has_completions() {
            if glommio.pended.elapsed() < BUSY_AT_MOST {
                return Ok(());
            }
            notify(glommio.eventfd.as_raw_fd());
            return glommio.pend().await;
        }
        ring.enable_notifications(true);
        // What completed before notifications were on would notify nobody.
        ring.enter(0)?;
        if !ring.has_completions() {
            glommio.pend().await?;
        }
        ring.enable_notifications(false);
        ring.enter(0)
    }
}

impl ThroughGlommio {
    async fn open(ring: &mut Ring) -> io::Result<ThroughGlommio> {
        let eventfd = eventfd()?;
        let file = BufferedFile::open("/dev/null").await.map_err(io::Error::from)?;
        // SAFETY: both descriptors are open and owned here; no read of the file is under way.
        if unsafe { libc::dup3(eventfd.as_raw_fd(), file.as_raw_fd(), libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        ring.io().submitter().register_eventfd(eventfd.as_raw_fd())?;
        ring.enable_notifications(false);
        Ok(ThroughGlommio { eventfd, file, pended: Instant::now() })
    }

    async fn pend(&mut self) -> io::Result<()> {
        self.file.read_at(0, size_of::<u64>()).await.map_err(io::Error::from)?;
        self.pended = Instant::now();
        Ok(())
    }

    async fn close(self, ring: &Ring) -> io::Result<()> {
        ring.io().submitter().unregister_eventfd()?;
        self.file.close().await.map_err(io::Error::from)
    }
}
