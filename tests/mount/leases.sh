#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Leases on a brick without replicas (doc/leases.md): what is believed costs no question, what another mount changes is recalled first, and a mount that does not
# answer, or a brick that is killed, lets others wait and nobody read what is old.
SPREAD=2 REPLICA=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH"
start_mount "$SCRATCH/other"
OTHER=$SCRATCH/other OTHER_PID=$LAST_PID

count() { facts "$1" | awk -F': ' -v what="  $2" '$1 == what { sum += $2 } END { print sum + 0 }'; }
recalls() { count "$OTHER" recalls; }
# The other mount believes that the file has that size.
believe() { # NAME SIZE
	local before tries
	for ((tries = 0; tries < 200; tries++)); do
		before=$(count "$OTHER" believed)
		[ "$(stat -c %s "$OTHER/$1")" = "$2" ] || fail "the other mount says $(stat -c %s "$OTHER/$1") of $1, not $2"
		[ "$(count "$OTHER" believed)" -gt "$before" ] && return
	done
	fail "the other mount believes nothing of $1"
}

# ---- it is believed, and recalled ----
chmod 755 "$MNT"
mkdir "$MNT/d"
echo 1 >"$MNT/d/f"
for ((i = 0; i < 20; i++)); do # what was told has a time: on a busy machine it may be over before the change
	believe d/f 2
	before=$(recalls)
	echo 22 >"$MNT/d/f"
	[ "$(stat -c %s "$OTHER/d/f")" = 3 ] || fail "the other mount reads what is old"
	[ "$(recalls)" -le "$before" ] || break
	echo 1 >"$MNT/d/f"
done
[ "$i" -lt 20 ] || fail "nothing was recalled"
say "recalls: $(recalls)"

# ---- one that does not answer lets others wait, and reads nothing old afterwards ----
for what in size name; do
	believe d/f 3
	kill -STOP "$OTHER_PID"
	case $what in
	size) timeout 60 truncate -s 7 "$MNT/d/f" || fail "a mount that is stopped keeps another from changing a file" ;;
	name) timeout 60 mv "$MNT/d/f" "$MNT/d/g" || fail "a mount that is stopped keeps another from renaming a file" ;;
	esac
	kill -CONT "$OTHER_PID"
	case $what in
	size) [ "$(stat -c %s "$OTHER/d/f")" = 7 ] || fail "a mount that was stopped reads the old size" ;;
	name) [ ! -e "$OTHER/d/f" ] && [ -e "$OTHER/d/g" ] || fail "a mount that was stopped reads the old name" ;;
	esac
	truncate -s 3 "$MNT"/d/[fg]
done
mv "$MNT/d/g" "$MNT/d/f"

# ---- a brick that is killed has forgotten what it told; who was stopped meanwhile may believe it ----
believe d/f 3
at=0
[ -e "$STACK/brick0/d" ] || at=1
[ -e "$STACK/brick$at/.stratus/leases" ] || fail "that something is believed is not recorded"
kill -STOP "$OTHER_PID"
kill_server $at
start_server $at
timeout 60 truncate -s 9 "$MNT/d/f" || fail "no change after the brick was killed"
kill -CONT "$OTHER_PID"
[ "$(stat -c %s "$OTHER/d/f")" = 9 ] || fail "what a killed brick has told is believed after it was changed"

# ---- and goes on ----
believe d/f 9
rm "$MNT/d/f"
[ ! -e "$OTHER/d/f" ] || fail "a removed name is believed"
stop_mount "$OTHER" "$OTHER_PID"
stop_stack
pass
