#!/usr/bin/env python3
"""What a Heartbeat waits for while many offsets are committed durably, beside an idle server.

    perf/under_commits.py [--rate 100000] [--rounds 5] [--seconds 5] [--journal fsync]

In each round 64 connections send HEARTBEATS heartbeats a second at even intervals, first alone, then while other 64 connections
commit RATE offsets a second. Latency counts from when a request was due. The server has the first allowed CPU, both loads
share the last one, so what the loads wait for each other is in the figures.
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=os.path.join(ROOT, "target/release/rallypoint"))
    parser.add_argument("--perf", default=os.path.join(ROOT, "target/release/rallypoint-perf"))
    parser.add_argument("--port", type=int, default=19392)
    parser.add_argument("--rate", type=int, default=100_000, help="commits a second")
    parser.add_argument("--heartbeats", type=int, default=2_000, help="a second")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--journal", default="fsync", help="rallypoint.journal.mode")
    return parser.parse_args()


def await_port(port):
    for _ in range(250):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
    sys.exit("the server did not start")


def load(chosen, kind, rate, pipelined, seconds):
    command = [chosen.perf, "load", kind, "127.0.0.1:%d" % chosen.port, "--json", "--rate", str(rate),
               "--connections", "64", "--pipelined", str(pipelined), "--seconds", str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def result(process):
    out, _ = process.communicate()
    if process.returncode:
        sys.exit("a load failed with status %d" % process.returncode)
    return json.loads(out)


def main():
    chosen = options()
    folder = tempfile.mkdtemp(prefix="rallypoint-under-commits-", dir=os.path.join(ROOT, "target"))
    cpu = min(os.sched_getaffinity(0))
    server = subprocess.Popen(
        ["taskset", "-c", str(cpu), chosen.server, "serve", "--cores", "1", "--listen", "127.0.0.1:%d" % chosen.port,
         "--data-dir", folder, "--set", "rallypoint.journal.mode=" + chosen.journal],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = []
    try:
        await_port(chosen.port)
        print("| round | commits/s | core busy | Heartbeat p50 us | p99 us | p99.9 us | commit p50 us | p99 us |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|")
        for number in range(1, chosen.rounds + 1):
            idle = result(load(chosen, "heartbeat", chosen.heartbeats, 4, chosen.seconds))
            commits = load(chosen, "offset-commit", chosen.rate, 256, chosen.seconds + 3)
            time.sleep(1.5)
            busy = result(load(chosen, "heartbeat", chosen.heartbeats, 4, chosen.seconds))
            commits = result(commits)
            for name, beat, commit in (("idle", idle, None), ("commits", busy, commits)):
                shown = [commit[key] for key in ("p50_us", "p99_us")] if commit else ["", ""]
                print("| %d, %s | %s | %.2f | %s | %s | %s | %s | %s |" % (
                    number, name, "%.0f" % commit["requests_per_s"] if commit else 0, beat["server_cpu_share"],
                    beat["p50_us"], beat["p99_us"], beat["p999_us"], *shown), flush=True)
            rows.append(busy["p99_us"] / idle["p99_us"])
        print("\nHeartbeat p99 under commits: %.2f times idle (median of %d rounds, %.2f to %.2f)" % (
            statistics.median(rows), len(rows), min(rows), max(rows)))
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
