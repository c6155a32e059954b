#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The faults of the other tests here with encryption/crypt in the graph: of a server that is killed, of a replica set (kills, SIGSTOP, links, full disks, EIO, replaced
# bricks, mounts), of volumes that grow and shrink, and graph switches. What was acknowledged is there and opens, at each mount, whatever happened; the bricks are equal.
#
# Arguments are runs to do instead of all: TEST:RUNS. A sample, unless LONG=1: then eight times as many seeds, from $SEED on.
# limit: 1800 s, 14400 s with LONG=1
# calm: leases of a second and less, and a limit for each operation
FIRST=${SEED:-1} # the seeds of these tests are few, and known; a failure of one is repeated by it
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/../mount/runs.sh"
need_root
need_stack
need python3

# test, so many seeds
RUNS="
replicas 1
restart 1
grow 1
shrink 1
switch 1
"
LIMIT=$([ "$LONG" = 1 ] && echo 3600 || echo 700)

encrypted() { # TEST RUNS
	local runs=$(($2 * ($([ "$LONG" = 1 ] && echo 8 || echo 1))))
	case $1 in replicas | grow | shrink) ;; *) runs=1 ;; esac
	run_one "$1, encrypted" env CRYPT=1 LONG="$LONG" SEED="$FIRST" RUNS="$runs" "$TOP/tests/fault/$1.sh"
}

if [ $# -gt 0 ]; then
	for run; do encrypted "${run%%:*}" "$([[ $run == *:* ]] && echo "${run#*:}" || echo 1)"; done
else
	each_run encrypted
fi
runs_end
