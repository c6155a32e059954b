#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus status --check`: silent with status 0 when all is well; a line and status 3 for a brick that is down, a member that is behind, bricks without names, a disk that is full; 1 when nobody can
# be asked, 2 for a wrong command line. What it says of what a test can't bring about is in tests/unit/status-check-test.c.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/keeper.sh"
need_root
need_stack
need mkfs.ext4 python3
scratch
cd "$SCRATCH"
HTTP=$(free_port)

check() { # STATUS WORDS...: of the command; its lines are in the file out
	local want=$1 status=0
	shift
	timeout 100 "$STRATUS" status --check "$@" >out 2>err || status=$?
	[ "$status" = "$want" ]
}
# The disk of this machine may be full: that is not what most of it is about.
well() { check 0 --full 100 && [ ! -s out ] && [ ! -s err ]; }
wrong() { check 3 --full 100 && [ ! -s err ] && grep -q -- "$1" out; } # PATTERN
told() { fail "$1: $(cat out err); $("$STRATUS" status 2>&1)"; }

# ---- nobody there, and wrong words ----
check 1 && [ ! -s out ] && grep -q 'no stratusd with a cluster store' err || told "without a stratusd"
check 2 photos || told "with a word too many"
for percent in 0 101 9x -1 ''; do
	check 2 --full="$percent" && grep -q 'is no number from 1 to 100' err || told "--full=$percent"
done
status=0
"$STRATUS" status --full 50 2>err || status=$?
[ "$status" = 2 ] && grep -q 'full goes with --check' err || fail "--full without --check: $status, $(cat err)"

# ---- well ----
truncate -s 32M disk
mkfs.ext4 -q -m 0 -N 512 disk
mkdir b0
mount -o loop disk b0
start_keeper
wait_until 20 well || told "an empty cluster"
"$STRATUS" volume create photos --start 127.0.0.1:"$SCRATCH/b0" >/dev/null
"$STRATUS" volume create set --replica 3 --start 127.0.0.1:"$SCRATCH/r0" 127.0.0.1:"$SCRATCH/r1" 127.0.0.1:"$SCRATCH/r2" >/dev/null
"$STRATUS" volume create idle 127.0.0.1:"$SCRATCH/i0" >/dev/null
wait_until 60 well || told "two volumes that are served, and one that is stopped"
check 0 --full 100 --json && [ "$(cat out)" = "[]" ] || told "--json of what is well"

# ---- a disk that is full ----
head -c $(($(stat -f -c "%a * %S" b0) * 96 / 100)) /dev/zero >b0/.stratus/ballast
check 3 && grep -qE "^volume photos: brick0 alpha:$SCRATCH/b0: [0-9]+ % of its file system's bytes are used$" out || told "a full disk"
check 3 --json && [ "$(json '[s for s in d if "photos: brick0" in s and "bytes" in s] != []' <out)" = True ] || told "--json"
wrong 'photos: brick0' && told "more than --full is wrong"
rm b0/.stratus/ballast
sync -f b0

# ---- bricks without their part of the names ----
"$STRATUS" brick add photos 127.0.0.1:"$SCRATCH/b1" >/dev/null
wait_until 20 wrong '^volume photos: bricks were added .*: `stratus rebalance start photos`$' || told "a brick without names"
[ "$(wc -l <out)" = 1 ] || told "more than is wrong"
"$STRATUS" rebalance start photos --wait >/dev/null
wait_until 60 well || told "after the rebalance"

# ---- bricks whose disks are not mounted: of a set, the others change meanwhile ----
"$STRATUS" mount --log mnt.log --pid-file mnt.pid 127.0.0.1:"$HTTP":/set "$(mkdir mnt && echo mnt)"
note "$(cat mnt.pid)" mount
"$STRATUS" volume stop photos >/dev/null
kill_keeper
umount b0
mv r2 r2-away
start_keeper
"$STRATUS" volume start photos >/dev/null 2>&1 || true # it says that it is not served
wait_until 60 wrong "^volume photos: brick0 alpha:$SCRATCH/b0 is down: .*was a brick, but is none now" || told "a brick that is down"
wait_until 60 wrong "^volume set: brick2 alpha:$SCRATCH/r2 is down: " || told "a member that is down"
wait_until 60 wrong "^volume set: brick2 alpha:$SCRATCH/r2 does not answer" || told "a member that does not answer"
for i in $(seq 50); do echo "$i" >"mnt/file$i"; done
[ -z "$(ls -A b0)" ] && [ ! -e r2 ] || fail "directories were made: $(ls)"
mount -o loop disk b0
mv r2-away r2
wait_until 60 well || told "after the disks are back"
cmp r0/file50 r2/file50 || fail "it is told to be well, and is not healed"
umount mnt
pass
