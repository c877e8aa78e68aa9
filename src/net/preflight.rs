//! Whether this machine and this process may run a server, said before anything starts, with the remedy.

use std::fmt;

use crate::ring::{Ring, RingSettings, Waker};

/// Descriptors that connections may not use: the journal, listeners and rings need some at any time.
const DESCRIPTOR_RESERVE: u64 = 128;

const KERNEL_MIN: (u32, u32) = (6, 1);

/// What glommio asks of RLIMIT_MEMLOCK.
const MEMLOCK_MIN_BYTES: u64 = 512 << 10;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Major and minor version of the running kernel.
    pub kernel: (u32, u32),
    /// CPUs that this process may use, ascending.
    pub cpus: Vec<usize>,
    /// Open files, after the soft limit was raised to the hard one.
    pub descriptors: u64,
    /// Bytes that may be locked, after the same.
    pub memlock_bytes: u64,
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { kernel: (major, minor), cpus, descriptors, memlock_bytes } = self;
        write!(f, "Linux {major}.{minor}, io_uring allowed, CPUs {cpus:?}, {descriptors} open files")?;
        if *memlock_bytes == u64::MAX { Ok(()) } else { write!(f, ", {} KiB locked memory", memlock_bytes >> 10) }
    }
}

/// Why a server cannot run here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The kernel lacks what the ring needs.
    #[error("Linux 6.1 or newer is needed, this is {0}: run on a newer kernel")]
    KernelTooOld(String),
    /// `kernel.io_uring_disabled`.
    #[error(
        "io_uring is switched off on this machine (kernel.io_uring_disabled = {0}): set it to 0 with `sysctl -w kernel.io_uring_disabled=0`"
    )]
    RingDisabled(String),
    /// A seccomp filter, as container engines have by default.
    #[error(
        "io_uring is forbidden for this process ({0}): in a container, allow it with a seccomp profile (`--security-opt seccomp=unconfined`, or one that allows io_uring_setup, io_uring_enter and io_uring_register)"
    )]
    RingForbidden(String),
    /// RLIMIT_MEMLOCK.
    #[error(
        "only {0} KiB may be locked in memory, 512 are needed: raise it with `ulimit -l 8192`, LimitMEMLOCK= in a systemd unit, or `--ulimit memlock=8388608` in a container"
    )]
    MemlockTooLow(u64),
    /// RLIMIT_NOFILE.
    #[error("only {0} files may be open, at least {min} are needed: raise it with `ulimit -n 1048576`, LimitNOFILE= in a systemd unit, or `--ulimit nofile=1048576` in a container", min = DESCRIPTOR_RESERVE * 2)]
    TooFewDescriptors(u64),
    /// sched_getaffinity has nothing.
    #[error("the CPUs that this process may use cannot be found out: is /proc mounted?")]
    NoCpus,
}

/// Looks at everything, raises soft limits to hard ones, and says what is in the way: all of it, not the first.
pub fn check() -> Result<Facts, Vec<Obstacle>> {
    let descriptors = raise(libc::RLIMIT_NOFILE);
    let memlock_bytes = raise(libc::RLIMIT_MEMLOCK);
    let (kernel, release) = kernel();
    let cpus = allowed_cpus();
    let mut obstacles = Vec::new();
    if kernel < KERNEL_MIN {
        obstacles.push(Obstacle::KernelTooOld(release));
    } else {
        obstacles.extend(ring_obstacle());
    }
    if memlock_bytes < MEMLOCK_MIN_BYTES {
        obstacles.push(Obstacle::MemlockTooLow(memlock_bytes >> 10));
    }
    if descriptors < DESCRIPTOR_RESERVE * 2 {
        obstacles.push(Obstacle::TooFewDescriptors(descriptors));
    }
    if cpus.is_empty() {
        obstacles.push(Obstacle::NoCpus);
    }
    if obstacles.is_empty() { Ok(Facts { kernel, cpus, descriptors, memlock_bytes }) } else { Err(obstacles) }
}

/// The CPUs that this process may use, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let mut cpus: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|cpu| cpu.id).collect();
    cpus.sort_unstable();
    cpus
}

/// The first descriptor that no connection may have.
pub(super) fn descriptor_ceiling() -> i32 {
    let limit = rlimit(libc::RLIMIT_NOFILE).rlim_cur;
    i32::try_from(limit.saturating_sub(DESCRIPTOR_RESERVE)).unwrap_or(i32::MAX)
}

fn kernel() -> ((u32, u32), String) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    (version(&release), release)
}

/// Major and minor of a kernel release such as `6.18.44-fc`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn ring_obstacle() -> Option<Obstacle> {
    let small = RingSettings { submissions: 8, completions: 16, buffers: 2, buffer_bytes: 4096 };
    let error = Waker::new().and_then(|waker| Ring::new(small, waker)).err()?;
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match disabled.trim() {
        "" | "0" => Some(Obstacle::RingForbidden(error.to_string())),
        value => Some(Obstacle::RingDisabled(value.to_owned())),
    }
}

/// Raises the soft limit to the hard one; the limit then in force.
fn raise(resource: libc::__rlimit_resource_t) -> u64 {
    let limit = rlimit(resource);
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    // SAFETY: the kernel reads one rlimit.
    if limit.rlim_cur < limit.rlim_max && unsafe { libc::setrlimit(resource, &raw const raised) } == 0 {
        return raised.rlim_cur;
    }
    limit.rlim_cur
}

fn rlimit(resource: libc::__rlimit_resource_t) -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit.
    let result = unsafe { libc::getrlimit(resource, &raw mut limit) };
    assert_eq!(result, 0, "the resource exists");
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_understood() {
        assert_eq!(version("6.18.44-fc-v669"), (6, 18));
        assert_eq!(version("5.4"), (5, 4));
        assert_eq!(version("7-rc1"), (7, 0));
        assert_eq!(version(""), (0, 0));
    }

    #[test]
    fn every_obstacle_names_a_remedy() {
        let all = [
            Obstacle::KernelTooOld("5.15.0".into()),
            Obstacle::RingDisabled("2".into()),
            Obstacle::RingForbidden("EPERM".into()),
            Obstacle::MemlockTooLow(64),
            Obstacle::TooFewDescriptors(100),
        ];
        for obstacle in all {
            let text = obstacle.to_string();
            assert!(
                text.contains(": ") && ["raise", "set", "allow", "run"].iter().any(|verb| text.contains(verb)),
                "{text}"
            );
        }
    }
}
