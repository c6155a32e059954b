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
    """One that is attached to a member of a set.

    A member that got no processor for a while serves no view until it has heard from the coordinator, and then maybe a new one: whatever it is asked is EVIEW. So all is asked
    again, for the epoch that there is now. What has the epoch in it is given as a function, which makes it anew."""

    def __init__(self, who, number, session=None):
        wire.stage(PORTS[number], sys.argv[2], SECRETS if who == "acme" else ())
        wire.brick = b"brick%d" % (FIRST + number)
        super().__init__(who, watched=who == "acme")
        self.session, self.number = session or os.urandom(16), 0
        self.served(self.attach)

    def served(self, ask):
        """Its answer, when that is another than EVIEW."""
        for _ in range(600):
            answer = ask()
            if answer[0] != EVIEW:
                break
            time.sleep(0.1)
            self.attach()
        return answer

    def attach(self):
        status, view = self.say_once(ATTACH, self.session)
        if status == 0:
            self.view, self.epoch = view, struct.unpack_from(">Q", view)[0]
        return status, view

    def call(self, fop, arguments, who=None, bulk=b""):
        return self.served(lambda: super(Member, self).call(fop, arguments, who() if callable(who) else who, bulk))

    def stamped(self, *others, **what):
        """For `call`: the head of a change in the view that there is."""
        number = self.count()
        return lambda: stamped(*others, epoch=self.epoch, sequence=number, **what)

    def change(self, fop, arguments, *extensions):
        """The status of a change in the view that there is."""
        return self.call(fop, arguments, self.stamped(*extensions))[0]

    def say(self, verb, data=b"", inode=b""):
        """Status and the answer's blob."""
        return self.served(lambda: self.say_once(verb, data() if callable(data) else data, inode))

    def say_once(self, verb, data=b"", inode=b""):
        status, results = super().call(REPLICA, words(verb) + opaque(inode) + opaque(data), head())
        if status:
            return status, b""
        at = blob_at(results)
        return 0, results[at + 4:at + 4 + struct.unpack_from(">I", results, at)[0]]

    def say_of(self, verb, named):
        """What is numbered as changes are."""
        number = self.count()
        return self.say(verb, lambda: longs(self.epoch, number) + named)

    def count(self):
        self.number += 1
        return self.number

    def acquire(self, named):
        return self.say_of(ACQUIRE, named + b"\0")

    def acquire_once(self, named):
        """EVIEW is what a member says that does not grant this token, too."""
        return self.say_once(ACQUIRE, longs(self.epoch, self.count()) + named + b"\0")

    def release(self, gfid):
        return self.say(RELEASE, lambda: longs(self.epoch, 0, self.number) + gfid)

    def lower(self, gfid):
        return self.say(LOWER, lambda: longs(self.epoch, 0, self.number) + gfid)

    def object(self, name):
        """Gfid and handle, the end of which is the voucher."""
        status, results = self.call(LOOKUP, loc(self.root, name))
        expect(f"lookup of {name}", status, 0)
        return results[:16], handle_in(results)


def verbs_naming(member, gfid, voucher):
    """All verbs that name an object: what, and how it is said."""
    named = gfid + voucher
    yield "ACQUIRE", lambda: member.acquire(named)
    yield "TRY", lambda: member.say_of(TRY, named + named)
    yield "SHARE", lambda: member.say_of(SHARE, named + named)
    yield "DIRECTORY", lambda: member.say(DIRECTORY, named)
    yield "UNLINKED", lambda: member.say(UNLINKED, named)
    yield "NAMES", lambda: member.say(NAMES, named)
    yield "SKIP", lambda: member.say(SKIP, lambda: longs(member.epoch) + named)
    yield "LOWER", lambda: member.lower(gfid)
    yield "RELEASE", lambda: member.release(gfid)


def blob_at(results):
    """Behind the inode, which is of zeros and without a handle if there is none."""
    return 24 + (len(handle_in(results)) + 3) // 4 * 4
