#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every file operation of Linux works through FUSE, TCP and a brick on disk (fops.py lists them, one property each).
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3 setfacl getfacl flock
scratch
start_stack "$SCRATCH" +debug/io-stats

# A write that is to be durable (RWF_DSYNC) is: the brick is told to sync.
python3 -c 'import os, sys; os.pwritev(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), [b"x" * 4096], 0, os.RWF_DSYNC)' "$MNT/durable"
"$STRATUS" stats "$MNT" | grep -q '^ *fsync  *1 ' || fail "a write with RWF_DSYNC was acknowledged without a sync: $("$STRATUS" stats "$MNT")"
rm "$MNT/durable"

mkdir "$MNT/fops"
MNT=$MNT/fops python3 "$(dirname "$0")/fops.py" "$@" || fail "a file operation does not behave"

# flock(1): the second waits for the first; a busy lock is refused at once when asked not to wait.
touch "$MNT/lock"
flock "$MNT/lock" sh -c 'until [ -e "$1" ]; do sleep 0.05; done' holder "$SCRATCH/let-go" &
HOLDER=$!
PIDS[$HOLDER]="holder of a lock"
wait_until 20 eval '! flock -n "$MNT/lock" true' || fail "flock does not lock"
(sleep 0.4; : >"$SCRATCH/let-go") &
flock "$MNT/lock" true || fail "flock fails"
[ -e "$SCRATCH/let-go" ] || fail "flock did not wait"
wait "$HOLDER" || fail "who held the lock failed"
unset "PIDS[$HOLDER]"

# A replica set's client notes the locks that are held, and nothing of those that were given back, however long the file is open.
if [ "$REPLICA" != 1 ]; then
	python3 - "$MNT/lock" >"$SCRATCH/locks" <<-'END' &
	import fcntl, os, sys, time
	fd = os.open(sys.argv[1], os.O_RDWR)
	for i in range(100):
	    fcntl.lockf(fd, fcntl.LOCK_EX, 10, i)
	    fcntl.lockf(fd, fcntl.LOCK_UN, 20, i)
	fcntl.lockf(fd, fcntl.LOCK_SH, 10, 1000)
	for i in range(100):
	    fcntl.lockf(fd, fcntl.LOCK_EX, 30, 1000)
	    fcntl.lockf(fd, fcntl.LOCK_UN, 20, 1010)
	print("done", flush=True)
	time.sleep(100)
	END
	HOLDER=$!
	PIDS[$HOLDER]="holder of locks"
	wait_until 20 test -s "$SCRATCH/locks" || fail "locks are not given"
	NOTED=$(facts "$MOUNT_PID" | awk '/^ *locks noted: / { sum += $NF } END { print sum }') # of all sets
	[ "$NOTED" -ge 1 ] && [ "$NOTED" -le 2 ] || fail "$NOTED locks are noted where one is held"
	kill "$HOLDER"
	wait "$HOLDER" 2>/dev/null || true
	unset "PIDS[$HOLDER]"
fi

# ACLs by the usual tools, defaults are inherited and the umask then does not count.
mkdir "$MNT/acl"
setfacl -m u:1234:rwx,g:2345:r-x "$MNT/acl"
setfacl -d -m u:1234:rw- "$MNT/acl"
(umask 077; touch "$MNT/acl/child")
getfacl -cnp "$MNT/acl" | grep -qx 'user:1234:rwx' || fail "the ACL is not there"
getfacl -cnp "$MNT/acl/child" | grep -q '^user:1234:rw-' || fail "the default ACL was not inherited"
setfacl -b "$MNT/acl/child"
getfacl -cnp "$MNT/acl/child" | grep -q 1234 && fail "the ACL was not removed"

stop_stack
pass
