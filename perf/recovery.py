#!/usr/bin/env python3
"""How fast a start reads a journal: commits many offsets, stops the server, and starts it again some times.

    perf/recovery.py target/release/rallypoint [--groups 200] [--partitions 1000] [--times 10] [--segment-bytes 268435456]

Each of GROUPS x PARTITIONS offsets is committed TIMES times, so all records are in the log and none in a snapshot. `wall` goes
from the start of the process to "loaded", `CPU` is that of the whole process until then; `cold` starts after the files were
dropped from the page cache. One core.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "wire"))
from kwire import Conn, WireError  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def start(self):
        self.log = os.path.join(self.folder, "log")
        command = [self.options.server, "serve", "--cores", "1", "--listen", "127.0.0.1:%d" % self.options.port,
                   "--data-dir", os.path.join(self.folder, "data"), "--topic", "t:%d" % self.options.partitions,
                   "--set", "rallypoint.journal.segment.bytes=%d" % self.options.segment_bytes]
        self.process = subprocess.Popen(command, stderr=open(self.log, "wb"), stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def files(self):
        return glob.glob(os.path.join(self.folder, "data", "journal", "*", "*", "*"))

    def wait_until_loaded(self):
        while self.process.poll() is None:
            found = re.search(rb"loaded .*?entries\D*(\d+)", re.sub(rb"\x1b\[[0-9;]*m", b"", open(self.log, "rb").read()))
            if found:
                return int(found.group(1))
            time.sleep(0.002)
        sys.exit(open(self.log).read())


def commit(options):
    for _ in range(500):
        try:
            conn = Conn("127.0.0.1", options.port)
            conn.call("ApiVersions", 3)
            break
        except (OSError, WireError):
            time.sleep(0.02)
    while conn.call("FindCoordinator", 4, KeyType=0, CoordinatorKeys=["g"])["Coordinators"][0]["ErrorCode"]:
        time.sleep(0.02)
    rows = [{"PartitionIndex": i, "CommittedOffset": 1_000_000 + i, "CommittedLeaderEpoch": -1, "CommittedMetadata": ""}
            for i in range(options.partitions)]
    requests = [conn.request_bytes("OffsetCommit", 8, GroupId="group-%04d" % group, GenerationIdOrMemberEpoch=-1,
                                   MemberId="", Topics=[{"Name": "t", "Partitions": rows}])
                for group in range(options.groups)]
    for _ in range(options.times):
        for request in requests:
            conn.send_raw(request)
            conn.recv_frame()


def drop_cache(paths):
    os.sync()
    for path in paths:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_only(paths):
    """The disk's ceiling: bytes and seconds. Segments are read to their end, empty room included, as a start does not."""
    began, read_bytes, buffer = time.monotonic(), 0, bytearray(1 << 20)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                read_bytes += count
    return read_bytes, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--segment-bytes", type=int, default=256 << 20)
    parser.add_argument("--port", type=int, default=19_412)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="recovery-")
    server = Server(options, folder)
    server.start()
    try:
        commit(options)
        server.stop()
        for kind in ["warm"] * 3 + ["cold"] * 2:
            if kind == "cold":
                drop_cache(server.files())
            began = time.monotonic()
            server.start()
            entries = server.wait_until_loaded()
            wall = time.monotonic() - began
            words = open("/proc/%d/stat" % server.process.pid).read().split(") ")[1].split()
            cpu = (int(words[11]) + int(words[12])) / TICKS
            rss = int(open("/proc/%d/statm" % server.process.pid).read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            print("%s: %d records in %.2f s, %.2f s of CPU: %.2f M/s, %.2f M/s of CPU; RSS %d MiB" % (
                kind, entries, wall, cpu, entries / wall / 1e6, entries / cpu / 1e6, rss >> 20), flush=True)
            server.stop()
        drop_cache(server.files())
        read_bytes, seconds = read_only(server.files())
        print("disk: the same files, only read, cold: %d MiB in %.2f s, as %.2f M records/s" % (
            read_bytes >> 20, seconds, entries / seconds / 1e6))
    finally:
        if server.process.poll() is None:
            server.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
