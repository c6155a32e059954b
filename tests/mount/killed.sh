#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who is killed is gone soon, whatever his request waits for: at bricks that hang, one after the other, and nobody takes them for down; at what begins to wait anew when it is told
# to stop, once.
# limit: 600 s
SPREAD=3 REPLICA=1
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/mount/spread.sh"
need_root
need_stack
scratch
start_spread "$SCRATCH/s" "ping-timeout 1h" "max-wait 1h" "features/layout:widen-at 8"

for ((n = 0; n < 12; n++)); do
	mkdir "$MNT/d$n" && echo "$n" >"$MNT/d$n/f" || fail "d$n"
done
mkdir "$MNT/wide"
for ((n = 0; n < 64; n++)); do : >"$MNT/wide/f$n" || fail "wide/f$n"; done
"$STRATUS" ctl "$MNT" dht rebalance widen start || fail "nothing grows wide"
is_wide() { [ "$(find "$STACK"/brick*/.stratus.dht/away -mindepth 2 -maxdepth 2 -name 'd.*' 2>/dev/null | wc -l)" -ge 2 ]; }
wait_until 60 is_wide || fail "no directory has become wide"
stop_mount "$MNT" "$MOUNT_PID"
start_mount "$MNT" # which knows no shard of it
MOUNT_PID=$LAST_PID

killed() { # WHAT: it waits, is killed, and gone
	$1 >/dev/null 2>&1 &
	who=$!
	note "$who" "$1"
	waits() { [ "$(proc_state "$who")" = S ] || [ "$(proc_state "$who")" = D ]; }
	wait_until 10 waits || fail "$1 does not wait"
	kill -KILL "$who"
	is_gone() { gone "$who" || [ "$(proc_state "$who")" = Z ]; }
	wait_until 60 is_gone || fail "$1 was killed, and is not gone"
	wait "$who" 2>/dev/null || true
}

CASES=("ls $MNT/wide" "stat -f $MNT" "ls -la $MNT" "mkdir $MNT/new" "chmod 711 $MNT" "mv $MNT/d0 $MNT/d1/in" "rmdir $MNT/d2" "touch $MNT/d3/f $MNT/d4/f $MNT/d5/f $MNT/d6/f" "find $MNT")
for case in "${CASES[@]}"; do
	for server in "${SERVER_PID[@]}"; do kill -STOP "$server"; done
	killed "$case"
	for server in "${SERVER_PID[@]}"; do kill -CONT "$server"; done
	ls "$MNT" >/dev/null || fail "after $case was killed"
done
stop_stack

cat >"$SCRATCH/deaf.vol" <<'END'
volume memory
  type debug/memory
end-volume
volume deaf
  type test/deaf
  subvolumes memory
end-volume
volume mount
  type mount/fuse
  subvolumes deaf
end-volume
END
STACK=$SCRATCH
STRATUS_XLATOR_PATH=$STRATUS_BUILD/xlators:$STRATUS_BUILD/tests/unit start_mount "$SCRATCH/deaf" "$SCRATCH/deaf.vol"
killed "stat -f $SCRATCH/deaf"
stop_mount "$SCRATCH/deaf" "$LAST_PID"
pass
