#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An ordinary user mounts through fusermount3, works as himself, and unmounts.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need fusermount3 runuser
[ -u "$(command -v fusermount3)" ] || skip "fusermount3 is not setuid"
scratch
BRICK=$SCRATCH/brick SERVER_VOL=$SCRATCH/server.vol CLIENT_VOL=$SCRATCH/client.vol STACK=$SCRATCH
PORT=$(free_port) V=$(uuid) B=$(uuid)
mkdir -m 1777 "$BRICK"
write_server_volfile "$SERVER_VOL" "$BRICK" "$PORT" "$V" "$B"
write_client_volfile "$CLIENT_VOL" "$PORT" "$V" "$B"
start_brick
HOME_OF_USER=$SCRATCH/home
mkdir -m 755 "$HOME_OF_USER"
chown nobody "$HOME_OF_USER"
as_user() { runuser -u nobody -- env HOME="$HOME_OF_USER" STRATUS_RUN="$HOME_OF_USER/run" "$@"; }
as_user test -x "$STRATUS" || skip "nobody can't reach $STRATUS"
MNT=$HOME_OF_USER/mnt
as_user mkdir "$MNT" "$HOME_OF_USER/run"
MOUNTS+=("$MNT")
as_user timeout 60 "$STRATUS" mount "$CLIENT_VOL" "$MNT" || fail "an ordinary user can't mount"
as_user sh -c "echo mine >$MNT/file" || fail "can't write"
[ "$(stat -c %U "$BRICK/file")" = nobody ] || fail "the file belongs to $(stat -c %U "$BRICK/file")"
! as_user chown root "$MNT/file" 2>/dev/null || fail "an ordinary user has given a file away"
as_user "$STRATUS" status | grep -q "$MNT" || fail "status of the user's own mount"
! ls "$MNT" 2>/dev/null || fail "others may look into it without allow_other"
[ -s "$HOME_OF_USER/.local/state/stratus/mount${MNT//\//-}.log" ] || fail "no log in the user's home"
as_user "$STRATUS" umount "$MNT" || fail "can't unmount"
! mountpoint -q "$MNT" || fail "still mounted"
stop_brick
pass
