#!/usr/bin/env python3
"""Commits from several connections while the server is killed with SIGKILL, round after round, on real files.

After each start: every acknowledged commit is there, no offset is below what was acknowledged or above what was sent;
members go on under their ids with their assignments; a group's generation has not gone back; cluster, node and topic ids
are the same. Every third round begins with another number of cores; the first starts of it are killed too, at a random
moment, so that re-distribution is cut short.

The last line is `N passed, N failed`, counted in rounds. SIGKILL does not lose what the system has in memory: a failure of
the power is what the tests of the journal and of the shards simulate.
"""
import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "wire"))
from kwire import Conn, WireError  # noqa: E402

TOPIC, PARTITIONS, PIPELINED = "t", 6, 8
GROUPS_OF_CONNECTION = 5
LOADING, NOT_COORDINATOR, NOT_AVAILABLE = 14, 16, 15


class Fault(Exception):
    pass


def free_ports(count):
    """A base port with some free ports behind it, below those that the system hands out."""
    for _ in range(100):
        base = random.randrange(10_000, 30_000)
        try:
            sockets = [socket.create_server(("127.0.0.1", base + i)) for i in range(count)]
        except OSError:
            continue
        for each in sockets:
            each.close()
        return base
    raise Fault("no free ports")


class Server:
    def __init__(self, options, folder):
        self.options, self.folder, self.process = options, folder, None
        self.port = free_ports(8)
        self.log = open(os.path.join(folder, "log"), "ab")

    def start(self, cores):
        command = [self.options.server, "serve", "--cores", str(cores), "--listen", "127.0.0.1:%d" % self.port,
                   "--data-dir", os.path.join(self.folder, "data"), "--topic", "%s:%d" % (TOPIC, PARTITIONS),
                   "--set", "rallypoint.journal.segment.bytes=65536", "--set", "group.initial.rebalance.delay.ms=0"]
        command += [word for setting in self.options.set for word in ("--set", setting)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise Fault("the server ended with status %d; see %s" % (self.process.returncode, self.log.name))
            try:
                with Conn("127.0.0.1", self.port, timeout=10) as conn:
                    conn.call("ApiVersions", 3)
                return
            except (OSError, WireError):  # The start looks whether the ports are free, and closes them again.
                time.sleep(0.02)
        raise Fault("the server does not listen")

    def coordinator(self, group):
        """A connection to a group's coordinator, once there is one."""
        for _ in range(500):
            with Conn("127.0.0.1", self.port, timeout=10) as conn:
                row = conn.call("FindCoordinator", 4, KeyType=0, CoordinatorKeys=[group])["Coordinators"][0]
            if row["ErrorCode"] == 0:
                return Conn(row["Host"], row["Port"], timeout=10)
            time.sleep(0.02)
        raise Fault("no coordinator for %s" % group)

    def identity(self):
        with Conn("127.0.0.1", self.port, timeout=10) as conn:
            answer = conn.call("Metadata", 12, Topics=[{"Name": TOPIC}])
        return answer["ClusterId"], answer["Topics"][0]["TopicId"], sorted(b["NodeId"] for b in answer["Brokers"])


def retried(call, error_of):
    for _ in range(500):
        answer = call()
        if error_of(answer) not in (LOADING, NOT_COORDINATOR, NOT_AVAILABLE):
            return answer
        time.sleep(0.02)
    raise Fault("still not available: %s" % answer)


class Committer(threading.Thread):
    """Commits ever larger offsets for its groups until the connection breaks."""

    def __init__(self, server, groups, state):
        super().__init__(daemon=True)
        self.server, self.groups, self.state, self.count, self.fault = server, groups, state, 0, None

    def run(self):
        conns = {}
        try:
            for group in self.groups:
                conns[group] = self.server.coordinator(group)
            waiting = []
            while True:
                group = random.choice(self.groups)
                partition, conn = random.randrange(PARTITIONS), conns[group]
                acknowledged, sent = self.state[group, partition]
                sent += 1
                self.state[group, partition] = (acknowledged, sent)
                conn.send("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="", Topics=[
                    {"Name": TOPIC, "Partitions": [{"PartitionIndex": partition, "CommittedOffset": sent,
                                                    "CommittedLeaderEpoch": -1, "CommittedMetadata": ""}]}])
                waiting.append((group, partition, sent, conn))
                while len(waiting) > PIPELINED:
                    self.take(*waiting.pop(0))
        except (OSError, WireError):
            pass
        except Exception as fault:
            self.fault = fault
        finally:
            for conn in conns.values():
                conn.close()

    def take(self, group, partition, offset, conn):
        code = conn.recv()["Topics"][0]["Partitions"][0]["ErrorCode"]
        if code == 0:
            self.state[group, partition] = (offset, self.state[group, partition][1])
            self.count += 1
        elif code not in (LOADING, NOT_COORDINATOR, NOT_AVAILABLE):
            raise Fault("commit of %s: error %d" % (group, code))


class Rebalancer(threading.Thread):
    """A group of one member that comes and goes: generations only grow."""

    def __init__(self, server, generation):
        super().__init__(daemon=True)
        self.server, self.generation, self.count, self.fault = server, generation, 0, None

    def run(self):
        try:
            with self.server.coordinator("restless") as conn:
                while True:
                    member = joined(conn, "restless", None)
                    if member["GenerationId"] <= self.generation:
                        raise Fault("generation %d after %d" % (member["GenerationId"], self.generation))
                    answer = synced(conn, "restless", member, b"all")
                    if answer["ErrorCode"] == 0:
                        self.generation = member["GenerationId"]
                        self.count += 1
                    if random.random() < 0.5:
                        conn.call("LeaveGroup", 2, GroupId="restless", MemberId=member["MemberId"])
        except (OSError, WireError):
            pass
        except Exception as fault:
            self.fault = fault


def joined(conn, group, instance):
    version = 5 if instance else 3
    answer = retried(lambda: conn.call(
        "JoinGroup", version, GroupId=group, SessionTimeoutMs=300_000, RebalanceTimeoutMs=50, MemberId="",
        GroupInstanceId=instance, ProtocolType="consumer", Protocols=[{"Name": "range", "Metadata": b""}]),
        lambda answer: answer["ErrorCode"])
    if answer["ErrorCode"] != 0:
        raise Fault("JoinGroup of %s: error %d" % (group, answer["ErrorCode"]))
    return answer


def synced(conn, group, member, assignment):
    plan = [{"MemberId": member["MemberId"], "Assignment": assignment}] if assignment else []
    return retried(lambda: conn.call("SyncGroup", 2, GroupId=group, GenerationId=member["GenerationId"],
                                     MemberId=member["MemberId"], Assignments=plan), lambda answer: answer["ErrorCode"])


def make_members(server):
    """Groups whose members stay through all rounds, one of them static."""
    members = {}
    for number in range(8):
        group, assignment = "steady-%d" % number, b"part-%d" % number
        with server.coordinator(group) as conn:
            member = joined(conn, group, "static" if number == 0 else None)
            if synced(conn, group, member, assignment)["ErrorCode"] != 0:
                raise Fault("SyncGroup of %s" % group)
        members[group] = (member, assignment)
    return members


def check_members(server, members):
    for group, (member, assignment) in members.items():
        with server.coordinator(group) as conn:
            # While the group is loaded, a SyncGroup is told to start over.
            fetched(conn, group)
            answer = synced(conn, group, member, None)
            if (answer["ErrorCode"], bytes(answer["Assignment"])) != (0, assignment):
                raise Fault("%s: %s instead of %s" % (group, answer, assignment))
            beat = conn.call("Heartbeat", 2, GroupId=group, GenerationId=member["GenerationId"],
                             MemberId=member["MemberId"])
            if beat["ErrorCode"] != 0:
                raise Fault("Heartbeat of %s: error %d" % (group, beat["ErrorCode"]))


def fetched(conn, group):
    return retried(lambda: conn.call("OffsetFetch", 5, GroupId=group, Topics=[
        {"Name": TOPIC, "PartitionIndexes": list(range(PARTITIONS))}]), lambda answer: answer["ErrorCode"])


def check_offsets(server, groups, state):
    for group in groups:
        with server.coordinator(group) as conn:
            answer = fetched(conn, group)
        for row in answer["Topics"][0]["Partitions"]:
            key, found = (group, row["PartitionIndex"]), row["CommittedOffset"]
            acknowledged, sent = state[key]
            if not acknowledged <= found <= sent:
                raise Fault("%s: %d is there, %d was acknowledged, %d sent" % (key, found, acknowledged, sent))
            state[key] = (found, sent)


def one_round(server, cores, is_new_layout, options, known):
    if is_new_layout:
        for _ in range(2):
            server.start(cores)
            time.sleep(random.uniform(0.0, 0.12))
            server.kill()
    server.start(cores)
    server.wait()
    cluster, topic, nodes = server.identity()
    if nodes != list(range(1, cores + 1)):
        raise Fault("nodes %s of %d cores" % (nodes, cores))
    if known.setdefault("identity", (cluster, topic)) != (cluster, topic):
        raise Fault("cluster and topic were %s, are %s" % (known["identity"], (cluster, topic)))
    if "members" not in known:
        known["members"] = make_members(server)
    check_members(server, known["members"])
    check_offsets(server, known["groups"], known["state"])
    step = GROUPS_OF_CONNECTION
    threads = [Committer(server, known["groups"][i:i + step], known["state"])
               for i in range(0, len(known["groups"]), step)]
    threads.append(Rebalancer(server, known["generation"]))
    for thread in threads:
        thread.start()
    time.sleep(random.uniform(0.2, options.seconds))
    server.kill()
    for thread in threads:
        thread.join(15)
        if thread.fault:
            raise thread.fault
    known["generation"] = threads[-1].generation
    known["commits"] += sum(thread.count for thread in threads[:-1])
    known["rebalances"] += threads[-1].count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the command rallypoint")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.5, help="most that a round lasts")
    parser.add_argument("--connections", type=int, default=4, help="that commit")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for the server")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of what is random here")
    options = parser.parse_args()
    random.seed(options.seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no server is left behind
    folder = tempfile.mkdtemp(prefix="kill9-")
    groups = ["group-%d" % i for i in range(options.connections * GROUPS_OF_CONNECTION)]
    state = {(group, partition): (-1, -1) for group in groups for partition in range(PARTITIONS)}
    known = {"groups": groups, "state": state, "generation": 0, "commits": 0, "rebalances": 0}
    server, cores, passed, failed = Server(options, folder), 1, 0, 0
    for number in range(options.rounds):
        is_new_layout = number % 3 == 2
        if is_new_layout:
            cores = 3 - cores
        try:
            one_round(server, cores, is_new_layout, options, known)
            passed += 1
            if passed % 20 == 0:
                print("%d rounds" % passed, flush=True)
        except (Fault, WireError, OSError) as fault:
            failed += 1
            print("round %d, %d cores, seed %d: %s: %s" % (number, cores, options.seed, type(fault).__name__, fault))
            break
        finally:
            if server.process and server.process.poll() is None:
                server.kill()
    print("%d commits were acknowledged, %d generations completed" % (known["commits"], known["rebalances"]))
    if failed:
        print("kept: %s" % folder)
    else:
        shutil.rmtree(folder)
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
