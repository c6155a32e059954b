# SPDX-License-Identifier: Apache-2.0
"""A tenant that changes its directories while it resolves names in them, to get out of its root: races.py PORT DIRECTORY COUNT SEED [SECRET...]

Some connections rename: directories up and down and into each other, put symbolic links in their places (to /, to .., to the other tenant) and take them
away. Others walk: look a name up, list what was found, open, make and link in it. The server's two threads do both at once, in batches. Nothing that
is found may be anything but what this tenant has made, and all that it has is below its root in the end.
"""
import os
import random
import sys
import threading

import wire
from wire import *

wire.stage(sys.argv[1], sys.argv[2], [bytes.fromhex(secret) for secret in sys.argv[5:]])
COUNT, SEED = int(sys.argv[3]), int(sys.argv[4])
NAMES = [b"a", b"b", b"c", b"d", b"e", b"link", b"planted"]
TARGETS = [b"/", b"..", b"../globex", b"../../..", b"../../tenants/globex", b".", b"a/../../..", b"/proc/self/root", b"/proc/self/fd/3", b"x" * 4095]
FINE = {0, ENOENT, EEXIST, ENOTEMPTY, ENOTDIR, EINVAL, ELOOP, ESTALE, EISDIR, EBUSY, EXDEV, EBADF, EPERM, EAGAIN}
resolved, lost = 0, []
known, guard = [], threading.Lock()


def some():
    with guard:
        return random.choice(known)


def found(handle):
    with guard:
        known.append(handle)
        if len(known) > 200:
            del known[random.randrange(1, 100)] # the root stays


def change(root):
    """One change of names, as fop and arguments."""
    a, b, name, other = some(), some(), random.choice(NAMES), random.choice(NAMES)
    kind = random.randrange(8)
    if kind < 4:
        return RENAME, loc(a, name) + loc(b, other) + words(random.choice((0, 0, 1, 2, 2)))
    if kind == 4:
        return SYMLINK, loc(a, name) + os.urandom(16) + opaque(random.choice(TARGETS))
    if kind == 5:
        return MKDIR, loc(a if random.random() < .7 else root, name) + os.urandom(16) + words(0o755, 0)
    if kind == 6:
        return UNLINK, loc(a, name)
    return RMDIR, loc(a, name)


def walk():
    a, name = some(), random.choice(NAMES)
    kind = random.randrange(6)
    if kind < 3:
        return LOOKUP, loc(a, random.choice((name, name, name, b"secret", b"tenants", b"globex", b"acme")))
    if kind == 3:
        return OPENDIR, opaque(a)
    if kind == 4:
        return CREATE, loc(a, b"planted") + os.urandom(16) + words(0o102, 0o644, 0)
    return READLINK, opaque(a)


def send_batch(client, calls):
    client.sequence += 1
    client.socket.sendall(b"".join(record(client.sequence % (1 << 19) << 13 | slot, 100 + fop, head() + arguments)
                                   for slot, (fop, arguments) in enumerate(calls)))
    answers = [None] * len(calls)
    for _ in calls:
        status, xid, results = client.receive()
        answers[xid & 8191] = status, results
    return answers


def judge(client, calls, answers):
    opened = []
    for (fop, _), (status, results) in zip(calls, answers):
        if status not in FINE:
            wrong(f"fop {fop}: {status}")
        if status == 0 and fop in (LOOKUP, MKDIR):
            found(handle_in(results))
        if status == 0 and fop == OPENDIR:
            opened.append(results[:8])
        if status == 0 and fop == CREATE:
            handle = handle_in(results)
            opened.append(results[24 + (len(handle) + 3) // 4 * 4:][:8])
    for number in opened:
        status, listing = client.call(READDIR, number + longs(0) + words(16384, 1))
        if status == 0:
            for name in entries(listing)[0]:
                if name not in NAMES and name not in (b"own", b"start"):
                    wrong(f"a directory has {name}")
        client.call(RELEASE, number)


def play(channel, make):
    global resolved
    try:
        client = Client("acme", channel=channel)
        while resolved < COUNT:
            calls = [make(client.root) if make is change else make() for _ in range(40)]
            answers = send_batch(client, calls)
            judge(client, calls, answers)
            with guard:
                resolved += len(calls) if make is walk else 0
    except BaseException as error:
        lost.append(repr(error))
        raise


first = Client("acme")
random.seed(SEED)
known.append(first.root)
for name in NAMES[:5]:
    found(handle_in(first.call(MKDIR, loc(first.root, name) + os.urandom(16) + words(0o755, 0))[1]))
players = [threading.Thread(target=play, args=(number % 4, walk if number % 2 else change)) for number in range(6)]
for player in players:
    player.start()
for player in players:
    player.join()
if lost:
    wrong(f"a connection was lost: {lost[0]}")
for name in b"..", b".":
    expect(f"lookup of {name} in a directory that was moved, or removed", first.lookup(name, some())[0], EINVAL, ESTALE, None)
wire.done()
