#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names on the way to a file are believed, in whichever set its directories are, and wherever their names are: what is listed or looked at again costs a few messages in
# all, not some for each file; and who reads a file to its end is told that it is the end without a message, unless somebody appends to it. The mount that looks has made nothing
# itself, so it has no token but those that it tried for. A second mount that only reads the same pays as little, and so does the first after that.
#
# Arguments: runs of SETSxREPLICA[:SCATTER] instead of all.
# limit: 900 s
# alone: what the kernel believes runs out after 0.6 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
need_root
need_stack
need python3
FILES=100

messages() { facts "$LOOKER" | sed -n 's/.*: up, requests \([0-9]*\), .*/\1/p' | awk '{n += $1} END {print n + 0}'; }
# What it costs at last: the tokens come meanwhile, and a machine that is busy forgets in between what it believed.
costs_at_most() { # MESSAGES COMMAND...
	local most=$1 before
	shift
	before=$(messages)
	"$@" >/dev/null || return 1
	LEAST=$(($(messages) - before < LEAST ? $(messages) - before : LEAST))
	[ "$LEAST" -le "$most" ]
}
await() { # MESSAGES WHAT COMMAND...
	local most=$1 what=$2
	shift 2
	LEAST=1000000
	wait_until 120 costs_at_most "$most" "$@" || fail "$what takes $LEAST messages, not $most or less"
	say "$what: $LEAST messages"
}
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
		await $((FILES / 4)) "ls -l of d$i" ls -ln "$MNT/d$i/below/deep"
		await $((FILES * 37 / 10)) "reading all files of d$i to their ends" list_and_read "$MNT/d$i/below/deep"
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
		ends "$MNT/d$i/below/deep/f1" "$SCRATCH/other/d$i/below/deep/f1" || fail "the end of a file to which another has appended is believed"
		ends "$MNT/d$i/below/deep/f2" "$MNT/d$i/below/deep/f2" || fail "the end of a file to which this mount has appended is believed"
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
for shape in ${@:-1x3 2x3 2x3:1 4x1:1}; do
	run_one "$shape" "$0" in $(tr 'x:' '  ' <<<"$shape")
done
runs_end
