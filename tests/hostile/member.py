# SPDX-License-Identifier: Apache-2.0
"""A client at one member of a replica set, which says to features/replica what it likes. Programs with it are called

   PROGRAM PORT,PORT... DIRECTORY SEED OWN_ID FOREIGN_ID [SECRET...]    as forge.py; the ids are those of the tenants acme and globex, in hex
   FIRST    the number of the brick at the first of these ports (0)
"""
import os
import random
import struct
import sys
import time

import wire
from wire import *

PORTS, SEED, OWN_ID, FOREIGN_ID = sys.argv[1].split(","), int(sys.argv[3]), bytes.fromhex(sys.argv[4]), bytes.fromhex(sys.argv[5])
FIRST = int(os.environ.get("FIRST", "0"))
SECRETS = [bytes.fromhex(secret) for secret in sys.argv[6:]]
random.seed(SEED)
ATTACH, DETACH, ACQUIRE, RELEASE, SETTLE, SUSPECT, FAILED, LINKS, DIRECTORY, UNLINKED, TRY, BELIEVE, OUTCOME, SKIP, NAMES, SHARE, LOWER = range(1, 18)
COORDINATOR = range(64, 84)
UNKNOWN = [0, 18, 63, 84, 1 << 31]
EVIEW, EPENDING, ERECOVERING, ENOTDONE = range(4110, 4114)
VOUCHER, FLAG_HEAL, FLAG_OWN = 16, 1, 32
TENANTS, LIMBO = bytes(15) + b"\2", bytes(15) + b"\3"


def stamp(epoch=0, sequence=0, settled=0, flags=0, session=0):
    return extension(4, longs(epoch, sequence, settled, 0, flags, session), 1, 2)


def stamped(*others, **what):
    return head(extensions=(stamp(**what),) + others)


class Member(Client):
    """One that is attached to a member of a set."""

    def __init__(self, who, number, session=None):
        wire.stage(PORTS[number], sys.argv[2], SECRETS if who == "acme" else ())
        wire.brick = b"brick%d" % (FIRST + number)
        super().__init__(who, watched=who == "acme")
        self.session, self.number = session or os.urandom(16), 0
        self.attach()

    def attach(self):
        self.view = self.say(ATTACH, self.session)[1]
        self.epoch = struct.unpack_from(">Q", self.view)[0]

    def change(self, fop, arguments, *extensions):
        """The status of a change that says it knows the view: asked again in the view that is served, while the answer is that this one is not (see alike)."""
        for _ in range(1200):
            status, _ = self.call(fop, arguments, stamped(*extensions, epoch=self.epoch, sequence=self.count()))
            if status != EVIEW:
                break
            time.sleep(0.1)
            self.attach()
        return status

    def say(self, verb, data=b"", inode=b""):
        """Status and the answer's blob."""
        status, results = self.call(REPLICA, words(verb) + opaque(inode) + opaque(data), head())
        if status:
            return status, b""
        at = blob_at(results)
        return 0, results[at + 4:at + 4 + struct.unpack_from(">I", results, at)[0]]

    def count(self):
        self.number += 1
        return self.number

    def acquire(self, named):
        return self.say(ACQUIRE, longs(self.epoch, self.count()) + named + b"\0")

    def release(self, gfid):
        return self.say(RELEASE, longs(self.epoch, 0, self.number) + gfid)

    def lower(self, gfid):
        return self.say(LOWER, longs(self.epoch, 0, self.number) + gfid)

    def object(self, name):
        """Gfid and handle, the end of which is the voucher."""
        status, results = self.call(LOOKUP, loc(self.root, name))
        expect(f"lookup of {name}", status, 0)
        return results[:16], handle_in(results)


def alike(say, say_unknown):
    """Both answers, asked again while but one of them is that the view is not served: a member says so for a moment that got no processor for a while."""
    for _ in range(1200):
        answers = say(), say_unknown()
        if (answers[0][0] == EVIEW) == (answers[1][0] == EVIEW):
            break
        time.sleep(0.1)
    return answers


def verbs_naming(member, gfid, voucher):
    """All verbs that name an object: what, and how it is said."""
    named = gfid + voucher
    yield "ACQUIRE", lambda: member.acquire(named)
    yield "TRY", lambda: member.say(TRY, longs(member.epoch, member.count()) + named + named)
    yield "SHARE", lambda: member.say(SHARE, longs(member.epoch, member.count()) + named + named)
    yield "DIRECTORY", lambda: member.say(DIRECTORY, named)
    yield "UNLINKED", lambda: member.say(UNLINKED, named)
    yield "NAMES", lambda: member.say(NAMES, named)
    yield "SKIP", lambda: member.say(SKIP, longs(member.epoch) + named)
    yield "LOWER", lambda: member.lower(gfid)
    yield "RELEASE", lambda: member.release(gfid)


def blob_at(results):
    """Behind the inode, which is of zeros and without a handle if there is none."""
    return 24 + (len(handle_in(results)) + 3) // 4 * 4
