# SPDX-License-Identifier: Apache-2.0
# Sourced, after lib.sh, by tests that run other tests: each counts as a property of its own.
#
#   run_one NAME COMMAND...  prints the lines that tests/run.sh counts; at most $LIMIT seconds
#   each_run COMMAND...      COMMAND with the words of each line of $RUNS; with those that follow a "-" only if LONG=1
#   sample WORD...           the NAME=VALUE among them go to VARIABLES, the others to ARGUMENTS; neither with LONG=1, which runs all, but for how the volume is spread
#   runs_end                 the summary and the exit status
#
# MUST_SAY: what the output of a test must have, or it has failed; may be empty.

[ "$LONG" = 1 ] || export FEW_NAMES=1 # of basics.sh, which takes half a minute of processor time else, and is among most of these
passed=0 failed=0 skipped=0
FAILED=() MUST_SAY=

_why_not() { # STATUS OUTPUT
	if [ "$1" -ne 0 ]; then echo "status $1"; elif [ -n "$MUST_SAY" ] && ! grep -q -- "$MUST_SAY" "$2"; then echo "it does not say that $MUST_SAY"; fi
}
run_one() {
	local name=$1 begin=$SECONDS status=0 output why
	output=$(mktemp)
	shift
	timeout --foreground -k 60 "$LIMIT" "$@" >"$output" 2>&1 </dev/null || status=$?
	why=$(_why_not "$status" "$output")
	if [ "$status" -eq 77 ] && [ "${MUST_RUN:-0}" != 1 ]; then
		skipped=$((skipped + 1))
		printf '[  SKIPPED ] %s: %s\n' "$name" "$(tail -n 1 "$output")"
	elif [ -z "$why" ]; then
		passed=$((passed + 1))
		printf '[       OK ] %s (%s s)\n' "$name" "$((SECONDS - begin))"
	else
		failed=$((failed + 1))
		tail -n 60 "$output" | sed 's/^/    /'
		printf '[  FAILED  ] %s (%s)\n' "$name" "$why"
		FAILED+=("$name")
	fi
	rm -f "$output"
}
each_run() {
	local mark words
	while read -r mark words; do
		[ -n "$mark" ] || continue
		[ "$mark" = - ] || words="$mark $words"
		# shellcheck disable=SC2086
		[ "$mark" = - ] && [ "$LONG" != 1 ] || "$@" $words
	done <<<"$RUNS"
}
sample() {
	local word
	VARIABLES=() ARGUMENTS=()
	for word; do
		case $word in SCATTER=* | MOVING=* | SHUFFLING=*) ;; *) [ "$LONG" != 1 ] || continue ;; esac
		case $word in *=*) VARIABLES+=("$word") ;; *) ARGUMENTS+=("$word") ;; esac
	done
}
runs_end() {
	local name
	for name in "${FAILED[@]}"; do printf '[  FAILED  ] %s\n' "$name"; done # twice each, as cmocka does
	say "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] || exit 1
	[ "$passed" -gt 0 ] || exit 77
}
