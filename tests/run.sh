#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests one after the other, each with a time limit, and counts:  tests/run.sh RESULTS [--in BUILDDIR] TEST...
# A TEST is a cmocka program (its cases are counted) or a script (exit status 0 passed, 77 skipped). The counts are added to the
# file RESULTS as lines "passed failed skipped"; `tests/run.sh RESULTS --summary` prints the closing line and judges.
set -u
results=$1
shift
limit=${TEST_LIMIT:-900}

if [ "${1-}" = --summary ]; then
	passed=0 failed=0 skipped=0
	while read -r p f s; do passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)); done <"$results"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
	exit
fi
label=
if [ "${1-}" = --in ]; then
	label="$(basename "$2"): "
	cd "$2" || exit 2
	shift 2
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for test; do
	begin=$SECONDS
	case $test in */*) ;; *) test=./$test ;; esac
	timeout -k 60 "$limit" "$test" >"$log" 2>&1 </dev/null
	status=$?
	ok=$(grep -c '^\[       OK \]' "$log")
	bad=$(grep '^\[  FAILED  \]' "$log" | grep -cv 'test(s), listed below')
	skip=$(grep -c '^\[  SKIPPED \]' "$log")
	if [ $status -eq 77 ]; then
		ok=0 bad=0 skip=1 word=SKIP
	elif [ $status -eq 0 ]; then
		[ $((ok + skip)) -gt 0 ] || ok=1
		word=PASS
	else
		word=FAIL
		[ $status -eq 124 ] && echo "FAIL $label$test: not done within $limit s"
		bad=$((bad > 1 ? (bad + 1) / 2 : 1)) # cmocka names each failed case twice
		{ grep -m 3 ': FAILED: ' "$log"; tail -n 60 "$log"; } | sed 's/^/    /' # the reason comes before the logs
	fi
	[ "$word" = SKIP ] && reason=" ($(tail -n 1 "$log"))" || reason=
	echo "$word $label$test$reason ($((SECONDS - begin)) s)"
	echo "$ok $bad $skip" >>"$results"
done
exit 0
