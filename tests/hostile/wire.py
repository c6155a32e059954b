# SPDX-License-Identifier: Apache-2.0
"""A client of a tenant that says what it likes, by the wire protocol (doc/wire.md) over TLS. What it is answered is searched for what is another's.

A program that uses it begins with wire.stage(PORT, DIRECTORY): there are WHO.pem, WHO.key of each certificate, and good-ca.pem.
"""
import os
import socket
import ssl
import struct
import sys

LOOKUP, GETATTR, SETATTR, ACCESS, READLINK, MKNOD, MKDIR, SYMLINK, UNLINK, RMDIR, RENAME, LINK, CREATE, OPEN, READ = range(1, 16)
WRITE, FLUSH, RELEASE, FSYNC, OPENDIR, READDIR, STATFS, SETXATTR, GETXATTR, LISTXATTR, REMOVEXATTR = range(16, 27)
SEEK, FALLOCATE, COPY_RANGE, GETLK, SETLK, COMPOUND, REPLICA, LEASE = range(27, 35)
ESTALE, EIO, EBADF, EINVAL, EACCES, EPERM, EOPNOTSUPP, ENODATA, ENOENT, ENAMETOOLONG = 116, 5, 9, 22, 13, 1, 95, 61, 2, 36
EEXIST, ENOTDIR, EFBIG, EDQUOT, ENOSPC, ENFILE, ENOLCK, EAGAIN, ERANGE, E2BIG, ENOTEMPTY, ELOOP, EBUSY, EXDEV, ENXIO, EMSGSIZE, ENOMEM, EISDIR = (
    17, 20, 27, 122, 28, 23, 37, 11, 34, 7, 39, 40, 16, 18, 6, 90, 12, 21)
ROOT = bytes(15) + b"\1"
brick = b"brick%d" % int(os.environ.get("BRICK", "0"))  # at which clients are from now on
HELLO, CANCEL, PING, GOODBYE, RECLAIMED = 1, 3, 4, 5, 6
place = {"port": 0, "directory": "", "secrets": (), "found": 0}


def stage(port, directory, secrets=()):
    place.update(port=int(port), directory=directory, secrets=tuple(secrets))


def wrong(what):
    place["found"] += 1
    if place["found"] <= 50:
        print(what, flush=True)


def expect(what, is_, *should):
    if is_ not in should:
        wrong(f"{what}: {is_}, not {should}")


def done():
    sys.exit(place["found"] > 0)


def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def words(*numbers):
    return struct.pack(">%dI" % len(numbers), *numbers)


def longs(*numbers):
    return struct.pack(">%dQ" % len(numbers), *numbers)


def loc(parent=b"", name=b"", inode=b""):
    return opaque(parent) + opaque(inode) + opaque(name)


def lock(type_=1, start=0, end=0, owner=1, wait=0, kind=0, reclaim=0):
    return words(kind, type_) + longs(start, end, owner) + words(1, wait, reclaim)


def extension(number, data=b"", critical=1, revision=1):
    return words(number, revision, critical) + opaque(data)


SESSION_LOST = 2 # a flag of the head


def head(uid=0, gid=0, groups=(), extensions=(), flags=0):
    return (struct.pack(">QIII", 7, flags, uid, gid) + words(1, len(groups), *groups) + struct.pack(">QI", 0, 0) +
            words(len(extensions)) + b"".join(extensions))


def record(xid, procedure, body, bulk=b""):
    whole = words(xid, 0, 2, 0x20535446, 1, procedure, 0, 0, 0, 0) + words(len(bulk)) + body + bulk
    return words(0x80000000 | len(whole)) + whole


class Closed(Exception):
    pass


def connect(who, port=None):
    """The TLS connection of one with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(f"{place['directory']}/good-ca.pem")
    if who:
        context.load_cert_chain(f"{place['directory']}/{who}.pem", f"{place['directory']}/{who}.key")
    plain = socket.create_connection(("127.0.0.1", port or place["port"]))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.settimeout(60)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


class Client:
    """watched: nothing that is another's may come to it."""

    def __init__(self, who, client_id=None, secret=None, channel=0, watched=True, says=()):
        self.who, self.id, self.secret, self.channel, self.watched = who, client_id or os.urandom(16), secret or os.urandom(16), channel, watched
        self.says = list(says)  # extensions of HELLO
        self.generation, self.sequence, self.socket, self.brick, self.port, self.events = 0, 0, None, brick, place["port"], []
        self.refused = self.hello()

    def greeting(self, generation):
        return (opaque(self.brick) + opaque(b"") + opaque(b"") + self.id + self.secret + words(self.channel) +
                struct.pack(">Q", generation) + words(len(self.says)) + b"".join(self.says))

    def hello(self):
        self.socket = connect(self.who, self.port)
        self.generation += 1
        self.send(8191, HELLO, self.greeting(self.generation))
        status, _, rest = self.receive()
        if status:
            return status
        self.gfid, (size,) = rest[8:24], struct.unpack_from(">I", rest, 28)
        self.root = rest[32:32 + size]
        return 0

    def send(self, xid, procedure, body, bulk=b""):
        self.socket.sendall(record(xid, procedure, body, bulk))

    def exactly(self, size):
        data = bytearray()
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except (ConnectionError, ssl.SSLError):
                more = b""
            if not more:
                raise Closed()
            data += more
        return bytes(data)

    def record(self):
        (mark,) = struct.unpack(">I", self.exactly(4))
        got = self.exactly(mark & 0x7fffffff)
        if self.watched:
            for secret in place["secrets"]:
                if secret in got:
                    wrong(f"a client of another tenant was told {secret!r}")
        return got

    def receive(self):
        """The next answer that is not an event: status, xid, results."""
        while True:
            got = self.record()
            if struct.unpack_from(">I", got, 4)[0] == 1:
                break
            self.events.append(got)
        (status, count), at = struct.unpack_from(">iI", got, 28), 36
        for _ in range(count):
            (size,) = struct.unpack_from(">I", got, at + 12)
            at += 16 + (size + 3) // 4 * 4
        return -status, struct.unpack_from(">I", got)[0], got[at:]

    def call(self, fop, arguments, who=None, bulk=b""):
        """Status and results; the connection being closed is the status None."""
        self.sequence += 1
        try:
            self.send(self.sequence % (1 << 19) << 13, 100 + fop, (who or head()) + arguments, bulk)
            status, _, results = self.receive()
        except (Closed, ConnectionError, ssl.SSLError):
            status = EIO
        if status != EIO:
            return status, results
        self.hello() # what is malformed is EIO, and the connection is closed
        return None, b""

    def batch(self, fop, many, who=None, first=0):
        """One call for each slot from `first` on, all at once: a list of status and results by the order of `many`."""
        self.sequence += 1
        self.socket.sendall(b"".join(record(self.sequence % (1 << 19) << 13 | first + slot, 100 + fop, (who or head()) + arguments)
                                     for slot, arguments in enumerate(many)))
        answers = [None] * len(many)
        for _ in many:
            status, xid, results = self.receive()
            answers[(xid & 8191) - first] = status, results
        return answers

    def lookup(self, name, parent=None):
        status, results = self.call(LOOKUP, loc(self.root if parent is None else parent, name))
        return status, handle_in(results) if status == 0 else b""

    def open(self, name, flags=0o102, parent=None):
        """Status, the number of the file and the handle of what is made or opened."""
        status, results = self.call(CREATE, loc(self.root if parent is None else parent, name) + os.urandom(16) + words(flags, 0o644, 0))
        if status:
            return status, 0, b""
        handle = handle_in(results)
        at = 24 + (len(handle) + 3) // 4 * 4
        return 0, struct.unpack_from(">Q", results, at)[0], handle


def handle_in(results):
    (size,) = struct.unpack_from(">I", results, 20)
    return results[24:24 + size]


def entries(results):
    """Names of a listing, and whether it is the end of it."""
    (count,), at, names = struct.unpack_from(">I", results), 4, []
    for _ in range(count):
        at += 8 + 16 + 4
        (size,) = struct.unpack_from(">I", results, at)
        names.append(results[at + 4:at + 4 + size])
        at += 4 + (size + 3) // 4 * 4
        (size,) = struct.unpack_from(">I", results, at)
        at += 4 + (size + 3) // 4 * 4
        (there,) = struct.unpack_from(">I", results, at)
        at += 4 + (16 + 4 * 4 + 8 * 3 + 4 + 12 * 4 if there else 0)
    return names, struct.unpack_from(">I", results, at)[0]


if __name__ == "__main__":  # wire.py PORT DIRECTORY WHO NAME...: the gfids of those files
    stage(*sys.argv[1:3])
    client = Client(sys.argv[3], watched=False)
    for name in sys.argv[4:]:
        print(client.call(LOOKUP, loc(client.root, name.encode()))[1][:16].hex())
