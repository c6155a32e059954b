#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stratus mount and mount.stratus: options, failures, the way through mount(8) and fstab, umount.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
scratch
mkdir "$SCRATCH/s"
BRICK=$SCRATCH/brick MNT=$SCRATCH/mnt SERVER_VOL=$SCRATCH/server.vol CLIENT_VOL=$SCRATCH/client.vol STACK=$SCRATCH
PORT=$(free_port) V=$(uuid) B=$(uuid)
mkdir "$BRICK" "$MNT"
write_server_volfile "$SERVER_VOL" "$BRICK" "$PORT" "$V" "$B"
write_client_volfile "$CLIENT_VOL" "$PORT" "$V" "$B"
MOUNTS+=("$MNT")
cd "$SCRATCH"
refused() { # PATTERN ARGUMENTS...
	local pattern=$1 status=0
	shift
	timeout 300 "$STRATUS" mount --log "$SCRATCH/m.log" "$@" 2>err || status=$?
	[ "$status" = 1 ] || fail "status $status instead of 1 for mount $*: $(cat err)"
	grep -q -- "$pattern" err || fail "'$pattern' is not in: $(cat err)"
	! mountpoint -q "$MNT" || fail "something is mounted after: $(cat err)"
}
refused "stratusd" "$CLIENT_VOL" "$MNT" # no server runs
start_brick
refused "stratusd" "$SERVER_VOL" "$MNT"
refused "No such file" "$CLIENT_VOL" "$SCRATCH/nowhere"
refused "written SERVER:/VOLUME" alpha:photos "$MNT" # the slash was forgotten
refused "not a directory" "$CLIENT_VOL" "$CLIENT_VOL"
refused "did you mean 'allow_other'" -o allow_othr "$CLIENT_VOL" "$MNT"
refused "needs a value" -o attribute-timeout "$CLIENT_VOL" "$MNT"
sed "s/option brick-id .*/option brick-id $(uuid)/" "$CLIENT_VOL" >other.vol
refused "brick" other.vol "$MNT"

# usable as soon as it returns; relative names; the process ends with the mount
"$STRATUS" mount --log m.log --pid-file m.pid client.vol mnt
echo hello >mnt/file || fail "not usable"
PID=$(cat m.pid)
[ "$(stat -c %s brick/file)" = 6 ] || fail "not on the brick"
grep -q "mount point: $MNT" < <("$STRATUS" dump "$MNT") || fail "dump by mount point"
status=0 # a second one would hide it
"$STRATUS" mount --log m2.log client.vol mnt 2>err || status=$?
[ "$status" = 1 ] && grep -q 'mnt is a mount of StratusFS already' err && [ "$(wc -l <err)" = 1 ] || fail "mounted twice: status $status, $(cat err)"
[ "$(grep -c " $MNT " /proc/self/mountinfo)" = 1 ] || fail "two mounts at one place"
exec 8<mnt/file
! "$STRATUS" umount "$MNT" 2>err || fail "unmounted although in use"
grep -q 'in use' err || fail "wrong cause: $(cat err)"
exec 8<&-
"$STRATUS" umount mnt
gone "$PID" || fail "umount has returned before the process ended"
! "$STRATUS" umount mnt 2>err || fail "unmounted twice"
grep -q 'not a mount point' err || fail "wrong cause: $(cat err)"

# a volfile without mount/fuse gets one
sed '/^volume fuse/,$d' "$CLIENT_VOL" >bare.vol
"$STRATUS" mount --log m.log -o ro,noatime,_netdev,attribute_timeout=1s bare.vol mnt
findmnt -n -o OPTIONS mnt | grep -q '^ro,.*noatime' || fail "options did not arrive: $(findmnt -n -o OPTIONS mnt)"
! touch mnt/new 2>/dev/null || fail "written to a read-only mount"
grep -q 'attribute-timeout: 1000ms' < <("$STRATUS" dump "$MNT") || fail "the option of mount/fuse did not arrive"
umount mnt

# reload switches the graph, with a file open
"$STRATUS" mount --log m.log client.vol mnt
exec 8<>mnt/file
write_client_volfile "$CLIENT_VOL" "$PORT" "$V" "$B" +debug/io-stats
"$STRATUS" reload "$MNT"
"$STRATUS" stats "$MNT" | grep -q '^extra1' || fail "the new graph is not in use"
read -r line <&8
[ "$line" = hello ] || fail "the open file was lost"
exec 8<&-
"$STRATUS" stats "$MNT" --json | python3 -c 'import json,sys; assert json.load(sys.stdin)["extra1"]["fops"]["read"]["count"]' ||
	fail "nothing was counted"
echo nonsense >"$CLIENT_VOL"
! "$STRATUS" reload "$MNT" 2>err || fail "a wrong volfile was taken over"
ls mnt >/dev/null || fail "a wrong volfile has broken the mount"
write_client_volfile "$CLIENT_VOL" "$PORT" "$V" "$B"
# a mount whose process was killed is named, and can be cleared
PID=$("$STRATUS" ps --json | python3 -c 'import json,sys; print(next(p["pid"] for p in json.load(sys.stdin) if p["program"] == "mount"))')
kill -9 "$PID"
wait_until 10 gone "$PID"
timeout 300 "$STRATUS" mount --log m.log client.vol mnt 2>err && fail "mounted over a dead mount"
grep -q 'umount' err || fail "the next step is not named: $(cat err)"
"$STRATUS" umount mnt
! mountpoint -q mnt || fail "the dead mount stays"

# mount(8) and fstab: in a mount namespace where /sbin has the helper
echo "$CLIENT_VOL $MNT stratus noauto,_netdev,log=$SCRATCH/m.log 0 0" >fstab
mkdir sbin
ln -s "$STRATUS_BIN/stratus" sbin/mount.stratus
cat >inside.sh <<'END'
set -e
mount -t overlay overlay -o "lowerdir=$PWD/sbin:$(realpath /sbin)" "$(realpath /sbin)" 2>/dev/null || exit 77
mount -T "$PWD/fstab" "$MNT"
grep -q hello "$MNT/file"
umount "$MNT"
mount -t stratus -o ro "$CLIENT_VOL" "$MNT"
if touch "$MNT/new" 2>/dev/null; then echo "-o ro is not read-only" >&2; exit 1; fi
umount "$MNT"
END
status=0
MNT=$MNT CLIENT_VOL=$CLIENT_VOL unshare -m bash inside.sh 2>err || status=$?
[ "$status" != 77 ] || leave_out "no overlay file system for the fstab part"
[ "$status" = 0 ] || [ "$status" = 77 ] || fail "mount(8): $(cat err)"
stop_brick
pass
