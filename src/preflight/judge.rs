//! What a reading means and what to do about it. Reads nothing itself.

use std::io::{self, ErrorKind};
use std::path::Path;

use super::{FILES_RESERVED, Finding, Severity};
use crate::config::host_and_port;
use crate::config::ports::PortError;
use crate::control::file::OpenError;

/// Multishot receive, deferred task work and provided buffer rings are all there and sound.
const KERNEL_MIN: (u32, u32) = (6, 1);

/// What glommio asks for before it makes an executor.
const LOCKED_MEMORY_MIN_BYTES: u64 = 512 << 10;

/// Fewer connections than this are hardly a fleet.
const FILES_WANTED: u64 = 10_000;

pub(super) fn kernel(release: &str) -> Finding {
    let release = release.trim();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (major, minor) = KERNEL_MIN;
    if version >= KERNEL_MIN {
        return fine("kernel", format!("Linux {release}"));
    }
    let remedy = format!("Linux {major}.{minor} or newer is needed; there is no fall-back.");
    failure("kernel", format!("Linux {release}"), remedy)
}

/// `disabled` is kernel.io_uring_disabled, empty where the kernel has no such switch.
pub(super) fn io_uring(disabled: &str, ring: io::Result<()>) -> Finding {
    let Err(error) = ring else {
        return fine("io_uring", "a ring can be made".to_owned());
    };
    let remedy = match (disabled, error.raw_os_error()) {
        ("2", _) => "It is switched off for all: sysctl kernel.io_uring_disabled=0.",
        ("1", Some(libc::EPERM)) => {
            "It is switched off for other users than root: sysctl kernel.io_uring_disabled=0, or give the process a group \
             and set kernel.io_uring_group to it."
        }
        (_, Some(libc::EPERM)) => {
            "A seccomp filter forbids it, as Docker's default does: docker run --security-opt seccomp=unconfined, or a \
             profile that allows io_uring_setup, io_uring_enter and io_uring_register."
        }
        (_, Some(libc::ENOSYS)) => "This kernel (or sandbox) has no io_uring: use another.",
        (_, Some(libc::EINVAL)) => "This kernel lacks what a core's ring needs: Linux 6.1 or newer has it.",
        (_, Some(libc::ENOMEM)) => {
            "Raise the limit of locked memory: ulimit -l unlimited, or LimitMEMLOCK=infinity in systemd."
        }
        _ => "A core cannot work without a ring.",
    };
    failure("io_uring", format!("no ring can be made: {error}"), remedy.to_owned())
}

/// `limit` is in bytes; none is unlimited.
pub(super) fn locked_memory(limit: Option<u64>) -> Finding {
    const SUBJECT: &str = "locked memory";
    const REMEDY: &str = "Raise the hard limit: ulimit -Hl unlimited as root, LimitMEMLOCK=infinity in systemd, or docker run --ulimit memlock=-1.";
    match limit {
        Some(bytes) if bytes < LOCKED_MEMORY_MIN_BYTES => {
            let found = format!("limited to {} KiB, {} KiB are needed", bytes >> 10, LOCKED_MEMORY_MIN_BYTES >> 10);
            failure(SUBJECT, found, REMEDY.to_owned())
        }
        Some(bytes) => fine(SUBJECT, format!("limited to {} KiB", bytes >> 10)),
        None => fine(SUBJECT, "not limited".to_owned()),
    }
}

/// No `limit` is unlimited.
pub(super) fn open_files(limit: Option<u64>, max_connections: usize) -> Finding {
    const SUBJECT: &str = "open files";
    const REMEDY: &str =
        "Raise it: ulimit -Hn 1048576, LimitNOFILE=1048576 in systemd, or docker run --ulimit nofile=1048576.";
    let Some(limit) = limit else {
        return fine(SUBJECT, "not limited".to_owned());
    };
    let connections = limit.saturating_sub(2 * FILES_RESERVED);
    let found = format!("limited to {limit}, enough for {connections} connections");
    let wanted = FILES_WANTED.min(max_connections as u64);
    match () {
        () if connections == 0 => failure(SUBJECT, found, REMEDY.to_owned()),
        () if connections < wanted => warning(SUBJECT, found, REMEDY.to_owned()),
        () => fine(SUBJECT, found),
    }
}

pub(super) fn processors(cores: usize, allowed: usize) -> Finding {
    let found = format!("{allowed} may be used, {cores} wanted");
    if allowed == 0 {
        return failure("processors", found, "They cannot be found out: is /proc mounted?".to_owned());
    }
    if cores <= allowed {
        return fine("processors", found);
    }
    let remedy = format!("Cores would share a processor and wait for each other: use --cores {allowed}.");
    warning("processors", found, remedy)
}

pub(super) fn no_ports(error: &PortError) -> Finding {
    failure("ports", error.to_string(), "Set other ports, or another rallypoint.core.port.stride.".to_owned())
}

/// `problem` is the first port that could not be bound.
pub(super) fn ports(listener: &str, host: &str, ports: &[u16], problem: Option<&(u16, io::Error)>) -> Finding {
    let Some((port, error)) = problem else {
        let list: Vec<String> = ports.iter().map(u16::to_string).collect();
        return fine("ports", format!("{listener} on {host}: {} can be bound", list.join(", ")));
    };
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => {
            format!("Something listens there already (ss -ltnp 'sport = :{port}' shows what): end it, or use --listen.")
        }
        ErrorKind::AddrNotAvailable => format!("{host} is not an address of this machine: use another in --listen."),
        ErrorKind::PermissionDenied => {
            "Ports below 1024 need CAP_NET_BIND_SERVICE: use a higher one in --listen.".to_owned()
        }
        _ => format!("Is {host} a name that this machine knows? An address in --listen needs no name service."),
    };
    failure("ports", format!("{listener} cannot bind {}: {error}", host_and_port(host, *port)), remedy)
}

/// A port from which the system may let an outgoing connection start can be taken when the server starts. `outgoing` is
/// net.ipv4.ip_local_port_range, `reserved` is net.ipv4.ip_local_reserved_ports.
pub(super) fn ports_of_outgoing_connections(outgoing: &str, reserved: &str, ports: &[u16]) -> Option<Finding> {
    let mut bounds = outgoing.split_whitespace().map(str::parse::<u16>);
    let (Some(Ok(first)), Some(Ok(last))) = (bounds.next(), bounds.next()) else { return None };
    let is_reserved = |port: u16| {
        reserved.trim().split(',').any(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            matches!((from.parse::<u16>(), to.parse::<u16>()), (Ok(from), Ok(to)) if (from..=to).contains(&port))
        })
    };
    let within = ports.iter().filter(|port| (first..=last).contains(*port) && !is_reserved(**port));
    let list: Vec<String> = within.map(u16::to_string).collect();
    if list.is_empty() {
        return None;
    }
    let list = list.join(",");
    let found = format!("{list}: an outgoing connection of this machine may hold it ({first} to {last} are for those)");
    let remedy = format!("Use ports below {first}, or sysctl net.ipv4.ip_local_reserved_ports={list}.");
    Some(warning("ports", found, remedy))
}

pub(super) fn data_dir(dir: &Path, is_there: bool, probe: io::Result<()>) -> Finding {
    let dir = dir.display();
    match probe {
        Ok(()) if is_there => fine("data directory", format!("{dir} can be written")),
        Ok(()) => fine("data directory", format!("{dir} can be made")),
        Err(error) => {
            let remedy = "Give the user of this process the right to write there, or use another --data-dir.";
            failure("data directory", format!("{dir} cannot be written: {error}"), remedy.to_owned())
        }
    }
}

/// What a start would say; its error has the remedy in it.
pub(super) fn data_dir_is_refused(error: &OpenError) -> Finding {
    failure("data directory", error.to_string(), String::new())
}

fn fine(subject: &'static str, found: String) -> Finding {
    Finding { subject, severity: Severity::Fine, found, remedy: String::new() }
}

fn warning(subject: &'static str, found: String, remedy: String) -> Finding {
    Finding { subject, severity: Severity::Warning, found, remedy }
}

fn failure(subject: &'static str, found: String, remedy: String) -> Finding {
    Finding { subject, severity: Severity::Failure, found, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_from_6_1_on() {
        for release in ["6.1.0-13-amd64\n", "6.12", "7.0.0-rc1", "10.2.3"] {
            assert_eq!(kernel(release).severity, Severity::Fine, "{release}");
        }
        for release in ["6.0.19", "5.15.0-91-generic", "4.19", ""] {
            assert_eq!(kernel(release).severity, Severity::Failure, "{release}");
        }
    }

    #[test]
    fn a_ring_that_cannot_be_made_has_the_remedy_of_its_cause() {
        let remedy = |disabled, code| io_uring(disabled, Err(io::Error::from_raw_os_error(code))).remedy;
        assert_eq!(io_uring("2", Ok(())).severity, Severity::Fine);
        assert!(remedy("2", libc::EPERM).contains("for all"));
        assert!(remedy("1", libc::EPERM).contains("io_uring_group"));
        assert!(remedy("0", libc::EPERM).contains("seccomp"));
        assert!(remedy("", libc::EPERM).contains("seccomp"));
        assert!(remedy("0", libc::ENOMEM).contains("ulimit -l"));
        assert!(remedy("0", libc::EINVAL).contains("6.1"));
    }

    #[test]
    fn locked_memory_at_and_below_what_is_needed() {
        assert_eq!(locked_memory(Some((512 << 10) - 1)).severity, Severity::Failure);
        assert_eq!(locked_memory(Some(512 << 10)).severity, Severity::Fine);
        assert_eq!(locked_memory(None).found, "not limited");
    }

    #[test]
    fn open_files_are_counted_in_connections() {
        let of = |limit, max_connections| open_files(Some(limit), max_connections);
        assert_eq!(of(20_256, usize::MAX).found, "limited to 20256, enough for 20000 connections");
        assert_eq!(of(10_256, usize::MAX).severity, Severity::Fine);
        assert_eq!(of(10_255, usize::MAX).severity, Severity::Warning);
        assert_eq!(of(10_255, 500).severity, Severity::Fine);
        assert_eq!(of(256, 0).severity, Severity::Failure);
        assert_eq!(open_files(None, usize::MAX).severity, Severity::Fine);
    }

    #[test]
    fn more_cores_than_processors_is_a_warning() {
        assert_eq!(processors(2, 2).severity, Severity::Fine);
        let found = processors(3, 2);
        assert_eq!((found.severity, found.remedy.ends_with("--cores 2.")), (Severity::Warning, true));
        assert_eq!(processors(1, 0).severity, Severity::Failure);
    }

    #[test]
    fn ports_that_outgoing_connections_use_are_warned_of_unless_reserved() {
        let of = |reserved, ports: &[u16]| ports_of_outgoing_connections("32768\t60999\n", reserved, ports);
        assert_eq!(of("\n", &[9092, 32_767, 61_000]), None);
        let warning = of("\n", &[32_767, 32_768, 60_999]).expect("two are within");
        assert_eq!(warning.severity, Severity::Warning);
        assert!(warning.remedy.ends_with("ip_local_reserved_ports=32768,60999."), "{}", warning.remedy);
        assert_eq!(of("8080,40000-40002\n", &[40_000, 40_002]), None);
        assert!(of("8080,40000-40002\n", &[40_000, 40_003]).expect("one").found.starts_with("40003:"));
        assert_eq!(ports_of_outgoing_connections("", "", &[40_000]), None);
    }

    #[test]
    fn ports_say_which_and_why() {
        assert_eq!(ports("A", "127.0.0.1", &[9092, 9093], None).found, "A on 127.0.0.1: 9092, 9093 can be bound");
        let of = |kind| ports("A", "::1", &[80], Some(&(80, io::Error::from(kind))));
        assert!(of(ErrorKind::AddrInUse).remedy.contains("ss -ltnp 'sport = :80'"));
        assert!(of(ErrorKind::AddrNotAvailable).found.starts_with("A cannot bind [::1]:80: "));
        assert!(of(ErrorKind::PermissionDenied).remedy.contains("CAP_NET_BIND_SERVICE"));
    }
}
