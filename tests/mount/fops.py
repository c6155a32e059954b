#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""File operations on the directory $MNT, which must be empty: one test for each property."""
import ctypes
import errno
import fcntl
import mmap
import os
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

MNT = os.environ["MNT"]
libc = ctypes.CDLL(None, use_errno=True)
KERNEL = tuple(int(n) for n in re.findall("[0-9]+", os.uname().release)[:2])
RENAME_NOREPLACE, RENAME_EXCHANGE, AT_FDCWD = 1, 2, -100
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE = 1, 2, 16


def renameat2(old, new, flags):
    if libc.renameat2(AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def birth(name):
    """In nanoseconds since the epoch, of a path or a descriptor; None: the file system does not tell it."""
    AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, STATX_BTIME = 0x1000, 0x100, 0x800
    buffer = ctypes.create_string_buffer(256)
    at, path = (name, b"") if isinstance(name, int) else (AT_FDCWD, name.encode())
    if libc.statx(at, path, AT_EMPTY_PATH if path == b"" else AT_SYMLINK_NOFOLLOW, STATX_BTIME, buffer) != 0:
        raise OSError(ctypes.get_errno(), "statx")
    seconds, nanoseconds = struct.unpack_from("qI", buffer, 80)
    return seconds * 10**9 + nanoseconds if struct.unpack_from("I", buffer)[0] & STATX_BTIME else None


def write_file(name, data):
    with open(name, "wb") as f:
        f.write(data)


def read_file(name):
    with open(name, "rb") as f:
        return f.read()


def become_other(groups=()):
    os.setgroups(list(groups))
    os.setgid(1002)
    os.setuid(1001)


def in_child(fn):
    """Runs fn in a process of its own; what it returns must be true."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if fn() else 1)
        except BaseException as e:
            print("child:", e, file=sys.stderr)
            os._exit(2)
    return pid


def ended_well(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def lock_bytes(fd, kind, start=0, length=0, wait=False):
    fcntl.fcntl(fd, fcntl.F_SETLKW if wait else fcntl.F_SETLK, struct.pack("hhqqi4x", kind, 0, start, length, 0))


class Alarm(Exception):
    pass


def alarm_after(seconds):
    """Alarm is then raised, whatever is waited for."""
    def ring(*_):
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)


class Listing:
    """The current directory as opendir(3) and its kin show it."""

    def __init__(self):
        libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
        libc.telldir.restype = ctypes.c_long
        self.handle = ctypes.c_void_p(libc.opendir(b"."))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        libc.closedir(self.handle)

    def next(self):
        entry = libc.readdir(self.handle)
        return ctypes.string_at(entry + 19).decode() if entry else None

    def to_the_end(self):
        """[(place before it, name), ...]"""
        seen = [(libc.telldir(self.handle), self.next())]
        while seen[-1][1] is not None:
            seen.append((libc.telldir(self.handle), self.next()))
        return seen[:-1]

    def seek(self, place):
        libc.seekdir(self.handle, ctypes.c_long(place))

    def rewind(self):
        libc.rewinddir(self.handle)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = os.path.join(MNT, self.id().split(".")[-1])
        os.mkdir(self.dir)
        os.chdir(self.dir)

    def tearDown(self):
        os.chdir(MNT)
        subprocess.run(["rm", "-rf", self.dir], check=True)

    def assertErrno(self, number, fn, *args, **kwargs):
        with self.assertRaises(OSError) as caught:
            fn(*args, **kwargs)
        self.assertEqual(errno.errorcode[caught.exception.errno], errno.errorcode[number])


class Names(Case):
    def test_lookup_of_nothing_is_enoent(self):
        self.assertErrno(errno.ENOENT, os.stat, "nothing")

    def test_long_names_are_refused_and_the_longest_works(self):
        longest = os.statvfs(".").f_namemax
        self.assertEqual(longest, 255)
        write_file("n" * longest, b"x")
        self.assertEqual(read_file("n" * longest), b"x")
        self.assertErrno(errno.ENAMETOOLONG, open, "n" * 256, "w")

    def test_the_longest_names_do_all_that_others_do(self):
        a, b, c = "\u0436\u0e01" * 51, "漢字" * 42 + "xyz", "\U0001f40e" * 63 + "abc"
        self.assertEqual([len(os.fsencode(name)) for name in (a, b, c)], [255, 255, 255])
        write_file(a, b"1")
        self.assertErrno(errno.EEXIST, os.open, a, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.mkdir(b)
        os.rename(a, f"{b}/{c}")
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, b)
        self.assertEqual((os.listdir("."), os.listdir(b), read_file(f"{b}/{c}")), ([b], [c], b"1"))
        os.rename(b, a)
        os.link(f"{a}/{c}", c)
        write_file(b, b"2")
        self.assertErrno(errno.EEXIST, renameat2, b, c, RENAME_NOREPLACE)
        renameat2(b, c, RENAME_EXCHANGE)
        self.assertEqual((read_file(b), read_file(c)), (b"1", b"2"))
        os.rename(c, b)
        self.assertEqual((read_file(b), os.stat(f"{a}/{c}").st_nlink), (b"2", 1))
        os.symlink(c, c)
        self.assertEqual(os.readlink(c), c)
        self.assertEqual(sorted(os.listdir(".")), sorted([a, b, c]))
        os.unlink(c)
        for make in (os.mkfifo, lambda name: os.mknod(name, 0o600 | stat.S_IFCHR, os.makedev(1, 3))):
            make(c)
            self.assertIn(c, os.listdir("."))
            os.unlink(c)
        self.assertErrno(errno.ENOENT, os.stat, c)

    def test_a_directory_of_long_names_is_listed_whole(self):
        names = [f"{i:03}" + "ä" * 126 for i in range(100)] + [f"{i:03}" + "s" * 172 for i in range(100)]
        for name in names:
            write_file(name, b"")
        self.assertEqual(sorted(os.listdir(".")), sorted(names))

    def test_a_file_has_many_long_names(self):
        write_file("f", b"1")
        for i in range(30):
            os.link("f", f"{i:03}" + "ä" * 126)
        self.assertEqual(os.stat("f").st_nlink, 31)
        for i in range(0, 30, 2):
            os.rename(f"{i:03}" + "ä" * 126, f"{i:03}" + "ö" * 126)
        for i in range(30):
            os.unlink(f"{i:03}" + "äö"[i % 2 == 0] * 126)
        self.assertEqual(os.stat("f").st_nlink, 1)

    def test_exclusive_create_fails_on_an_existing_name(self):
        write_file("a", b"1")
        self.assertErrno(errno.EEXIST, os.open, "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY)

    def test_mknod_makes_each_type(self):
        os.mkfifo("fifo", 0o640)
        os.mknod("char", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod("block", 0o600 | stat.S_IFBLK, os.makedev(259, 70000))
        os.mknod("file", 0o600 | stat.S_IFREG)
        s = socket.socket(socket.AF_UNIX)
        s.bind("socket")
        self.assertTrue(stat.S_ISFIFO(os.stat("fifo").st_mode))
        self.assertEqual(os.stat("char").st_rdev, os.makedev(1, 3))
        self.assertEqual(os.stat("block").st_rdev, os.makedev(259, 70000))
        self.assertTrue(stat.S_ISREG(os.stat("file").st_mode))
        self.assertTrue(stat.S_ISSOCK(os.stat("socket").st_mode))
        s.close()

    def test_a_fifo_carries_bytes(self):
        os.mkfifo("fifo")
        pid = in_child(lambda: write_file("fifo", b"through") is None)
        self.assertEqual(read_file("fifo"), b"through")
        self.assertTrue(ended_well(pid))

    def test_symlinks(self):
        os.symlink("target/" + "x" * 1000, "link")
        self.assertEqual(os.readlink("link"), "target/" + "x" * 1000)
        self.assertErrno(errno.ENOENT, os.stat, "link")

    def test_hard_links_share_content_and_count(self):
        write_file("a", b"1")
        os.link("a", "b")
        self.assertEqual(os.stat("a").st_nlink, 2)
        self.assertEqual(os.stat("a").st_ino, os.stat("b").st_ino)
        os.unlink("a")
        self.assertEqual(read_file("b"), b"1")
        self.assertEqual(os.stat("b").st_nlink, 1)

    def test_rename_replaces(self):
        write_file("a", b"1")
        write_file("b", b"2")
        os.rename("a", "b")
        self.assertEqual(read_file("b"), b"1")
        self.assertErrno(errno.ENOENT, os.stat, "a")

    def test_rename_noreplace_and_exchange(self):
        write_file("a", b"1")
        write_file("b", b"2")
        self.assertErrno(errno.EEXIST, renameat2, "a", "b", RENAME_NOREPLACE)
        renameat2("a", "b", RENAME_EXCHANGE)
        self.assertEqual((read_file("a"), read_file("b")), (b"2", b"1"))
        renameat2("a", "c", RENAME_NOREPLACE)
        self.assertEqual(read_file("c"), b"2")

    def test_rename_of_directories(self):
        os.makedirs("a/b")
        os.mkdir("full")
        write_file("full/x", b"")
        self.assertErrno(errno.EINVAL, os.rename, "a", "a/b/c")
        self.assertErrno(errno.ENOTEMPTY, os.rename, "a", "full")
        os.rename("a", "z")
        self.assertEqual(os.listdir("z"), ["b"])

    def test_rmdir_only_removes_empty_directories(self):
        os.makedirs("a/b")
        self.assertErrno(errno.ENOTEMPTY, os.rmdir, "a")
        write_file("f", b"")
        self.assertErrno(errno.ENOTDIR, os.rmdir, "f")
        self.assertErrno(errno.EISDIR, os.unlink, "a")
        os.rmdir("a/b")
        os.rmdir("a")

    def test_umask_is_applied(self):
        old = os.umask(0o027)
        try:
            write_file("f", b"")
            os.mkdir("d", 0o777)
        finally:
            os.umask(old)
        self.assertEqual(stat.S_IMODE(os.stat("f").st_mode), 0o640)
        self.assertEqual(stat.S_IMODE(os.stat("d").st_mode), 0o750)


class Attributes(Case):
    def test_times_have_nanoseconds_and_omit_and_now(self):
        write_file("f", b"")
        os.utime("f", ns=(1_234_567_890_123_456_789, 987_654_321_987_654_321))
        st = os.stat("f")
        self.assertEqual((st.st_atime_ns, st.st_mtime_ns), (1_234_567_890_123_456_789, 987_654_321_987_654_321))
        now, omit = (1 << 30) - 1, (1 << 30) - 2
        times = (ctypes.c_long * 4)(0, omit, 0, now)
        self.assertEqual(libc.utimensat(AT_FDCWD, b"f", times, 0), 0)
        st = os.stat("f")
        self.assertEqual(st.st_atime_ns, 1_234_567_890_123_456_789)
        self.assertAlmostEqual(st.st_mtime, time.time(), delta=60)

    @unittest.skipIf(KERNEL < (6, 6), "FUSE tells no time of birth before Linux 6.6")
    def test_the_time_of_birth_stays(self):
        before = time.time_ns()
        write_file("f", b"1")
        fd = os.open("f", os.O_RDWR)
        born = birth("f")
        self.assertLess(abs(born - before), 3600 * 10**9)
        os.write(fd, b"2")
        os.chmod("f", 0o711)
        os.utime("f", ns=(1, 2))
        os.setxattr("f", "user.a", b"1")
        os.rename("f", "g")
        os.link("g", "h")
        self.assertEqual((birth("g"), birth("h"), birth(fd)), (born, born, born))
        os.unlink("g")
        os.unlink("h")
        self.assertEqual((birth(fd), os.fstat(fd).st_nlink), (born, 0))
        os.close(fd)
        write_file("f", b"1")
        os.mkdir("d")
        os.symlink("f", "s")
        os.mkfifo("p")
        births = [birth(name) for name in ("f", "d", "s", "p")]
        self.assertNotIn(None, births)
        self.assertEqual(len({born, *births}), 5)
        self.assertErrno(errno.ENOENT, birth, "nothing")

    @unittest.skipIf(KERNEL < (6, 6), "FUSE tells no time of birth before Linux 6.6")
    def test_all_else_is_the_same_with_the_time_of_birth_and_without(self):
        write_file("f", b"12345")
        os.mknod("c", 0o604 | stat.S_IFCHR, os.makedev(259, 70000))
        os.mkdir("d", 0o750)
        os.chown("f", 1001, 1002)
        for name in ("f", "c", "d"):
            told = []
            for mask in (0x7FF, 0xFFF):
                buffer = ctypes.create_string_buffer(256)
                self.assertEqual(libc.statx(AT_FDCWD, name.encode(), 0x2000, mask, buffer), 0)  # AT_STATX_FORCE_SYNC
                self.assertEqual(struct.unpack_from("I", buffer)[0] & mask, mask)
                told.append(buffer.raw[4:48] + buffer.raw[56:80] + buffer.raw[96:144])  # blocks are as who is asked has laid it out
            self.assertEqual(told[0], told[1])

    def test_mode_owner_and_size(self):
        write_file("f", b"12345")
        os.chmod("f", 0o4711)
        self.assertEqual(stat.S_IMODE(os.stat("f").st_mode), 0o4711)
        os.chown("f", 1001, 1002)
        st = os.stat("f")
        self.assertEqual((st.st_uid, st.st_gid), (1001, 1002))
        os.truncate("f", 3)
        self.assertEqual(read_file("f"), b"123")
        os.truncate("f", 6)
        self.assertEqual(read_file("f"), b"123\0\0\0")

    def test_a_write_by_another_drops_setuid(self):
        write_file("f", b"1")
        os.chmod("f", 0o6777)

        def write_as_other():
            become_other()
            fd = os.open("f", os.O_WRONLY)
            return os.write(fd, b"2") == 1

        self.assertTrue(ended_well(in_child(write_as_other)))
        self.assertEqual(stat.S_IMODE(os.stat("f").st_mode) & 0o6000, 0)

    def test_a_chown_that_leaves_both_ids_drops_setuid(self):
        def chown_as(uid):
            os.setgid(uid)
            os.setuid(uid)
            try:
                os.chown("f", -1, -1)
                return True
            except OSError as e:
                return e.errno != errno.EPERM

        os.mknod("f")  # nobody has ever had it open to write
        os.chown("f", 1001, 1001)
        for uid, mode, left in [(0, 0o6755, 0o755), (0, 0o2745, 0o2745), (1001, 0o4755, 0o755), (1002, 0o4755, None), (1002, 0o755, 0o755),
                                (1002, 0o4777, None), (1002, 0o2777, None), (1002, 0o2767, None)]:
            os.chmod("f", mode)
            changed = os.stat("f").st_ctime_ns
            self.assertEqual(ended_well(in_child(lambda: chown_as(uid))), left is not None)
            self.assertEqual(stat.S_IMODE(os.stat("f").st_mode), mode if left is None else left)
            self.assertEqual(os.stat("f").st_ctime_ns > changed, left is not None)

        def reserve_as_other():
            become_other()
            os.posix_fallocate(os.open("f", os.O_WRONLY), 0, 100)
            return True

        os.chmod("f", 0o4777)
        self.assertTrue(ended_well(in_child(reserve_as_other)))
        self.assertEqual(stat.S_IMODE(os.stat("f").st_mode), 0o777)
        os.mkdir("d")
        os.chmod("d", 0o2775)
        os.chown("d", -1, -1)
        self.assertEqual(stat.S_IMODE(os.stat("d").st_mode), 0o2775)

    def test_permission_by_supplementary_groups(self):
        write_file("f", b"1")
        os.chown("f", 0, 5555)
        os.chmod("f", 0o640)
        os.chmod(".", 0o755)

        def read_as(groups):
            become_other(groups)
            try:
                return read_file("f") == b"1"
            except PermissionError:
                return False

        self.assertTrue(ended_well(in_child(lambda: read_as(list(range(7000, 7040)) + [5555]))))
        self.assertFalse(ended_well(in_child(lambda: read_as([5556]))))

    def test_changes_by_supplementary_groups(self):
        os.chown(".", 0, 5555)
        os.chmod(".", 0o770)

        def change_as(groups):
            become_other(groups)
            try:
                os.mkdir("d")
                write_file("f", b"1")
                os.rename("f", "g")
                os.chown("g", -1, 5555)
                os.link("g", "h")
                os.unlink("g")
                os.rmdir("d")
                return os.listdir(".") == ["h"]
            except OSError as e:
                return e.errno == errno.EACCES and 5555 not in groups

        self.assertTrue(ended_well(in_child(lambda: change_as([5556]))))
        self.assertTrue(ended_well(in_child(lambda: change_as([7000, 5555]))))

    def test_who_may_not_read_and_write_a_file_of_another_gives_it_no_name(self):
        refused = ["0o644", "0o622", "0o4777", "0o2777", "fifo", "link"]
        for mode in refused[:4] + ["0o666", "0o2766", "own"]:
            write_file(mode, b"1")
            os.chmod(mode, 0o400 if mode == "own" else int(mode, 8))
        os.mkfifo("fifo")
        os.chmod("fifo", 0o666)
        os.symlink("0o666", "link")
        os.chown("own", 1001, 1002)
        os.mkdir("d")
        os.chmod("d", 0o777)

        def links(name, to):
            try:
                os.link(name, to, follow_symlinks=False)
            except OSError as e:
                return e.errno

        def as_other():
            become_other()
            for i in range(4):  # where there are several bricks names are here and there
                for name in refused:
                    if links(name, f"d/{name}-{i}") != errno.EPERM or links(name, "own") != errno.EEXIST:
                        return print(name, file=sys.stderr)
                for name in ["0o666", "0o2766", "own"]:
                    if links(name, f"d/{name}-{i}"):
                        return print(name, file=sys.stderr)
            return len(os.listdir("d")) == 12

        self.assertTrue(ended_well(in_child(as_other)))
        os.link("0o644", "d/by root")

    def test_access_asks_for_the_real_user(self):
        write_file("f", b"1")
        os.chmod("f", 0o600)

        def as_other():
            become_other()
            return os.access("f", os.F_OK) and not os.access("f", os.R_OK)

        self.assertTrue(ended_well(in_child(as_other)))

    def test_programs_run_by_x_alone(self):
        write_file("run", read_file("/bin/true"))
        os.chmod("run", 0o711)

        def as_other():
            become_other()
            return subprocess.run(["./run"]).returncode == 0

        self.assertTrue(ended_well(in_child(as_other)))

    def test_extended_attributes(self):
        write_file("f", b"")
        os.setxattr("f", "user.a", b"1" * 1000)
        os.setxattr("f", "user.empty", b"")
        self.assertEqual(os.getxattr("f", "user.a"), b"1" * 1000)
        self.assertEqual(os.getxattr("f", "user.empty"), b"")
        self.assertEqual(sorted(n for n in os.listxattr("f") if n.startswith("user.")), ["user.a", "user.empty"])
        self.assertErrno(errno.EEXIST, os.setxattr, "f", "user.a", b"2", os.XATTR_CREATE)
        self.assertErrno(errno.ENODATA, os.setxattr, "f", "user.b", b"2", os.XATTR_REPLACE)
        os.removexattr("f", "user.a")
        self.assertErrno(errno.ENODATA, os.getxattr, "f", "user.a")
        self.assertErrno(errno.ENODATA, os.removexattr, "f", "user.a")

    def test_statfs(self):
        s = os.statvfs(".")
        self.assertGreater(s.f_blocks, 0)
        self.assertEqual(s.f_namemax, 255)


class Data(Case):
    def test_big_and_odd_writes_read_back(self):
        data = os.urandom(5 * 1024 * 1024 + 4321)
        write_file("f", data)
        self.assertEqual(read_file("f"), data)
        fd = os.open("f", os.O_RDWR)
        for offset, size in ((1, 1), (4095, 2), (100_000, 33_333), (1_048_575, 1_048_578), (len(data) - 3, 10)):
            piece = os.urandom(size)
            self.assertEqual(os.pwrite(fd, piece, offset), size)
            data = data[:offset] + piece + data[offset + size:]
            self.assertEqual(os.pread(fd, size, offset), piece)
        os.close(fd)
        self.assertEqual(read_file("f"), data)

    def test_appends_of_two_processes_do_not_overwrite(self):
        def append(letter):
            fd = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            for i in range(300):
                os.write(fd, b"%c%04d\n" % (letter, i))
            return True

        children = [in_child(lambda c=c: append(c)) for c in b"abc"]
        self.assertTrue(all([ended_well(c) for c in children]))
        lines = read_file("log").splitlines()
        self.assertEqual(len(lines), 900)
        for c in b"abc":
            mine = [line for line in lines if line[0] == c]
            self.assertEqual(mine, [b"%c%04d" % (c, i) for i in range(300)])

    @unittest.skipUnless(os.uname().machine == "x86_64", "knows the numbers of the AIO system calls of x86-64 only")
    def test_a_large_asynchronous_append_keeps_its_order(self):
        size = 8 << 20  # several requests
        memory = mmap.mmap(-1, size)
        for i in range(8):
            memory[i << 20:(i + 1) << 20] = bytes([65 + i]) * (1 << 20)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        context = ctypes.c_ulong(0)
        self.assertEqual(libc.syscall(206, ctypes.c_uint(4), ctypes.byref(context)), 0)  # io_setup
        for _ in range(10):
            fd = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_DIRECT)
            # struct iocb of <linux/aio_abi.h>: PWRITE is 1
            block = ctypes.create_string_buffer(struct.pack("QIIHhIQQqQII", 0, 0, 0, 1, 0, fd, address, size, 0, 0, 0, 0))
            blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
            event = ctypes.create_string_buffer(32)
            self.assertEqual(libc.syscall(209, context, ctypes.c_long(1), blocks), 1)  # io_submit
            self.assertEqual(libc.syscall(208, context, ctypes.c_long(1), ctypes.c_long(1), event, None), 1)  # io_getevents
            self.assertEqual(struct.unpack_from("q", event, 16)[0], size)
            os.close(fd)
            self.assertTrue(read_file("f") == memory[:])
        libc.syscall(207, context)  # io_destroy

    def test_direct_io(self):
        fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        memory = mmap.mmap(-1, 65536)
        memory.write(os.urandom(65536))
        self.assertEqual(os.writev(fd, [memory]), 65536)
        back = mmap.mmap(-1, 65536)
        self.assertEqual(os.preadv(fd, [back], 0), 65536)
        self.assertEqual(back[:], memory[:])
        os.close(fd)

    def test_shared_mappings_write_and_see(self):
        write_file("f", b"a" * 10000)
        with open("f", "r+b") as f:
            memory = mmap.mmap(f.fileno(), 10000)
            memory[5000:5003] = b"xyz"
            memory.flush()
            self.assertEqual(os.pread(f.fileno(), 3, 5000), b"xyz")
            os.pwrite(f.fileno(), b"123", 9000)
            self.assertEqual(memory[9000:9003], b"123")
            memory.close()
        self.assertEqual(read_file("f")[4999:5004], b"axyza")

    def test_private_mapping_runs_programs(self):
        write_file("prog", read_file("/bin/echo"))
        os.chmod("prog", 0o755)
        self.assertEqual(subprocess.run(["./prog", "hello"], capture_output=True).stdout, b"hello\n")

    def test_sparse_files_seek_and_punch(self):
        fd = os.open("f", os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"x" * 65536, 1 << 20)
        self.assertIn(os.lseek(fd, 0, os.SEEK_DATA), range((1 << 20) - 4095, (1 << 20) + 1))  # where its block begins, which is another one if it is encrypted
        self.assertEqual(os.lseek(fd, 1 << 20, os.SEEK_HOLE), (1 << 20) + 65536)
        self.assertErrno(errno.ENXIO, os.lseek, fd, 2 << 20, os.SEEK_DATA)
        fallocate(fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, 1 << 20, 4096)
        self.assertEqual(os.pread(fd, 4097, 1 << 20), b"\0" * 4096 + b"x")
        fallocate(fd, FALLOC_ZERO_RANGE, (1 << 20) + 8192, 100)
        self.assertEqual(os.pread(fd, 101, (1 << 20) + 8192), b"\0" * 100 + b"x")
        fallocate(fd, FALLOC_KEEP_SIZE, 4 << 20, 8192)
        self.assertEqual(os.fstat(fd).st_size, (1 << 20) + 65536)
        fallocate(fd, 0, 4 << 20, 8192)
        self.assertEqual(os.fstat(fd).st_size, (4 << 20) + 8192)
        self.assertLess(os.fstat(fd).st_blocks * 512, 2 << 20)
        os.close(fd)

    def test_copy_file_range(self):
        data = os.urandom(3 << 20)
        write_file("a", data)
        with open("a", "rb") as a, open("b", "wb") as b:
            copied = 0
            while copied < len(data):
                n = os.copy_file_range(a.fileno(), b.fileno(), len(data) - copied, copied, copied)
                self.assertGreater(n, 0)
                copied += n
        self.assertEqual(read_file("b"), data)

    def test_unlinked_files_live_while_open(self):
        fd = os.open("f", os.O_RDWR | os.O_CREAT)
        os.write(fd, b"still")
        os.unlink("f")
        self.assertEqual(os.fstat(fd).st_nlink, 0)
        self.assertEqual(os.pread(fd, 10, 0), b"still")
        os.ftruncate(fd, 2)
        os.fchmod(fd, 0o600)
        self.assertEqual(os.fstat(fd).st_size, 2)
        os.close(fd)

    def test_files_without_a_name_are_refused_so_that_programs_use_names(self):
        self.assertErrno(errno.EOPNOTSUPP, os.open, ".", os.O_TMPFILE | os.O_RDWR)
        self.assertEqual(os.listdir("."), [])
        with tempfile.TemporaryFile(dir=".") as f:
            f.write(b"12")
            f.seek(0)
            self.assertEqual((f.read(), os.listdir(".")), (b"12", []))

    def test_replaced_files_live_while_open(self):
        write_file("a", b"old")
        write_file("b", b"new")
        with open("a", "rb") as f:
            os.rename("b", "a")
            self.assertEqual(f.read(), b"old")
        self.assertEqual(read_file("a"), b"new")

    def test_truncating_open(self):
        write_file("f", b"123")
        os.close(os.open("f", os.O_WRONLY | os.O_TRUNC))
        self.assertEqual(os.stat("f").st_size, 0)

    def test_read_and_write_need_the_right_open(self):
        fd = os.open("f", os.O_WRONLY | os.O_CREAT)
        self.assertErrno(errno.EBADF, os.pread, fd, 1, 0)
        os.close(fd)

    def test_fsync(self):
        fd = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
        os.write(fd, b"x")
        os.fsync(fd)
        os.fdatasync(fd)
        os.close(fd)
        fd = os.open(".", os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def test_unknown_ioctl_is_enotty(self):
        fd = os.open("f", os.O_WRONLY | os.O_CREAT)
        self.assertErrno(errno.ENOTTY, fcntl.ioctl, fd, 0x5401, b"\0" * 64)
        os.close(fd)


# $FEW_NAMES: a third of them, of tests that run these as one of many.
PART = 3 if os.environ.get("FEW_NAMES") else 1


class Directories(Case):
    def test_big_directories_list_each_name_once(self):
        names = {"entry-%05d" % i for i in range(3000 // PART)}
        for n in names:
            os.close(os.open(n, os.O_CREAT | os.O_WRONLY))
        listed = os.listdir(".")
        self.assertEqual(len(listed), len(names))
        self.assertEqual(set(listed), names)

    def test_listing_tells_types(self):
        os.mkdir("d")
        os.symlink("x", "l")
        write_file("f", b"")
        types = {e.name: (e.is_dir(follow_symlinks=False), e.is_symlink(), e.is_file(follow_symlinks=False))
                 for e in os.scandir(".")}
        self.assertEqual(types, {"d": (True, False, False), "l": (False, True, False), "f": (False, False, True)})

    def test_telldir_seekdir_and_rewinddir(self):
        for i in range(500):
            os.mkdir("d%d" % i)
        with Listing() as listing:
            seen = listing.to_the_end()
            self.assertEqual(len(seen), 502)
            for place, expected in seen[::-37] + seen[:3]:
                listing.seek(place)
                self.assertEqual(listing.next(), expected)
            os.mkdir("late")
            listing.rewind()
            self.assertIn("late", [name for _, name in listing.to_the_end()])

    def test_seekdir_goes_anywhere_while_names_come_and_go(self):
        for i in range(6000 // PART): # several batches
            os.mknod("name-%04d" % i)
        with Listing() as listing:
            seen = listing.to_the_end()
            for i in range(60): # to and fro
                place, expected = seen[i * 3001 % len(seen)]
                listing.seek(place)
                self.assertEqual(listing.next(), expected)
            for _, name in seen[1::3]:
                if name.startswith("name-"):
                    os.unlink(name)
            for i in range(500):
                os.mknod("late-%03d" % i)
            left = {name for _, name in seen if os.path.exists(name)}
            for at in list(range(0, len(seen), 301)) + list(range(len(seen) - 1, 0, -401)):
                listing.seek(seen[at][0])
                name = listing.next()
                while name is not None and name not in left: # a late one, or one that was fetched before
                    name = listing.next()
                self.assertEqual(name, next((n for _, n in seen[at:] if n in left), None))

    def test_removing_while_listing(self):
        for i in range(1000 // PART):
            os.mkdir("d%d" % i)
        with os.scandir(".") as entries:
            for e in entries:
                os.rmdir(e.name)
        self.assertEqual(os.listdir("."), [])


class Locks(Case):
    def test_posix_locks_keep_others_out_and_tell_who(self):
        fd = os.open("f", os.O_RDWR | os.O_CREAT)
        lock_bytes(fd, fcntl.F_WRLCK, 10, 10)

        def other():
            mine = os.open("f", os.O_RDWR)
            try:
                lock_bytes(mine, fcntl.F_RDLCK, 15, 1)
                return False
            except OSError as e:
                refused = e.errno in (errno.EAGAIN, errno.EACCES)
            lock_bytes(mine, fcntl.F_WRLCK, 20, 5)
            got = fcntl.fcntl(mine, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            kind, _, start, length, pid = struct.unpack("hhqqi4x", got)
            return refused and (kind, start, length, pid) == (fcntl.F_WRLCK, 10, 10, os.getppid())

        self.assertTrue(ended_well(in_child(other)))
        os.close(fd)

    def test_closing_any_descriptor_drops_the_locks(self):
        fd = os.open("f", os.O_RDWR | os.O_CREAT)
        lock_bytes(fd, fcntl.F_WRLCK)
        os.close(os.open("f", os.O_RDONLY))

        def other():
            lock_bytes(os.open("f", os.O_RDWR), fcntl.F_WRLCK)
            return True

        self.assertTrue(ended_well(in_child(other)))
        os.close(fd)

    def test_a_waiting_lock_is_granted(self):
        fd = os.open("f", os.O_RDWR | os.O_CREAT)
        lock_bytes(fd, fcntl.F_WRLCK)

        def other():
            lock_bytes(os.open("f", os.O_RDWR), fcntl.F_WRLCK, wait=True)
            return os.path.exists("let-go")

        pid = in_child(other)
        time.sleep(0.4)
        write_file("let-go", b"")
        lock_bytes(fd, fcntl.F_UNLCK)
        self.assertTrue(ended_well(pid))
        os.close(fd)

    def test_a_signal_interrupts_a_waiting_lock(self):
        fd = os.open("f", os.O_RDWR | os.O_CREAT)
        lock_bytes(fd, fcntl.F_WRLCK)

        def other():
            alarm_after(0.2)
            try:
                lock_bytes(os.open("f", os.O_RDWR), fcntl.F_WRLCK, wait=True)
            except Alarm:
                return True
            return False

        self.assertTrue(ended_well(in_child(other)))
        self.assertEqual(ended_well(self.waiter_killed("f")), False)
        lock_bytes(fd, fcntl.F_UNLCK)
        lock_bytes(fd, fcntl.F_WRLCK)
        os.close(fd)

    def test_a_lock_is_held_on_when_a_stronger_one_was_waited_for_in_vain(self):
        fd = os.open("f", os.O_RDWR | os.O_CREAT)
        lock_bytes(fd, fcntl.F_RDLCK, 10, 10)
        ask, answer = os.pipe(), os.pipe()

        def reader():
            os.close(fd)
            other = os.open("f", os.O_RDWR)
            lock_bytes(other, fcntl.F_RDLCK, 0, 100)
            os.write(answer[1], b".")
            os.read(ask[0], 1)
            return True  # its lock goes with it

        def writer():
            os.close(fd)
            lock_bytes(os.open("f", os.O_RDWR), fcntl.F_WRLCK, 12, 4, wait=True)
            os.write(answer[1], b"!")
            return True

        pids = [in_child(reader)]
        os.read(answer[0], 1)
        pids.append(in_child(writer))
        time.sleep(0.2)
        alarm_after(0.2)
        with self.assertRaises(Alarm):
            lock_bytes(fd, fcntl.F_WRLCK, 5, 50, wait=True)
        os.write(ask[1], b".")
        self.assertTrue(ended_well(pids[0]))
        time.sleep(0.6)
        self.assertEqual(select.select([answer[0]], [], [], 0)[0], [])
        lock_bytes(fd, fcntl.F_WRLCK, 10, 10)  # nobody has got a part of it meanwhile
        lock_bytes(fd, fcntl.F_RDLCK, 10, 10)
        # What was not held before is free.
        self.assertTrue(ended_well(in_child(lambda: lock_bytes(os.open("f", os.O_RDWR), fcntl.F_WRLCK, 5, 5) is None)))
        lock_bytes(fd, fcntl.F_UNLCK, 10, 10)
        self.assertTrue(ended_well(pids[1]))
        for end in ask + answer + (fd,):
            os.close(end)

    def waiter_killed(self, name):
        pid = in_child(lambda: lock_bytes(os.open(name, os.O_RDWR), fcntl.F_WRLCK, wait=True))
        time.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        return pid

    def test_flock_is_per_open_file_and_goes_with_it(self):
        a = os.open("f", os.O_RDWR | os.O_CREAT)
        b = os.open("f", os.O_RDWR)
        fcntl.flock(a, fcntl.LOCK_EX)
        self.assertErrno(errno.EAGAIN, fcntl.flock, b, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(a)
        deadline = time.monotonic() + 60  # the kernel does not wait for the release
        while True:
            try:
                fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                self.assertLess(time.monotonic(), deadline)
        os.close(b)


class Search(Case):
    """Who may not search a directory any more reaches nothing in it, though it has done so before."""

    def after(self, deny, name="d/secret"):
        ask, answer = os.pipe(), os.pipe()

        def other():
            os.setuid(1001)
            with open("d/secret"), open("d/sub/f"), os.scandir("d") as it:
                list(it)
            os.write(answer[1], b".")
            os.read(ask[0], 1)
            try:
                os.close(os.open(name, os.O_RDONLY))
            except PermissionError:
                return True
            return False

        os.mkdir("d")
        os.makedirs("d/sub")
        write_file("d/secret", b"x")
        write_file("d/sub/f", b"x")
        pid = in_child(other)
        os.read(answer[0], 1)
        deny()
        os.write(ask[1], b".")
        self.assertTrue(ended_well(pid))
        for fd in ask + answer:
            os.close(fd)

    def test_a_mode_keeps_others_out_at_once(self):
        self.after(lambda: os.chmod("d", 0o700))

    def test_an_acl_keeps_others_out_at_once(self):
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in (
            (1, 7, 0xffffffff), (2, 0, 1001), (4, 5, 0xffffffff), (16, 5, 0xffffffff), (32, 5, 0xffffffff)))
        self.after(lambda: os.setxattr("d", "system.posix_acl_access", acl))

    def test_what_was_moved_to_where_others_may_not_go_is_not_reached(self):
        os.mkdir("private", 0o700)
        self.after(lambda: os.rename("d/sub", "private/sub"), "private/sub/f")


class Signals(Case):
    def test_a_timer_does_not_disturb_file_operations(self):
        write_file("f", b"x" * 100_000)
        ticks = []
        signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            end = time.monotonic() + 1
            while time.monotonic() < end:
                self.assertEqual(libc.access(b"f", 4), 0)  # no EINTR: Python's own calls would hide it
                fd = libc.open(b"f", os.O_RDONLY)
                self.assertGreaterEqual(fd, 0)
                self.assertEqual(libc.read(fd, ctypes.create_string_buffer(100_000), 100_000), 100_000)
                os.close(fd)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertGreater(len(ticks), 10)

    def test_many_threads_at_once(self):
        failures = []

        def work(n):
            try:
                for i in range(50):
                    name = "t%d-%d" % (n, i)
                    write_file(name, name.encode() * 100)
                    if read_file(name) != name.encode() * 100:
                        failures.append(name)
                    os.unlink(name)
            except OSError as e:
                failures.append(e)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main(verbosity=2 if os.environ.get("V") else 1)
