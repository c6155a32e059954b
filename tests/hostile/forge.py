# SPDX-License-Identifier: Apache-2.0
"""A hostile client of a tenant, which asks for what it must not have, one thing after the other, and prints what it was given.

   forge.py PORT DIRECTORY COUNT SEED [SECRET...]    both tenants active, "secret" in the root of globex, which no SECRET (in hex) may leave

Among the cases are the vulnerabilities that were published of GlusterFS in 2018: `published`.
"""
import os
import random
import struct
import sys

import wire
from calls import each_fop
from wire import *

wire.stage(sys.argv[1], sys.argv[2], [bytes.fromhex(secret) for secret in sys.argv[5:]])
COUNT, SEED = int(sys.argv[3]), int(sys.argv[4])
SPREAD = "BRICK" in os.environ  # over several bricks, of which this is one: see layouts.py, too
random.seed(SEED)


def foreign_handles(victim, thief):
    status, secret = victim.lookup(b"secret")
    expect("the victim's own lookup", status, 0)
    for name, handle in ("file", secret), ("root", victim.root):
        for what, fop, arguments in each_fop(handle, thief.root):
            status, results = thief.call(fop, arguments)
            unknown = thief.call(fop, arguments.replace(handle, os.urandom(len(handle))))
            expect(f"{what} of another tenant's {name}", status, ESTALE)
            if (status, results) != unknown:
                wrong(f"{what}: {name} of another tenant is not answered like one that nobody has: {status}, {unknown[0]}")


def random_handles(victim, thief):
    """In batches, one call for each slot."""
    own, secret = thief.lookup(b"own")[1], victim.lookup(b"secret")[1]
    for _ in range(COUNT // 250):
        thief.sequence += 1
        for slot in range(250):
            base = bytearray(random.choice((own, secret, thief.root, victim.root)))
            kind = random.randrange(3)
            if kind == 0:
                base[random.randrange(len(base))] ^= random.randrange(1, 256)
            elif kind == 1:
                base = bytearray(random.randbytes(random.randrange(1, 129)))
            else:
                base = base[:-1] if random.random() < .5 else bytearray(bytes(secret[:-16]) + bytes(own[-16:]))
            thief.send(thief.sequence << 13 | slot, 100 + GETATTR, head() + opaque(bytes(base)) + bytes(8))
        for slot in range(250):
            status, _, results = thief.receive()
            if status != ESTALE or results:
                wrong(f"a forged handle: {status}, {len(results)} bytes")


BAD_NAMES = [b"..", b".", b"a/b", b"/", b"../globex", b"/tenants/globex", b"x/../../globex/secret", b"a\0b", b"\0", b"..\0", b"",
             b"x" * 256, b"/" * 255, b"x" * 255 + b"/"]


def each_name(thief, name, own):
    """Each call that has a name, with that one. An empty one is none, which lookup may lack, and a file that is named by its handle."""
    root, gfid = thief.root, os.urandom(16)
    condition = words(4) + opaque(b"") + loc(root, name) + bytes(8) + opaque(b"") + opaque(b"")
    nothing = words(0) + opaque(b"") + loc() + bytes(8) + opaque(b"") + opaque(b"")
    yield "lookup", LOOKUP, loc(root, name)
    yield "mknod", MKNOD, loc(root, name) + gfid + words(0o100644, 0) + bytes(8)
    yield "mkdir", MKDIR, loc(root, name) + gfid + words(0o755, 0)
    yield "symlink", SYMLINK, loc(root, name) + gfid + opaque(b"t")
    yield "unlink", UNLINK, loc(root, name)
    yield "rmdir", RMDIR, loc(root, name)
    yield "rename from", RENAME, loc(root, name) + loc(root, b"taken") + words(0)
    yield "rename to", RENAME, loc(root, b"own") + loc(root, name) + words(0)
    yield "exchange", RENAME, loc(root, b"own") + loc(root, name) + words(2)
    yield "link", LINK, opaque(own) + loc(root, name)
    yield "create", CREATE, loc(root, name) + gfid + words(0o102, 0o644, 0)
    yield "a condition", COMPOUND, words(1) + condition + words(GETATTR) + opaque(root) + bytes(8)
    yield "a step", COMPOUND, words(1) + nothing + words(MKDIR) + loc(root, name) + gfid + words(0o755, 0)


def names(thief):
    own = thief.open(b"named")[2]
    for name in BAD_NAMES:
        for what, fop, arguments in each_name(thief, name, own):
            status, results = thief.call(fop, arguments)
            if fop == COMPOUND and status == 0: # its steps have a status each
                status = -struct.unpack(">i", results[4:8])[0]
            expect(f"{what} of {name[:30]}", status, EINVAL, ENAMETOOLONG, None, *((EOPNOTSUPP, ENOENT, ENOTDIR) if fop == COMPOUND and not name else ()))
    for name in b"tenants", b".stratus", b"globex", b"secret", b"...", b"%2e%2e", b"..\xc0\xaf", b"\xc0\xae\xc0\xae":
        expect(f"lookup of {name}", thief.lookup(name)[0], ENOENT)
    for parent in own, b"":
        expect("a file as a directory", thief.lookup(b"x", parent)[0], ENOTDIR, EINVAL, None)


def ids(thief):
    file, own = bytes(8), thief.lookup(b"own")[1]
    for bad in 65536, 65537, 131072, 131073, 0x7fffffff, 0xfffffffe, 0xffffffff:
        for who in head(uid=bad), head(gid=bad), head(groups=(bad,)), head(groups=(1, 2, bad)):
            expect(f"a request of {bad}", thief.call(GETATTR, opaque(own) + file, who)[0], EINVAL)
        for valid in 2, 4, 6, 7:
            set_ = words(valid, 0o644, bad if valid & 2 else 0, bad if valid & 4 else 0) + bytes(8) + bytes(24)
            expect(f"setattr of {bad}", thief.call(SETATTR, opaque(own) + file + set_)[0], EINVAL)
        for tag in 2, 8:
            acl = struct.pack("<IHHIHHIHHIHHIHHI", 2, 1, 6, 0xffffffff, tag, 6, bad, 4, 4, 0xffffffff, 16, 6, 0xffffffff, 32, 0, 0xffffffff)
            for name in b"system.posix_acl_access", b"system.posix_acl_default":
                expect(f"an ACL of {bad}", thief.call(SETXATTR, opaque(own) + opaque(name) + opaque(acl) + words(0))[0], EINVAL)
    for acl in b"x", b"\2\0\0\0x", struct.pack("<I", 1), struct.pack("<IHHI", 3, 2, 7, 5):
        expect("no ACL", thief.call(SETXATTR, opaque(own) + opaque(b"system.posix_acl_access") + opaque(acl) + words(0))[0], EINVAL)


INTERNAL = [b"trusted.sfs", b"trusted.stratus.index", b"trusted.usage.end", b"trusted.dht.x", b"trusted.x", b"trusted.sfs.", b"security.capability",
            b"security.selinux", b"system.stratus.location", b"system.stratus.locked", b"system.nfs4_acl", b"trusted." + b"x" * 4000, b"x", b"user\0.x"]


if SPREAD:  # layouts.py has those
    INTERNAL = [name for name in INTERNAL if name not in (b"trusted.dht.x", b"system.stratus.location")]


def internal(thief):
    own = thief.lookup(b"own")[1]
    for name in INTERNAL:
        expect(f"getxattr of {name}", thief.call(GETXATTR, opaque(own) + opaque(name))[0], ENODATA, EOPNOTSUPP, None)
        expect(f"setxattr of {name}", thief.call(SETXATTR, opaque(own) + opaque(name) + opaque(b"x") + words(0))[0], EPERM, EOPNOTSUPP, None)
        expect(f"removexattr of {name}", thief.call(REMOVEXATTR, opaque(own) + opaque(name))[0], EPERM, EOPNOTSUPP, None)
    for name in INTERNAL[:-2]:
        for kind in 2, 3:
            condition = words(kind) + opaque(own) + loc() + bytes(8) + opaque(name) + opaque(b"x")
            expect(f"a condition on {name}", thief.call(COMPOUND, words(1) + condition + words(GETATTR) + opaque(own) + bytes(8))[0], EPERM, EINVAL, None)
    expect("listed", thief.call(LISTXATTR, opaque(own)), (0, opaque(b"")))
    born = bytes([1, len(b"trusted.sfs")]) + b"trusted.sfs\0" + struct.pack(">H", 1) + b"x"
    for revision in 1, 2:
        who = head(extensions=(extension(5, born, 1, revision),))
        expect("born with", thief.call(MKDIR, loc(thief.root, b"b") + os.urandom(16) + words(0o755, 0), who)[0], EPERM, EOPNOTSUPP)
    for number in (4, 7, 99, 2**31, 2**32 - 1) if SPREAD else (4, 6, 7, 99, 2**31, 2**32 - 1):
        expect(f"extension {number}", thief.call(GETATTR, opaque(own) + bytes(8), head(extensions=(extension(number, bytes(40)),)))[0], EOPNOTSUPP)
        who = head(extensions=(extension(number, bytes(40), 0),))
        expect(f"extension {number}, not critical", thief.call(GETATTR, opaque(own) + bytes(8), who)[0], 0)
    for verb in range(64):
        expect(f"replica {verb}", thief.call(REPLICA, words(verb) + opaque(own) + opaque(b"x" * 32))[0], EOPNOTSUPP)
    for verb in [0] + list(range(3, 64)) + [2**32 - 1]:
        expect(f"lease {verb}", thief.call(LEASE, words(verb) + bytes(8))[0], EOPNOTSUPP)
    for gfid in ROOT, bytes(15) + b"\2", bytes(16):
        expect("mkdir with a gfid of the brick's", thief.call(MKDIR, loc(thief.root, b"g") + gfid + words(0o755, 0))[0], EINVAL, None)


def leases(victim, thief):
    """Recalls of one tenant's objects come to clients of this tenant only, however many ask for the brick's word, and who releases what he was not asked for has
    released nothing."""
    crowd, neighbour = [Client("acme") for _ in range(66)], Client("globex", watched=False) # clients are told apart by 64 bits
    for client in crowd + [neighbour]:
        expect("the brick's word", client.call(LEASE, words(1) + bytes(8))[0], 0)
    for client in crowd:
        client.call(GETATTR, opaque(client.root) + bytes(8))
    expect("what is to be recalled", neighbour.call(GETATTR, opaque(neighbour.root) + bytes(8))[0], 0)
    for number in range(200):
        expect("a release", thief.call(LEASE, words(2) + struct.pack(">Q", number))[0], 0)
    expect("what recalls it", victim.call(MKDIR, loc(victim.root, b"recalls") + os.urandom(16) + words(0o755, 0))[0], 0)
    expect("and again", victim.call(RMDIR, loc(victim.root, b"recalls"))[0], 0)
    neighbour.call(GETATTR, opaque(neighbour.root) + bytes(8))
    expect("recalls of its root, at its neighbour", len([e for e in neighbour.events if ROOT in e]) > 0, True)
    for client in crowd:
        expect("getattr", client.call(GETATTR, opaque(client.root) + bytes(8))[0], 0)
        if client.events:
            wrong(f"a client of another tenant hears of a recall: {client.events[0].hex()}")
        client.socket.close()


def sessions(victim, thief):
    status, opened = victim.call(OPEN, opaque(victim.lookup(b"secret")[1]) + words(0))
    expect("the victim's open", status, 0)
    fresh = Client("acme") # which has no file of its own
    for number in list(range(1, 70)) + [struct.unpack(">Q", opened[:8])[0]]:
        expect(f"file {number} of another session", fresh.call(READ, struct.pack(">QQI", number, 0, 100))[0], EBADF)
    expect("the victim's session, with its secret", Client("acme", victim.id, victim.secret).refused, EACCES)
    expect("the victim goes on", victim.lookup(b"secret")[0], 0)
    for who in "nobody", "admin", "stranger":
        expect(f"{who} is let in", Client(who).refused, EACCES)
    if thief.gfid != ROOT or victim.gfid != ROOT:
        wrong("a tenant's root has another gfid than all roots")
    expect("the root has another gfid in results", thief.call(GETATTR, opaque(thief.root) + bytes(8))[1][:16], ROOT)
    thief.send(8191, 1, opaque(thief.brick) + opaque(b"") + opaque(b"") + thief.id + thief.secret + words(0) + struct.pack(">Q", 99) + words(0))
    try:
        expect("a second HELLO", thief.receive()[0], EOPNOTSUPP)
        expect("who it is after that", thief.lookup(b"secret")[0], ENOENT)
    except Closed:
        pass # that is as good


def published(thief):
    """Of GlusterFS in 2018: CVE-2018-10926 to 10930 (names with slashes), 10904 and 14659 (a dump by an xattr), 14652 and 14660 (keys for the locks
    translator), 14661 and 10914 (formats in names), 14654 (xattr keys as names of files), 10907 and 10911 (lengths), 10923 (devices)."""
    own = thief.lookup(b"own")[1]
    for key in (b"trusted.io-stats-dump", b"trusted.glusterfs.list-xattr", b"glusterfs.clrlk.tinode.kall", b"glusterfs.lockinfo", b"glusterfs.list_locks",
                b"glusterfs.get-real-filename:../secret", b"glusterfs.pathinfo", b"trusted.glusterfs.pathinfo", b"trusted.gfid", b"glusterfs.gfid2path",
                b"../../../etc/stratus-was-here", b"/etc/stratus-was-here", b"system.stratus.dump", b"glusterfs.gf_meta_lock_key"):
        expect(f"getxattr of {key}", thief.call(GETXATTR, opaque(own) + opaque(key))[0], ENODATA, EOPNOTSUPP)
        expect(f"setxattr of {key}", thief.call(SETXATTR, opaque(own) + opaque(key) + opaque(b"/tmp/stratus-was-here") + words(0))[0], EPERM, EOPNOTSUPP)
        expect(f"removexattr of {key}", thief.call(REMOVEXATTR, opaque(own) + opaque(key))[0], EPERM, EOPNOTSUPP)
    for text in b"%n%n%n%n", b"%s%s%s%s%s%s%s%s", b"%1$n%2$n", b"%9999999d", b"user%n%s", b"\n2026 error: forged", b"\x1b]0;x\x07", b"$(reboot)", b"'; x":
        status, number, file = thief.open(text)
        expect(f"a file {text}", status, 0)
        expect(f"its attribute {text}", thief.call(SETXATTR, opaque(file) + opaque(b"user." + text) + opaque(text) + words(0))[0], 0)
        expect("which is what it was", thief.call(GETXATTR, opaque(file) + opaque(b"user." + text)), (0, opaque(text)))
        expect("a lock of it", thief.call(SETLK, longs(number) + lock(1, 0, 2**64 - 1))[0], 0)
        expect("a symlink to it", thief.call(SYMLINK, loc(thief.root, text + b"l") + os.urandom(16) + opaque(text))[0], 0)
    odd = Client("acme")
    odd.socket.close()
    odd.socket = connect("acme")
    odd.send(8191, HELLO, opaque(b"%n%s\n\x1b" * 30) + odd.greeting(1)[12:])
    expect("a subvolume %n", odd.receive()[0], ENOENT)
    expect("a user's attribute like a path", thief.call(SETXATTR, opaque(own) + opaque(b"user./../../x") + opaque(b"x") + words(0))[0], 0)
    expect("that too", thief.call(REMOVEXATTR, opaque(own) + opaque(b"user./../../x"))[0], 0)
    device = loc(thief.root, b"disk") + os.urandom(16) + words(0o60666, 0) + longs(8 << 8)
    expect("a block device", thief.call(MKNOD, device)[0], 0, EPERM)
    disk = thief.lookup(b"disk")[1]
    if disk:
        for flags in 0, 1, 2, 0o4000, 0o10000000:
            expect("the device is opened", thief.call(OPEN, opaque(disk) + words(flags))[0], EINVAL, ENXIO)
        again = thief.call(CREATE, device[:-16] + words(2, 0o644, 0), head(flags=SESSION_LOST)) # with its gfid, as if the first try of that had made it
        expect("the device is opened by who says that he has made it as a file", again[0], EEXIST, ESTALE)
        # (a FIFO would hold the brick's thread)
        pipe = loc(thief.root, b"pipe") + os.urandom(16)
        expect("a FIFO", thief.call(MKNOD, pipe + words(0o10666, 0) + longs(0))[0], 0)
        expect("the FIFO, too", thief.call(CREATE, pipe + words(0, 0o644, 0), head(flags=SESSION_LOST))[0], EEXIST, ESTALE)
        expect("the device is created again", thief.open(b"disk")[0], EEXIST, EINVAL, ENXIO, ESTALE)


def frames(thief):
    """Records that lie: of each the connection is closed, or an error said, and the session goes on."""
    own, file = thief.lookup(b"own")[1], thief.open(b"framed")[1]
    good = head() + opaque(own) + bytes(8)

    def sends(what, data):
        try:
            thief.socket.sendall(data)
            while True:
                status = thief.receive()[0]
                if status == 0:
                    wrong(f"{what} is done")
        except (Closed, ConnectionError, ssl_error()):
            pass
        thief.sequence += 20
        expect(f"a new connection after {what}", thief.hello(), 0)
        expect(f"the session after {what}", thief.call(GETATTR, opaque(own) + bytes(8))[0], 0)

    for size in 0, 1, 43, 2**21, 2**31 - 1:
        sends(f"a record of {size}", words(0x80000000 | size) + bytes(64))
    sends("a fragment", words(100) + bytes(100))
    for bulk in 2**20 + 8192, 2**31, 2**32 - 1:
        sends(f"bulk of {bulk}", words(0x80000000 | 200, 1 << 13, 0, 2, 0x20535446, 1, 116, 0, 0, 0, 0, bulk) + bytes(160))
    for field, value in (1, 7), (2, 3), (3, 0), (4, 2), (6, 1), (7, 4), (9, 2**32 - 1):
        data = bytearray(record((thief.sequence + 9) << 13, 100 + GETATTR, good))
        struct.pack_into(">I", data, 4 + 4 * field, value)
        sends(f"word {field} = {value}", bytes(data))
    sends("an answer", words(0x80000000 | 28, 1 << 13, 1, 0, 0, 0, 0, 0))
    for slot in 256, 4352, 8190, 8191:
        sends(f"slot {slot}", record((thief.sequence + 9) << 13 | slot, 100 + GETATTR, good))
    sends("a second HELLO", record(8191, HELLO, thief.greeting(2**63)))
    for cut in range(0, len(good), 4):
        sends(f"{cut} of {len(good)} bytes of a call", record((thief.sequence + 9) << 13, 100 + GETATTR, good[:cut]))
    sends("more than a call", record((thief.sequence + 9) << 13, 100 + GETATTR, good + bytes(4)))
    for count in 65537, 2**31, 2**32 - 1:
        groups = struct.pack(">QIII", 7, 0, 0, 0) + words(1, count) + bytes(400)
        sends(f"{count} groups", record((thief.sequence + 9) << 13, 100 + GETATTR, groups))
        sends(f"{count} extensions", record((thief.sequence + 9) << 13, 100 + GETATTR, head()[:-4] + words(count) + bytes(400)))
        sends(f"a name of {count}", record((thief.sequence + 9) << 13, 100 + GETXATTR, head() + opaque(own) + words(count) + bytes(400)))
        sends(f"a handle of {count}", record((thief.sequence + 9) << 13, 100 + GETATTR, head() + words(count) + bytes(400)))
        sends(f"a value of {count}", record((thief.sequence + 9) << 13, 100 + SETXATTR, head() + opaque(own) + opaque(b"user.a") + words(count) + bytes(400)))
        sends(f"data of {count}", record((thief.sequence + 9) << 13, 100 + WRITE, head() + longs(file, 0) + words(0, count) + bytes(0), b"x" * 10))
        expect(f"{count} steps", thief.call(COMPOUND, words(count) + bytes(400))[0], EINVAL, None)
    expect("bulk where there is none", thief.call(GETATTR, opaque(own) + bytes(8), None, b"x" * 100)[0], None)


def ssl_error():
    import ssl
    return ssl.SSLError


def lengths(thief):
    """Numbers near 2^63 and 2^64, wherever one may stand. What is done is charged, which the one who calls this looks at."""
    status, file, handle = thief.open(b"long")
    other = thief.open(b"other")[1]
    expect("a file", status, 0)
    expect("something in it", thief.call(WRITE, longs(other, 0) + words(0, 4096), None, b"x" * 4096)[0], 0)
    far = [2**63 - 1, 2**63, 2**63 + 1, 2**63 - 4096, 2**63 - 4097, 2**64 - 1, 2**64 - 4096, 2**62, 2**60]
    refused = EFBIG, EINVAL, EDQUOT, ENOSPC, EOPNOTSUPP, ENXIO, ERANGE
    for at in far:
        expect(f"write at {at}", thief.call(WRITE, longs(file, at) + words(0, 4096), None, b"x" * 4096)[0], *refused)
        expect(f"append at {at}", thief.call(WRITE, longs(file, at) + words(1, 0))[0], 0, *refused)
        status, results = thief.call(READ, longs(file, at) + words(65536))
        expect(f"read at {at}", (status, results[:4]), (0, bytes(4)), *((e, b"") for e in refused))
        expect(f"seek to {at}", thief.call(SEEK, longs(file, at) + words(3))[0], *refused)
        set_ = words(8, 0, 0, 0) + longs(at) + bytes(24)
        expect(f"cut to {at}", thief.call(SETATTR, opaque(handle) + longs(file) + set_)[0], *refused)
        for mode in 0, 1, 3, 16, 17, 8, 32, 0xffffffff:
            for offset, length in (at, 4096), (0, at), (at, at), (4096, at):
                expect(f"fallocate {mode} {offset} {length}", thief.call(FALLOCATE, longs(file) + words(mode) + longs(offset, length))[0],
                       *((0,) if mode == 3 else ()), *refused)
        for a, b, length in (at, 0, 4096), (0, at, 4096), (0, 0, at), (at, at, at):
            expect(f"copy {a} to {b}, {length}", thief.call(COPY_RANGE, longs(other, a, file, b, length))[0], 0, *refused)
        expect(f"a lock to {at}", thief.call(SETLK, longs(file) + lock(1, at, 2**64 - 1))[0], 0)
        expect(f"an empty lock at {at}", thief.call(SETLK, longs(file) + lock(1, at, at - 1))[0], EINVAL)
    directory = thief.call(OPENDIR, opaque(thief.root))[1]
    for at in far + [1, 12345]:
        status, results = thief.call(READDIR, directory + longs(at) + words(2**32 - 1, 1))
        expect(f"a listing from {at}", status, 0, EINVAL)
    expect("a read of 4 GiB", thief.call(READ, longs(file, 0) + words(2**32 - 1))[0], EINVAL)
    for when in (0, 10**9), (0, 2**32 - 1), (2**63, 0), (-2**63, 0):
        times = struct.pack(">qIqI", when[0] if when[0] < 2**63 else 2**63 - 1, when[1], 0, 0)
        expect(f"time {when}", thief.call(SETATTR, opaque(handle) + bytes(8) + words(0x30, 0, 0, 0) + bytes(8) + times)[0], 0, *refused)
    expect("the length", struct.unpack(">Q", thief.call(GETATTR, opaque(handle) + bytes(8))[1][40:48])[0] <= 4096 * 4, True)


def replays(victim, thief):
    """What the victim has sent, sent by another: handles bind its tenant, numbers of files its session, answers that were kept its slots."""
    opened = victim.call(OPEN, opaque(victim.lookup(b"secret")[1]) + words(0))[1]
    said = [(LOOKUP, loc(victim.root, b"secret")), (GETATTR, opaque(victim.root) + bytes(8)), (READ, opened[:8] + longs(0) + words(100)),
            (READDIR, opened[:8] + longs(0) + words(4096, 1)), (RELEASE, opened[:8]), (OPENDIR, opaque(victim.root)),
            (LISTXATTR, opaque(victim.lookup(b"secret")[1]))]
    for fop, arguments in said:
        raw = record(victim.sequence % (1 << 19) << 13, 100 + fop, head() + arguments)
        again = Client("acme")
        again.socket.sendall(raw)
        expect(f"replayed: {fop}", again.receive()[0], ESTALE, EBADF)
        again.sequence = victim.sequence
        expect(f"and again: {fop}", again.call(fop, arguments)[0], ESTALE, EBADF)
    expect("the victim's file is open", victim.call(READ, opened[:8] + longs(0) + words(100))[0], 0)


victim, thief = Client("globex", watched=False), Client("acme")
thief.call(MKDIR, loc(thief.root, b"own") + os.urandom(16) + words(0o755, 0))
foreign_handles(victim, thief)
random_handles(victim, thief)
names(thief)
ids(thief)
internal(thief)
published(thief)
frames(thief)
lengths(thief)
replays(victim, thief)
if os.environ.get("LEASES") != "no": # there are none on several bricks
    leases(victim, thief)
sessions(victim, thief)
wire.done()
