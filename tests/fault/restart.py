# SPDX-License-Identifier: Apache-2.0
"""The processes that use a mount while its brick is killed and started again (see restart.sh)."""
import errno
import fcntl
import os
import sys
import threading
import time

what, here, other, scratch = sys.argv[1:]
problems = []
unsure = set()  # lines of which the brick could not say whether they were written


def stop():
    return os.path.exists(scratch + "/stop")


def ready():
    open(scratch + "/ready", "w").close()


def refused(fd, take):
    """Whether another client is refused the lock."""
    try:
        take(fd)
        return False
    except OSError as e:
        if e.errno not in (errno.EAGAIN, errno.EACCES):
            problems.append(f"lock attempt of the other client: {e}")
        return True


def posix_lock(fd):
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 0)


def whole_lock(fd):
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def guarded(fn):
    def run(*args):
        try:
            fn(*args)
        except Exception as e:  # of any kind: the test has failed
            problems.append(f"{fn.__name__}: {e!r}")
    return run


@guarded
def append(path, acknowledged):
    """Appends numbered lines, each followed by fsync. Of an append that was under way when the brick died the error EIO may
    say that nobody knows: then the line may be there, once."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while not stop():
        line = b"%08d\n" % acknowledged[0]
        try:
            if os.write(fd, line) != len(line):
                problems.append("short write")
        except OSError as e:
            if e.errno != errno.EIO:
                raise
            unsure.add(line[:-1])
        os.fsync(fd)
        acknowledged[0] += 1
    os.close(fd)


@guarded
def churn(directory, done):
    """Creates, reads back, renames and removes."""
    os.mkdir(directory)
    while not stop():
        name = f"{directory}/{done[0]}"
        with open(name, "xb") as f:
            f.write(b"x" * (done[0] % 9000))
        os.rename(name, name + ".new")
        with open(name + ".new", "rb") as f:
            if len(f.read()) != done[0] % 9000:
                problems.append(f"{name}.new has another size")
        os.unlink(name + ".new")
        done[0] += 1
    os.rmdir(directory)


@guarded
def try_locks(tries):
    """The other client must never get what this one holds."""
    posix, whole = os.open(other + "/posix", os.O_RDWR), os.open(other + "/whole", os.O_RDWR)
    while not stop():
        if not refused(posix, posix_lock):
            problems.append("the other client got the POSIX lock")
            break
        if not refused(whole, whole_lock):
            problems.append("the other client got the flock lock")
            break
        tries[0] += 1
        time.sleep(0.002)


def held_locks():
    posix = os.open(here + "/posix", os.O_RDWR | os.O_CREAT, 0o644)
    whole = os.open(here + "/whole", os.O_RDWR | os.O_CREAT, 0o644)
    posix_lock(posix)
    whole_lock(whole)
    return posix, whole


def in_time(what_for, fn):
    """Runs fn; a problem if it has not ended after 60 s."""
    thread = threading.Thread(target=fn, daemon=True)
    thread.start()
    thread.join(60)
    if thread.is_alive():
        problems.append(f"{what_for} hangs")


def load():
    posix, whole = held_locks()
    appended, churned, tries = [0], [0], [0]
    threads = [threading.Thread(target=append, args=(here + "/log", appended)), threading.Thread(target=try_locks, args=(tries,)),
               threading.Thread(target=churn, args=(here + "/churn", churned))]
    for t in threads:
        t.start()
    ready()
    for t in threads:
        t.join()
    with open(here + "/log", "rb") as f:
        lines = f.read().split(b"\n")[:-1]
    wanted = [b"%08d" % i for i in range(appended[0]) if b"%08d" % i not in unsure or b"%08d" % i in lines]
    if lines != wanted:
        lost = len(set(wanted) - set(lines))
        problems.append(f"of {len(wanted)} acknowledged appends {lost} are lost, {len(lines) - len(set(lines))} doubled")
    fcntl.lockf(posix, fcntl.LOCK_UN)
    os.close(whole)
    for name, take in (("posix", posix_lock), ("whole", whole_lock)):
        fd, end = os.open(f"{other}/{name}", os.O_RDWR), time.monotonic() + 45
        while refused(fd, take):  # a grace period may be running
            if time.monotonic() > end:
                problems.append(f"the {name} lock is still held after it was given back")
                break
            time.sleep(0.05)
    print(f"{appended[0]} appends, {len(unsure)} unsure, {churned[0]} files, {tries[0]} lock attempts refused")


def open_files():
    names = {f"entry-{i:04d}" for i in range(500)}
    os.mkdir(here + "/many")
    for name in names:
        open(f"{here}/many/{name}", "w").close()
    with open(here + "/data", "wb") as f:
        f.write(bytes(range(256)) * 256)
    reader = os.open(here + "/data", os.O_RDONLY)
    start = os.read(reader, 1000)
    writer = os.open(here + "/written", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(writer, b"before,")
    deleted = os.open(here + "/deleted", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(deleted, b"gone")
    os.unlink(here + "/deleted")
    moved = os.open(here + "/moved", os.O_RDWR | os.O_CREAT, 0o644)
    listing = os.scandir(here + "/many")
    seen = [next(listing).name for _ in range(10)]
    posix, whole = held_locks()
    ready()
    while not stop():
        time.sleep(0.01)

    begin = time.monotonic()
    open(scratch + "/reading", "w").close()
    if start + os.read(reader, 70000) != bytes(range(256)) * 256:
        problems.append("the reader's position is not where it was")
    if time.monotonic() - begin < 0.5:
        problems.append("the read did not wait for the brick")
    os.write(writer, b"after")
    os.close(writer)
    if open(here + "/written", "rb").read() != b"before,after":
        problems.append("the writer's position is not where it was")
    os.rename(here + "/moved", here + "/moved2")
    os.pwrite(moved, b"through the old descriptor", 0)
    if open(other + "/moved2", "rb").read() != b"through the old descriptor":
        problems.append("a file renamed after the restart is not reached through its old descriptor")
    seen += [e.name for e in listing]
    if set(seen) != names or len(seen) != len(names):
        problems.append(f"a listing that the restart cut gives {len(seen)} entries, {len(set(seen))} different, of {len(names)}")
    if not refused(os.open(other + "/posix", os.O_RDWR), posix_lock) or \
            not refused(os.open(other + "/whole", os.O_RDWR), whole_lock):
        problems.append("a lock was lost")

    def use_deleted():
        try:
            os.fsync(deleted)
            os.read(deleted, 10)
            print("the deleted file could be used")  # no harm in that, if the brick can
        except OSError as e:
            print(f"deleted file: {e.strerror}")
        try:
            os.close(deleted)
        except OSError:
            pass

    in_time("a file that was deleted while open", use_deleted)


load() if what == "load" else open_files()
for problem in problems:
    print(problem)
sys.stdout.flush()
os._exit(1 if problems else 0)
