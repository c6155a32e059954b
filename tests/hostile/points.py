# SPDX-License-Identifier: Apache-2.0
"""Clients of a tenant, of its access points web (/point) and docs (/docs, which only reads), and of another tenant, each of whom asks with what is another's of them:

   points.py PORT DIRECTORY SEED [SECRET...]    prints what one was given that he must not have
"""
import os
import random
import struct
import sys

import wire
from calls import each_fop
from wire import *

wire.stage(sys.argv[1], sys.argv[2], [bytes.fromhex(secret) for secret in sys.argv[4:]])
random.seed(int(sys.argv[3]))
EROFS = 30


def made(client, name, parent=None):
    """A directory, for all; its handle."""
    status, results = client.call(MKDIR, loc(client.root if parent is None else parent, name) + os.urandom(16) + words(0o777, 0))
    expect(f"mkdir {name}", status, 0)
    return handle_in(results)


def attributes(results):
    """mode, uid, gid of an answer to getattr."""
    return struct.unpack_from(">III", results, 28)


def handles(of, foreign, by):
    """Of one, shown by another: as one that nobody has."""
    for name, handle in foreign.items():
        for what, fop, arguments in each_fop(handle, by.root):
            answer = by.call(fop, arguments)
            unknown = by.call(fop, arguments.replace(handle, os.urandom(len(handle))))
            if by.who == "docs" and answer[0] == EROFS == unknown[0]: # it was not looked at
                continue
            expect(f"{what} of {of}'s {name} by {by.who}", answer[0], ESTALE)
            if answer != unknown:
                wrong(f"{what} of {of}'s {name} by {by.who} is not answered like one that nobody has: {answer[0]}, {unknown[0]}")


def own_handles(client, *names):
    found = {"root": client.root}
    for name in names:
        status, found[name] = client.lookup(name)
        expect(f"{client.who}'s own {name}", status, 0)
    return found


def sessions(tenant, web, docs):
    opened = tenant.call(OPEN, opaque(tenant.lookup(b"file")[1]) + words(0))[1]
    for client in web, docs:
        for number in list(range(1, 20)) + [struct.unpack(">Q", opened[:8])[0]]:
            expect(f"file {number} of the tenant, by {client.who}", client.call(READ, struct.pack(">QQI", number, 0, 100))[0], EBADF)
    every = {"acme": tenant, "web": web, "docs": docs}
    for who in "acme", "web", "docs", "keeper", "globex":
        for name, session in every.items():
            if who != name:
                expect(f"the session of {name}, with its secret, by {who}", Client(who, session.id, session.secret).refused, EACCES)
    expect("one that was never made", Client("point").refused, EACCES)
    expect("the file is open", tenant.call(READ, opened[:8] + longs(0) + words(100))[0], 0)


def names(web):
    for name in b"..", b".", b"../private", b"x/../../private", b"/private":
        expect(f"lookup of {name}", web.lookup(name)[0], EINVAL, None)
    for name in b"private", b"secret", b"point", b"docs", b"tenants", b".stratus":
        expect(f"lookup of {name}", web.lookup(name)[0], ENOENT)
    status, results = web.call(OPENDIR, opaque(web.root))
    expect("opendir", status, 0)
    listed = [name for name in entries(web.call(READDIR, results[:8] + longs(0) + words(65536, 1))[1])[0]]
    expect("what is listed", sorted(listed), [b"below", b"page"])


def identities(web):
    """Whoever he says he is, he is the one."""
    for uid in 0, 7, 8, 65535, 65536, 131072, 0xfffffffe, 0xffffffff:
        who = head(uid=uid, gid=uid, groups=(0, uid))
        name = b"of-%d" % uid
        status, _ = web.call(MKDIR, loc(web.root, name) + os.urandom(16) + words(0o777, 0), who)
        expect(f"mkdir as {uid}", status, 0)
        made_ = web.lookup(name)[1]
        status, results = web.call(GETATTR, opaque(made_) + bytes(8), who)
        expect(f"getattr as {uid}", status, 0)
        expect(f"owner of what {uid} makes", results.count(words(7, 8)) > 0, True)
        for valid, to in (2, 0), (2, 9), (4, 0):
            set_ = words(valid, 0o644, to, to) + bytes(8) + bytes(24)
            expect(f"chown by {uid}", web.call(SETATTR, opaque(made_) + bytes(8) + set_, who)[0], EPERM)
        expect("rmdir", web.call(RMDIR, loc(web.root, name), who)[0], 0)


def reading(docs):
    """Nothing is changed by one who only reads, in a compound neither."""
    text = docs.lookup(b"text")[1]
    for what, fop, arguments in each_fop(docs.root, docs.root):
        if fop in (MKNOD, MKDIR, SYMLINK, UNLINK, RMDIR, RENAME, LINK, CREATE, SETATTR, SETXATTR, REMOVEXATTR):
            expect(f"{what} by one who reads", docs.call(fop, arguments)[0], EROFS)
    for flags in 1, 2, 0o1000, 0o1001, 0o2001, 0o102, 0o1002, 3:
        expect(f"open with {flags:o}", docs.call(OPEN, opaque(text) + words(flags))[0], EROFS)
    expect("access", docs.call(ACCESS, opaque(text) + words(2))[0], EROFS)
    status, opened = docs.call(OPEN, opaque(text) + words(0))
    expect("open to read", status, 0)
    file = opened[:8]
    expect("read", docs.call(READ, file + longs(0) + words(100))[0], 0)
    expect("write", docs.call(WRITE, file + longs(0) + words(0), bulk=b"x")[0], EROFS, None)
    expect("fallocate", docs.call(FALLOCATE, file + words(0) + longs(0, 100))[0], EROFS)
    expect("copy_range", docs.call(COPY_RANGE, file + longs(0) + file + longs(1, 1))[0], EROFS)
    for kind in 0, 1:
        expect("a lock of who writes", docs.call(SETLK, file + lock(1, kind=kind))[0], EROFS)
        expect("a lock of who reads", docs.call(SETLK, file + lock(0, kind=kind))[0], 0)
        expect("unlock", docs.call(SETLK, file + lock(2, kind=kind))[0], 0)
    step = words(0) + opaque(b"") + loc() + bytes(8) + opaque(b"") + opaque(b"")
    attr = words(1, 0o777, 0, 0) + bytes(8) + bytes(24)
    getattr_ = step + words(GETATTR) + opaque(text) + bytes(8)
    expect("a compound", docs.call(COMPOUND, words(2) + getattr_ + step + words(SETATTR) + opaque(text) + bytes(8) + attr)[0], EROFS)
    expect("a compound that reads", docs.call(COMPOUND, words(1) + getattr_)[0], 0, EOPNOTSUPP)


def recalls(tenant, web):
    """Of what is changed outside an access point its clients hear nothing."""
    private = tenant.lookup(b"private")[1]
    expect("the brick's word", web.call(LEASE, words(1) + bytes(8))[0], 0)
    expect("what is believed", web.call(GETATTR, opaque(web.root) + bytes(8))[0], 0)
    del web.events[:]
    for n in range(20):
        made(tenant, b"d%d" % n, private)
    web.call(GETATTR, opaque(web.root) + bytes(8))
    expect("recalls of what is outside", web.events, [])


tenant, other = Client("acme", watched=False), Client("globex", watched=False)
point, private = made(tenant, b"point"), made(tenant, b"private")
made(tenant, b"docs")
made(tenant, b"below", point)
tenant.open(b"file")
tenant.open(b"page", parent=point)
tenant.open(b"secret", parent=private)
tenant.open(b"text", parent=tenant.lookup(b"docs")[1])
wire.place["secrets"] += tuple(struct.pack("16s", tenant.call(LOOKUP, loc(tenant.root, name))[1][:16]) for name in (b"private", b"file")) # that of its own root is in its handle
web, docs, keeper = Client("web"), Client("docs"), Client("keeper", watched=False)
expect("who is let in", (web.refused, docs.refused, keeper.refused), (0, 0, 0))
expect("their roots", (web.gfid, docs.gfid), (ROOT, ROOT))
of_tenant = own_handles(tenant, b"point", b"private", b"file")
for name, parent in (b"page", point), (b"secret", private):
    of_tenant[name] = tenant.lookup(name, parent)[1]
for by in web, docs, other:
    handles("the tenant", of_tenant, by)
of_web, of_docs = own_handles(web, b"page", b"below"), own_handles(docs, b"text")
for by in tenant, docs, other, keeper:
    handles("web", of_web, by)
for by in tenant, web, other:
    handles("docs", of_docs, by)
for by in web, docs:
    handles("another tenant", own_handles(other, b"secret"), by)
expect("the administrator is a client of the tenant", keeper.call(GETATTR, opaque(of_tenant[b"private"]) + bytes(8))[0], 0)
sessions(tenant, web, docs)
names(web)
identities(web)
reading(docs)
recalls(tenant, web)
wire.done()
