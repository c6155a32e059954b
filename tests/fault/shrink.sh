#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A volume loses a subvolume, which one its seed says, under load from two mounts, while who empties it and the servers are killed or stand still, at any moment: nothing is
# lost, nothing is there twice, nothing is left behind, and `stratus fsck` finds nothing. Some files have several names, in several directories.
#
# Seeded runs: 3 (20 with LONG=1), of 4 bricks and of 3 sets of 3 in turn. SEED=N: that one; RUNS=N: so many from there on.
# limit: 900 s, 7200 s with LONG=1
# calm: who is killed in a change is given up after seconds, and all has to end in bounded time
ONE_SEED=${SEED:-}
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/../mount/runs.sh"
. "$(dirname "$0")/../mount/storms.sh"
need_root
need_stack
need python3
SECONDS_EACH=$([ "$LONG" = 1 ] && echo 20 || echo 4)

one_run() { # SPREAD REPLICA
	scratch
	RANDOM=$SEED
	leaving_stack "$@"
	keepsakes make "$MNT"
	storm_begins --top
	pause
	start_mover
	troubled
	storm_ends
	has_shrunk
	stop_stack
	pass
}

[ "${1-}" != in ] || one_run "$2" "$3"
seeded_runs
