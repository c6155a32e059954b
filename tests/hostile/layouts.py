# SPDX-License-Identifier: Apache-2.0
"""A hostile client of a tenant on several bricks: what cluster/dht says to features/layout, said by one that lies. It prints what it was given.

   layouts.py PORT,PORT... DIRECTORY SEED OWN_ID FOREIGN_ID [SECRET...]    as forge.py; the ids are those of the tenants acme and globex, in hex
"""
import os
import random
import struct
import sys

import wire
from wire import *

PORTS, SEED, OWN_ID, FOREIGN_ID = sys.argv[1].split(","), int(sys.argv[3]), bytes.fromhex(sys.argv[4]), bytes.fromhex(sys.argv[5])
BRICKS = len(PORTS)
random.seed(SEED)
ELAYOUT, EPOINTER, EWIDE, EMOVED, EMARKED, EFENCED = range(4120, 4126)
POINTER, SHARD, HERE = 1, 2, 4
NOBODY = bytes(16)
TENANTS = bytes(15) + b"\2"


def said(flags=0, directories=(NOBODY, NOBODY), versions=(0, 0), expected=(NOBODY, NOBODY), intent=NOBODY, attempt=0):
    """The extension PLACE."""
    return (words(flags) + directories[0] + longs(versions[0]) + directories[1] + longs(versions[1]) + expected[0] + expected[1] + intent +
            words(attempt))


def place_head(place=None, born=b"", **who):
    more = (extension(6, said() if place is None else place, 1, 5),) + ((extension(5, born, 1, 1),) if born else ())
    return head(extensions=more, **who)


def born_with(name, value):
    return bytes([1, len(name)]) + name + b"\0" + struct.pack(">H", len(value)) + value


def text(gfid):
    h = gfid.hex()
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])).encode()


def get(client, handle, name, who=None):
    status, results = client.call(GETXATTR, opaque(handle) + opaque(name), who or place_head())
    return status, results[4:4 + struct.unpack_from(">I", results)[0]] if status == 0 else b""


def set_(client, handle, name, value, who=None):
    return client.call(SETXATTR, opaque(handle) + opaque(name) + opaque(value) + words(0), who or place_head())[0]


def remove(client, handle, name):
    return client.call(REMOVEXATTR, opaque(handle) + opaque(name), place_head())[0]


def pointer(gfid, subvolume=1):
    return b"\1" + words(subvolume) + gfid


def layout(version, members=BRICKS):
    return b"\1\0" + struct.pack(">H", members) + longs(version) + words(0) + b"".join(struct.pack(">IHH", i, 1, 1) for i in range(members))


def places(foreign):
    """All that PLACE may say, with what is another's in it."""
    for flags in 0, POINTER, SHARD, HERE, POINTER | SHARD | HERE:
        for gfid in (NOBODY,) + foreign:
            yield said(flags, expected=(gfid, gfid))
            yield said(flags, expected=(gfid, NOBODY), intent=gfid, attempt=1)
            yield said(flags, directories=(gfid, NOBODY), versions=(0 if gfid == NOBODY else 7, 0))


def handles(victim, thief, foreign):
    """Handles of another tenant, with PLACE."""
    file, gfid = bytes(8), os.urandom(16)
    for handle in victim.root, victim.found[0], victim.found[1]:
        for what, fop, arguments in (
                ("lookup in", LOOKUP, loc(handle, b"secret")), ("lookup of", LOOKUP, loc(inode=handle)), ("getattr", GETATTR, opaque(handle) + file),
                ("mkdir", MKDIR, loc(handle, b"x") + gfid + words(0o755, 0)), ("unlink", UNLINK, loc(handle, b"secret")),
                ("rename from", RENAME, loc(handle, b"secret") + loc(thief.root, b"stolen") + words(0)),
                ("rename to", RENAME, loc(thief.root, b"own") + loc(handle, b"put") + words(0)), ("link", LINK, opaque(handle) + loc(thief.root, b"l")),
                ("opendir", OPENDIR, opaque(handle)), ("open", OPEN, opaque(handle) + words(0)),
                ("a mark", SETXATTR, opaque(handle) + opaque(b"trusted.dht.m.0123456789abcdef") + opaque(b"\1" + gfid + words(1, 0)) + words(0)),
                ("a layout", SETXATTR, opaque(handle) + opaque(b"trusted.dht.layout") + opaque(layout(1)) + words(0)),
                ("a layout's end", REMOVEXATTR, opaque(handle) + opaque(b"trusted.dht.layout")),
                ("a path", GETXATTR, opaque(handle) + opaque(b"trusted.dht.path." + text(foreign[0]))),
                ("its location", GETXATTR, opaque(handle) + opaque(b"system.stratus.location")), ("its xattrs", LISTXATTR, opaque(handle))):
            for place in said(), said(HERE), said(POINTER | SHARD), said(intent=gfid, attempt=1):
                answer = thief.call(fop, arguments, place_head(place))
                unknown = thief.call(fop, arguments.replace(handle, os.urandom(len(handle))), place_head(place))
                expect(f"{what} of another tenant's", answer, (ESTALE, b""))
                expect(f"{what} of nobody's", unknown, (ESTALE, b""))


def gfids(victim, thief, foreign):
    """Gfids of another tenant: in paths, as what a name is expected to be, as intents."""
    own = thief.open(b"expected")[2]
    for gfid in foreign:
        for name in b"trusted.dht.path." + text(gfid), b"trusted.dht.path." + text(gfid) + b"x", b"trusted.dht.path." + gfid.hex().encode():
            odd = name.replace(text(gfid), text(os.urandom(16))).replace(gfid.hex().encode(), os.urandom(16).hex().encode())
            expect("the path of a gfid of another tenant", get(thief, thief.root, name), get(thief, thief.root, odd))
        for place in places((gfid,)):
            for fop, arguments in (UNLINK, loc(thief.root, b"expected")), (RENAME, loc(thief.root, b"expected") + loc(thief.root, b"expected2") + words(0)):
                if gfid in place[-52:-20]:
                    expect("a name that is expected to be another tenant's", thief.call(fop, arguments, place_head(place))[0], ESTALE, ELAYOUT, EFENCED)
    for gfid in OWN_ID, ROOT:
        status, value = get(thief, thief.root, b"trusted.dht.path." + text(gfid))
        expect("the path of the own root", (status, b"path /\n" in value, OWN_ID in value, text(OWN_ID) in value), (0, True, False, False))
    return own


def nameless(thief):
    """Requests that take a name, without one, or without the directory."""
    gfid, empty, nowhere = os.urandom(16), loc(thief.root, b""), loc(b"", b"x")
    for place in list(places((gfid,))) + [None]:
        for who in (place_head(place) if place else head()), (place_head(place, uid=7) if place else head(uid=7)):
            for bad in empty, nowhere:
                for fop, arguments in (
                        (UNLINK, bad), (RMDIR, bad), (MKDIR, bad + gfid + words(0o755, 0)), (LINK, opaque(thief.root) + bad),
                        (RENAME, bad + loc(thief.root, b"to") + words(0)), (RENAME, loc(thief.root, b"expected") + bad + words(0))):
                    if thief.call(fop, arguments, who)[0] == 0:
                        wrong(f"fop {fop} is done without a name")


def locations(thief, own):
    for handle, path in (own, b"/expected"), (thief.root, b"/"):
        status, value = get(thief, handle, b"system.stratus.location")
        expect("a location", status, 0)
        expect("its path", b"path " + path + b"\n" in value, True)
        for word in b"directory", b"tenants", place["directory"].encode(), b"acme", text(OWN_ID):
            expect(f"a location with {word}", word in value, False)
    for name in b"trusted.dht.marks", b"trusted.dht.changes", b"trusted.dht.candidates":
        for handle in thief.root, own:
            expect(f"{name}", get(thief, handle, name)[0], EOPNOTSUPP, ENODATA)
    expect("as a user", get(thief, thief.root, b"trusted.dht.path." + text(ROOT), place_head(uid=7))[0], EPERM)
    expect("how an intent of nobody's ended", get(thief, thief.root, b"trusted.dht.ended." + text(NOBODY))[0], ENODATA)
    expect("the same as a user", get(thief, thief.root, b"trusted.dht.ended." + text(NOBODY), place_head(uid=7))[0], EPERM)


def nonsense(thief, own):
    """What makes no sense is not stored, whoever says it and how."""
    for name in b"pointer", b"layout", b"parent", b"kept", b"m.0123456789abcdef":
        name = b"trusted.dht." + name
        for _ in range(50):
            value = random.randbytes(random.randrange(0, 80))
            if value[:1] in (b"\1", b"\2"):
                continue
            expect(f"{name} = {value}", set_(thief, own, name, value), EINVAL)
            expect(f"{name} = {value} without PLACE", set_(thief, own, name, value, head()), EPERM)
            status = thief.call(MKDIR, loc(thief.root, b"nonsense") + os.urandom(16) + words(0o755, 0), place_head(said(HERE), born_with(name, value or b"x")))[0]
            expect(f"born with {name}", status, EPERM if b".m." in name else EINVAL)
    for name in b"trusted.dht.x", b"trusted.dht.", b"trusted.dht.m.", b"trusted.dht.m.XYZ", b"trusted.dht.marks", b"trusted.dht.path." + text(ROOT):
        for who in place_head(), head():
            expect(f"set {name}", set_(thief, own, name, b"\1" * 21, who), EPERM, EINVAL)
    for gfid in NOBODY, ROOT:
        expect("a pointer to a root", set_(thief, own, b"trusted.dht.pointer", pointer(gfid)), EINVAL)
    for _ in range(500):
        data = bytearray(said())
        for _ in range(random.randrange(1, 6)):
            data[random.randrange(len(data))] = random.randrange(256)
        data = bytes(data[:random.randrange(len(data) + 1)]) if random.random() < .3 else bytes(data)
        who = head(extensions=(extension(6, data, random.randrange(2), random.choice((0, 1, 2, 3, 4, 5, 5, 5, 6, 2**32 - 1))),))
        for fop, arguments in ((LOOKUP, loc(thief.root, b"expected")), (OPENDIR, opaque(thief.root)), (UNLINK, loc(thief.root, b"nothing")),
                               (SETXATTR, opaque(own) + opaque(b"trusted.dht.m.0123456789abcdef") + opaque(b"\1" + bytes(24)) + words(0))):
            thief.call(fop, arguments, who)
    remove(thief, own, b"trusted.dht.m.0123456789abcdef")
    who = head(extensions=(extension(6, said(), 1, 5), extension(6, said(HERE), 1, 5)))
    expect("PLACE twice", thief.call(LOOKUP, loc(thief.root, b"expected"), who)[0], EINVAL)
    step = words(0) + opaque(b"") + loc() + bytes(8) + opaque(b"") + opaque(b"")
    change = words(1) + step + words(SETXATTR) + opaque(own) + opaque(b"trusted.dht.layout") + opaque(layout(1)) + words(0)
    for who in place_head(), head():
        expect("a step of a compound", thief.call(COMPOUND, change, who)[0], EPERM, EOPNOTSUPP)


def pointers(thief, foreign):
    """Pointers to what another tenant has: who made them hears what he said himself, and gets nothing by them."""
    for number, gfid in enumerate(foreign):
        name = b"pointer%d" % number
        for kind, arguments in (MKDIR, words(0o755, 0)), (CREATE, words(0o302, 0o644, 0)):
            made = thief.call(kind, loc(thief.root, name) + os.urandom(16) + arguments, place_head(said(HERE), born_with(b"trusted.dht.pointer", pointer(gfid))))
            expect("a pointer", made[0], 0, EEXIST, ELAYOUT)
        status, handle = thief.lookup(name)
        if status == 0:
            for fop, arguments in (GETATTR, opaque(handle) + bytes(8)), (OPENDIR, opaque(handle)), (LOOKUP, loc(handle, b"below")):
                expect("through a pointer", thief.call(fop, arguments, place_head())[0], EMOVED, ENOTDIR)
            thief.call(RMDIR, loc(thief.root, name))


def own_harm(thief):
    """A root that is broken is its own tenant's: what is done here, another one works through (layouts.sh)."""
    mark = b"trusted.dht.m."
    for _ in range(40):
        value = b"\1" + os.urandom(16)
        status = set_(thief, thief.root, mark + os.urandom(8).hex().encode(), value + words(1, 0), place_head(said(intent=value[1:], attempt=1)))
        expect("a mark", status, 0, EMARKED)
    expect("the 17th mark", status, EMARKED)
    expect("a layout of the root", set_(thief, thief.root, b"trusted.dht.layout", layout(1000)), 0)
    expect("a pointer in place of the root", set_(thief, thief.root, b"trusted.dht.pointer", pointer(FOREIGN_ID)), 0)
    expect("a parent of the root", set_(thief, thief.root, b"trusted.dht.parent", b"\1" + longs(2**63) + words(3) + FOREIGN_ID), 0)


def mend(thief):
    for name in thief.call(LISTXATTR, opaque(thief.root), place_head(said(POINTER)))[1][4:].split(b"\0"):
        if not name.startswith(b"trusted.dht."):
            continue
        value = get(thief, thief.root, name, place_head(said(POINTER)))[1]
        place = said(POINTER | SHARD, intent=value[1:17] if b".m." in name else NOBODY, attempt=1)
        expect(f"{name} is removed", thief.call(REMOVEXATTR, opaque(thief.root) + opaque(name), place_head(place))[0], 0)


def find(victim, names):
    """Handle and gfid of what the victim has at this brick."""
    found = []
    for name in names:
        status, results = victim.call(LOOKUP, loc(victim.root, name))
        if status == 0:
            found.append((handle_in(results), results[:16]))
    return found


clients = []
for number in range(BRICKS):
    wire.stage(PORTS[number], sys.argv[2], [bytes.fromhex(secret) for secret in sys.argv[6:]])
    wire.brick = b"brick%d" % number
    victim, thief = Client("globex", watched=False), Client("acme")
    victim.call(MKDIR, loc(victim.root, b"of%d" % number) + os.urandom(16) + words(0o755, 0))
    victim.call(MKDIR, loc(victim.root, b"also%d" % number) + os.urandom(16) + words(0o755, 0))
    found = find(victim, [b"of%d" % number, b"also%d" % number])
    victim.found = [handle for handle, _ in found]
    foreign = tuple(gfid for _, gfid in found) + (FOREIGN_ID, TENANTS)
    if thief.gfid != ROOT or victim.gfid != ROOT:
        wrong("a tenant's root has another gfid than all roots")
    handles(victim, thief, foreign)
    own = gfids(victim, thief, foreign)
    nameless(thief)
    locations(thief, own)
    nonsense(thief, own)
    pointers(thief, foreign)
    for name in b"of%d" % number, b"also%d" % number:
        expect("the victim's directory", victim.call(RMDIR, loc(victim.root, name))[0], 0)
    clients.append(thief)
for thief in clients:
    own_harm(thief)
print("broken", flush=True)
sys.stdin.readline()
for thief in clients:
    mend(thief)
    thief.call(UNLINK, loc(thief.root, b"expected"))
wire.done()
