# SPDX-License-Identifier: Apache-2.0
"""Clients of access points of a tenant on two bricks: web, of a directory at the first one, and docs, which only reads, of one at the second. They say what cluster/dht says to
bricks, and name what is the tenant's and not below their directories, by handles, names and gfids. Prints what one was given that he must not have, and once "end" when it waits for a
line, before which the quota of web's directory is taken away.

   brick-points.py PORT,PORT DIRECTORY SEED OWN_ID SITE,SITE PRIVATE,PRIVATE [SECRET...]    the id in hex; names in the tenant's root, of their directories
   and of others, at the first brick and the second
"""
import os
import random
import struct
import sys

import wire
from calls import each_fop
from wire import *

PORTS, OWN_ID = sys.argv[1].split(","), bytes.fromhex(sys.argv[4])
SITES, PRIVATE = (words_.encode().split(b",") for words_ in sys.argv[5:7])
random.seed(int(sys.argv[3]))
wire.stage(PORTS[0], sys.argv[2], [bytes.fromhex(secret) for secret in sys.argv[7:]] + [OWN_ID, b"Kzq7PRIVATE"])
EROFS, EREMOTE = 30, 66
NOBODY = bytes(16)
QUOTA = b"system.stratus.quota"


def at(number, who, **more):
    """One more client, at that brick."""
    wire.place["port"], wire.brick = int(PORTS[number]), b"brick%d" % number
    return Client(who, **more)


def text(gfid):
    h = gfid.hex()
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])).encode()


def said(flags=0, gfid=NOBODY, intent=NOBODY):
    """PLACE: what a name is expected to stand for, and whose step it is."""
    return words(flags) + gfid + longs(1) + NOBODY + longs(0) + gfid + gfid + intent + words(1)


def born_with(name, value):
    return bytes([1, len(name)]) + name + b"\0" + struct.pack(">H", len(value)) + value


def look(client, name, parent=None):
    status, results = client.call(LOOKUP, loc(client.root if parent is None else parent, name))
    return (results[:16], handle_in(results)) if status == 0 else (None, None)


def listed(client, handle):
    status, results = client.call(OPENDIR, opaque(handle))
    expect("opendir", status, 0)
    return sorted(entries(client.call(READDIR, results[:8] + longs(0) + words(65536, 1))[1])[0])


def handles(of, foreign, by):
    """Of one, shown by another, at any brick: as one that nobody has."""
    for handle in foreign:
        for what, fop, arguments in each_fop(handle, by.root):
            odd = arguments.replace(handle, os.urandom(len(handle)))
            answer, unknown = by.call(fop, arguments), by.call(fop, odd)
            expect(f"{what} of {of}'s by {by.who}", answer, unknown)
            expect(f"{what} of {of}'s by {by.who}", answer[0], ESTALE, *((EROFS,) if by.who == "docs" else ()))


def says(client, page, gfids):
    """What cluster/dht, cluster/afr and the brick's own side say is not for him."""
    for gfid in gfids:
        for place in said(), said(1), said(2), said(4), said(7, gfid), said(4, gfid, gfid):
            who = head(extensions=(extension(6, place, 1, 5),))
            for what, fop, arguments in each_fop(client.root, client.root):
                expect(f"{what} with PLACE by {client.who}", client.call(fop, arguments, who)[0], EOPNOTSUPP, *((EROFS,) if client.who == "docs" else ()))
        for name in (b"path." + text(gfid), b"layout", b"pointer", b"parent", b"kept", b"intent", b"marks", b"changes", b"candidates", b"m.0123456789abcdef"):
            name = b"trusted.dht." + name
            for handle in client.root, page:
                expect(f"get {name}", client.call(GETXATTR, opaque(handle) + opaque(name))[0], ENODATA)
                expect(f"set {name}", client.call(SETXATTR, opaque(handle) + opaque(name) + opaque(b"\1" + words(1) + gfid) + words(0))[0], EPERM, EROFS)
                expect(f"remove {name}", client.call(REMOVEXATTR, opaque(handle) + opaque(name))[0], EPERM, EROFS)
            who = head(extensions=(extension(5, born_with(name, b"\1" + words(1) + gfid), 1, 1),))
            expect(f"born with {name}", client.call(MKDIR, loc(client.root, b"born") + os.urandom(16) + words(0o755, 0), who)[0], EPERM, EROFS)
    for name in b"system.stratus.location", b"trusted.usage.quota", b"trusted.usage.directory." + b"0" * 16, b"trusted.sfs":
        for handle in client.root, page:
            expect(f"get {name}", client.call(GETXATTR, opaque(handle) + opaque(name))[0], EOPNOTSUPP, ENODATA)
    for verb in range(40):
        expect(f"verb {verb}", client.call(REPLICA, words(verb) + bytes(16) + opaque(b""))[0], EOPNOTSUPP, EROFS, None)
    step = words(0) + opaque(b"") + loc() + bytes(8) + opaque(b"") + opaque(b"")
    expect("a compound", client.call(COMPOUND, words(1) + step + words(GETATTR) + opaque(client.root) + bytes(8))[0], EOPNOTSUPP)


def names(client, there):
    for name in b"..", b".", b"../private", b"/private":
        expect(f"lookup of {name}", client.lookup(name)[0], EINVAL, None)
    for name in SITES + PRIVATE + [ b"secret", b"tenants", b".stratus", b".stratus.dht", b"away", b"work"]:
        expect(f"lookup of {name}", client.lookup(name)[0], ENOENT)
    expect(f"what {client.who} lists", listed(client, client.root), there)


def quota(client):
    """Of that of his own directory he is told, and of no other; and he changes none."""
    status, results = client.call(GETXATTR, opaque(client.root) + opaque(QUOTA))
    expect("his own quota", (status, b"path /\n" in results), (0, True))
    for number in range(3):
        expect("the quotas of all", client.call(GETXATTR, opaque(client.root) + opaque(QUOTA + b".%d" % number))[0], EPERM)
    expect("his quota is set", client.call(SETXATTR, opaque(client.root) + opaque(QUOTA) + opaque(b"1 1") + words(0))[0], EPERM, EROFS)
    expect("his quota is removed", client.call(REMOVEXATTR, opaque(client.root) + opaque(QUOTA))[0], EPERM, EROFS)


def same_gfid(client, gfids):
    """What he makes with a gfid of another's shows nothing of that."""
    for number, gfid in enumerate(gfids):
        name = b"same%d" % number
        status, results = client.call(MKDIR, loc(client.root, name) + gfid + words(0o755, 0))
        if status:
            continue
        expect(f"what is in it", listed(client, handle_in(results)), [])
        expect(f"secret in it", client.lookup(b"secret", handle_in(results))[0], ENOENT, ESTALE)
        expect("it goes", client.call(RMDIR, loc(client.root, name))[0], 0, ESTALE)


def sessions(clients):
    """Of another one, with its secret; and at the brick where his directory is not."""
    for number, client in enumerate(clients):
        for who in "acme", "keeper", "web", "docs", "globex":
            if who != client.who:
                refused = at(number, who, client_id=client.id, secret=client.secret, channel=1, watched=False).refused
                expect(f"the session of {client.who}, by {who}", refused != 0, True)
    expect("web at the other brick", at(1, "web").refused != 0, True)
    expect("docs at the other brick", at(0, "docs").refused != 0, True)


def recalls(tenants, web, private):
    """Of what is done outside nothing is heard. (Of his own directory it is: the tenant's mount tries to move a name into it all the time.)"""
    web.call(LEASE, words(1) + bytes(8))
    web.call(GETATTR, opaque(web.root) + bytes(8))
    del web.events[:]
    for number in range(20):
        tenants[0].call(MKDIR, loc(private[0], b"d%d" % number) + os.urandom(16) + words(0o755, 0))
    web.call(GETATTR, opaque(web.root) + bytes(8))
    expect("events of what is outside", [event for event in web.events if ROOT not in event], [])


tenants = [at(i, "acme", watched=False) for i in (0, 1)]
outside, private, gfids, shown = [[], []], [], [ROOT, OWN_ID], []
for i, tenant in enumerate(tenants):
    outside[i].append(tenant.root)
    for name in PRIVATE[i], b".stratus.dht", SITES[i]:
        gfid, handle = look(tenant, name)
        if handle:
            outside[i].append(handle)
            gfids.append(gfid)
            shown += [gfid] if name == SITES[i] else []
            if name == PRIVATE[i]:
                private.append(handle)
    gfid, handle = look(tenant, b"secret", private[i])
    outside[i].append(handle)
    gfids.append(gfid)
    gfid, handle = look(tenant, b"page", outside[i][-2])
    outside[i].append(handle) # below the directory, but the tenant's handle
expect("all is there", (len(outside[0]), len(gfids)), (6, 10))
wire.place["secrets"] += tuple(gfid for gfid in gfids[2:] if gfid not in shown) # those of the directories are in the handles of his root
clients = web, docs = at(0, "web"), at(1, "docs")
expect("who is let in", (web.refused, docs.refused, web.gfid, docs.gfid), (0, 0, ROOT, ROOT))
pages = [look(client, b"page")[1] for client in clients]
for client in clients:
    for of in outside:
        handles("the tenant", of, client)
for tenant in tenants:
    handles("web", [web.root, pages[0]], tenant)
    handles("docs", [docs.root, pages[1]], tenant)
handles("docs", [docs.root, pages[1]], web)
handles("web", [web.root, pages[0]], docs)
for client, page in zip(clients, pages):
    says(client, page, random.sample(gfids, 3))
    names(client, [b"page"])
    quota(client)
same_gfid(at(0, "web", watched=False), gfids) # he is told what he says
sessions(clients)
recalls(tenants, web, private)
names(web, [b"page"])
expect("the page", web.call(OPEN, opaque(pages[0]) + words(0))[0], 0)
print("end", flush=True)
sys.stdin.readline()
for _ in range(5): # the connection may be cut meanwhile: each new one is refused
    status = web.call(GETATTR, opaque(pages[0]) + bytes(8))[0]
    expect("after the quota was taken away", status not in (0,), True)
expect("a new session after that", at(0, "web").refused != 0, True)
expect("docs works on", docs.call(GETATTR, opaque(pages[1]) + bytes(8))[0], 0)
wire.done()
