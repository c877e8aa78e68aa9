#!/usr/bin/env python3
"""What a Heartbeat waits for while many offsets are committed durably, and what a commit waits for: the server beside a floor
that does nothing, and beside the disk.

    perf/under_commits.py [--rate 100000] [--bursts 300000] [--rounds 5] [--seconds 4] [--journal fsync]

In each round, for the floor and then for the server, 64 connections send HEARTBEATS heartbeats a second at even intervals, first
alone, then while other 64 connections commit RATE offsets a second, at even intervals and then in bursts of 32 on a connection. Then
the commits are measured alone: RATE at even intervals, BURSTS in bursts. Latency counts from when a request was due. Server and floor have the first allowed CPU; both loads share
the last one, and so what they wait for each other, for the disk's interrupts and for the host of a virtual machine is in the figures
of both. The floor writes nothing to a disk: beside its commits `disk` says what the disk alone takes while the CPUs are as busy.
"""
import argparse
import ctypes
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEARTBEAT_API, COMMIT_API = 12, 8
BURST = 32
MEASURED = {
    "alone": "heartbeats alone",
    "beside even": "beside commits",
    "beside bursts": "beside bursts",
    "even": "commits alone",
    "bursts": "bursts alone",
}
SYS_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=os.path.join(ROOT, "target/release"), help="where the programs are")
    parser.add_argument("--port", type=int, default=19392, help="of the server; the floor has the next one")
    parser.add_argument("--rate", type=int, default=100_000, help="commits a second")
    parser.add_argument("--bursts", type=int, default=300_000, help="commits a second in bursts of 32, measured alone")
    parser.add_argument("--heartbeats", type=int, default=2_000, help="a second")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--journal", default="fsync", help="rallypoint.journal.mode")
    return parser.parse_args()


def with_short_slices():
    """The heartbeats' load is to run as soon as it wakes, whatever the other load does on the same CPU."""
    if SYS_SCHED_SETATTR:
        attributes = ctypes.create_string_buffer(struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 100_000, 0, 0))
        ctypes.CDLL(None).syscall(SYS_SCHED_SETATTR, 0, attributes, 0)


def must_be_free(port):
    """Else another server that has the port would be measured for ours."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            sys.exit("port %d: %s" % (port, error))


def await_port(port):
    for _ in range(250):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
    sys.exit("nothing listens on port %d" % port)


class Load:
    """The loads on one target."""

    def __init__(self, chosen, name, port):
        self.chosen, self.name, self.port = chosen, name, port

    def start(self, kind, rate, pipelined, seconds, burst=1):
        command = [os.path.join(self.chosen.folder, "rallypoint-perf"), "load", kind, "127.0.0.1:%d" % self.port, "--json",
                   "--rate", str(rate), "--connections", "64", "--pipelined", str(pipelined), "--seconds", str(seconds),
                   "--burst", str(burst)]
        command += ["--floor"] if self.name == "floor" else []
        before = with_short_slices if kind == "heartbeat" else None
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=before)

    def heartbeats(self):
        return result(self.start("heartbeat", self.chosen.heartbeats, 4, self.chosen.seconds))

    def commits(self, rate, seconds, burst):
        return self.start("offset-commit", rate, 64 if burst > 1 else 256, seconds, burst)

    def heartbeats_beside(self, burst):
        commits = self.commits(self.chosen.rate, self.chosen.seconds + 3, burst)
        time.sleep(1.5)
        beside = self.heartbeats()
        result(commits)
        return beside

    def round(self):
        return {
            "alone": self.heartbeats(),
            "beside even": self.heartbeats_beside(1),
            "beside bursts": self.heartbeats_beside(BURST),
            "even": result(self.commits(self.chosen.rate, self.chosen.seconds, 1)),
            "bursts": result(self.commits(self.chosen.bursts, self.chosen.seconds, BURST)),
        }


def result(process):
    out, _ = process.communicate()
    if process.returncode:
        sys.exit("a load failed with status %d" % process.returncode)
    return json.loads(out)


def disk_alone(chosen, folder):
    command = [os.path.join(chosen.folder, "disk"), folder, "2", "journal"]
    cells = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split("|")
    return {"p50_us": float(cells[7]), "p99_us": float(cells[8]), "over_time_us": float(cells[9])}


def disk_beside(chosen, floor, folder):
    commits = floor.commits(chosen.rate, 5, 1)
    time.sleep(1.5)
    found = disk_alone(chosen, folder)
    result(commits)
    return found


def row(number, name, it):
    cells = ["%.2f" % it[what]["server_cpu_share"] for what in MEASURED]
    cells += ["%.0f, %.0f" % (it[what]["p50_us"], it[what]["p99_us"]) for what in MEASURED]
    print("| %d, %s | %s |" % (number, name, " | ".join(cells)), flush=True)


def middle(values):
    return "%.3g (%.3g to %.3g)" % (statistics.median(values), min(values), max(values))


def report(rounds):
    for what in MEASURED:
        for name in ("floor", "server"):
            columns = [middle([it[name][what][key] for it in rounds]) for key in ("server_cpu_share", "p50_us", "p99_us")]
            print("%s, %s: core busy %s, p50 %s us, p99 %s us" % (MEASURED[what], name, *columns))
    for what in ("beside even", "beside bursts"):
        for name in ("floor", "server"):
            times = [it[name][what]["p99_us"] / it[name]["alone"]["p99_us"] for it in rounds]
            print("p99 of %s, times alone, %s: %s" % (MEASURED[what], name, middle(times)))
    for key in ("disk alone", "disk beside the floor's commits"):
        columns = [middle([it[key][at] for it in rounds]) for at in ("p50_us", "p99_us", "over_time_us")]
        print("%s: p50 %s us, p99 %s us, p99 over time %s us" % (key, *columns))
        for at in ("p99_us", "over_time_us"):
            wanted = [2 * it[key][at] + 1_000 for it in rounds]
            print("  twice its %s and 1 ms: %s us" % ({"p99_us": "p99", "over_time_us": "p99 over time"}[at], middle(wanted)))


def main():
    chosen = options()
    for port in (chosen.port, chosen.port + 1):
        must_be_free(port)
    folder = tempfile.mkdtemp(prefix="rallypoint-under-commits-", dir=os.path.join(ROOT, "target"))
    cpu = str(min(os.sched_getaffinity(0)))
    commands = [
        ["taskset", "-c", cpu, os.path.join(chosen.folder, "rallypoint"), "serve", "--cores", "1",
         "--listen", "127.0.0.1:%d" % chosen.port, "--data-dir", folder, "--set", "rallypoint.journal.mode=" + chosen.journal],
        [os.path.join(chosen.folder, "rallypoint-perf"), "floor", "127.0.0.1:%d" % (chosen.port + 1), "--cpu", cpu,
         "--reply", "%d:16" % HEARTBEAT_API, "--reply", "%d:29" % COMMIT_API],
    ]
    targets = [subprocess.Popen(it, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for it in commands]
    server, floor = Load(chosen, "server", chosen.port), Load(chosen, "floor", chosen.port + 1)
    rounds = []
    try:
        await_port(server.port)
        await_port(floor.port)
        print("%d heartbeats/s; %d commits/s, %d/s alone in bursts; how busy the core is, and p50 and p99 in us\n"
              % (chosen.heartbeats, chosen.rate, chosen.bursts))
        print("| round | %s |" % " | ".join(["busy: " + it for it in MEASURED.values()] + list(MEASURED.values())))
        print("|---|" + "--:|" * 2 * len(MEASURED))
        for number in range(1, chosen.rounds + 1):
            it = {"disk alone": disk_alone(chosen, folder)}
            for load in (floor, server):
                it[load.name] = load.round()
                row(number, load.name, it[load.name])
            it["disk beside the floor's commits"] = disk_beside(chosen, floor, folder)
            rounds.append(it)
        print()
        report(rounds)
    finally:
        for target in targets:
            target.terminate()
            target.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
