#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Deliberate mistakes in the replicated stack must be found: at least 20, and 10 in what is done over several subvolumes. mutants.seeds has what found each before: a
# seed of the simulator, or a unit test, TEST or TEST:PATTERN (of a mistake that needs luck to show in a whole run), on the same translators. Each of these is run with
# and without the mutant. One whose seed finds nothing any more (the code has changed, and so has the run) is looked for in seeds 1 to 30, and then told as not found;
# it is searched for within 400 only if there are too few else. LONG=1: within 2,000 seeds, those without a seed too, and every one must be found.
# SIM_MUTANTS="A B": only these, within 400 seeds. SIM_RECORD=1: searches as well, and writes what found something to mutants.seeds.
# limit: 1800 s, 21600 s with LONG=1
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "${STRATUS_BUILD:-$top/build/obj}")
sim=$build/tests/sim/sim
jobs=${SIM_JOBS:-$(nproc)}
budget=${SIM_BUDGET:-$([ "${LONG:-0}" = 1 ] && echo 2000 || echo 400)}
searches=$([ "${LONG:-0}" = 1 ] || [ -n "${SIM_MUTANTS-}${SIM_RECORD-}" ] && echo yes || echo no)
near=30
ends_within=300 # s: of a unit test
known=$top/tests/sim/mutants.seeds
export STRATUS_XLATOR_PATH=$build/tests/sim/xlators:$build/xlators

[ -x "$sim" ] || { echo "FAIL: no $sim: make check TESTS=, or set STRATUS_BUILD" >&2; exit 1; }
told=$(mktemp -d "${TMPDIR:-/var/tmp}/mutants.XXXXXX") # by mutant: what has found it
trap 'rm -rf "$told"' EXIT
replica=$("$sim" --list-mutants) spread=$("$sim" --subvolumes 0 --list-mutants)
[ -n "$replica" ] && [ -n "$spread" ] || { echo "FAIL: there are no mutants" >&2; exit 1; }

# faults MUTANT: which runs may show it, as arguments in $more
faults() {
	more=()
	! grep -qx -e "$1" <<<"$spread" || more=(--subvolumes 0)
	case $1 in
	no-log | move-whatever | keep-half-made) more=(--only "power cut of all and one again") ;; # plain seeds do that hardly ever
	say-latest | mark-any-version) more=(--subvolumes 0 --grow --members 1 --clients 6 --tasks 4 --ops 250 --faults 3 --only "held requests") ;;
	new-before-old | skip-old-owner | replace-at-new-owner | settle-early | settle-marked | accept-old-layout | thaw-early | stub-without-marks | lead-not-on | move-one-name | drop-once | free-anchors) more=(--subvolumes 0 --grow) ;;
	look-at-no-directories | leave-xattrs | say-old-home | keep-wide) more=(--subvolumes 0 --shrink) ;;
	name-unsynced-shard) more=(--subvolumes 0 --shrink --members 1 --only "power cut,power cut of all,held requests,client crash,kill -9") ;;
	trust-anchor | trust-record) more=(--subvolumes 0 --members 1 --only "power cut,power cut of all") ;;
	read-unproven | most-are-right | leave-lacking) more=(--subvolumes 0 --only "power cut of a set,power cut of all,power cut") ;;
	purge-blindly | forget-missed | take-unsynced) more=(--subvolumes 0 --grow --only "power cut of a set,power cut of all,power cut") ;;
	trust-settled | trust-steps | seek-no-name | lose-kept-name) more=(--subvolumes 0 --grow --only "power cut in a move") ;;
	cold-from-any | go-on-once) more=(--members 2 --wild --only "kill -9,power cut") ;;
	count-steps) more=(--subvolumes 0 --members 2 --wild) ;;
	refused-is-clean | refuse-heals | nobody-refuses | forget-the-others) more=(--limit) ;;
	own-limit-number) more=(--quotas) ;;
	believe-suspect | move-on-failed | one-rename-token) more=(--liar --faults 0) ;; # of tenants
	believe-length | scrub-for-liars) more=(--liar --faults 0) ;;
	forget-its-names) more=(--layout) ;; # else nobody says what names stand for
	esac
}

complaints=(-e ' is -*[0-9][0-9]*, not ' -e 'not so: ' -e '^\[  FAILED' -e 'Assertion')
# on_mutants TEST[:PATTERN] [NAME=VALUE...]: $run is what the pattern names of the unit test, on translators with their mutants
on_mutants() {
	local test=${1%%:*}

	run=(timeout $ends_within env -C "$told" TMPDIR="$told" LD_PRELOAD="$build/tests/unit/.libs/mutant.so" STRATUS_XLATOR_PATH="$STRATUS_XLATOR_PATH:$build/tests/unit" "${@:2}")
	[ "$test" = "$1" ] || run+=(STRATUS_TEST="${1#*:}")
	run+=("$build/tests/unit/$test")
}
# passes_without TEST: is tried once; what it says of that is kept, and how many seconds it took
passes_without() {
	local begun run

	on_mutants "$1"
	(
		flock 9
		begun=$SECONDS
		[ -s "$told/$1.without" ] || { "${run[@]}" >/dev/null 2>&1 && echo "yes $((SECONDS - begun))" || echo no; } >"$told/$1.without"
	) 9>"$told/$1.lock"
	grep -q yes "$told/$1.without"
}
# by_test MUTANT TEST: it fails with the mutant, and passes without; the first complaint in $out. What it does after that is not waited for. One that does not end with it has found it, too, if it
# ends at once without: within a tenth of the time that it is given.
by_test() {
	local log=$told/$1.log status=0 pid run

	passes_without "$2" || { echo "$2 fails without $1, too" >&2; return 1; }
	: >"$log"
	on_mutants "$2" STRATUS_MUTANT="$1"
	"${run[@]}" >"$log" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null && ! grep -q "${complaints[@]}" "$log"; do sleep 0.1; done
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null || status=$?
	out="$2: $(grep -m1 "${complaints[@]}" "$log")" && return
	if [ "$status" = 124 ]; then
		out="$2: has not ended after $ends_within s, and does so within $(sed 's/yes //' "$told/$2.without") s without $1"
		[ "$(sed 's/yes //' "$told/$2.without")" -le $((ends_within / 10)) ]
	else
		[ "$status" -ge 128 ]
	fi
}

# within FROM TO MUTANT: a seed that fails with it and passes without; its line in $out. A seed that fails anyway finds nothing.
within() {
	local from=$1 to=$2

	while [ "$from" -le "$to" ] && out=$("$sim" --mutant "$3" "${more[@]}" --expect-failure --seeds "$from-$to" --jobs "$jobs"); do
		out=$(printf '%s\n' "$out" | grep -m1 '^seed ')
		seed=${out#seed } seed=${seed%%:*}
		"$sim" --seed "$seed" "${more[@]}" --quiet >/dev/null 2>&1 && return 0
		from=$((seed + 1))
	done
	return 1
}

record() { # MUTANT SEED
	{ grep -v "^$1 " "$known"; echo "$1 $2"; } | LC_ALL=C sort >"$known.new" && mv "$known.new" "$known"
}
known_of() { sed -n "s/^$1 //p" "$known"; }

# as_before MUTANT: what found it before does so again, or a seed that is soon tried
as_before() {
	local before more seed jobs=1

	before=$(known_of "$1")
	faults "$1"
	case $before in
	*-test | *-test:*) by_test "$1" "$before" ;;
	?*) within "$before" "$before" "$1" || within 1 $near "$1" ;;
	*) false ;;
	esac || return
	echo "$out" >"$told/$1"
	[ -z "${seed-}" ] || echo "$seed" >"$told/$1.seed"
}
# all_as_before MUTANT...: twice as many at once as there are jobs, as unit tests wait most of the time
all_as_before() {
	local mutant

	for mutant; do
		while [ "$(jobs -pr | wc -l)" -ge $((2 * jobs)) ]; do wait -n; done
		as_before "$mutant" &
	done
	wait
}
# sought MUTANT: within the budget
sought() {
	local more seed out

	faults "$1"
	within 1 "$budget" "$1" || return 1
	echo "$out" >"$told/$1"
	echo "$seed" >"$told/$1.seed"
}

found() { # MUTANT...: how many of them
	local mutant count=0

	for mutant; do [ ! -e "$told/$mutant" ] || count=$((count + 1)); done
	echo $count
}
# search ENOUGH MUTANT...: so many of them must be found that this proves something
search() {
	local enough=$1 mutant missed=

	shift
	all_as_before "$@"
	for mutant; do
		if [ -e "$told/$mutant" ]; then
			:
		elif [ "$searches" = yes ] || { [ -n "$(known_of "$mutant")" ] && [ "$(found "$@")" -lt "$enough" ]; }; then
			sought "$mutant" || missed="$missed $mutant"
		fi
	done
	for mutant; do
		if [ -e "$told/$mutant" ]; then
			echo "$mutant: $(cat "$told/$mutant")"
			[ -z "${SIM_RECORD-}" ] || [ ! -e "$told/$mutant.seed" ] || record "$mutant" "$(cat "$told/$mutant.seed")"
		elif [ -n "$(known_of "$mutant")" ] || [ "$searches" = yes ]; then
			echo "$mutant: NOT FOUND $([ "$searches" = yes ] && echo "in $budget seeds" || echo "by what found it before ($(known_of "$mutant")), nor within $near seeds; LONG=1 searches")"
		fi
	done
	echo "$(found "$@") mutants found"
	[ "$(found "$@")" -ge "$enough" ] && { [ "$searches" = no ] || [ -z "$missed" ]; } ||
		{ echo "FAIL: $(found "$@") found (at least $enough must be), and not:$missed"; status=1; }
}

status=0
# shellcheck disable=SC2086
if [ -n "${SIM_MUTANTS-}" ]; then
	search 1 $SIM_MUTANTS
else
	search 10 $spread
	search 20 $replica
fi
exit $status
