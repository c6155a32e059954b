#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Subvolumes cost nothing where one has all that is asked for: making and removing directories and files, listing small ones and their attributes take as many messages on
# eight bricks as on four, or on one. Counted by the mount (`stratus dump`), with nothing believed, for that ends after a while. What goes by the clock is no operation's: a question
# for the room of each brick every 2 s while something is made, and pings. A tenth more may be attributes that were asked for again after a pause. (Of sets see counts-replica.sh: there
# is more that goes by the clock.)
# calm: it counts messages that pauses add to
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
TIMES=100

# what, messages of each. A file that is made is looked up, as is its directory, made, and released; a directory that is listed costs, beside the 20 lookups of its 10 files, what is
# looked up, opened, listed and released of itself
LIMITS="mkdir 2  fill 40  ls-small 25  read 6  unlink 2  rmdir 2"
messages() { facts "$MNT" | sed -n 's/.*: up, requests \([0-9]*\), .*/\1/p' | awk '{n += $1} END {print n + 0}'; }

scratch
cat >"$SCRATCH/operate.py" <<'END2'
import os, sys
what, top, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.chdir(top)
def fill(i):
    for k in range(10):
        os.close(os.open(f"d{i}/f{k}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
def listed(i):
    with os.scandir(f"d{i}") as entries:
        for e in entries:
            e.stat(follow_symlinks=False)
def read(i):
    with open(f"d{i}/f0", "rb", buffering=0) as f:
        f.read(1)
def unlink(i): # in the working directory, so that no other name is on the way
    os.unlink(f"u{i}")
do = {"mkdir": lambda i: os.mkdir(f"d{i}"), "fill": fill, "ls-small": listed, "read": read, "unlink": unlink, "rmdir": lambda i: os.rmdir(f"r{i}")}[what]
if what == "unlink":
    for i in range(times):
        os.close(os.open(f"u{i}", os.O_WRONLY | os.O_CREAT))
if what == "rmdir":
    for i in range(times):
        os.mkdir(f"r{i}")
print("ready", flush=True)
sys.stdin.readline()
for i in range(times):
    do(i)
print("done", flush=True)
sys.stdin.readline()
END2

quiet() { # no message for a while: what is released behind the answers has gone
	local before=$(messages)
	sleep 0.1
	[ "$(messages)" = "$before" ]
}
counted() { # WHAT: messages for each; with a program that stays, so that its end is not counted
	local before begin
	coproc OPERATE { python3 "$SCRATCH/operate.py" "$1" "$MNT/t" "$TIMES"; }
	note "$OPERATE_PID" operate
	read -r _ <&"${OPERATE[0]}" || fail "$1 does not start"
	wait_until 30 quiet || fail "the mount does not come to rest"
	before=$(messages) begin=$(now_ms)
	echo >&"${OPERATE[1]}"
	read -r _ <&"${OPERATE[0]}" || fail "$1 fails"
	wait_until 30 quiet || fail "the mount does not come to rest"
	COUNT=$(($(messages) - before))
	CLOCK=$((SPREAD * (2 + (($(now_ms) - begin) / 1000))))
	echo >&"${OPERATE[1]}"
	unset "PIDS[$OPERATE_PID]"
	wait "$OPERATE_PID" || fail "$1 ends badly"
}
missed=0
shape() { # BRICKS LIMITS...
	local what most over line=
	SPREAD=$1 REPLICA=1 BEGAN_WITH=$1
	. "$TOP/tests/mount/spread.sh"
	shift
	mkdir "$SCRATCH/$SPREAD"
	start_spread "$SCRATCH/$SPREAD"
	"$STRATUS" set "$MNT" "$(awk '$1 == "volume" {name = $2} $1 == "type" && $2 == "mount/fuse" {print name}' "$CLIENT_VOL")" believe off
	mkdir "$MNT/t"
	while [ $# -gt 0 ]; do
		what=$1 most=$2
		shift 2
		counted "$what"
		over=
		[ "$COUNT" -le $((most * TIMES * 11 / 10 + CLOCK)) ] || over=", TOO MANY"
		[ "$COUNT" -ge $((most * TIMES * 9 / 10)) ] || over=", NOT COUNTED"
		line="$line $what $COUNT ($((most * TIMES)) and $CLOCK$over)"
		[ -z "$over" ] || missed=$((missed + 1))
	done
	say "$SPREAD bricks: messages of $TIMES times$line"
	umount "$MNT" && await_end "$MOUNT_PID" "the mount" "after umount"
	stop_spread
}
# shellcheck disable=SC2086
for n in 1 4 8; do shape "$n" $LIMITS; done
[ $missed -eq 0 ] || fail "$missed operations take other messages than stated"
pass
