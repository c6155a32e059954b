#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The mount survives kill -9 of stratusd under load: requests wait, open files, positions and locks go on, nothing that was
# acknowledged is lost, no other client gets a lock in between; what can't go on is an error and never a hang.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH"
start_mount "$SCRATCH/other"
OTHER=$LAST_PID
KILLS=$([ "$LONG" = 1 ] && echo 20 || echo 4)
WORKER=$(dirname "$0")/restart.py

# Under load, over several restarts.
python3 "$WORKER" load "$MNT" "$SCRATCH/other" "$SCRATCH" >"$SCRATCH/load.out" 2>&1 &
LOAD=$!
note "$LOAD" load
wait_until 20 test -e "$SCRATCH/ready" || fail "the load does not start: $(tail -n 3 "$SCRATCH/load.out")"
for i in $(seq "$KILLS"); do
	sleep "0.$((RANDOM % 8 + 1))"
	kill_brick
	sleep "0.$((RANDOM % 9))"
	start_brick
	gone "$LOAD" && break
done
touch "$SCRATCH/stop"
wait_until 90 gone "$LOAD" || fail "the load hangs after $KILLS restarts: $("$STRATUS" dump "$MNT" | grep '^request' | head -n 5)"
wait "$LOAD" || fail "under load: $(tail -n 3 "$SCRATCH/load.out")"
unset "PIDS[$LOAD]"
say "load: $(tail -n 1 "$SCRATCH/load.out")"

# What was open at the time of the restart.
rm -f "$SCRATCH/ready" "$SCRATCH/stop"
python3 "$WORKER" open "$MNT" "$SCRATCH/other" "$SCRATCH" >"$SCRATCH/open.out" 2>&1 &
OPEN=$!
note "$OPEN" open
wait_until 20 test -e "$SCRATCH/ready" || fail "the files can't be opened: $(tail -n 3 "$SCRATCH/open.out")"
kill_brick
touch "$SCRATCH/stop"  # go on while it is down
wait_until 20 test -e "$SCRATCH/reading" || fail "nobody goes on: $(tail -n 3 "$SCRATCH/open.out")"
sleep 1.5
start_brick
wait_until 90 gone "$OPEN" || fail "open files hang: $(tail -n 3 "$SCRATCH/open.out"); $("$STRATUS" dump "$MNT" | grep '^request' | head -n 5)"
wait "$OPEN" || fail "open files: $(tail -n 3 "$SCRATCH/open.out")"
unset "PIDS[$OPEN]"

# A brick that stays down: ENOTCONN when max-wait is over, and all is well when it is back.
write_client_volfile "$SCRATCH/short.vol" "$PORT" "$VOLUME_ID" "$BRICK_ID" "max-wait 2s"
start_mount "$SCRATCH/short" "$SCRATCH/short.vol"
SHORT=$LAST_PID
echo text >"$MNT/text"
kill_brick
begin=$(now_ms)
message=$(cat "$SCRATCH/short/text" 2>&1) && fail "a brick that is down answers"
took=$(($(now_ms) - begin))
[[ $message == *"endpoint is not connected"* ]] || fail "not ENOTCONN: $message"
[ $took -ge 1500 ] && [ $took -lt 25000 ] || fail "ENOTCONN came after $took ms, max-wait is 2000 ms"
start_brick
wait_until 20 grep -q text "$SCRATCH/short/text" || fail "the mount does not recover after ENOTCONN"

stop_mount "$SCRATCH/short" "$SHORT"
stop_mount "$SCRATCH/other" "$OTHER"
stop_stack
pass
