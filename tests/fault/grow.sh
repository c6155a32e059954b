#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A volume gets another subvolume under load from two mounts, while who moves the names and the servers are killed or stand still, at any moment: nothing
# is lost, nothing is there twice, the rebalance ends, and `stratus fsck` finds nothing.
#
# Seeded runs: 3 (20 with LONG=1), of 4 bricks and of 3 sets of 3 in turn. SEED=N: that one; RUNS=N: so many from there on.
# limit: 600 s, 7200 s with LONG=1
ONE_SEED=${SEED:-}
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/../mount/runs.sh"
. "$(dirname "$0")/../mount/storms.sh"
need_root
need_stack
need python3
SECONDS_EACH=$([ "$LONG" = 1 ] && echo 20 || echo 10)

# ---- what happens; in sets one server at a time, so that a quorum lives ----

pause() { sleep "$((RANDOM % 2)).$((RANDOM % 10))"; }
mover_dies() {
	kill_mover
	pause
	start_mover
}
server_dies() {
	local number=$((RANDOM % $(servers)))
	say "server $number is killed"
	kill_server "$number"
	pause
	start_server "$number"
	comes_back "server $number"
}
server_stands_still() {
	local number=$((RANDOM % $(servers)))
	say "server $number stands still"
	kill -STOP "${SERVER_PID[number]}"
	pause
	kill -CONT "${SERVER_PID[number]}"
	comes_back "server $number"
}

one_run() { # SPREAD REPLICA
	local what=(mover_dies server_dies server_stands_still)
	scratch
	RANDOM=$SEED
	growing_stack "$@"
	storm_begins --top
	pause
	start_mover
	until gone "$WRITER"; do
		pause
		"${what[RANDOM % 3]}"
	done
	storm_ends
	has_grown
	stop_stack
	pass
}

[ "${1-}" != in ] || one_run "$2" "$3"
LIMIT=$((SECONDS_EACH * 4 + 300))
RUNS=${RUNS:-$([ -n "$ONE_SEED" ] && echo 1 || { [ "$LONG" = 1 ] && echo 20 || echo 3; })}
first=${ONE_SEED:-1}
for ((seed = first; seed < first + RUNS; seed++)); do
	shape=$([ $((seed % 2)) = 1 ] && echo 3 3 || echo 4 1)
	SEED=$seed run_one "seed $seed, ${shape/ / x }" "$0" in $shape
done
runs_end
