# SPDX-License-Identifier: Apache-2.0
"""A tenant that attacks at a rate: rated.py PORT DIRECTORY KIND RATE, so many a second until it is killed. Says "there" when it has begun, and at its end
(SIGTERM) how many a second it really came to."""
import os
import random
import signal
import socket
import sys
import time

import wire
from wire import *

wire.stage(sys.argv[1], sys.argv[2])
KIND, RATE = sys.argv[3], float(sys.argv[4])
TICK = .01  # as many at once as are due


class Attack:
    """One connection; `some(n)` sends so many calls at once, and takes their answers."""

    def __init__(self):
        self.client = Client("acme")
        self.root = self.client.root
        self.files, self.number = [self.client.open(b"rated%d" % n)[1] for n in range(16)], 0

    def some(self, count):
        for first in range(0, count, 200):
            self.client.batch(self.fop, [self.one() for _ in range(min(200, count - first))])


class Handles(Attack):
    """Forged handles."""
    fop = LOOKUP

    def one(self):
        return loc(random.randbytes(len(self.root)), b"secret")


class Locks(Attack):
    """Locks of a byte for one owner after the other; they stay."""
    fop = SETLK

    def one(self):
        self.number += 1
        return longs(self.files[self.number % 16]) + lock(1, self.number % 4096, self.number % 4096, self.number % 4096 + 1)


class Listings(Attack):
    """The same directory from its beginning."""
    fop = READDIR

    def __init__(self):
        super().__init__()
        self.directory = self.client.call(OPENDIR, opaque(self.root))[1][:8]

    def one(self):
        return self.directory + longs(0) + words(4096, 1)


class Births(Attack):
    """Directories that are made and removed."""
    fop = MKDIR

    def some(self, count):
        names = [b"born%d" % n for n in range(count // 2)]
        self.client.batch(MKDIR, [loc(self.root, name) + os.urandom(16) + words(0o755, 0) for name in names])
        self.client.batch(RMDIR, [loc(self.root, name) for name in names])


class Renames(Attack):
    """Directories that change their parents, which the brick does one at a time."""
    fop = RENAME

    def __init__(self):
        super().__init__()
        self.parents = [handle_in(self.client.call(MKDIR, loc(self.root, b"parent%d-%d" % (os.getpid(), n)) + os.urandom(16) + words(0o755, 0))[1]) for n in range(2)]
        self.client.call(MKDIR, loc(self.parents[0], b"child") + os.urandom(16) + words(0o755, 0))

    def one(self):
        self.number += 1
        there, to = self.parents[::1 if self.number % 2 else -1]
        return loc(there, b"child") + loc(to, b"child") + words(0)

    def some(self, count):
        for _ in range(count):
            self.client.call(self.fop, self.one())


class Writes(Attack):
    """64 KiB each, over and over in the same MiB."""
    fop, data = WRITE, bytes(65536)

    def some(self, count):
        for _ in range(count):
            self.number += 1
            self.client.call(WRITE, longs(self.files[self.number % 16], self.number % 16 << 16) + words(0, len(self.data)), bulk=self.data)


class Handshakes:
    """Whole ones, with a good certificate, and nothing after it."""

    def some(self, count):
        for _ in range(count):
            connect("acme").close()


class Strangers:
    """Connections that send a head of nonsense."""

    def some(self, count):
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", wire.place["port"])) as s:
                s.sendall(random.randbytes(64))


attack = {"handles": Handles, "locks": Locks, "listings": Listings, "births": Births, "renames": Renames, "writes": Writes,
          "handshakes": Handshakes, "strangers": Strangers}[KIND]()
done, ended = 0, False


def end(*_):
    global ended
    ended = True


signal.signal(signal.SIGTERM, end)
print("there", flush=True)
begin = time.monotonic()
while not ended:
    due = int((time.monotonic() - begin) * RATE) - done
    if due > 0:
        attack.some(min(due, int(RATE * .1) + 1))  # what could not be done in time is not made up for
        done += due
    time.sleep(TICK)
print(f"{done / (time.monotonic() - begin):.0f}")
