# SPDX-License-Identifier: Apache-2.0
# Sourced, after lib.sh: storms of operations from several mounts on a spread volume, and what must be so after them. SECONDS_EACH: how long one lasts; SEED.

located() { "$STRATUS" ctl "$MNT" dht locate "$1"; }
first_bricks() { local i; for ((i = 0; i < SETS; i++)); do echo "$STACK/brick$((i * MEMBERS))"; done; }
all_anchored() { python3 "$TOP/tests/mount/anchors.py" $(first_bricks) >"$SCRATCH/anchors"; }
anchored() { wait_until 60 all_anchored || fail "not all is ended (SEED=$SEED): $(head -n 8 "$SCRATCH/anchors")"; }
storm() { # MOUNT... [--dies]
	python3 "$TOP/tests/mount/storm.py" "$@" --seed "$SEED" --seconds "$SECONDS_EACH" >"$SCRATCH/storm.log" 2>&1
}
storm_begins() { # [--dies|--top...]: on $MNT and another mount, in the background
	start_mount "$SCRATCH/other"
	OTHER=$LAST_PID
	storm "$MNT" "$SCRATCH/other" "$@" &
	WRITER=$!
}
storm_ends() {
	wait "$WRITER" || fail "SEED=$SEED: $(cat "$SCRATCH/storm.log")"
	stop_mount "$SCRATCH/other" "$OTHER"
}
comes_back() { # what was down is in its replica set again
	[ "$MEMBERS" = 1 ] || wait_until 120 all_in || fail "SEED=$SEED: $1 does not come back: $("$STRATUS" heal status --stratusd "$COORDINATOR_PID")"
}
checked() {
	python3 "$TOP/tests/mount/storm.py" "$MNT" --seed "$SEED" --seconds 0 || fail "after the storm (SEED=$SEED): see above"
}
stack() { # SPREAD REPLICA [OPTION...]
	SPREAD=$1 REPLICA=$2
	shift 2
	. "$TOP/tests/mount/spread.sh"
	say "seed $SEED"
	start_stack "$SCRATCH" "${@:-cluster/dht:sweep-interval 50ms}"
}

# Of what the other mount removes while it is used, perhaps once in a storm: the kernel looks again then.
few_stale() { [ "$(facts "$MNT" | sed -n 's/^  answered ESTALE: //p')" -lt 20 ]; }
calm() { # after it
	anchored
	checked
	few_stale || fail "ESTALE is not the kernel's alone (SEED=$SEED): $(facts "$MNT" | grep ESTALE)"
	say "$(head -n 1 "$SCRATCH/anchors"); $(tail -n 1 "$SCRATCH/storm.log")"
}

# ---- a volume that grows meanwhile ----

# The last subvolume has no names yet. Who was killed in a change of a set is given up soon.
growing_stack() { # SPREAD REPLICA
	local -a options=("cluster/dht:sweep-interval 50ms")
	[ "$2" = 1 ] || options+=("protocol/server:session-timeout 3s" "features/replica:token-timeout 2s")
	BEGAN_WITH=$(($1 - 1)) stack "$@" "${options[@]}"
}
start_mover() {
	MOVERS=$((${MOVERS:-0} + 1))
	start_mount "$SCRATCH/mover$MOVERS"
	MOVER_PID=$LAST_PID
	timeout 60 "$STRATUS" ctl "$SCRATCH/mover$MOVERS" dht rebalance start || fail "SEED=$SEED: the rebalance can't be begun"
}
kill_mover() {
	kill_hard "$MOVER_PID" "the mover's mount"
	umount -l "$SCRATCH/mover$MOVERS"
}
rebalance_says() { "$STRATUS" ctl "$SCRATCH/mover$MOVERS" dht rebalance status; }
rebalanced() { rebalance_says | grep -q 'state done'; }
located_last() { sed -n '/type cluster\/dht/,/end-volume/s/^ *subvolumes .* //p' "$CLIENT_VOL"; }
has_grown() { # the storm is over: all has come to its end, and what is at the new subvolume belongs there
	local i new
	wait_until 60 rebalanced || fail "SEED=$SEED: the rebalance does not end: $(rebalance_says)"
	say "$(rebalance_says | tr '\n' ' ')"
	stop_mount "$SCRATCH/mover$MOVERS" "$MOVER_PID"
	calm
	new=$(first_bricks | tail -n 1)
	for i in "$new"/*; do
		[ "$(located "$(basename "$i")")" = "$(located_last)" ] || fail "SEED=$SEED: $i does not belong there"
	done
	[ -n "$(ls "$new")" ] || fail "SEED=$SEED: the new brick has no names"
	"$STRATUS" fsck "$CLIENT_VOL" || fail "SEED=$SEED: fsck finds something"
}
