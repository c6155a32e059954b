#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An encrypted mount is stopped in the middle of a write until its session has ended, and another one changes the same block meanwhile: when the first goes on, and sends its
# write again, nothing of what the other was told to have written is undone (doc/crypt.md, "What is late").
SPREAD=1 REPLICA=1 CRYPT=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
short_sessions() { # VOLFILE of the server: and a place where its writes can be held, above the locks
	python3 - "$1" <<-'PY'
	import sys
	below, above = open(sys.argv[1]).read().split("type features/locks", 1)
	locks, above = above.split("end-volume\n", 1)
	above = above.replace("subvolumes locks\n", "subvolumes hold\n").replace("type protocol/server\n", "type protocol/server\n    option session-timeout 1s\n")
	hold = "\nvolume hold\n    type debug/hold\n    subvolumes locks\nend-volume\n"
	open(sys.argv[1], "w").write(below + "type features/locks" + locks + "end-volume\n" + hold + above)
	PY
}
start_stack "$SCRATCH"
umount "$MNT"
await_end "$MOUNT_PID" "the process of $MNT" "after umount"
stop_brick
short_sessions "$SERVER_VOL"
start_brick
start_mount "$MNT"
MOUNT_PID=$LAST_PID
start_mount "$SCRATCH/other"
OTHER=$SCRATCH/other OTHER_PID=$LAST_PID
chmod 755 "$MNT"
hold() { "$STRATUS" ctl "$BRICK_PID" hold "$@"; }
pwrite() { python3 -c 'import os, sys; os.pwrite(os.open(sys.argv[1], os.O_RDWR), sys.argv[2].encode(), int(sys.argv[3]))' "$@"; }
is_parked() { hold list | grep -q 'parked: write'; }

printf 0123456789 >"$MNT/file"
[ "$(cat "$OTHER/file")" = 0123456789 ] || fail "the other mount does not see the file"
hold hold write >/dev/null
pwrite "$MNT/file" AAA 1 &
WRITER=$!
wait_until 30 is_parked || fail "the write does not come to the brick"
kill -STOP "$MOUNT_PID"
hold hold none >/dev/null # what is held stays so
"$STRATUS" ctl "$BRICK_PID" server drop-connections >/dev/null
timeout 120 bash -c "$(declare -f pwrite); pwrite '$OTHER/file' BBB 6" || fail "the other mount can't write when the first one's session must have ended"
kill -CONT "$MOUNT_PID"
wait "$WRITER" || fail "the write of the mount that was stopped fails"
for dir in "$MNT" "$OTHER"; do
	[ "$(cat "$dir/file")" = 0AAA45BBB9 ] || fail "$dir shows $(cat "$dir/file"): a write that was acknowledged is undone"
done
facts "$BRICK_PID" | grep -q 'not held: [1-9]' || fail "the brick has refused nothing: the write was not late"
stop_mount "$OTHER" "$OTHER_PID"
stop_stack
pass
