# SPDX-License-Identifier: Apache-2.0
"""A tenant that takes all it can get, and keeps it: floods.py PORT DIRECTORY KIND COUNT MOST. Says "there" when nothing more is to be had, and how
much it has; more than MOST is wrong. It keeps it until it is killed."""
import signal
import struct
import sys
import time

import wire
from wire import *

wire.stage(sys.argv[1], sys.argv[2])
KIND, COUNT, MOST = sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
EACH = 250 # calls in a batch
clients = []


def there(much):
    if much > MOST:
        wrong(f"{KIND}: {much}, and {MOST} are the most")
    if wire.place["found"]:
        wire.done()
    print(f"there: {much}", flush=True)
    signal.pause()


def another(channel=0):
    clients.append(Client("acme", channel=channel))
    return clients[-1]


def waiting():
    """COUNT sessions, each of which waits for 4096 locks that one holds. Each waiting call is a task of the server."""
    holder = another()
    file = holder.open(b"held")[1]
    expect("the lock", holder.call(SETLK, longs(file) + lock(1, 0, 2**64 - 1))[0], 0)
    refused = 0
    for _ in range(COUNT):
        one = another(len(clients) % 2)
        mine = one.open(b"held")[1]
        one.sequence += 1
        one.socket.sendall(b"".join(record(one.sequence << 13 | 256 + slot, 100 + SETLK, head() + longs(mine) + lock(1, slot, slot, slot + 1, 1))
                                    for slot in range(4096)))
        one.send(8191, PING, b"")
        while True: # what is refused is answered before the ping
            status, xid, _ = one.receive()
            if xid == 8191:
                break
            expect("a lock that waits", status, ENOLCK)
            refused += 1
    there(COUNT * 4096 - refused)


def held():
    """COUNT locks by four sessions, each of a byte, on 16 files, for many owners."""
    got = 0
    for number in range(4):
        one = another(number % 2)
        files = [one.open(b"locked%d" % n)[1] for n in range(16)]
        for first in range(0, COUNT // 4, EACH):
            many = [longs(files[n % 16]) + lock(1, 2 * (number * COUNT + n), 2 * (number * COUNT + n), n % 1000 + 1) for n in range(first, first + EACH)]
            for status, _ in one.batch(SETLK, many):
                expect("a lock", status, 0, ENOLCK)
                got += status == 0
    there(got)


def files():
    """COUNT times the same file opened, and as often its directory, by four sessions."""
    got = 0
    for number in range(4):
        one = another(number % 2)
        got += one.open(b"opened")[0] == 0
        handle = one.lookup(b"opened")[1]
        for fop, what in (OPEN, opaque(handle) + words(0)), (OPENDIR, opaque(one.root)):
            for _ in range(0, COUNT // 4, EACH):
                for status, _ in one.batch(fop, [what] * EACH):
                    expect("an open", status, 0, ENFILE)
                    got += status == 0
    there(got)


def unread():
    """COUNT connections, each of which asks for 64 MiB of a file, for listings and for long attributes, and takes no answer."""
    one = another()
    file, handle = one.open(b"read")[1:]
    expect("data", one.call(WRITE, longs(file, 0) + words(0, 2**20), None, b"x" * 2**20)[0], 0)
    expect("an attribute", one.call(SETXATTR, opaque(handle) + opaque(b"user.long") + opaque(b"x" * 3500) + words(0))[0], 0)
    expect("a directory", one.call(MKDIR, loc(one.root, b"listed") + os.urandom(16) + words(0o755, 0))[0], 0)
    listed = one.lookup(b"listed")[1]
    for first in range(0, 2000, EACH):
        one.batch(MKNOD, [loc(listed, b"%0250d" % n) + os.urandom(16) + words(0o100644, 0) + bytes(8) for n in range(first, first + EACH)])
    for number in range(COUNT):
        one = another(number % 2)
        file = one.call(OPEN, opaque(handle) + words(0))[1][:8]
        directory = one.call(OPENDIR, opaque(listed))[1][:8]
        one.sequence += 1
        one.socket.sendall(b"".join(record(one.sequence << 13 | slot, 100 + fop, head() + what) for slot, (fop, what) in enumerate(
            [(READ, file + longs(0) + words(2**20))] * 64 + [(READDIR, directory + longs(0) + words(100000, 1))] * 100 +
            [(GETXATTR, opaque(handle) + opaque(b"user.long"))] * 80)))
    time.sleep(2) # what is answered goes on meanwhile
    there(COUNT)


def slow():
    """COUNT connections, each with a write of 1 MiB that never comes to an end."""
    one = another()
    file = one.open(b"slow")[1]
    for number in range(COUNT):
        one = another(number % 2)
        whole = record(1 << 13, 100 + WRITE, head() + longs(file, 0) + words(0, 2**20), bytes(2**20))
        one.socket.sendall(whole[:1000])
    print("there:", COUNT, flush=True)
    while True:
        for one in clients[1:]:
            one.socket.sendall(b"x")
        time.sleep(.5)


def said():
    """What gets no answer, over and over, and is done by a task, or on the loop: that all was asked back, and COUNT cancels of what was never asked, though 4096 wait."""
    holder, one = another(), another()
    file = holder.open(b"cancelled")[1]
    expect("the lock", holder.call(SETLK, longs(file) + lock(1, 0, 2**64 - 1))[0], 0)
    mine = one.open(b"cancelled")[1]
    one.sequence += 1
    one.socket.sendall(b"".join(record(one.sequence << 13 | 256 + slot, 100 + SETLK, head() + longs(mine) + lock(1, slot, slot, slot + 1, 1))
                                for slot in range(4096)))
    piece = b"".join(record(8191, RECLAIMED, b"") + record(8191, CANCEL, words(1 << 31 | 256 + n % 4096)) for n in range(COUNT))
    one.socket.sendall(piece)
    one.send(8191, PING, b"")
    while one.receive()[1] != 8191:
        pass
    print("there:", COUNT, flush=True)
    while True:
        one.socket.sendall(piece)


def attributes():
    """COUNT files with as many and as long attributes as the brick takes."""
    one, got = another(), 0
    for number in range(COUNT):
        handle = one.open(b"attributed%d" % number)[2]
        for size in 60000, 3000, 500, 20:
            for n in range(100):
                status = one.call(SETXATTR, opaque(handle) + opaque(b"user.%d-%d" % (size, n)) + opaque(b"x" * size) + words(0))[0]
                expect("an attribute", status, 0, ENOSPC, E2BIG, ERANGE, EDQUOT)
                got += size if status == 0 else 0
                if status:
                    break
        expect("their names", one.call(LISTXATTR, opaque(handle))[0], 0)
    there(got)


globals()[KIND]()
