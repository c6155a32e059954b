# SPDX-License-Identifier: Apache-2.0
"""A hostile client of a tenant on a replica set: what cluster/afr says to features/replica, said by one that lies. It prints what it was given.

   sets.py PORT,PORT... DIRECTORY SEED OWN_ID FOREIGN_ID [SECRET...]    see member.py
   OWN, THEIRS    files of acme and globex in their roots, at this set
"""
import os
import struct
import time

from member import *

ROUNDS = 200
OWN, THEIRS = os.environ.get("OWN", "own").encode(), [name.encode() for name in os.environ.get("THEIRS", "secret,large").split(",")]


def namings(thief, victim):
    """How one can name what is not one's own: gfid and voucher."""
    own = thief.object(OWN)[1][-VOUCHER:]
    theirs = [victim.object(name) for name in THEIRS]
    for gfid, voucher in [(g, h[-VOUCHER:]) for g, h in theirs] + [(FOREIGN_ID, victim.root[-VOUCHER:])]:
        for said in voucher, own, thief.root[-VOUCHER:], bytes(VOUCHER), os.urandom(VOUCHER):
            yield gfid, said
    for gfid in LIMBO, TENANTS:
        yield gfid, bytes(VOUCHER)
        yield gfid, own


def foreign_gfids(thief, victim):
    """Each is answered like one that nobody has; and none of it is granted, found, or told."""
    for gfid, voucher in namings(thief, victim):
        ask_unknown, unknown = dict(verbs_naming(thief, os.urandom(16), os.urandom(VOUCHER))), {}
        for what, say in verbs_naming(thief, gfid, voucher):
            if (what, gfid) == ("ACQUIRE", TENANTS):  # the rename token: each tenant has his own
                thief.acquire_once(gfid + voucher)
                unknown[what] = ask_unknown[what]()
                continue
            answer, unknown[what] = say(), ask_unknown[what]()
            if answer != unknown[what]:
                wrong(f"{what} of {gfid.hex()} with {voucher.hex()}: {answer}, of one that nobody has: {unknown[what]}")
    expect("ACQUIRE", unknown["ACQUIRE"][0], ESTALE)
    expect("TRY", unknown["TRY"], (0, b"\0\0"))
    expect("SHARE", unknown["SHARE"], (0, b"\0\0"))
    for what, status in ("DIRECTORY", ENOENT), ("UNLINKED", ESTALE), ("NAMES", ENOENT):
        expect(what, unknown[what][0], status)
    expect("SKIP", unknown["SKIP"][0], EINVAL, ESTALE)


def random_gfids(thief):
    for _ in range(ROUNDS):
        many = b"".join(os.urandom(16 + VOUCHER) for _ in range(100))
        expect("TRY of random gfids", thief.say(TRY, longs(thief.epoch, thief.count()) + many), (0, bytes(100)))
        for verb, status in (DIRECTORY, ENOENT), (UNLINKED, ESTALE), (NAMES, ENOENT):
            expect(f"verb {verb} of a random gfid", thief.say(verb, os.urandom(16 + VOUCHER))[0], status)


def own_objects(thief):
    """The same verbs, of what it was told: so the refusals are not of the form."""
    gfid, handle = thief.object(OWN)
    named = gfid + handle[-VOUCHER:]
    status, names = thief.say(NAMES, named)
    expect("NAMES of an own file", status, 0)
    if names != words(1) + ROOT + bytes([len(OWN)]) + OWN:
        wrong(f"NAMES of an own file: {names.hex()}")
    expect("LINKS of it", thief.say(LINKS, inode=handle), (0, names))
    expect("UNLINKED of a file that has a name", thief.say(UNLINKED, named)[0], ERECOVERING, EPENDING)
    expect("DIRECTORY of the root", thief.say(DIRECTORY, ROOT + bytes(VOUCHER))[0], 0)
    expect("RELEASE of what it has not", thief.release(gfid)[0], 0)


def granted_by(members, named):
    """What each says, of whom one grants it; it serves no view for a moment, if all are others."""
    for _ in range(600):
        answers = [m.acquire_once(named)[0] for m in members]
        if set(answers) != {EVIEW}:
            break
        time.sleep(0.1)
        for m in members:
            m.attach()
    return answers


def tokens(thieves, victims):
    """One of the members grants; the victim gets its own at once, whatever the thief holds."""
    gfid, handle = thieves[0].object(OWN)
    one = [0] + [EVIEW] * (len(thieves) - 1)
    expect("members that grant the token of an own file", sorted(granted_by(thieves, gfid + handle[-VOUCHER:])), one)
    for rename in TENANTS, ROOT:
        expect("members that grant the own tokens of root and rename", sorted(granted_by(thieves, rename + bytes(VOUCHER))), one)
        granted = granted_by(victims, rename + bytes(VOUCHER))
        if 0 not in granted and ERECOVERING in granted and rename == TENANTS:
            wrong("the rename token of one tenant keeps others from theirs")
        for v in victims:
            v.release(rename)


def handles(thief, victim):
    """Of another tenant, and with another's voucher behind one's own."""
    secret, (own_gfid, own) = victim.object(THEIRS[0])[1], thief.object(OWN)
    for handle in secret, victim.root, secret[:-VOUCHER] + own[-VOUCHER:], os.urandom(len(secret)), secret[-VOUCHER:], b"\0" * VOUCHER, b"x":
        expect("LINKS by a foreign handle", thief.say(LINKS, inode=handle)[0], ESTALE)
        expect("a lookup by a foreign handle", thief.call(LOOKUP, loc(inode=handle))[0], ESTALE)
    status, names = thief.say(LINKS, inode=thief.root)
    if status != EXDEV and names != words(0):
        wrong(f"LINKS of the root: {status} {names.hex()}")
    status, names = thief.say(NAMES, ROOT + bytes(VOUCHER))
    if status != EXDEV and names != words(0):
        wrong(f"NAMES of the root: {status} {names.hex()}")
    for gfid in TENANTS, LIMBO, ROOT, OWN_ID, FOREIGN_ID:
        status, _ = thief.call(MKDIR, loc(thief.root, b"made") + gfid + words(0o755, 0), thief.stamped())
        expect(f"a directory with the gfid {gfid.hex()}", status, EINVAL)


def others_side(thief, victim):
    """What only the coordinator may say, and what only the brick itself does."""
    for verb in list(COORDINATOR) + UNKNOWN:
        for data in b"", os.urandom(40), bytes(32) + longs(thief.epoch) + bytes(64):
            expect(f"verb {verb}", thief.say(verb, data, thief.root)[0], EOPNOTSUPP)
    gfid = os.urandom(16)
    for flags in FLAG_HEAL, FLAG_OWN, FLAG_HEAL | FLAG_OWN, FLAG_HEAL | 2, FLAG_OWN | 4:
        who = stamped(epoch=thief.epoch, sequence=1, flags=flags)
        expect(f"a change with the flags {flags}", thief.call(MKDIR, loc(thief.root, b"forged") + gfid + words(0o755, 0), who)[0], EPERM)
        expect(f"a look with the flags {flags}", thief.call(LOOKUP, loc(thief.root, OWN), who)[0], EPERM)
    expect("a change that is not stamped", thief.call(MKDIR, loc(thief.root, b"forged") + gfid + words(0o755, 0))[0], EOPNOTSUPP)
    expect("the session of another tenant", thief.say(ATTACH, victim.session)[0], EACCES)
    if any(thief.view[10 + 18 * i + 2:10 + 18 * (i + 1)] != bytes(16) for i in range(thief.view[8])):
        wrong(f"the view tells of processes and disks: {thief.view.hex()}")


def limits(thief, victim):
    """Nobody but the tenant's administrator gives directories limits, nobody chooses a limit's number, and nobody says a tag."""
    own, secret = thief.object(OWN)[1], victim.object(THEIRS[0])[1]
    tag, top = struct.pack(">Q", 0x11), struct.pack(">QQQ", 0x11, 0, 0)

    def set_to(handle, what, value):
        return thief.change(SETXATTR, opaque(handle) + opaque(what) + opaque(value) + words(0))
    for value in b"0 0", b"0 0 0000000000000011", b"4096 1 0000000000000011 0000000000000011", b"", b"0" * 200:
        for handle in own, thief.root:
            expect(f"the limit {value} of one's own", set_to(handle, b"system.stratus.quota", value), EPERM, EACCES, EINVAL)
        expect(f"the limit {value} of another's", set_to(secret, b"system.stratus.quota", value), ESTALE)
        expect("a limit that is not stamped", thief.call(SETXATTR, opaque(own) + opaque(b"system.stratus.quota") + opaque(value) + words(0))[0], EOPNOTSUPP, EPERM, EACCES)
    for value in tag, top, b"", b"x":
        for what in b"trusted.usage.quota", b"trusted.usage.directory.0000000000000011":
            expect(f"{what} set", set_to(own, what, value), EPERM, EOPNOTSUPP)
        status, _ = thief.call(MKDIR, loc(thief.root, b"born") + os.urandom(16) + words(0o755, 0),
                               thief.stamped(extension(5, bytes([1, 20]) + b"trusted.usage.quota\0" + struct.pack(">H", len(value)) + value)))
        expect("something born with a tag", status, EPERM, EINVAL)
    for what in b"trusted.usage.quota", b"system.stratus.quota":
        expect(f"{what} taken away", thief.change(REMOVEXATTR, opaque(own) + opaque(what)), EPERM, EACCES, EOPNOTSUPP, ENODATA)
        expect(f"{what} told", thief.call(GETXATTR, opaque(own) + opaque(what))[0], ENODATA, EOPNOTSUPP)


def malformed(thief):
    for verb in range(1, 18):
        for size in 0, 1, 7, 8, 16, 23, 24, 31, 32, 40, 47, 60000:
            thief.say_once(verb, os.urandom(size))
            thief.say_once(verb, longs(thief.epoch) + os.urandom(size))


thieves = [Member("acme", i) for i in range(len(PORTS))]
session = os.urandom(16)
victims = [Member("globex", i, session) for i in range(len(PORTS))]
for thief, victim in zip(thieves, victims):
    own_objects(thief)
    foreign_gfids(thief, victim)
    random_gfids(thief)
    handles(thief, victim)
    others_side(thief, victim)
    limits(thief, victim)
tokens(thieves, victims)
for thief in thieves:
    malformed(thief)
done()
