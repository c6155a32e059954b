#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names on the way to a file are believed, in whichever set its directories are, and wherever their names are: what is listed or looked at again costs a few messages in
# all, not some for each file; and who reads a file to its end is told that it is the end without a message, unless somebody appends to it. The mount that looks has made nothing
# itself, so it has no token but those that it tried for. A second mount that only reads the same pays as little, and so does the first after that. Nor does it cost messages to open and
# read the same small files again, to look for names that are not in a directory that was listed, or to read between one's own writes to a small file; and all of that is as strict as if
# each were asked for.
#
# Arguments: runs of SETSxREPLICA[:SCATTER] instead of all. (2x3 with LONG=1 only: of directories in place dht.sh has some of this.)
# limit: 900 s
# calm: what the kernel believes runs out after 0.6 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
need_root
need_stack
need python3
FILES=100

. "$TOP/tests/mount/costs.sh"
look() { # DIRECTORY: one of its files, again and again
	python3 -c 'import os, sys
for i in range(100): os.stat(sys.argv[1] + "/below/deep/f0")' "$1"
}
list_and_read() { # DIRECTORY: all files, as programs do it: until there is nothing more
	python3 -c 'import os, sys
for e in os.scandir(sys.argv[1]):
    e.stat(follow_symlinks=False)
    fd = os.open(e.path, os.O_RDONLY)
    assert os.read(fd, 4096) == b"text" and os.read(fd, 4096) == b""
    os.close(fd)' "$1"
}
# One reads to the end, and looks at the size; the other appends; the first goes on.
ends() { # READER WRITER
	python3 -c 'import os, sys
reader, writer = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
def there(): return os.read(reader, 4096)
there()
for i in range(24):
    assert os.stat(sys.argv[1]).st_size == os.lseek(reader, 0, os.SEEK_CUR), i
    assert there() == b"", i
    if i % 3 == 2:
        os.truncate(sys.argv[1 + i % 2], 1)
        os.lseek(reader, 0, os.SEEK_SET)
        assert there() == b"t" and there() == b"", i
    assert os.write(writer, b"%d" % i) == len(str(i))
    assert there() == b"%d" % i, i' "$1" "$2"
}
# As compilers do it: the same headers time and again.
reread() { # DIRECTORY
	python3 -c 'import os, sys
for turn in range(20):
    for i in range(10):
        fd = os.open(f"{sys.argv[1]}/f{i}", os.O_RDONLY)
        assert os.fstat(fd).st_size == 4 and os.read(fd, 4) == b"text" and os.read(fd, 4) == b""
        os.close(fd)' "$1"
}
# When the kernel does not believe their names any more. Listed first each time: who lists gets the files' tokens, and loses them when the kernel forgets the files, as it does of all mounts
# when a test beside this one tells it to (drop_caches).
again() { # DIRECTORY
	python3 -c 'import os, sys, time
for e in os.scandir(sys.argv[1]): e.stat(follow_symlinks=False)
for turn in range(4):
    for i in range(25): assert os.stat(f"{sys.argv[1]}/f{i}").st_size == 4
    time.sleep(0.7)' "$1"
}
# And what was made just now.
made() { # DIRECTORY
	python3 -c 'import os, sys
name = sys.argv[1] + "/" + os.urandom(8).hex()
for i in range(50):
    fd = os.open(f"{name}{i}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    assert os.fstat(fd).st_size == 0 and os.read(fd, 9) == b""
    os.close(fd)
for i in range(50): os.unlink(f"{name}{i}")' "$1"
}
# And in one directory after the other.
miss() { # DIRECTORY
	python3 -c 'import os, sys
os.listdir(sys.argv[1])
for i in range(200): assert not os.path.lexists(f"{sys.argv[1]}/{os.urandom(8).hex()}")' "$1"
}
# And whoever makes a directory, and looks for what he is going to make in it.
fresh() { # DIRECTORY
	python3 -c 'import os, sys
name = sys.argv[1] + "/" + os.urandom(8).hex()
os.mkdir(name, 0o755)
for i in range(100): assert not os.path.lexists(f"{name}/{i}")
os.rmdir(name)' "$1"
}
# In what one has made others may have made something meanwhile.
born() { # MAKER OTHER
	python3 -c 'import os, sys
maker, other = sys.argv[1:]
for i in range(20):
    d = f"b{i}"
    os.mkdir(f"{maker}/{d}", 0o755)
    if i % 2: assert not os.path.lexists(f"{maker}/{d}/x"), i
    open(f"{other}/{d}/x", "x").close()
    assert os.path.lexists(f"{maker}/{d}/x"), i
    assert not os.path.lexists(f"{maker}/{d}/y"), i
    open(f"{maker}/{d}/y", "x").close()
    assert os.path.lexists(f"{maker}/{d}/y") and os.path.lexists(f"{other}/{d}/y"), i
    os.rename(f"{other}/{d}/x", f"{other}/{d}/z")
    assert not os.path.lexists(f"{maker}/{d}/x") and os.path.lexists(f"{maker}/{d}/z"), i
    os.unlink(f"{maker}/{d}/y")
    assert not os.path.lexists(f"{maker}/{d}/y"), i
    os.unlink(f"{maker}/{d}/z")
    os.rmdir(f"{other}/{d}")
    os.mkdir(f"{other}/{d}", 0o755)
    open(f"{other}/{d}/x", "x").close()
    assert os.path.lexists(f"{maker}/{d}/x"), i
    os.unlink(f"{maker}/{d}/x")
    os.rmdir(f"{maker}/{d}")' "$1" "$2"
}
# And assemblers, of what they make.
pieces() { # DIRECTORY
	python3 -c 'import os, sys
name = sys.argv[1] + "/" + os.urandom(8).hex()
fd, there = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), bytearray(40 * 16)
assert os.fstat(fd).st_size == 0
for i in range(40):
    at = i * 7 % 40 * 16
    piece = b"%016d" % i
    there[at:at + 16] = piece
    end = os.fstat(fd).st_size if i == 39 else max((k * 7 % 40 + 1) * 16 for k in range(i + 1))
    assert os.pwrite(fd, piece, at) == 16 and os.pread(fd, 8192, 0) == there[:end], i
os.close(fd)
os.unlink(name)' "$1"
}
follows() { # COMMAND...: most of its 40 reads are answered here
	local before=$(reads)
	"$@" >/dev/null && [ $(($(reads) - before)) -ge 25 ]
}
named() { # COMMAND...: some of its 100 names are answered here
	local before=$(names)
	"$@" >/dev/null && [ $(($(names) - before)) -ge 20 ]
}
names() { facts "$LOOKER" | sed -n 's/^  known files: names answered \([0-9]*\), .*/\1/p'; }
reads() { facts "$LOOKER" | sed -n 's/^  known files: .*reads \([0-9]*\)$/\1/p'; }
# What is kept of a file, or of its absence, ends as soon as another has changed it. One user looks who is not root.
kept() { # READER WRITER
	python3 -c 'import os, sys
reader, writer = sys.argv[1:]
def of(name):
    for turn in range(2): # the second is what is kept
        with open(f"{reader}/{name}", "rb", buffering=0) as f: text = f.read(4096), os.fstat(f.fileno()).st_size
    return text
def put(name, text, flags=0, at=0):
    fd = os.open(f"{writer}/{name}", os.O_WRONLY | flags, 0o644)
    assert os.pwrite(fd, text, at) == len(text)
    os.close(fd)
def refused(name):
    pid = os.fork()
    if pid == 0:
        os.setgroups([]), os.setgid(65534), os.setuid(65534)
        try: of(name)
        except PermissionError: os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
for i in range(12):
    os.listdir(reader)
    name = f"k{i}"
    assert not os.path.lexists(f"{reader}/{name}")
    put(name, b"one", os.O_CREAT | os.O_EXCL)
    assert of(name) == (b"one", 3), i
    put(name, b"two")
    assert of(name) == (b"two", 3), i
    put(name, b"s", at=2)
    assert of(name) == (b"tws", 3), i
    assert not refused(name), i
    os.chmod(f"{writer}/{name}", 0o600)
    assert refused(name), i
    os.chmod(f"{writer}/{name}", 0o644)
    assert not refused(name) and of(name) == (b"tws", 3), i
    put("new", b"another", os.O_CREAT)
    os.rename(f"{writer}/new", f"{writer}/{name}")
    assert of(name) == (b"another", 7), i
    os.truncate(f"{writer}/{name}", 2)
    assert of(name) == (b"an", 2), i
    os.rename(f"{writer}/{name}", f"{writer}/m{i}")
    assert not os.path.lexists(f"{reader}/{name}") and of(f"m{i}") == (b"an", 2), i
    os.link(f"{writer}/m{i}", f"{writer}/{name}")
    assert of(name) == (b"an", 2) and os.stat(f"{reader}/m{i}").st_nlink == 2, i
    os.unlink(f"{writer}/m{i}")
    assert not os.path.lexists(f"{reader}/m{i}") and os.stat(f"{reader}/{name}").st_nlink == 1, i
    os.unlink(f"{writer}/{name}")
    assert not os.path.lexists(f"{reader}/{name}"), i' "$1" "$2"
}
# So what is told of a file by its name when the kernel asks for it again.
modes() { # READER WRITER
	python3 -c 'import os, sys, time
reader, writer = sys.argv[1:]
def look(mode):
    for i in range(10): assert os.stat(f"{reader}/f{i}").st_mode & 0o777 == mode, (i, oct(mode))
for mode in 0o600, 0o640, 0o644:
    for i in range(10): os.chmod(f"{writer}/f{i}", mode)
    look(mode)
    time.sleep(0.7)
    look(mode)
    time.sleep(0.7)' "$1" "$2"
}
walked() { # SETS REPLICA [SCATTER]
	local i other
	SPREAD=$1 REPLICA=$2 SCATTER=${3-}
	. "$TOP/tests/mount/$([ "$SPREAD" = 1 ] && echo replica || echo spread).sh"
	scratch
	start_stack "$SCRATCH"
	chmod 755 "$MNT"
	for i in {1..4}; do # so that each set has some
		mkdir -p "$MNT/d$i/below/deep"
		python3 -c 'import os, sys
for i in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/f{i}", "w") as f: f.write("text")' "$MNT/d$i/below/deep" "$FILES"
	done
	[ -z "$SCATTER" ] || [ -n "$(find "$STACK"/brick*/.stratus.dht/away -name 'd.*')" ] || fail "no directory is away"
	stop_mount "$MNT" "$MOUNT_PID"
	LOOKER=$MNT
	start_mount "$MNT"
	MOUNT_PID=$LAST_PID
	for i in {1..4}; do
		[ "$REPLICA" = 1 ] || await 250 "reading 10 files of d$i that nobody has listed 20 times" reread "$MNT/d$i/below/deep"
		await $((FILES / 4)) "ls -l of d$i" ls -ln "$MNT/d$i/below/deep"
		await $((FILES * 37 / 10)) "reading all files of d$i to their ends" list_and_read "$MNT/d$i/below/deep"
		await 250 "reading 10 files of d$i 20 times" reread "$MNT/d$i/below/deep"
		[ "$REPLICA" = 1 ] || wait_until 120 named again "$MNT/d$i/below/deep" || fail "names in d$i that were looked up before are looked up again"
		[ "$REPLICA" = 1 ] || await 510 "50 files made in d$i" made "$MNT/d$i/below/deep"
		await 100 "200 names that are not in d$i" miss "$MNT/d$i/below/deep"
		[ "$REPLICA" = 1 ] || [ -n "$SCATTER" ] || await 60 "100 names that are not in a directory made in d$i" fresh "$MNT/d$i/below/deep"
		wait_until 120 follows pieces "$MNT/d$i/below/deep" || fail "what is written to a file in d$i is asked for again"
		await 130 "100 looks at a file of d$i" look "$MNT/d$i"
	done

	# so by a second one, and by both in turn
	start_mount "$SCRATCH/other"
	other=$LAST_PID
	for i in {1..4}; do
		for LOOKER in "$SCRATCH/other" "$MNT" "$SCRATCH/other"; do
			await $((FILES / 4)) "ls -l of d$i by $(basename "$LOOKER") of two" ls -ln "$LOOKER/d$i/below/deep"
			await 130 "100 looks at a file of d$i by $(basename "$LOOKER") of two" look "$LOOKER/d$i"
		done
	done
	LOOKER=$MNT

	# what is believed so is taken back
	for i in {1..4}; do
		look "$MNT/d$i"
		kept "$MNT/d$i/below/deep" "$SCRATCH/other/d$i/below/deep" || fail "what another mount has changed is kept here"
		kept "$MNT/d$i/below/deep" "$MNT/d$i/below/deep" || fail "what this mount has changed is kept here"
		modes "$MNT/d$i/below/deep" "$SCRATCH/other/d$i/below/deep" || fail "the mode that another mount has set is not seen"
		modes "$MNT/d$i/below/deep" "$MNT/d$i/below/deep" || fail "the mode that this mount has set is not seen"
		born "$MNT/d$i/below/deep" "$SCRATCH/other/d$i/below/deep" || fail "what another mount has made in a new directory is not seen"
		born "$MNT/d$i/below/deep" "$MNT/d$i/below/deep" || fail "what this mount has made in a new directory is not seen"
		ends "$MNT/d$i/below/deep/f1" "$SCRATCH/other/d$i/below/deep/f1" || fail "the end of a file to which another has appended is believed"
		ends "$MNT/d$i/below/deep/f2" "$MNT/d$i/below/deep/f2" || fail "the end of a file to which this mount has appended is believed"
		python3 "$TOP/tests/mount/beside.py" "$MNT/d$i/below/deep/beside" 100 "$SEED" || fail "what is written beside another write is lost"
		mv "$SCRATCH/other/d$i/below" "$SCRATCH/other/d$i/above"
		[ ! -e "$MNT/d$i/below/deep/f0" ] && [ -e "$MNT/d$i/above/deep/f0" ] || fail "the old name of d$i/below is believed"
		mv "$SCRATCH/other/d$i" "$SCRATCH/other/e$i"
		[ ! -e "$MNT/d$i/above/deep/f0" ] && [ -e "$MNT/e$i/above/deep/f0" ] || fail "the old name of d$i is believed"
		rm -r "$SCRATCH/other/e$i/above"
		[ ! -e "$MNT/e$i/above/deep/f0" ] && [ ! -e "$MNT/e$i/above" ] || fail "what is gone of e$i is believed"
		rmdir "$SCRATCH/other/e$i"
		[ ! -e "$MNT/e$i" ] || fail "e$i is gone, and believed"
	done
	stop_mount "$SCRATCH/other" "$other"
	stop_stack
	pass
}

LIMIT=300
case ${1-} in
in)
	walked "${@:2}"
	;;
esac
for shape in ${@:-1x3 $([ "$LONG" != 1 ] || echo 2x3) 2x3:1 4x1:1}; do
	run_one "$shape" "$0" in $(tr 'x:' '  ' <<<"$shape")
done
runs_end
