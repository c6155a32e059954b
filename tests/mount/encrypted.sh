#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What passes on a mount passes on an encrypted one, too: other tests of this directory with encryption/crypt in the graph, on one brick, on a replica set of three
# (whose bricks are equal afterwards), and spread over two bricks.
#
# Arguments are runs to do instead of all: TEST:SPREAD:REPLICA. With LONG=1 each is run in full, otherwise those without a mark, as a sample.
# limit: 1800 s, 14400 s with LONG=1
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
need_root
need_stack

# test, spread, replica; - : only with LONG=1. After it what a sample of the test is: variables, arguments.
RUNS="
  basics        1  1
  unprivileged  1  1
  two-mounts    1  1  MOUNTS_ROUNDS=25
  fsx           1  1  FSX_OPS=2000
  pjdfstest     1  1  rename link open truncate ftruncate symlink posix_fallocate
  programs      1  1  git sqlite_wal rsync build fio
  switch-under-load 1 1
  basics        1  3
- two-mounts    1  3
  fsx           1  3  FSX_OPS=1000
  programs      1  3  sqlite
- basics        2  1
  fsx           2  1  MOVING=500 FSX_OPS=1000
- pjdfstest     2  1  SCATTER=2
"
LIMIT=$([ "$LONG" = 1 ] && echo 3600 || echo 600)

encrypted() { # TEST SPREAD REPLICA [NAME=VALUE|ARGUMENT...]
	local test=$1 spread=$2 replica=$3
	shift 3
	MUST_SAY=$([ "$replica" = 1 ] || echo 'the bricks are equal')
	sample "$@"
	run_one "$test encrypted on $spread x $replica" env CRYPT=1 SPREAD="$spread" REPLICA="$replica" SEED="$SEED" "${VARIABLES[@]}" \
		"$TOP/tests/mount/$test.sh" "${ARGUMENTS[@]}"
}

if [ $# -gt 0 ]; then
	for run; do
		IFS=: read -r test spread replica <<<"$run"
		encrypted "$test" "${spread:-1}" "${replica:-1}"
	done
else
	each_run encrypted
fi
runs_end
