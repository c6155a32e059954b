#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On a replica set a mount behaves as on one brick, with all members and with one that is dead, and the bricks are equal afterwards.
#
# Runs other tests of this directory with a stack of two bricks, three, or two and an arbiter (3a); each of them compares the bricks when
# it ends. Arguments are runs to do instead of all: TEST:REPLICA:DOWN, where DOWN is 1 for one member that is killed before the test. With
# LONG=1 each test is run in full with each stack that it has here, otherwise those marked + are, as a sample.
# limit: 900 s, 36000 s with LONG=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack

# test, replica, one down; + : also without LONG=1. After it what a sample of the test is: variables, arguments.
RUNS="
+ basics      3  0
+ basics      3  1
+ basics      2  0
+ basics      3a 0
+ two-mounts  3  0
+ two-mounts  3  1
+ two-mounts  2  0
+ two-mounts  3a 0
+ fsx         3  0  FSX_OPS=3000
+ fsx         3  1  FSX_OPS=2000
+ fsx         2  0  FSX_OPS=1000
+ fsx         3a 0  FSX_OPS=1000
+ pjdfstest   3  0  rename link unlink
- pjdfstest   3  1
- pjdfstest   2  0
- pjdfstest   3a 0
+ programs    3  0  git sqlite build two_mounts
+ programs    3  1  sqlite_wal rsync
- programs    2  0
- programs    3a 0
"
LIMIT=$([ "$LONG" = 1 ] && echo 3600 || echo 300)
OUTPUT=$(mktemp)
trap 'rm -f "$OUTPUT"' EXIT

passed=0 failed=0 skipped=0
one() { # TEST REPLICA DOWN [NAME=VALUE|ARGUMENT...]: prints the lines that tests/run.sh counts
	local test=$1 replica=$2 down=$3 begin=$SECONDS status=0 word
	local name="$test of $replica" variables=() arguments=()
	[ "$down" != 1 ] || name="$name with one down"
	shift 3
	for word; do
		[ "$LONG" != 1 ] || break
		case $word in *=*) variables+=("$word") ;; *) arguments+=("$word") ;; esac
	done
	env REPLICA="$replica" ONE_DOWN="$down" SEED="$SEED" "${variables[@]}" timeout --foreground -k 60 "$LIMIT" "$TOP/tests/mount/$test.sh" \
		"${arguments[@]}" >"$OUTPUT" 2>&1 </dev/null || status=$?
	if [ "$status" -eq 77 ] && [ "${MUST_RUN:-0}" != 1 ]; then
		skipped=$((skipped + 1))
		printf '[  SKIPPED ] %s: %s\n' "$name" "$(tail -n 1 "$OUTPUT")"
	elif [ "$status" -eq 0 ] && grep -q 'the bricks are equal' "$OUTPUT"; then
		passed=$((passed + 1))
		printf '[       OK ] %s (%s s)\n' "$name" "$((SECONDS - begin))"
	else
		failed=$((failed + 1))
		tail -n 60 "$OUTPUT" | sed 's/^/    /'
		printf '[  FAILED  ] %s (status %s%s)\n' "$name" "$status" "$([ "$status" -ne 0 ] || echo ', the bricks were not compared')"
		FAILED+=("$name")
	fi
}
FAILED=()

if [ $# -gt 0 ]; then
	for run; do
		IFS=: read -r test replica down <<<"$run"
		one "$test" "$replica" "${down:-0}"
	done
else
	while read -r mark words; do
		[ -n "$mark" ] || continue
		[ "$mark" = + ] || [ "$LONG" = 1 ] || continue
		# shellcheck disable=SC2086
		one $words
	done <<<"$RUNS"
fi
for name in "${FAILED[@]}"; do printf '[  FAILED  ] %s\n' "$name"; done # twice each, as cmocka does
say "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
