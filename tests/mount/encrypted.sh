#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What passes on a mount passes on an encrypted one, too: other tests of this directory with encryption/crypt in the graph, on one brick, on a replica set of three
# (whose bricks are equal afterwards), and spread over two bricks.
#
# Arguments are runs to do instead of all: TEST:SPREAD:REPLICA. With LONG=1 each is run in full.
# limit: 1800 s, 14400 s with LONG=1
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
need_root
need_stack

# test, spread, replica. After it what a sample of the test is: variables, arguments.
RUNS="
basics        1  1
unprivileged  1  1
two-mounts    1  1  MOUNTS_ROUNDS=50
fsx           1  1  FSX_OPS=2000
pjdfstest     1  1  rename link unlink open truncate ftruncate symlink mkdir chmod posix_fallocate
programs      1  1  git sqlite sqlite_wal rsync build fio two_mounts
switch-under-load 1 1
basics        1  3
two-mounts    1  3  MOUNTS_ROUNDS=50
fsx           1  3  FSX_OPS=1000
programs      1  3  git sqlite
basics        2  1
fsx           2  1  MOVING=500 FSX_OPS=1000
pjdfstest     2  1  SCATTER=2 rename link
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
	while read -r words; do
		# shellcheck disable=SC2086
		[ -z "$words" ] || encrypted $words
	done <<<"$RUNS"
fi
runs_end
