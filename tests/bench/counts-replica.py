# SPDX-License-Identifier: Apache-2.0
"""Messages and round trips of mounts, from what strace saw at their sockets:
counts-replica.py FOPS_DEF OPERATIONS PORTS TRACE... ; PORTS of the members, comma between them.

Records are taken apart as doc/wire.md says. A wave is what is sent before an answer to any of it is read: one round trip.
Prints the number of waves per operation, then each kind of message with its count per operation and member."""
import collections
import re
import struct
import sys

NAMES = {int(m[2]) + 100: m[1] for m in re.finditer(r"^fop (\w+) (\d+)", open(sys.argv[1]).read(), re.M)}
NAMES.update({0: "null", 1: "hello", 2: "event", 3: "cancel", 4: "ping", 5: "goodbye", 6: "reclaimed"})
VERBS = {1: "attach", 2: "view", 3: "acquire", 4: "give-back", 5: "settle", 6: "suspect", 7: "failed"}
# Nobody waits for these: the mount says them by itself, some time after the operation.
ASIDE = {"settle", "ping", "release"}
EXTENSION_MAX = 4096


class Parser:
    """The records of one direction of one connection."""

    def __init__(self):
        self.bytes = b""

    def add(self, data):
        self.bytes += data
        while len(self.bytes) >= 4:
            mark = struct.unpack(">I", self.bytes[:4])[0]
            assert mark >> 31, "not a record: the stream was joined in the middle"
            size = mark & 0x7FFFFFFF
            if len(self.bytes) < 4 + size:
                return
            record, self.bytes = self.bytes[4:4 + size], self.bytes[4 + size:]
            yield record


def verb(record):
    at = 44 + 20  # header with bulk size; id, flags, uid, gid
    groups = struct.unpack_from(">I", record, at)[0]
    at += 4
    if groups:
        at += 4 + 4 * struct.unpack_from(">I", record, at)[0]
    at += 12  # lock owner, time left
    extensions = struct.unpack_from(">I", record, at)[0]
    at += 4
    for _ in range(extensions):
        size = struct.unpack_from(">I", record, at + 12)[0]
        assert size <= EXTENSION_MAX
        at += 16 + (size + 3) // 4 * 4
    number = struct.unpack_from(">I", record, at)[0]
    return VERBS.get(number, f"verb-{number}")


def unescape(text):
    return bytes.fromhex(text.replace("\\x", ""))


def calls(path, ports):
    """(sent?, connection, member, record), in the order of the calls."""
    parsers, pending = collections.defaultdict(Parser), {}
    for line in open(path, errors="replace"):
        found = re.match(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\((\d+)<(.*?TCP[^>]*->[^>]*)\]>)", line)
        if not found:
            continue
        thread, resumed, name, fd, where = found.groups()
        if resumed:
            if (thread, resumed) not in pending:
                continue
            name = resumed
            fd, where, begun = pending.pop((thread, resumed))
            line = begun + line
        elif "<unfinished" in line:
            pending[thread, name] = fd, where, line
            continue
        result = re.search(r"= (-?\d+)[^=]*$", line)
        port = int(where.rsplit(":", 1)[1])
        if not result or int(result[1]) <= 0 or port not in ports:
            continue
        data = b"".join(unescape(m) for m in re.findall(r'iov_base="([^"]*)"', line))
        if not data:
            data = b"".join(unescape(m) for m in re.findall(r', "((?:\\x..)+)"', line))
        data = data[:int(result[1])]
        assert len(data) == int(result[1]), "strace cut a message"
        sent = name.startswith(("send", "write"))
        for record in parsers[fd, sent].add(data):
            yield sent, fd, ports.index(port), record


ports = [int(p) for p in sys.argv[3].split(",")]
operations = int(sys.argv[2])
kinds, waves = collections.Counter(), collections.Counter()
members = collections.defaultdict(collections.Counter)
for path in sys.argv[4:]:
    wave, answered = set(), True  # xids under way in the newest wave
    for sent, fd, member, record in calls(path, ports):
        xid, reply = struct.unpack_from(">II", record)
        if not sent:
            answered |= reply == 1 and (fd, xid) in wave
            continue
        if reply:
            continue
        procedure = struct.unpack_from(">I", record, 20)[0]
        kind = NAMES.get(procedure, str(procedure))
        if kind == "replica":
            kind = verb(record)
        kinds[kind] += 1
        members[kind][member] += 1
        if kind in ASIDE:
            continue
        if answered:
            wave, answered = set(), False
            waves[kind] += 1
        wave.add((fd, xid))
print(f"waves {sum(waves.values()) / operations:.2f}", *(f"{k}={n / operations:.2f}" for k, n in sorted(kinds.items())))
for kind in sorted(members):
    print(f"    {kind}: waves {waves[kind] / operations:.2f}, by member",
          *(f"{members[kind][i] / operations:.2f}" for i in range(len(ports))))
