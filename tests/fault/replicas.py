#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One seeded run of a replica set under faults: replicas.py SEED DIR (see replicas.sh, which makes DIR and the network).

DIR has the volfiles member0.vol.., coordinator.vol and client.vol. The environment: BRICKS (directories), NS (what the names of the
network namespaces begin with: NS-hub routes, NS-m0.. are the servers', NS-c the coordinator's, NS-a and NS-b the mounts'), SMALL (the
member whose brick is on a small disk, or nothing), STRATUS, STRATUSD, SECONDS_OF_FAULTS. Addresses: 10.77.N.2, N is 1.. for servers, 10
for the coordinator, 11 and 12 for the mounts.

At most one member is hurt at a time: the next is hurt only when the coordinator says that all are in."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from replicas_work import BOUND, Broken, Excused, Judge, Mount, Worker

SEED, DIR = int(sys.argv[1]), sys.argv[2]
NS, SMALL = os.environ["NS"], os.environ.get("SMALL", "")
BRICKS = os.environ["BRICKS"].split()
STRATUS, STRATUSD = os.environ["STRATUS"], os.environ["STRATUSD"]
MOUNT_WORDS = os.environ.get("MOUNT_WORDS", "").split()  # of each mount: its key, if it has one
FAULT_SECONDS = float(os.environ.get("SECONDS_OF_FAULTS", "8"))
ONLY = os.environ.get("ONLY", "").split()  # kinds of faults; none: all
LEAST_FAULTS, LEAST_STEPS = 2, 100  # a run with less has proved nothing
HEAL_SECONDS = int(os.environ.get("HEAL_SECONDS", "240"))
SETTLE_SECONDS = 60  # until what a mount that was killed left half done is done or undone: its session ends after 3 s
START = time.monotonic()
WORKERS = 4
same_py = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../mount/same.py")
log_lock = threading.Lock()


def log(text, kind="events"):
    with log_lock, open(f"{DIR}/{kind}.log", "a") as f:
        f.write(f"{time.monotonic() - START:8.3f} {text}\n")


def sh(*args):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Process:
    """A server, the coordinator or a mount, in its namespace."""

    def __init__(self, name, namespace, *args):
        self.name, self.namespace, self.args = name, namespace, args
        self.log = f"{DIR}/{name}.log"
        self.proc = None
        self.stopped = False

    def start(self):
        with open(self.log, "ab") as out:
            out.write(f"=== started at {time.monotonic() - START:.3f}\n".encode())
            self.proc = subprocess.Popen(["nsenter", f"--net=/run/netns/{NS}-{self.namespace}", *self.args], stdout=out, stderr=out)

    def kill(self):
        self.proc.kill()
        self.proc.wait()
        self.proc = None

    def signal(self, number):
        self.stopped = number == signal.SIGSTOP
        self.proc.send_signal(number)

    def died(self):
        """It ended, and not because we killed it."""
        return self.proc is not None and self.proc.poll() is not None

    def end(self):
        if not self.proc:
            return
        if self.stopped:
            self.signal(signal.SIGCONT)
        self.proc.terminate()
        try:
            status = self.proc.wait(20)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise Broken(f"{self.name} does not end on SIGTERM")
        self.proc = None
        if status:
            raise Broken(f"{self.name} ended with status {status}")


class Client:
    """One of the two machines with a mount; a mount that was killed is followed by a new one in a new directory."""

    def __init__(self, cluster, name):
        self.cluster, self.name, self.count = cluster, name, 0
        self.process = self.mount = None

    def start(self):
        self.count += 1
        path = f"{DIR}/mnt-{self.name}{self.count}"
        os.mkdir(path)
        self.process = Process(f"mount-{self.name}{self.count}", self.name, STRATUS, "mount", "--foreground", *MOUNT_WORDS, f"{DIR}/client.vol", path)
        self.process.start()
        if not wait_for(25, lambda: os.path.ismount(path) or self.process.died()) or self.process.died():
            raise Broken(f"{path} is not mounted")
        if sh("timeout", "20", "stat", path + "/.").returncode:
            raise Broken(f"{path} does not answer")
        self.mount = Mount(f"{self.name}{self.count}", path)
        self.cluster.judge.mounts.append(self.mount)

    def kill(self):
        self.mount.killed_at = time.monotonic()
        self.cluster.judge.gone.append(self.mount)
        self.cluster.judge.mounts.remove(self.mount)
        self.process.kill()
        self.mount.killed_at = time.monotonic()


class Cluster:
    def __init__(self):
        self.judge = Judge(log)
        self.judge.gone = []
        if os.environ.get("KEEP") == "1":
            self.judge.log_step = lambda text: log(text, "steps")
        self.servers = [Process(f"member{i}", f"m{i}", STRATUSD, "--foreground", f"{DIR}/member{i}.vol") for i in range(len(BRICKS))]
        self.coordinator = Process("coordinator", "c", STRATUSD, "--foreground", f"{DIR}/coordinator.vol")
        self.clients = [Client(self, "a"), Client(self, "b")]

    def start_server(self, i):
        os.makedirs(f"{BRICKS[i]}/.stratus", exist_ok=True)
        self.servers[i].start()

    def start(self):
        for i in range(len(BRICKS)):
            self.start_server(i)
        self.coordinator.start()
        if not wait_for(30, self.all_in):
            raise Broken(f"the members do not come together: {self.says()}")
        for c in self.clients:
            c.start()
        os.mkdir(f"{self.clients[0].mount.path}/shared")

    def says(self):
        if not self.coordinator.proc or self.coordinator.stopped:
            return ""
        return "\n".join(line for line in sh("timeout", "5", STRATUS, "dump", str(self.coordinator.proc.pid)).stdout.splitlines()
                         if line.startswith("  member ") or "why" in line)

    def members(self, pattern):
        return len(re.findall(r"^  member \d: in, answers, " + pattern, self.says(), re.M)) == len(BRICKS)

    def all_in(self):
        return self.members(".*pending 0$")

    def check_alive(self):
        for p in self.servers + [self.coordinator] + [c.process for c in self.clients]:
            if p.died():
                self.judge.broken(f"{p.name} died by itself, status {p.proc.returncode}: {open(p.log, errors='replace').read()[-600:]}")

    def end(self):
        """Everything in order; what must not be left is a problem."""
        problems = []
        for m in self.judge.gone + [c.mount for c in self.clients if c.mount]:
            sh("umount", m.path) if m.killed_at is None else sh("umount", "-l", m.path)
        for p in [c.process for c in self.clients if c.process]:
            try:  # umount ends it
                p.proc.wait(20)
                p.proc = None
            except subprocess.TimeoutExpired:
                problems.append(f"{p.name} goes on after umount")
        for p in [self.coordinator] + self.servers:
            try:
                p.end()
            except Broken as e:
                problems.append(str(e))
        return problems

    def dump(self):
        for p in [c.process for c in self.clients if c.process] + [self.coordinator] + self.servers:
            if p.proc and not p.stopped:
                with open(f"{DIR}/{p.name}.dump", "w") as f:
                    f.write(sh("timeout", "5", STRATUS, "dump", str(p.proc.pid)).stdout)

    def kill_all(self):
        for m in self.judge.gone + self.judge.mounts:
            m.killed_at = m.killed_at or time.monotonic()
        for p in [c.process for c in self.clients if c.process] + [self.coordinator] + self.servers:
            if p.proc:
                p.kill()
        for name in os.listdir(DIR):
            if name.startswith("mnt-"):
                sh("umount", "-l", f"{DIR}/{name}")


# ---- the network ----

ADDRESS = {**{f"m{i}": f"10.77.{i + 1}.2" for i in range(len(BRICKS))}, "c": "10.77.10.2", "a": "10.77.11.2", "b": "10.77.12.2"}


def block(source, target):
    """What the one sends to the other is lost; "*": any."""
    rule = [x for key, who in (("from", source), ("to", target)) if who != "*" for x in (key, ADDRESS[who])]
    return ["ip", "-n", f"{NS}-hub", "rule", "add", "pref", "100", *rule, "blackhole"]


def undo(command):
    return ["del" if word == "add" else word for word in command]


class Faults:
    """Each kind is a generator: it hurts, yields for how long, and mends."""

    def __init__(self, cluster, rng):
        self.cluster, self.rng = cluster, rng
        self.hurt = None  # the member that may be out
        self.mended_at = 0.0
        self.counts = {}

    def lost(self, pairs):
        commands = [block(*p) for p in pairs]
        for c in commands:
            if sh(*c).returncode:
                raise RuntimeError(f"can't {' '.join(c)}")
        return commands

    @staticmethod
    def found(commands):
        for c in commands:
            sh(*undo(c))

    # of a member

    def kill_server(self, i):
        self.cluster.servers[i].kill()
        yield self.rng.choice((0, 0.3, 1, 2.5))
        self.cluster.start_server(i)

    def stop_server(self, i):
        self.cluster.servers[i].signal(signal.SIGSTOP)
        yield self.rng.choice((0.3, 1, 2, 4, 8 if FAULT_SECONDS > 10 else 3))
        self.cluster.servers[i].signal(signal.SIGCONT)

    def link_down(self, i):
        link = ("ip", "-n", f"{NS}-hub", "link", "set", "dev", f"m{i}")
        sh(*link, "down")
        yield self.rng.choice((0.2, 1, 2, 4))
        sh(*link, "up")

    def one_way(self, i):
        commands = self.lost([self.rng.choice(((f"m{i}", "*"), ("*", f"m{i}")))])
        yield self.rng.choice((0.5, 1, 2, 4))
        self.found(commands)

    def pair_cut(self, i):
        other = self.rng.choice(("a", "b", "c"))
        pairs = [(f"m{i}", other), (other, f"m{i}")]
        commands = self.lost(self.rng.choice((pairs, pairs[:1], pairs[1:])))
        yield self.rng.choice((0.5, 1, 2, 4))
        self.found(commands)

    def eio(self, i):
        pid = str(self.cluster.servers[i].proc.pid)
        fops, percent = self.rng.choice((("all", 100), ("mutating", 100), ("reading", 100), ("all", 10), ("write,fsync,create", 50)))
        for name, value in (("fops", fops), ("percent", str(percent))):
            # It may have been started a moment ago: it takes commands as soon as it has a graph.
            if not wait_for(20, lambda: self.cluster.servers[i].died() or not sh(STRATUS, "set", pid, "extra", name, value).returncode):
                raise Broken(f"{self.cluster.servers[i].name} does not take the option {name}")
        yield self.rng.choice((0.3, 1, 2))
        if self.cluster.servers[i].proc:
            sh(STRATUS, "set", pid, "extra", "percent", "0")

    def full(self, i):
        filler = f"{os.path.dirname(BRICKS[i])}/filler"
        with open(filler, "wb") as f:
            try:
                while True:
                    f.write(bytes(1 << 20))
                    f.flush()
            except OSError:
                pass
        yield self.rng.choice((1, 2, 3))
        os.unlink(filler)

    def replace(self, i):
        self.cluster.servers[i].kill()
        shutil.rmtree(BRICKS[i])
        yield self.rng.choice((0, 1))
        self.cluster.start_server(i)

    # of others

    def away(self, is_away):
        self.cluster.judge.coordinator_away, self.cluster.judge.coordinator_back = is_away, time.monotonic()

    def kill_coordinator(self):
        self.away(True)
        self.cluster.coordinator.kill()
        yield self.rng.choice((0, 0.5, 2))
        self.cluster.coordinator.start()
        self.away(False)
        yield 0.8  # until it knows again who is there

    def stop_coordinator(self):
        self.away(True)
        self.cluster.coordinator.signal(signal.SIGSTOP)
        yield self.rng.choice((0.3, 1, 3))
        self.cluster.coordinator.signal(signal.SIGCONT)
        self.away(False)
        yield 0.8

    def kill_client(self):
        c = self.rng.choice(self.cluster.clients)
        c.kill()
        yield self.rng.choice((0, 0.5))
        c.start()

    def cut_client(self):
        c = self.rng.choice(self.cluster.clients)
        pairs = [(c.name, "*"), ("*", c.name)]
        c.mount.cuts.append([time.monotonic(), None])
        commands = self.lost(self.rng.choice((pairs, pairs[:1], pairs[1:])))
        yield self.rng.choice((0.5, 1, 3))
        self.found(commands)
        c.mount.cuts[-1][1] = time.monotonic() + 2

    MEMBER = ("kill_server", "kill_server", "stop_server", "link_down", "one_way", "pair_cut", "eio", "full", "replace")
    OTHER = ("kill_coordinator", "stop_coordinator", "kill_client", "cut_client")

    def choose(self):
        """The next one, begun; None: there is none just now."""
        if self.rng.random() < 0.25:
            kind, args = self.rng.choice(self.OTHER), ()
        else:
            kind = self.rng.choice(self.MEMBER)
            i = self.rng.randrange(len(BRICKS))
            i = int(SMALL) if kind == "full" and SMALL else i
            noticed = time.monotonic() > self.mended_at + 1  # the coordinator knows what was done to the last one
            if noticed and self.cluster.all_in():
                self.hurt = None
            elif self.hurt is None:
                return None
            if kind == "full" and (not SMALL or self.hurt not in (None, i)):
                return None
            i = i if self.hurt is None else self.hurt
            self.hurt, args = i, (i,)
        if ONLY and kind not in ONLY:
            return None
        log(f"fault: {kind} {' '.join(map(str, args))}")
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return kind, getattr(self, kind)(*args)

    def sleep(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.cluster.judge.stop.is_set():
            time.sleep(0.02)

    def one(self):
        fault = self.choose()
        if not fault:
            return
        kind, steps = fault
        for seconds in steps:
            self.sleep(seconds)
        self.mended_at = time.monotonic()
        log(f"mended: {kind}")

    def run(self):
        end = time.monotonic() + FAULT_SECONDS
        while time.monotonic() < end and not self.cluster.judge.stop.is_set():
            self.one()
            self.cluster.check_alive()
            self.sleep(self.rng.choice((0, 0.1, 0.5, 1)))


# ---- the run ----

def watch_hangs(workers, judge):
    """A call that never returns is not seen by who waits for it."""
    while not judge.done.is_set():
        for w in workers:
            now = w.now
            if not now:
                continue
            what, begin, mount = now
            end = time.monotonic()
            if end - begin > BOUND + 5 + mount.cut_between(begin, end) + (30 if mount.killed_at else 0):
                judge.problems.append(f"{what} on {mount.name} hangs, for {end - begin:.0f} s by now")
                log("BROKEN: " + judge.problems[-1])
                judge.stop.set()
                judge.done.set()
        judge.done.wait(0.5)


def join(workers, judge):
    for w in workers:
        while w.is_alive() and not judge.done.is_set():
            w.join(0.2)


def differences():
    text = ""
    for i in range(1, len(BRICKS)):
        arbiter = ["--no-data"] if os.environ.get("REPLICA") == "3a" and i == 2 else []
        got = sh("python3", same_py, BRICKS[0], BRICKS[i], *arbiter)
        text += got.stdout if got.returncode else ""
    return text


def check_end(cluster, workers):
    if not wait_for(HEAL_SECONDS, cluster.all_in):
        raise Broken(f"the members are not all in after {HEAL_SECONDS} s: {cluster.says()}")
    log("all in")
    cluster.check_alive()
    wait_for(SETTLE_SECONDS, lambda: not differences())
    if differences():
        raise Broken(f"the bricks differ: {differences()[:1500]}")
    for c in cluster.clients:
        for w in workers:
            w.check_all(c.mount)
    cluster.check_alive()


def run(cluster):
    judge = cluster.judge
    judge.done = threading.Event()
    cluster.start()
    workers = [Worker(judge, n, SEED) for n in range(WORKERS)]
    threading.Thread(target=watch_hangs, args=(workers, judge), daemon=True).start()
    for w in workers:
        w.start()
    while not all(w.began for w in workers) and not judge.stop.is_set():
        time.sleep(0.02)
    faults = Faults(cluster, random.Random(SEED))
    faults.run()
    if not judge.stop.is_set():
        log("faults are over")
        time.sleep(0.5)
        end = time.monotonic() + 30  # a slow machine has done little meanwhile; whole again, the set lets everybody go on
        while sum(w.done for w in workers) <= 2 * LEAST_STEPS and time.monotonic() < end and not judge.stop.is_set():
            time.sleep(0.1)
        judge.stop.set()
    join(workers, judge)
    if not judge.problems:
        judge.stop.clear()
        check_end(cluster, workers)
    judge.done.set()
    return sum(w.done for w in workers), faults.counts


def give_up(*_):
    raise Broken("the time is up")


def check_was_something(done, counts):
    if sum(counts.values()) < LEAST_FAULTS or done <= LEAST_STEPS:
        raise Broken(f"only {sum(counts.values())} faults and {done} steps: that is no test")


def main():
    unknown = set(ONLY) - set(Faults.MEMBER + Faults.OTHER)
    if unknown:
        sys.exit(f"ONLY: there is no fault {' '.join(sorted(unknown))}; there are {' '.join(sorted(set(Faults.MEMBER + Faults.OTHER)))}")
    cluster = Cluster()
    signal.signal(signal.SIGTERM, give_up)
    problems, done, counts = cluster.judge.problems, 0, {}
    try:
        done, counts = run(cluster)
        if not problems:
            problems += cluster.end()
            check_was_something(done, counts)
    except (Broken, Excused) as e:
        if str(e) not in problems:
            problems.append(str(e))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        log(cluster.says())
        if problems:
            cluster.dump()
        cluster.kill_all()
    for p in problems:
        print(f"seed {SEED}: {p}")
    slow = cluster.judge.slowest
    print(f"seed {SEED}: {done} steps, slowest {slow[0]:.1f} s ({slow[1]}), {time.monotonic() - START:.0f} s, "
          + ", ".join(f"{k} {n}" for k, n in sorted(counts.items())))
    sys.stdout.flush()
    os._exit(1 if problems else 0)


main()
