#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every file operation of Linux works through FUSE, TCP and a brick on disk (fops.py lists them, one property each).
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3 setfacl getfacl setfattr getfattr flock
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
note "$HOLDER" "holder of a lock"
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
	note "$HOLDER" "holder of locks"
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

# A mount that does not show them says that there is no such thing, in every way, and leaves them as they are.
FUSE=$(awk '$1 == "volume" {name = $2} $1 == "type" && $2 == "mount/fuse" {print name}' "$CLIENT_VOL")
attributes() { python3 -c 'import os, sys; print(os.listxattr(sys.argv[1]))' "$MNT/acl"; }
refused() { ! "$@" 2>"$SCRATCH/refused" && grep -q 'Operation not supported' "$SCRATCH/refused"; }
attributes | grep -q posix_acl_access || fail "the ACL is not listed"
"$STRATUS" set "$MNT" "$FUSE" acl off
refused setfacl -m u:1234:r "$MNT/acl/child" || fail "an ACL can be set where there are none"
refused setfattr -x system.posix_acl_access "$MNT/acl" || fail "an ACL can be removed where there are none"
refused getfattr -n system.posix_acl_default "$MNT/acl" || fail "an ACL is shown where there are none"
! attributes | grep -q posix_acl || fail "an ACL is listed where there are none"
"$STRATUS" set "$MNT" "$FUSE" acl on
getfacl -cnp "$MNT/acl" | grep -qx 'user:1234:rwx' || fail "the ACL did not stay"

stop_stack
pass
