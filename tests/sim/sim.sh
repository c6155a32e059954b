#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The replicated stack in the simulator (sim.md): 2,000 seeds, 100,000 with LONG=1 (SIM_SEEDS=FROM-TO: these instead); and 180 on the real storage/posix, 5,060.
# "One after the other": 150 seeds of three members and three more that once failed, and 100 of sets as seeds have them; each 10,000 with LONG=1.
# Disks that lose what they took: 400 seeds, 20,000 with LONG=1.
# Several subvolumes, half of them growing: 1,000 seeds, 100 with faults at any time, 500 with power cuts, and 40, with LONG=1 50,000 and 2,000 (SIM_SPREAD=FROM-TO).
# One of them leaving: 150 seeds, and 50 with faults at any time; with LONG=1 10,000 and 2,000, and 3,000 with power cuts, of which some don't end.
# limit: 5400 s, 36000 s with LONG=1
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${STRATUS_BUILD:-$top/build/obj}
sim=$build/tests/sim/sim
jobs=${SIM_JOBS:-$(nproc)}
if [ "${LONG:-0}" = 1 ]; then seeds=1-100000 real=1-5000 spread=1-50000 spread_real=1-2000 limited=1-5000 leaves=1-10000 leaves_wild=1-2000 three=1-10000 turns=1-10000 lost=1-10000; else seeds=1-2000 real=1-120 spread=1-1000 spread_real=1-40 limited=1-120 leaves=1-150 leaves_wild=1-50 three=1-150 turns=1-100 lost=1-200; fi
seeds=${SIM_SEEDS:-$seeds} spread=${SIM_SPREAD:-$spread}
export STRATUS_XLATOR_PATH=$build/tests/sim/xlators:$build/xlators

[ -x "$sim" ] || { echo "FAIL: no $sim: make check TESTS=, or set STRATUS_BUILD" >&2; exit 1; }

# run WHAT ARGS...: prints the last line; all of them are in $out
run() {
	local what=$1
	shift
	if out=$("$sim" --jobs "$jobs" "$@"); then
		echo "$what: ${out##*$'\n'}"
	else
		printf '%s\n' "$out"
		echo "FAIL: $what; to see it: $sim${stack:+ --stack $stack} --seed N"
		exit 1
	fi
}

# few LIMIT WHAT ARGS...: the same where not all seeds pass yet; no more may fail than this share of a thousand
few() {
	local limit=$1 what=$2 line runs failed status=0
	shift 2
	out=$("$sim" --jobs "$jobs" --keep-going "$@") || status=$?
	line=${out##*$'\n'}
	runs=$(sed -n 's/^\([0-9]*\) runs.*/\1/p' <<<"$line") failed=$(sed -n 's/.* \([0-9]*\) failed.*/\1/p' <<<"$line")
	[ "$status" -le 1 ] && [ "${runs:-0}" -gt 0 ] && [ -n "$failed" ] || { printf '%s\n' "$out"; echo "FAIL: the simulator broke off"; exit 1; }
	sed -n '/^seed /p' <<<"$out"
	echo "$what: $line"
	[ $((failed * 1000)) -le $((limit * runs)) ] || { echo "FAIL: $failed of $runs seeds; to see one: $sim $* --seed N"; exit 1; }
}

# The simulator itself: the same seed is the same run; one brick, whose history must be good; bad replication must be found out.
stack=single
run "one brick" --stack single --seeds 1-200
run "replays" --stack single --seeds 1-20 --twice
stack=naive
run "bad replication is found" --stack naive --faults 0 --seeds 1-10 --expect-failure
grep -q 'not linearizable\|bricks .* differ' <<<"$out" || { printf '%s\n' "$out"; echo "FAIL: bad replication fails, but for another reason"; exit 1; }
stack=
run "replays" --seeds 1-20 --twice
# on whatever file system the members' files are: each lists them in another order
cuts=(--quiet --subvolumes 0 --only "power cut of a set,power cut of all,power cut")
for seed in 304 316 320 353; do
	here=$("$sim" --seed $seed "${cuts[@]}" || :) there=$("$sim" --seed $seed "${cuts[@]}" --scratch "${TMPDIR:-/var/tmp}" || :)
	[ "$here" = "$there" ] || { printf '%s\n' "$here" "$there"; echo "FAIL: seed $seed is another run on another file system"; exit 1; }
done
run "power cuts of all, and of one again" --only "power cut of all and one again" --seeds 1-100
run "ends in good order" --only "end in good order,kill -9,coordinator crash,late messages" --seeds 1-100
run "one after the other" --members 3 --gentle --only "one after the other" --ops 120 --seeds "$three"
for seed in 1764 1962 6014; do # which lost names once, as did 199
	run "one after the other" --members 3 --gentle --only "one after the other" --ops 120 --seeds $seed-$seed
done
run "one after the other, sets of all sizes" --only "one after the other" --seeds "$turns"
run "a limit: replays" --limit --seeds 1-10 --twice
run "a limit" --limit --seeds "$limited"
run "limits of directories: replays" --quotas --seeds 1-5 --twice
run "limits of directories" --quotas --seeds "$limited"
for seed in 248 3150; do # a disk failed in a look, and what that left was counted once more, or too little was
	run "limits of directories, a disk that does not tell" --quotas --seeds $seed-$seed
done
run "a limit, a disk that does not tell" --limit --seeds 2901-2901
run "a limit, a first that refused and left" --limit --seeds 418-418
run "a limit, a gfid that was in use" --limit --seeds 523-523
run "a limit, a disk that failed when it was told what it lacks" --limit --seeds 341-341
for seed in 16983 69453; do # which were not linearizable once, of 100,000
	run "as they come" --seeds $seed-$seed
done
run "clients that give no token back" --mutant bear-no-release --seeds 1-60

# Disks that lose what they took, and tell it once: so all that has a name is healed in the end.
run "a disk's losses: replays" --losses --seeds 1-5 --twice
run "a disk's losses" --losses --seeds "$lost"
run "a disk's losses, and crashes" --losses --only "lost writes,power cut,kill -9,coordinator crash" --seeds "$lost"
run "a disk's losses that are healed by what is in memory" --losses --mutant heal-by-memory --expect-failure --seeds 1-100

# Tenants, whose word moves nobody; and one of them lies.
run "tenants" --tenants --seeds 1-100
run "a client that lies, and nothing else" --liar --faults 0 --seeds 1-60
run "a client that lies" --liar --seeds 1-80

# Several subvolumes below cluster/dht, and what is tested must have happened.
run "subvolumes: replays" --subvolumes 0 --seeds 1-20 --twice
run "subvolumes" --subvolumes 0 --seeds "$spread"
for what in "pointers made" "of files made away" "ended by sweeps" "renames across decided" "volumes that grew" "names moved" "rebalancers killed"; do
	! grep -q "[ (]0 $what" <<<"$out" && grep -q "$what" <<<"$out" || { echo "FAIL: no $what in all these seeds: they prove nothing"; exit 1; }
done
for mutant in bear-home-last bear-make-moving-at-source; do
	run "volumes that grow, $mutant" --subvolumes 0 --grow --mutant "$mutant" --seeds 1-30
done
run "a subvolume leaves" --subvolumes 0 --shrink --seeds "$leaves"
for what in "subvolumes that left" "names moved" "rebalancers killed"; do
	! grep -q "[ (]0 $what" <<<"$out" && grep -q "$what" <<<"$out" || { echo "FAIL: no $what in all these seeds: they prove nothing"; exit 1; }
done
run "a subvolume leaves, with a directory that has no name yet" --subvolumes 0 --shrink --seeds 703-703
run "a subvolume leaves, and was the first that is asked of a mode" --subvolumes 0 --shrink --seeds 853-853
run "a subvolume gets another weight" --subvolumes 0 --weigh --seeds 1-60
run "a subvolume leaves: replays" --subvolumes 0 --shrink --seeds 1-10 --twice
run "a subvolume leaves, at any time" --subvolumes 0 --shrink --members 2 --wild --seeds "$leaves_wild"
run "subvolumes, at any time" --subvolumes 0 --members 2 --wild --seeds 1-100
run "subvolumes, power cuts" --subvolumes 0 --members 1 --only "power cut,power cut of all,held requests,client crash,kill -9" --seeds 1-300
sets=(--subvolumes 0 --only "power cut of a set,power cut of all,power cut")
[ "${LONG:-0}" != 1 ] || few 20 "a subvolume leaves, power cuts" --subvolumes 0 --shrink --members 1 --only "power cut,power cut of all,held requests,client crash,kill -9" --seeds 1-3000
if [ "${LONG:-0}" = 1 ]; then few 1 "subvolumes, power cuts of sets" "${sets[@]}" --seeds 1-20000; else run "subvolumes, power cuts of sets" "${sets[@]}" --seeds 1-200; fi
run "subvolumes, a first that leaves while a scrub is owed" "${sets[@]}" --grow --seeds 2040-2040
# whoever could find that a list lacked something looks, and dies if it did (R12)
run "subvolumes, lists tell of all directories" --mutant bear-walk "${sets[@]}" --seeds 301-360
run "subvolumes, a first that leaves after that" "${sets[@]}" --grow --seeds 2509-2509
run "subvolumes, members that lack a directory" "${sets[@]}" --seeds 1208-1208
run "subvolumes, members that lack a directory" "${sets[@]}" --grow --seeds 2133-2133
run "subvolumes, a kept name that the power took" --subvolumes 0 --grow --only "power cut in a move" --seeds 181-181
run "subvolumes, power cuts while files come home" --subvolumes 0 --grow --only "power cut in a move" --seeds 1-100

# On the real storage/posix, which needs root, and here a tmpfs of its own.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	run "storage/posix replays" --leaf posix --seeds 1-15 --twice
	run "storage/posix" --leaf posix --seeds "$real"
	run "storage/posix, two members" --leaf posix --members 2 --wild --seeds 1-60
	run "storage/posix, subvolumes" --leaf posix --subvolumes 0 --seeds "$spread_real"
else
	echo "storage/posix: left out, it needs root"
fi

# doc/check-long.md has what is known of the seeds that don't pass; which ones changes with the code. The shares only ever go down.
few 1 "cold starts" --members 2 --wild --only "kill -9,power cut" --seeds 1-400
few 1 "link counts" --layout --seeds 1-200
few "${SIM_LIMIT:-1}" "replicas" --seeds "$seeds"
