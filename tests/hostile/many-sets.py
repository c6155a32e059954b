# SPDX-License-Identifier: Apache-2.0
"""A hostile client of a tenant whose names are spread over replica sets: what cluster/dht says, said to members of the sets by one that lies, and what one set
has told it said to the other. It prints what it was given.

   many-sets.py PORT,PORT... DIRECTORY SEED OWN_ID FOREIGN_ID [SECRET...]    see member.py; the members of the sets, MEMBERS of each
   OWN, THEIRS    files of acme and globex in their roots, apart by commas: at least one at each set
"""
import os
import struct

from member import *

MEMBERS = int(os.environ["MEMBERS"])
OWN, THEIRS = ([name.encode() for name in os.environ[what].split(",")] for what in ("OWN", "THEIRS"))
ELAYOUT, EPOINTER, EWIDE, EMOVED, EMARKED, EFENCED = range(4120, 4126)
POINTER, SHARD, HERE = 1, 2, 4
NOBODY = bytes(16)


def said(flags=0, expected=(NOBODY, NOBODY), intent=NOBODY, attempt=0):
    """The extension PLACE."""
    directories = ROOT + longs(0) + NOBODY + longs(0)
    return extension(6, words(flags) + directories + expected[0] + expected[1] + intent + words(attempt), 1, 5)


def text(gfid):
    h = gfid.hex()
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])).encode()


def found(client, names):
    """Of the names those that are at this set: gfids and handles."""
    answers = [client.call(LOOKUP, loc(client.root, name)) for name in names]
    return [(name, results[:16], handle_in(results)) for name, (status, results) in zip(names, answers) if status == 0]


def changes(name):
    """All that takes a name."""
    yield UNLINK, lambda m: loc(m.root, name)
    yield RENAME, lambda m: loc(m.root, name) + loc(m.root, b"elsewhere") + words(0)
    yield RENAME, lambda m: loc(m.root, b"elsewhere") + loc(m.root, name) + words(0)
    yield UNLINK, lambda m: loc(m.root, b"nothing")
    yield RENAME, lambda m: loc(m.root, name) + loc(m.root, b"nothing") + words(0)


def places(gfid):
    """Only such as nothing is done by."""
    for flags in 0, POINTER, SHARD, HERE, POINTER | SHARD | HERE:
        yield said(flags, (gfid, gfid))
        yield said(flags, (gfid, gfid), intent=gfid, attempt=1)
        yield said(flags, (gfid, gfid), intent=os.urandom(16), attempt=7)


def expectations(thief, victim):
    """A name stands for nothing of another tenant's, whatever is said; and who owns that waits for nobody, though no change of the thief is ever settled."""
    owns, theirs = found(thief, OWN), found(victim, THEIRS)
    for gfid in [gfid for _, gfid, _ in theirs] + [FOREIGN_ID, OWN_ID, TENANTS, LIMBO]:
        for place in places(gfid):
            for fop, arguments in changes(owns[0][0]):
                status, _ = thief.call(fop, arguments(thief), thief.stamped(place))
                expect("a name that is expected to be another tenant's", status, ESTALE, ENOENT, ELAYOUT, EFENCED, EMOVED, ERECOVERING)
    for name, gfid, handle in theirs:
        for what, fop, arguments in ("an attribute", GETATTR, opaque(handle) + bytes(8)), ("a lookup", LOOKUP, loc(inode=handle)), ("a lookup by name", LOOKUP, loc(victim.root, name)):
            expect(f"the owner's {what} of {name}", victim.call(fop, arguments)[0], 0)
    expect("the owner's root", victim.call(GETATTR, opaque(victim.root) + bytes(8))[0], 0)
    expect("the own names", found(thief, OWN), owns)


def vouchers(thief, other):
    """Of objects at the other set, at this one: as of objects that nobody has; and of objects at this one they are none."""
    unknown = dict(verbs(thief, os.urandom(16) + os.urandom(VOUCHER)))
    here, there = found(thief, OWN), found(other, OWN)
    for gfid, voucher in [(g, h[-VOUCHER:]) for _, g, h in there] + [(g, h[-VOUCHER:]) for _, g, _ in here for _, _, h in there]:
        for what, say in verbs(thief, gfid + voucher):
            expect(f"{what} of {gfid.hex()} by a voucher of another set", say(), unknown[what]())
    for _, gfid, handle in here:
        expect("NAMES of an own file", thief.say(NAMES, gfid + handle[-VOUCHER:])[0], 0)


def verbs(member, named):
    yield "ACQUIRE", lambda: member.acquire(named)
    yield "TRY", lambda: member.say_of(TRY, named + named)
    yield "SHARE", lambda: member.say_of(SHARE, named + named)
    yield "DIRECTORY", lambda: member.say(DIRECTORY, named)
    yield "UNLINKED", lambda: member.say(UNLINKED, named)
    yield "NAMES", lambda: member.say(NAMES, named)
    yield "SKIP", lambda: member.say(SKIP, lambda: longs(member.epoch) + named)


def handles(thief, victim, other):
    """Of another tenant, and of another set, with PLACE."""
    for handle in [h for _, _, h in found(victim, THEIRS)] + [victim.root] + [h for _, _, h in found(other, OWN)]:
        for place in said(), said(HERE), said(POINTER | SHARD):
            for what, fop, arguments in (("lookup", LOOKUP, loc(inode=handle)), ("getattr", GETATTR, opaque(handle) + bytes(8)), ("its location", GETXATTR, opaque(handle) + opaque(b"system.stratus.location")),
                                         ("listing", OPENDIR, opaque(handle))):
                expect(f"{what} by a foreign handle", thief.call(fop, arguments, head(extensions=(place,))), (ESTALE, b""))
            for what, fop, arguments in (("unlink", UNLINK, loc(handle, b"secret")), ("rename", RENAME, loc(thief.root, OWN[0]) + loc(handle, b"put") + words(0)),
                                         ("a layout", SETXATTR, opaque(handle) + opaque(b"trusted.dht.layout") + opaque(b"\1\0" + struct.pack(">H", 1) + longs(9) + words(0) + struct.pack(">IHH", 0, 1, 1)) + words(0))):
                expect(f"{what} by a foreign handle", thief.call(fop, arguments, thief.stamped(place))[0], ESTALE)


def paths(thief, victim):
    """Where gfids of another tenant are is not told; nor what is for who moves names."""
    def get(name):
        status, results = thief.call(GETXATTR, opaque(thief.root) + opaque(name), head(extensions=(said(),)))
        return status, results
    for gfid in [g for _, g, _ in found(victim, THEIRS)] + [FOREIGN_ID, TENANTS, LIMBO]:
        expect(f"the path of {gfid.hex()}", get(b"trusted.dht.path." + text(gfid)), get(b"trusted.dht.path." + text(os.urandom(16))))
    for gfid in OWN_ID, ROOT:
        status, value = get(b"trusted.dht.path." + text(gfid))
        expect("the path of the own root", (status, b"path /\n" in value, OWN_ID in value, text(OWN_ID) in value), (0, True, False, False))
    for name in b"trusted.dht.marks", b"trusted.dht.changes", b"trusted.dht.candidates":
        expect(f"{name}", get(name)[0], EOPNOTSUPP, ENODATA)
    gfid = os.urandom(16)
    for name, value in (b"trusted.dht.layout", b"nonsense"), (b"trusted.dht.pointer", b"\xff" + os.urandom(20)), (b"trusted.dht.m.0123456789abcdef", b"x"), (b"trusted.dht.other", b"x"):
        status, _ = thief.call(SETXATTR, opaque(thief.root) + opaque(name) + opaque(value) + words(0), thief.stamped(said()))
        expect(f"{name} that makes no sense", status, EINVAL, EPERM)
    status, _ = thief.call(MKDIR, loc(thief.root, b"born") + gfid + words(0o755, 0),
                           thief.stamped(said(), extension(5, bytes([1, 30]) + b"trusted.dht.m.0123456789abcdef\0" + struct.pack(">H", 25) + bytes(25))))
    expect("something born with a mark", status, EPERM, EINVAL)


sets = [range(first, first + MEMBERS) for first in range(0, len(PORTS), MEMBERS)]
thieves, victims = [], []
for members in sets:
    one, other = os.urandom(16), os.urandom(16)
    thieves.append([Member("acme", i, one) for i in members])
    victims.append([Member("globex", i, other) for i in members])
for i in range(len(sets)):
    for number in range(MEMBERS):
        thief, victim, elsewhere = thieves[i][number], victims[i][number], thieves[1 - i][number]
        vouchers(thief, elsewhere)
        handles(thief, victim, elsewhere)
        paths(thief, victim)
        expectations(thief, victim)
done()
