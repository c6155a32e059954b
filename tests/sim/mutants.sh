#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Deliberate mistakes in the replicated stack must be found by the simulator: those of mutants.seeds, at least 20, and 10 in what is done over several
# subvolumes, by the seeds that found them before or, when these find nothing any more, within 400; LONG=1: every one within 2,000. A mistake that needs luck
# to show in a whole run is found by a unit test, which mutants.seeds names in place of a seed: it runs on the same translators.
# SIM_MUTANTS="A B": only these. SIM_RECORD=1: writes the seeds that found something to mutants.seeds.
# limit: 2400 s, 21600 s with LONG=1
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${STRATUS_BUILD:-$top/build/obj}
sim=$build/tests/sim/sim
jobs=${SIM_JOBS:-$(nproc)}
budget=${SIM_BUDGET:-$([ "${LONG:-0}" = 1 ] && echo 2000 || echo 400)}
all=$([ "${LONG:-0}" = 1 ] || [ -n "${SIM_MUTANTS-}${SIM_RECORD-}" ] && echo yes || echo no)
known=$top/tests/sim/mutants.seeds
export STRATUS_XLATOR_PATH=$build/tests/sim/xlators:$build/xlators

[ -x "$sim" ] || { echo "FAIL: no $sim: make check TESTS=, or set STRATUS_BUILD" >&2; exit 1; }
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
	trust-anchor | trust-record) more=(--subvolumes 0 --members 1 --only "power cut,power cut of all") ;;
	read-unproven | most-are-right | leave-lacking) more=(--subvolumes 0 --only "power cut of a set,power cut of all,power cut") ;;
	purge-blindly | forget-missed | take-unsynced) more=(--subvolumes 0 --grow --only "power cut of a set,power cut of all,power cut") ;;
	trust-settled | trust-steps | seek-no-name | lose-kept-name) more=(--subvolumes 0 --grow --only "power cut in a move") ;;
	cold-from-any) more=(--members 2 --wild --only "kill -9,power cut") ;;
	count-steps) more=(--subvolumes 0 --members 2 --wild) ;;
	refused-is-clean | refuse-heals | nobody-refuses | forget-the-others) more=(--limit) ;;
	believe-suspect | move-on-failed | one-rename-token) more=(--liar --faults 0) ;; # of tenants
	believe-length | scrub-for-liars) more=(--liar --faults 0) ;;
	forget-its-names) more=(--layout) ;; # else nobody says what names stand for
	esac
}

# by_test MUTANT TEST: the unit test fails with it, and passes without, on the same translators; the first complaint in $out
by_test() {
	local run=(timeout 300 env LD_PRELOAD="$build/tests/unit/.libs/mutant.so" STRATUS_XLATOR_PATH="$STRATUS_XLATOR_PATH:$build/tests/unit" "$build/tests/unit/$2")

	"${run[@]}" >/dev/null 2>&1 || { echo "$2 fails without $1, too" >&2; return 1; }
	! out=$(STRATUS_MUTANT=$1 "${run[@]}" 2>&1) || return 1
	out="$2: $(grep -m1 -e ' is .*, not ' -e 'FAILED' -e rror <<<"$out")"
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

find() { # MUTANT
	local before more seed

	faults "$1"
	before=$(sed -n "s/^$1 //p" "$known")
	case $before in
	*-test) by_test "$1" "$before" && return 0 ;;
	?*) within "$before" "$before" "$1" && return 0 ;;
	esac
	within 1 "$budget" "$1" || return 1
	[ -z "${SIM_RECORD-}" ] || record "$1" "$seed"
}

# search ENOUGH MUTANT...: all of them, or those whose seed is known, and so many that this proves something
search() {
	local enough=$1 mutant caught=0 missed=

	shift
	for mutant; do
		[ "$all" = yes ] || grep -q "^$mutant " "$known" || continue
		if find "$mutant"; then
			echo "$mutant: $out"
			caught=$((caught + 1))
		else
			echo "$mutant: NOT FOUND in $budget seeds"
			missed="$missed $mutant"
		fi
	done
	echo "$caught mutants found"
	[ "$caught" -ge "$enough" ] && { [ "$all" = no ] || [ -z "$missed" ]; } || { echo "FAIL: $caught found (at least $enough must be), and not:$missed"; status=1; }
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
