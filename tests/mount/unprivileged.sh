#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An ordinary user mounts and unmounts by fusermount3; others are kept out; what the user may not do the brick refuses.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need fusermount3 setpriv unshare

# On a machine without udev /dev/fuse may be closed to users: then one of our own is bound over it, seen by this test only.
if [ -z "${FUSE_IS_OPEN:-}" ] && [ "$(stat -c %a /dev/fuse)" != 666 ]; then
	export FUSE_IS_OPEN=1
	exec unshare -m --propagation private "$0" "$@"
fi
scratch
if [ "${FUSE_IS_OPEN:-}" = 1 ]; then
	mknod -m 666 "$SCRATCH/fuse" c 10 229 && mount --bind "$SCRATCH/fuse" /dev/fuse || skip "cannot open /dev/fuse to users"
	(exec 3<>/dev/fuse) || skip "devices do not work in $SCRATCH"
fi
start_stack "$SCRATCH"
chmod 755 "$MNT"
mkdir -m 700 "$MNT/home" "$MNT/closed"
chown 65534:65534 "$MNT/home"
echo secret >"$MNT/closed/secret"

USERS=$SCRATCH/user
mkdir "$USERS" "$USERS/run" "$USERS/mnt"
chown -R 65534:65534 "$USERS"
chmod 644 "$CLIENT_VOL"
as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$USERS" STRATUS_RUN="$USERS/run" "$@"; }

KEY=$(key_words)
[ -z "$KEY" ] || chmod 644 "$STACK"/key*
# shellcheck disable=SC2086
as_user "$STRATUS" mount --foreground $KEY "$CLIENT_VOL" "$USERS/mnt" >"$SCRATCH/mount-user.log" 2>&1 &
PID=$!
note "$PID" "user's mount"
MOUNTS+=("$USERS/mnt")
up_or_gone() { gone "$PID" || grep -q " $USERS/mnt fuse" /proc/self/mounts; } # root may not look inside
wait_until 20 up_or_gone || fail "the user's mount did not come up"
gone "$PID" && fail "the user's mount ended at its start"

as_user sh -ec 'cd "$1/home"; echo mine >file; cp /bin/ls ls; cmp /bin/ls ls; mkdir d; mv file d; rm -r d' - "$USERS/mnt" ||
	fail "the user can't work in the own directory"
[ "$(stat -c %u "$MNT/home/ls")" = 65534 ] || fail "the user's file has another owner"
as_user cat "$USERS/mnt/closed/secret" 2>/dev/null && fail "the user read what belongs to root"
as_user touch "$USERS/mnt/new" 2>/dev/null && fail "the user wrote into root's directory"
ls "$USERS/mnt" 2>/dev/null && fail "others can look into the user's mount"
as_user fusermount3 -u "$USERS/mnt" || fail "the user can't unmount"
wait_until 20 gone "$PID" || fail "the process goes on after fusermount3 -u"
STATUS=0; wait "$PID" || STATUS=$?
unset "PIDS[$PID]"
[ "$STATUS" = 0 ] || fail "the user's mount ended with status $STATUS"

# shellcheck disable=SC2086
if as_user "$STRATUS" mount --foreground $KEY "$CLIENT_VOL" "$SCRATCH/brick" >"$SCRATCH/refused.txt" 2>&1; then
	fail "the user mounted over a directory of root"
fi
grep -q "$SCRATCH/brick" "$SCRATCH/refused.txt" || fail "the refusal does not name the directory"
stop_stack
[ "${FUSE_IS_OPEN:-}" != 1 ] || umount /dev/fuse
pass
