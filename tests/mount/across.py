#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""across.py TOP A B C: rename(2) of files and directories between the directories A, B, C, which are at three subvolumes, and TOP, which is at all."""
import ctypes
import errno
import itertools
import os
import stat
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2


def rename2(old, new, flags):
    if libc.renameat2(-100, old.encode(), -100, new.encode(), flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), old)


def expect(condition, *words):
    if not condition:
        sys.exit(" ".join(str(word) for word in words))


def fails(number, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        expect(error.errno == number, call.__name__, *arguments, "gives", error, "instead of", errno.errorcode[number])
        return
    sys.exit(f"{call.__name__} {arguments} does not fail")


def make(kind, path, text):
    if kind == "link":
        os.symlink(text, path)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        with open(path, "w") as f:
            f.write(text)


def holds(kind, path, text):
    if kind == "link":
        return os.readlink(path) == text
    if kind == "fifo":
        return stat.S_ISFIFO(os.lstat(path).st_mode)
    with open(path) as f:
        return f.read() == text


def is_whole(path, number, links):
    s = os.lstat(path)
    return s.st_ino == number and s.st_nlink == links


def moved(kind, other, a, b, c):
    """From a to b, to c, back to a: a name alone, over something, in exchange."""
    make(kind, f"{a}/x", "one")
    number = os.lstat(f"{a}/x").st_ino
    for start, end in itertools.permutations((a, b, c), 2):
        os.rename(f"{a}/x", f"{start}/x") if start != a else None
        os.rename(f"{start}/x", f"{end}/y")
        expect(not os.path.lexists(f"{start}/x"), kind, "the old name is there", start, end)
        expect(holds(kind, f"{end}/y", "one") and is_whole(f"{end}/y", number, 1), kind, "is not what it was", os.lstat(f"{end}/y"))
        os.rename(f"{end}/y", f"{a}/x")
    make(other, f"{b}/x", "two")
    fails(errno.EEXIST, rename2, f"{a}/x", f"{b}/x", NOREPLACE)
    fails(errno.ENOENT, os.rename, f"{a}/none", f"{b}/x")
    fails(errno.ENOENT, rename2, f"{a}/x", f"{b}/none", EXCHANGE)
    rename2(f"{a}/x", f"{b}/x", EXCHANGE)
    expect(holds(kind, f"{b}/x", "one") and holds(other, f"{a}/x", "two"), kind, "exchange")
    rename2(f"{a}/x", f"{b}/x", EXCHANGE)
    expect(holds(kind, f"{a}/x", "one") and holds(other, f"{b}/x", "two"), kind, "exchange back")
    os.rename(f"{a}/x", f"{b}/x")
    expect(holds(kind, f"{b}/x", "one") and not os.path.lexists(f"{a}/x"), kind, "replaces", other)
    make(other, f"{c}/x", "three")
    os.rename(f"{c}/x", f"{b}/x")  # a pointer is replaced
    expect(holds(other, f"{b}/x", "three") and is_whole(f"{b}/x", os.lstat(f"{b}/x").st_ino, 1), other, "replaces a pointer to", kind)
    os.unlink(f"{b}/x")


def links(a, b, c):
    make("file", f"{a}/x", "one")
    os.link(f"{a}/x", f"{b}/x")
    os.rename(f"{a}/x", f"{b}/x")  # two names of one file: nothing is done
    expect(holds("file", f"{a}/x", "one") and os.stat(f"{a}/x").st_nlink == 2, "two names of one file")
    os.rename(f"{a}/x", f"{c}/x")
    number = os.stat(f"{c}/x").st_ino
    expect(is_whole(f"{b}/x", number, 2) and is_whole(f"{c}/x", number, 2), "links", os.stat(f"{c}/x"))
    os.rename(f"{b}/x", f"{a}/x")  # home
    expect(is_whole(f"{a}/x", number, 2), "links", os.stat(f"{a}/x"))
    os.unlink(f"{c}/x")
    expect(is_whole(f"{a}/x", number, 1) and holds("file", f"{a}/x", "one"), "links", os.stat(f"{a}/x"))
    os.unlink(f"{a}/x")


def open_files(a, b):
    f = open(f"{a}/x", "w+")
    f.write("before ")
    f.flush()
    victim = open(f"{b}/x", "w+")
    victim.write("victim")
    victim.flush()
    os.rename(f"{a}/x", f"{b}/x")
    f.write("after")
    f.flush()
    expect(holds("file", f"{b}/x", "before after"), "an open file does not go along")
    victim.seek(0)
    expect(victim.read() == "victim" and os.fstat(victim.fileno()).st_nlink == 0, "what was replaced is open no more")
    os.unlink(f"{b}/x")
    f.seek(0)
    expect(f.read() == "before after", "an open file that was moved and removed")


def devices(a, b):
    os.mknod(f"{a}/null", stat.S_IFCHR | 0o640, os.makedev(1, 3))
    os.chown(f"{a}/null", 12345, 54321)
    before = os.stat(f"{a}/null")
    os.rename(f"{a}/null", f"{b}/null")
    os.link(f"{b}/null", f"{a}/again")
    for name in f"{b}/null", f"{a}/again":
        now = os.stat(name)
        expect((now.st_rdev, now.st_mode, now.st_uid, now.st_gid, now.st_ino, now.st_nlink) ==
               (before.st_rdev, before.st_mode, before.st_uid, before.st_gid, before.st_ino, 2), "a device behind a pointer")
    expect([e.is_file() or e.is_dir() for e in os.scandir(b) if e.name == "null"] == [False], "a device's type in listings")
    os.unlink(f"{b}/null")
    os.unlink(f"{a}/again")


def refused(a, b):
    make("file", f"{a}/x", "one")
    os.mkdir(f"{b}/d")
    fails(errno.EISDIR, os.rename, f"{a}/x", f"{b}/d")
    fails(errno.ENOTDIR, os.rename, f"{b}/d", f"{a}/x")
    for where in a, b:
        os.chmod(where, 0o555)
        if not os.fork():
            os.setuid(12345)
            fails(errno.EACCES, os.rename, f"{a}/x", f"{b}/x")
            os._exit(0)
        expect(os.wait()[1] == 0, "a user")
        os.chmod(where, 0o777)
    make("file", f"{b}/x", "root's")
    os.chown(f"{a}/x", 12345, 12345)
    os.chmod(b, 0o1777)
    if not os.fork():
        os.setgid(12345)
        os.setuid(12345)
        fails(errno.EPERM, os.rename, f"{a}/x", f"{b}/x")
        os.rename(f"{a}/x", f"{b}/own")
        os.unlink(f"{b}/own")
        os._exit(0)
    expect(os.wait()[1] == 0, "a user in a sticky directory")
    expect(holds("file", f"{b}/x", "root's") and not os.path.exists(f"{a}/x"), "sticky")
    os.chmod(b, 0o755)
    os.chmod(a, 0o755)
    os.unlink(f"{b}/x")
    os.rmdir(f"{b}/d")


def full(path, text):
    os.mkdir(path)
    make("file", f"{path}/in", text)


def says(path, text):
    return os.listdir(path) == ["in"] and holds("file", f"{path}/in", text)


def directories(a, b, c):
    """From a to b, to c, back to a: alone, over an empty one, in exchange; what is open or a working directory goes along."""
    full(f"{a}/x", "one")
    number = os.stat(f"{a}/x").st_ino
    before = os.open(f"{a}/x", os.O_RDONLY | os.O_DIRECTORY)
    for start, end in itertools.permutations((a, b, c), 2):
        os.rename(f"{a}/x", f"{start}/x") if start != a else None
        os.rename(f"{start}/x", f"{end}/y")
        expect(not os.path.exists(f"{start}/x") and says(f"{end}/y", "one"), "a directory", start, end)
        expect(is_whole(f"{end}/y", number, 2) and os.stat(f"{end}/y/..").st_ino == os.stat(end).st_ino, "the directory", end)
        with open("more", "w", opener=lambda path, flags: os.open(path, flags, dir_fd=before)) as f:
            f.write("more")
        os.rename(f"{end}/y/more", f"{end}/more")
        os.unlink(f"{end}/more")
        os.rename(f"{end}/y", f"{a}/x")
    os.close(before)
    full(f"{b}/x", "two")
    fails(errno.ENOTEMPTY, os.rename, f"{a}/x", f"{b}/x")
    fails(errno.EEXIST, rename2, f"{a}/x", f"{b}/x", NOREPLACE)
    rename2(f"{a}/x", f"{b}/x", EXCHANGE)
    expect(says(f"{b}/x", "one") and says(f"{a}/x", "two"), "exchange of directories")
    make("file", f"{c}/f", "file")
    rename2(f"{a}/x", f"{c}/f", EXCHANGE)
    expect(says(f"{c}/f", "two") and holds("file", f"{a}/x", "file"), "exchange with a file")
    os.unlink(f"{a}/x")
    os.mkdir(f"{a}/empty")
    os.rename(f"{c}/f", f"{a}/empty")
    fails(errno.ENOTEMPTY, os.rmdir, f"{a}/empty")
    fails(errno.EINVAL, os.rename, a, f"{a}/empty/a")
    fails(errno.EISDIR, os.open, f"{a}/empty", os.O_CREAT | os.O_WRONLY)
    os.unlink(f"{a}/empty/in")
    os.rename(f"{b}/x", f"{a}/empty")  # a pointer to an empty one is replaced
    expect(says(f"{a}/empty", "one"), "over a pointer")
    os.unlink(f"{a}/empty/in")
    os.rmdir(f"{a}/empty")
    fails(errno.ENOENT, os.rmdir, f"{a}/empty")


def inside(a, b):
    """What is below a directory that is away: trees at two subvolumes, moved into each other and out again."""
    os.makedirs(f"{a}/t/u/v")
    make("file", f"{a}/t/u/v/f", "deep")
    os.rename(f"{a}/t", f"{b}/t")
    os.rename(f"{b}/t/u", f"{b}/u")
    os.rename(f"{b}/t", f"{b}/u/v/t")
    fails(errno.EINVAL, os.rename, f"{b}/u", f"{b}/u/v/t/u")
    expect(holds("file", f"{b}/u/v/f", "deep") and os.listdir(f"{b}/u/v/t") == [], "trees")
    os.rename(f"{b}/u/v", f"{a}/v")
    os.rmdir(f"{b}/u")
    os.rmdir(f"{a}/v/t")
    os.unlink(f"{a}/v/f")
    os.rmdir(f"{a}/v")


def users(a, b):
    """Whose directory it is may move it; to another parent, if he may write to it."""
    for where in a, b:
        os.chmod(where, 0o1777)
    if not os.fork():
        os.setgid(12345)
        os.setuid(12345)
        full(f"{a}/mine", "own")
        os.rename(f"{a}/mine", f"{b}/mine")
        os.chmod(f"{b}/mine", 0o555)
        fails(errno.EACCES, os.rename, f"{b}/mine", f"{a}/mine")
        os.rename(f"{b}/mine", f"{b}/other")
        os._exit(0)
    expect(os.wait()[1] == 0, "an owner")
    if not os.fork():
        os.setgid(12346)
        os.setuid(12346)
        fails(errno.EPERM, os.rename, f"{b}/other", f"{a}/other")
        fails(errno.EPERM, os.rmdir, f"{b}/other")
        fails(errno.EACCES, os.unlink, f"{b}/other/in")
        os._exit(0)
    expect(os.wait()[1] == 0, "another user")
    os.unlink(f"{b}/other/in")
    if not os.fork():
        os.setuid(12346)
        fails(errno.EPERM, os.rmdir, f"{b}/other")
        os._exit(0)
    expect(os.wait()[1] == 0, "another user, an empty directory")
    for where in a, b:
        os.chmod(where, 0o755)
    os.rmdir(f"{b}/other")


def changes(path):
    """The ctime, and then not before the next moment that a file system can tell from it."""
    was = os.lstat(path).st_ctime_ns
    while time.time_ns() < was + 20_000_000:
        time.sleep(0.001)
    return was


def ctimes(a, b):
    """A rename of what is away changes its ctime, and neither its times else nor its mode."""
    for kind in "file", "link", "fifo", "directory":
        os.mkdir(f"{a}/x") if kind == "directory" else make(kind, f"{a}/x", "text")
        if kind == "file":
            os.chmod(f"{a}/x", 0o6755)
        os.rename(f"{a}/x", f"{b}/x")
        old = os.lstat(f"{b}/x")
        was = changes(f"{b}/x")
        os.rename(f"{b}/x", f"{b}/y")
        new = os.lstat(f"{b}/y")
        expect(new.st_ctime_ns > was, kind, "has the ctime that it had before its rename")
        same = [(s.st_mtime_ns, s.st_atime_ns, s.st_mode, s.st_nlink) for s in (old, new)]
        expect(same[0] == same[1], kind, "changed:", *same)
        os.mkdir(f"{b}/z")
        was = changes(f"{b}/y")
        rename2(f"{b}/z", f"{b}/y", EXCHANGE)
        expect(os.lstat(f"{b}/z").st_ctime_ns > was, kind, "has the ctime that it had before it was exchanged")
        os.rmdir(f"{b}/z") if kind == "directory" else os.unlink(f"{b}/z")
        os.rmdir(f"{b}/y")


def main():
    top, *places = sys.argv[1:]
    for kind, other in itertools.product(("file", "link", "fifo"), ("file", "link")):
        moved(kind, other, *places)
    links(*places)
    open_files(*places[:2])
    refused(*places[:2])
    devices(*places[:2])
    directories(*places)
    inside(*places[:2])
    users(*places[:2])
    ctimes(*places[:2])
    names = [f"{top}/{word}" for word in "abcdefghijklmnop"]  # of the root: at all subvolumes
    make("file", names[0], "root")
    for old, new in zip(names, names[1:]):
        os.rename(old, new)
    expect(holds("file", names[-1], "root") and os.stat(names[-1]).st_nlink == 1, "in the root")
    os.unlink(names[-1])
    full(names[0], "root")
    for old, new in zip(names, names[1:]):
        os.rename(old, new)
    expect(says(names[-1], "root"), "a directory in the root")
    os.unlink(f"{names[-1]}/in")
    os.rmdir(names[-1])
    for place in places:
        expect(not os.listdir(place), place, "is not empty", os.listdir(place))


main()
