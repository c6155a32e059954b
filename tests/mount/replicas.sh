#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On a replica set a mount behaves as on one brick, with all members and with one that is dead, and the bricks are equal afterwards.
#
# Runs other tests of this directory with a stack of two bricks, three, or two and an arbiter (3a); each of them compares the bricks when
# it ends. Arguments are runs to do instead of all: TEST:REPLICA:DOWN, where DOWN is 1 for one member that is killed before the test. With
# LONG=1 each test is run in full with each stack that it has here, otherwise those without a mark, as a sample.
# limit: 1800 s, 36000 s with LONG=1
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
need_root
need_stack

# test, replica, one down; - : only with LONG=1. After it what a sample of the test is: variables, arguments.
RUNS="
  basics      3  0
  basics      3  1
- basics      2  0
  basics      3a 0
  two-mounts  3  0  MOUNTS_ROUNDS=50
- two-mounts  3  1
  two-mounts  2  0  MOUNTS_ROUNDS=25
- two-mounts  3a 0
  fsx         3  0  FSX_OPS=2000
  fsx         3  1  FSX_OPS=1000
- fsx         2  0
  fsx         3a 0  FSX_OPS=1000
  pjdfstest   3  0  rename link unlink
- pjdfstest   3  1
- pjdfstest   2  0
- pjdfstest   3a 0
  programs    3  0  git sqlite build two_mounts
  programs    3  1  sqlite_wal
- programs    2  0
- programs    3a 0
"
LIMIT=$([ "$LONG" = 1 ] && echo 3600 || echo 600)
MUST_SAY='the bricks are equal'

one() { # TEST REPLICA DOWN [NAME=VALUE|ARGUMENT...]
	local test=$1 replica=$2 down=$3 name="$1 of $2"
	[ "$down" != 1 ] || name="$name with one down"
	shift 3
	sample "$@"
	run_one "$name" env REPLICA="$replica" ONE_DOWN="$down" SEED="$SEED" "${VARIABLES[@]}" "$TOP/tests/mount/$test.sh" "${ARGUMENTS[@]}"
}

if [ $# -gt 0 ]; then
	for run; do
		IFS=: read -r test replica down <<<"$run"
		one "$test" "$replica" "${down:-0}"
	done
else
	each_run one
fi
runs_end
