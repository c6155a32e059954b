#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests one after the other, or JOBS at once, each with a time limit, and counts:
#   tests/run.sh RESULTS [--in BUILDDIR] [--label WORD] [--jobs JOBS] [--own-network] TEST...
# With --own-network each has a loopback of its own, so that no port is taken by the test beside it (where that can't be, JOBS is 1). A
# script with a line "# calm: REASON" among its first 20 comes after those without, so that nobody computes beside it who does not give way to all; one with "# alone: REASON" has the machine to itself, and comes last.
#
# A TEST is a cmocka program (its cases are counted) or a script (exit status 0 passed, 77 skipped). The counts are added to the
# file RESULTS as lines "passed failed skipped", and what failed to RESULTS.failed with the reason; `tests/run.sh RESULTS --summary` prints
# these and the closing line, and judges.
#
# The limit of a script is that of its line "# limit: 900 s, 7200 s with LONG=1", else 900 s, or 7200 s with LONG=1; $TEST_LIMIT is one for
# all. After $CHECK_DEADLINE (seconds since 1970) all that is left fails. With MUST_RUN=1 a test that is skipped has failed, but for
# those of MAY_SKIP.
set -u
results=$1
shift

# What can't run in some builds: libraft and libuv are not built for ThreadSanitizer, nor is the heal test made for it.
MAY_SKIP="
tsan: tests/unit/heal-test
tsan: tests/unit/store-raft-test
tsan: tests/unit/store-strangers-test
"

if [ "${1-}" = --summary ]; then
	passed=0 failed=0 skipped=0
	while read -r p f s; do passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)); done <"$results"
	if [ -s "$results.failed" ]; then # once more, where it is found
		echo "Failed:"
		cat "$results.failed"
	fi
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
if [ "${1-}" = --label ]; then # before the names of the tests
	label="$2: "
	shift 2
fi
jobs=1
if [ "${1-}" = --jobs ]; then
	jobs=$2
	shift 2
fi
network=()
if [ "${1-}" = --own-network ]; then
	shift
	# Each becomes the next, so the test keeps its place in the group.
	network=(unshare --net -- sh -c 'ip link set lo up && exec "$0"')
	"${network[@]}" true 2>/dev/null || network=() jobs=1
fi
[ $# -gt 0 ] || { echo "run.sh: no test is named" >&2; exit 2; }

# limit_of TEST: in seconds
limit_of() {
	local long=${LONG:-0} own=
	[ -z "${TEST_LIMIT-}" ] || { echo "$TEST_LIMIT"; return; }
	case $1 in *.sh) own=$(sed -n '1,20s/^# limit: \([0-9]*\) s\(, \([0-9]*\) s with LONG=1\)\{0,1\}$/\1 \3/p' "$1") ;; esac
	set -- $own
	if [ "$long" = 1 ]; then echo "${2:-7200}"; else echo "${1:-900}"; fi
}
# says TEST WORD: it has a line "# WORD: REASON"
says() { case $1 in *.sh) grep -q "^# $2: " <(sed -n 1,20p "$1") ;; *) return 1 ;; esac; }
may_skip() { [ "${MUST_RUN:-0}" != 1 ] || grep -qxF -- "$1" <<<"$MAY_SKIP"; }

logs=$(mktemp -d)
running=
end_running() {
	[ -z "$running" ] || kill $running 2>/dev/null
	wait
	exit 143
}
trap 'rm -rf "$logs"' EXIT
trap 'running=$(jobs -pr); end_running' TERM INT HUP # of those that have ended others may have the numbers

# The seconds that TEST has; nothing if there is no time left.
time_for() {
	local limit left
	limit=$(limit_of "$1")
	left=$((${CHECK_DEADLINE:-$(($(date +%s) + limit))} - $(date +%s)))
	[ "$left" -le 0 ] || echo $((left < limit ? left : limit))
}

# failure TEST STATUS LIMIT LOG: the reason comes before the logs
failure() {
	[ "$2" -eq 124 ] && echo "FAIL $label$1: not done within $3 s"
	[ "$2" -eq 77 ] && echo "FAIL $label$1: it must run here, but is skipped"
	{ grep -a -m 3 ': FAILED: ' "$4"; tail -n 60 "$4"; } | sed 's/^/    /'
	{ echo "$label$1: status $2$([ "$2" -ne 124 ] || echo ", not done within $3 s")"; reason "$4" | cut -c 1-1000 | sed 's/^/    /'; } >>"$results.failed"
}

# reason LOG: what of it tells why a test has failed, in less than a hundred lines. Of a script that says so itself (tests/mount/lib.sh) all that it says, which comes at the end, and before it
# the last lines of the logs that it shows. Of a program what is wrong and where.
reason() {
	if grep -aq ': FAILED: ' "$1"; then
		awk '/: FAILED: / { text = ""; n = 0 } ++n <= 40 { text = text $0 "\n" } END { printf "%s", text }' "$1"
		awk '/: FAILED: / && any { exit } /: FAILED: / { any = 1 }
			/^--- / && any { ends() ; name = $0; next } name != "" { line[++n] = $0 }
			function ends(  i) { if (name != "" && printed < 48) { print name; printed++; for (i = n > 6 ? n - 5 : 1; i <= n; i++) { print line[i]; printed++ } } n = 0; name = "" }
			END { ends() }' "$1"
	elif ! grep -a -m 40 -E '^\[  FAILED  \]|^\[  ERROR   \]|^\[   LINE   \]|not so: |[a-z]+ is -?[0-9]+, not | repeats that|ERROR: |WARNING: ThreadSanitizer|^SUMMARY: ' "$1"; then
		tail -n 20 "$1"
	fi
}

# CPU_SECONDS: processor time of all that this shell has waited for, and that has itself. No command substitution: in that it would be the subshell's.
count_cpu() {
	local file=$logs/times.$BASHPID
	times >"$file"
	CPU_SECONDS=$(awk -F '[ms ]+' 'END { printf "%.0f", 60 * ($1 + $3) + $2 + $4 }' "$file")
}

run_test() { # TEST LOG
	local test=$1 log=$2 begin=$SECONDS limit status ok bad skip word reason= place= cpu
	count_cpu
	cpu=$CPU_SECONDS
	limit=$(time_for "$test")
	if [ -z "$limit" ]; then
		echo "FAIL $label$test: no time left"
		echo "0 1 0" >>"$results" && : >"$log.counted"
		echo "$label$test: no time left" >>"$results.failed"
		return
	fi
	case $test in *.sh) ;; *) place=$(mktemp -d /var/tmp/unit-XXXXXX) ;; esac # scripts clear up, whatever ends them
	# In a group of its own, to which timeout sends its signals; whoever ends this script ends it, too.
	env --default-signal ${place:+TMPDIR="$place"} timeout -k 60 "$limit" "${network[@]}" "$test" >"$log" 2>&1 </dev/null &
	running=$!
	wait "$running"
	status=$?
	running=
	[ -z "$place" ] || rm -rf --one-file-system "$place"
	ok=$(grep -c '^\[       OK \]' "$log")
	bad=$(grep '^\[  FAILED  \]' "$log" | grep -cv 'test(s), listed below')
	skip=$(grep -c '^\[  SKIPPED \]' "$log")
	if [ $status -eq 77 ] && may_skip "$label$test"; then
		ok=0 bad=0 skip=1 word=SKIP reason=" ($(tail -n 1 "$log"))"
	elif [ $status -eq 0 ]; then
		case $test in *.sh) [ "$ok" -gt 0 ] || ok=1 ;; *) [ $((ok + skip)) -gt 0 ] || ok=1 ;; esac
		word=PASS
	else
		word=FAIL
		bad=$((bad > 1 ? (bad + 1) / 2 : 1)) # cmocka names each failed case twice
		failure "$test" "$status" "$limit" "$log"
	fi
	count_cpu
	echo "$word $label$test$reason ($((SECONDS - begin)) s, $((CPU_SECONDS - cpu)) s of processor time)"
	echo "$ok $bad $skip" >>"$results" && : >"$log.counted"
}

# What each prints comes in one piece.
run_beside() { # TEST LOG
	trap - EXIT # a trap of the main shell; the others are not inherited
	trap end_running TERM INT HUP
	running=
	run_test "$@" >"$2.out" 2>&1
	cat "$2.out"
}

n=0
start() { # TEST: at once if it is one of several, else until it ends
	local test=$1
	case $test in */*) ;; *) test=./$test ;; esac
	n=$((n + 1))
	if [ "$jobs" = 1 ]; then
		run_test "$test" "$logs/$n"
		return
	fi
	while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do wait -n; done
	run_beside "$test" "$logs/$n" &
}
calm=() alone=()
for test; do
	if [ "$jobs" -gt 1 ] && says "$test" calm; then
		calm+=("$test")
	elif [ "$jobs" -gt 1 ] && says "$test" alone; then
		alone+=("$test")
	else
		start "$test"
	fi
done
wait
for test in "${calm[@]}"; do start "$test"; done
wait
jobs=1
for test in "${alone[@]}"; do start "$test"; done
for ((i = 1; i <= n; i++)); do # a disk may have been full, or a shell killed: who sums up would not miss it
	[ -e "$logs/$i.counted" ] || { echo "run.sh: not all results are in $results" >&2; exit 1; }
done
exit 0
