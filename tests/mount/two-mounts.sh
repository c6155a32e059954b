#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two mounts of one volume, caching off: what one has finished doing the other sees at once. 200 rounds ($MOUNTS_ROUNDS), 2,000 with LONG=1.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH"
start_mount "$SCRATCH/other"
OTHER_PID=$LAST_PID

ROUNDS=$([ "$LONG" = 1 ] && echo 2000 || echo "${MOUNTS_ROUNDS:-200}")
A=$MNT B=$SCRATCH/other ROUNDS=$ROUNDS python3 - <<'END' || fail "one mount does not see what the other did"
import errno, fcntl, mmap, os, re, stat, struct, subprocess, time

A, B, ROUNDS = os.environ["A"], os.environ["B"], int(os.environ["ROUNDS"])
KERNEL = tuple(int(n) for n in re.findall("[0-9]+", os.uname().release)[:2])


def check(what, seen, expected):
    assert seen == expected, "%s: saw %r instead of %r" % (what, seen, expected)


# Open files: data of equal length, sizes, times and modes, looked at by descriptor and by name.
a = os.open(A + "/f", os.O_RDWR | os.O_CREAT, 0o600)
b = os.open(B + "/f", os.O_RDWR)
for i in range(ROUNDS):
    data = b"%08d" % i
    os.pwrite(a, data, 0)
    check("equal size", os.pread(b, 8, 0), data)
    os.stat(B + "/f")  # the kernel has just been told
    os.pwrite(a, b"x", 8 + i)
    check("size by descriptor", os.fstat(b).st_size, 9 + i)
    check("size by name", os.stat(B + "/f").st_size, 9 + i)
    check("end", os.lseek(b, 0, os.SEEK_END), 9 + i)
    os.pwrite(b, data[::-1], 0)
    check("the other way", os.pread(a, 8, 0), data[::-1])
os.ftruncate(a, 3)
check("truncated", os.fstat(b).st_size, 3)
check("truncated data", len(os.pread(b, 100, 0)), 3)
os.close(a), os.close(b)

# Who is in a directory that is removed, from here or from there, finds nothing and makes nothing; who has it open lists it still.
open(A + "/file", "w").close()
for remover in (A, B):
    for opened in (False, True):
        os.mkdir(A + "/gone")
        os.chdir(A + "/gone")
        d = os.open(".", os.O_RDONLY | os.O_DIRECTORY) if opened else -1
        os.rmdir(remover + "/gone")
        for use in (lambda: os.close(os.open("x", os.O_CREAT | os.O_WRONLY)), lambda: os.mkdir("x"), lambda: os.symlink("y", "x"),
                    lambda: os.mkfifo("x"), lambda: os.link(A + "/file", "x"), lambda: os.rename(A + "/file", "x"), lambda: os.unlink("x"),
                    lambda: os.stat("x"), lambda: opened or os.listdir("."), lambda: opened or os.stat("."), lambda: os.chmod("x", 0o700),
                    lambda: opened or os.chmod(".", 0o700), lambda: opened or os.chown(".", 0, 0), lambda: opened or os.utime("."),
                    lambda: opened or os.setxattr(".", "user.a", b"1"), lambda: opened or os.getxattr(".", "user.a"),
                    lambda: opened or os.listxattr("."), lambda: opened or os.removexattr(".", "user.a")):
            try:
                use() is True or check("in a directory that is gone", "success", "ENOENT")
            except OSError as e:
                check("in a directory that is gone", e.errno, errno.ENOENT)
        if opened:
            check("open directory that is gone", (os.listdir(d), os.listdir(".")), ([], []))
            os.fchmod(d, 0o711), os.setxattr(d, "user.a", b"1"), os.utime(d, (1, 2)), os.chown(d, 1, 2)
            s = os.stat(".")
            check("attributes of one that is gone", (stat.S_IMODE(s.st_mode), s.st_mtime, s.st_uid, s.st_gid, s.st_nlink), (0o711, 2, 1, 2, 0))
            check("xattr of one that is gone", os.getxattr(".", "user.a"), b"1")
            os.close(d)
        os.chdir("/")
os.unlink(B + "/file")

# Names: made, changed, renamed and removed again, with a look from the other side between all of them.
for i in range(ROUNDS):
    name = "/n%d" % i
    assert not os.path.exists(B + name)
    open(A + name, "w").write("1" * i)
    check("size of a new file", os.stat(B + name).st_size, i)
    open(A + name, "a").write("2")
    b = os.open(B + name, os.O_RDONLY)
    open(A + name, "a").write("3")
    check("size just after open", os.fstat(b).st_size, i + 2)
    os.close(b)
    os.chmod(A + name, 0o640)
    check("mode", stat.S_IMODE(os.stat(B + name).st_mode), 0o640)
    os.rename(A + name, A + name + "~")  # stays where it is on a volume that is spread
    assert not os.path.exists(B + name)
    check("moved", open(B + name + "~").read(), "1" * i + "23")
    os.unlink(B + name + "~")
    assert not os.path.exists(A + name + "~")
    check("listing", sorted(os.listdir(A)), ["f"])

# The time of its birth is the same from both, whatever was done to it meanwhile; of a new one by that name it is another.
def births(name):
    return [subprocess.run(["stat", "-c", "%w", root + name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip() for root in (A, B)]

old = None
for i in range(3):
    open(A + "/born", "w").write("1")
    born = births("/born")
    check("birth", (born[0] == born[1], born[0] != old), (True, True))
    if born[0] == "-":
        print("[  SKIPPED ] two-mounts: this kernel's FUSE tells no time of birth") if KERNEL < (6, 6) else check("birth", None, "told")
        os.unlink(A + "/born")
        break
    open(B + "/born", "a").write("2")
    os.chmod(A + "/born", 0o640)
    os.rename(B + "/born", B + "/born~")
    check("birth after changes", births("/born~"), born)
    os.unlink(A + "/born~")
    old = born[0]

# What was written through a shared mapping and synced.
with open(A + "/map", "w+b") as f:
    f.truncate(8192)
    memory = mmap.mmap(f.fileno(), 8192)
    for i in range(20):
        memory[4096:4104] = b"%08d" % i
        memory.flush()
        with open(B + "/map", "rb") as g:
            check("mapping", os.pread(g.fileno(), 8, 4096), b"%08d" % i)

# Appends from both sides end up one after the other.
def append(root):
    fd = os.open(root + "/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for i in range(ROUNDS):
        os.write(fd, b"%s%06d\n" % (root[-1:].encode(), i))
    os._exit(0)

children = []
for root in (A, B):
    pid = os.fork()
    if pid == 0:
        append(root)
    children.append(pid)
for pid in children:
    check("appender", os.waitpid(pid, 0)[1], 0)
check("appended lines", len(open(A + "/log").read().splitlines()), 2 * ROUNDS)

# Locks hold across mounts; a waiting one is granted when the other lets go.
a = os.open(A + "/f", os.O_RDWR)
fcntl.lockf(a, fcntl.LOCK_EX)
refused, says_so = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(a)
    b = os.open(B + "/f", os.O_RDWR)
    try:
        fcntl.lockf(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os._exit(1)
    except BlockingIOError:
        os.write(says_so, b".")
    fcntl.lockf(b, fcntl.LOCK_EX)
    os._exit(0 if os.path.exists(A + "/let-go") else 2)
os.close(says_so)
os.read(refused, 1)
time.sleep(0.5)
open(A + "/let-go", "w").close()
fcntl.lockf(a, fcntl.LOCK_UN)
check("lock", os.waitpid(pid, 0)[1], 0)
os.unlink(A + "/let-go")

# A file that the other side removes stays readable here while it is open.
open(A + "/gone", "w").write("still here")
f = open(A + "/gone")
os.unlink(B + "/gone")
check("removed elsewhere", f.read(), "still here")
f.close()
END

# What was listed a moment ago is used again, by who lists it again or rewinds, but only if it is still so, and for those who may list it.
mkdir "$MNT/often"
chmod 755 "$MNT/often"
python3 - "$MNT/often" "$SCRATCH/other/often" "$((ROUNDS / 5))" "$SEED" <<'END' || fail "a listing is not what is there (SEED=$SEED)"
import os, random, stat, sys
A, B, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance = random.Random(int(sys.argv[4]))
there = {}  # name -> (mode, size)

def write(root, name, size):
    with open(f"{root}/{name}", "wb") as f:
        f.write(bytes(size))
    there[name] = (there.get(name, (0o644,))[0], size)

def change(root, number):
    name, other = chance.choice(sorted(there)), f"new{number}"
    what = chance.choice(["make", "write", "remove", "move", "replace", "mode"])
    if what in ("make", "write"):
        write(root, other if what == "make" else name, number)
    elif what == "remove":
        os.unlink(f"{root}/{name}")
        del there[name]
    elif what in ("move", "replace"):
        other = other if what == "move" else chance.choice(sorted(set(there) - {name}))
        os.rename(f"{root}/{name}", f"{root}/{other}")
        there[other] = there.pop(name)
    else:
        os.chmod(f"{root}/{name}", 0o600)
        there[name] = (0o600, there[name][1])
    return f"{what} {name} {other} in {root}"

def check(where, names, said):
    if sorted(names) != sorted(there):
        sys.exit(f"{where} after {said}: {set(names) ^ set(there)} differ, {len(names)} names")

def look(root, fd, said):
    check(f"rewound {root}", os.listdir(fd), said)
    with os.scandir(root) as entries:
        seen = {e.name: os.lstat(e.path) for e in entries}
    check(root, seen, said)
    for name, s in seen.items():
        if (stat.S_IMODE(s.st_mode), s.st_size) != there[name]:
            sys.exit(f"{root}/{name} after {said}: {s}")

def refused(root):  # to an ordinary user
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            os.listdir(root)
        except PermissionError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1

os.umask(0o022)
for i in range(700):
    write(A, f"f{i}", 0)
fds = {root: os.open(root, os.O_RDONLY) for root in (A, B)}
said = "nothing"
for number in range(ROUNDS):
    for root in (A, B) if chance.random() < 0.5 else (A, A, A):
        look(root, fds[root], said)
    said = change(chance.choice((A, B)), number)
    look(A, fds[A], said)
for mode in (0o711, 0o755, 0o700, 0o755):
    look(A, fds[A], said)
    os.chmod(B, mode)
    if refused(A) != (mode != 0o755):
        sys.exit(f"with mode {mode:o} a user is {'refused' if mode == 0o755 else 'served'}")
END
listed_again() { # as above, or of a few files now: a slow machine may need longer for the many than a listing is kept
    ls -l "$MNT/few" >/dev/null
    AGAIN=$(facts "$MNT" | sed -n 's/^ *listings used again: //p')
    [ "$AGAIN" -gt 0 ]
}
if [ "$REPLICA" != 1 ] && [ "$SPREAD" = 1 ]; then
    mkdir "$MNT/few"
    touch "$MNT/few/a" "$MNT/few/b"
    wait_until 60 listed_again || fail "no listing is used again"
    say "listings used again: $AGAIN"
fi

# What one may believe without asking, it does not believe any more when the other has changed it.
mkdir "$MNT/random" "$SCRATCH/model"
chmod 755 "$MNT/random" "$SCRATCH/model"
python3 "$(dirname "$0")/believed.py" "$MNT/random" "$SCRATCH/other/random" "$SCRATCH/model" $((ROUNDS * 3)) "$SEED" || fail "one mount believes what is no longer so (SEED=$SEED)"

stop_mount "$SCRATCH/other" "$OTHER_PID"
stop_stack
pass
