#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The end of a mount: after umount the process ends by itself and well; SIGTERM unmounts, also while files are open and somebody
# waits for a lock; a mount point that a dead process left behind is named, and is usable again after umount.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH"

# umount
mkdir "$MNT/d"
for i in $(seq 100); do echo "$i" >"$MNT/d/$i"; done
ls -lR "$MNT" >/dev/null
stop_mount "$MNT" "$MOUNT_PID"
mountpoint -q "$MNT" && fail "still mounted"

# A busy mount refuses umount and lives on.
start_mount "$MNT"
exec 5>"$MNT/open"
umount "$MNT" 2>/dev/null && fail "umount of a busy mount succeeded"
echo still >&5 || fail "a refused umount hurt the mount"

# SIGTERM while a file is open, and while a process waits for a lock that nobody gives back.
python3 - "$MNT/open" "$SCRATCH/opened" <<'END' &
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX)
if os.fork() == 0:
    fd = os.open(sys.argv[1], os.O_RDWR)
    open(sys.argv[2], "w").close()
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        os._exit(1)
    except OSError:
        os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
END
WAITER=$!
waits() { [ -n "$(grep -l fuse "/proc/$(pgrep -P "$WAITER")/wchan" 2>/dev/null)" ] || { sleep 0.5; true; }; }
wait_until 5 test -e "$SCRATCH/opened" || fail "nobody waits for the lock"
waits
kill "$LAST_PID"
wait_until 20 gone "$LAST_PID" || fail "the process does not end on SIGTERM"
STATUS=0; wait "$LAST_PID" || STATUS=$?
unset "PIDS[$LAST_PID]"
[ "$STATUS" = 0 ] || fail "it ended with status $STATUS"
wait "$WAITER" || fail "who waited for the lock was not let go with an error"
mountpoint -q "$MNT" && fail "still mounted after SIGTERM"
{ echo lost >&5; } 2>/dev/null && fail "a file of a mount that is gone took a write"
exec 5>&-

# kill -9
start_mount "$MNT"
kill -9 "$LAST_PID"
wait "$LAST_PID" 2>/dev/null || true
unset "PIDS[$LAST_PID]"
if "$STRATUS" mount --foreground "$CLIENT_VOL" "$MNT" >"$SCRATCH/left.txt" 2>&1; then
	fail "mounted over a mount that was left behind"
fi
grep -q umount "$SCRATCH/left.txt" || fail "the message does not say what to do: $(cat "$SCRATCH/left.txt")"
umount "$MNT"
start_mount "$MNT"
[ "$(cat "$MNT/d/100")" = 100 ] || fail "what was written is not there"
stop_mount "$MNT" "$LAST_PID"
stop_brick
pass
