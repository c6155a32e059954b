# SPDX-License-Identifier: Apache-2.0
"""The calls that name objects, for those who ask for what they must not have."""
import os
import struct

from wire import *


def each_fop(foreign, own):
    """Each call that can name an object, with `foreign` in each place where one may stand."""
    file, gfid, attr = struct.pack(">Q", 0), os.urandom(16), words(1, 0o777, 0, 0) + bytes(8) + bytes(24)
    step = words(0) + opaque(b"") + loc() + bytes(8) + opaque(b"") + opaque(b"")
    yield "lookup in", LOOKUP, loc(foreign, b"secret")
    yield "lookup of", LOOKUP, loc(inode=foreign)
    yield "getattr", GETATTR, opaque(foreign) + file
    yield "setattr", SETATTR, opaque(foreign) + file + attr
    yield "access", ACCESS, opaque(foreign) + words(4)
    yield "readlink", READLINK, opaque(foreign)
    yield "mknod", MKNOD, loc(foreign, b"x") + gfid + words(0o100644, 0) + bytes(8)
    yield "mkdir", MKDIR, loc(foreign, b"x") + gfid + words(0o755, 0)
    yield "symlink", SYMLINK, loc(foreign, b"x") + gfid + opaque(b"t")
    yield "unlink", UNLINK, loc(foreign, b"secret")
    yield "unlink of", UNLINK, loc(own, b"secret", foreign)
    yield "rmdir", RMDIR, loc(foreign, b"d")
    yield "rename from", RENAME, loc(foreign, b"secret") + loc(own, b"stolen") + words(0)
    yield "rename to", RENAME, loc(own, b"own") + loc(foreign, b"put") + words(0)
    yield "link", LINK, opaque(foreign) + loc(own, b"stolen")
    yield "create", CREATE, loc(foreign, b"x") + gfid + words(0o102, 0o644, 0)
    yield "open", OPEN, opaque(foreign) + words(0)
    yield "opendir", OPENDIR, opaque(foreign)
    yield "statfs", STATFS, opaque(foreign)
    yield "setxattr", SETXATTR, opaque(foreign) + opaque(b"user.x") + opaque(b"x") + words(0)
    yield "getxattr", GETXATTR, opaque(foreign) + opaque(b"user.x")
    yield "listxattr", LISTXATTR, opaque(foreign)
    yield "removexattr", REMOVEXATTR, opaque(foreign) + opaque(b"user.x")
    yield "a step of a compound", COMPOUND, words(1) + step + words(GETATTR) + opaque(foreign) + file
    condition = words(1) + opaque(foreign) + loc() + bytes(8) + opaque(b"") + opaque(b"")
    yield "a condition of a compound", COMPOUND, words(1) + condition + words(GETATTR) + opaque(own) + file
