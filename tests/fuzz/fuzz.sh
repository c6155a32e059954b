#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each fuzzer on its corpus, then on what it makes of it: a stated number of runs, more with LONG=1. FUZZ_SEED changes the seed.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${STRATUS_FUZZ:-$top/build/asan}
seed=${FUZZ_SEED:-1}
kinds="volfile wire stream spec crypt"
! grep -q '^RAFT_LIBS = .' "$build/Makefile" || kinds+=" raft" # else libraft was not there
if [ "${LONG:-0}" = 1 ]; then runs=5000000 seconds=300; else runs=100000 seconds=12; fi

command -v clang-14 >/dev/null || command -v clang >/dev/null || { echo "clang is not here: libFuzzer is part of it"; exit 77; }
for kind in $kinds; do
	[ -x "$build/tests/fuzz/$kind-fuzz" ] || {
		echo "FAIL: no $build/tests/fuzz/$kind-fuzz: configure --enable-fuzzers CC=clang-14 and build, or set STRATUS_FUZZ" >&2
		exit 1
	}
done

scratch=$(mktemp -d) # kept after a failure: the input that did it is there
export STRATUS_XLATOR_PATH=$build/xlators
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1
limits="-timeout=20 -rss_limit_mb=512 -malloc_limit_mb=16"

# run KIND WORDS ARGS...
run() {
	local program=$build/tests/fuzz/$1-fuzz found kind=$1 words=$2
	shift 2
	# shellcheck disable=SC2086
	"$program" $limits -artifact_prefix="$scratch/$kind-" "$@" >"$scratch/log" 2>&1 && return
	tail -n 60 "$scratch/log"
	echo "FAIL: $kind-fuzz $words; the input:"
	found=$(find "$scratch" -maxdepth 1 -type f -name "$kind-*" | head -n 1)
	[ -n "$found" ] || found=$(sed -n 's/^Running: //p' "$scratch/log" | tail -n 1) # a file of the corpus
	echo "$found"
	[ ! -f "$found" ] || od -A d -t x1z "$found" | head -n 80
	exit 1
}

for kind in $kinds; do
	corpus=$top/tests/fuzz/corpus/$kind
	mkdir "$scratch/$kind"
	files=("$corpus"/*)
	run "$kind" "on its corpus" "${files[@]}"
	run "$kind" "with seed $seed" -seed="$seed" -runs="$runs" -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 \
		"$scratch/$kind" "$corpus"
	did=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/log")
	reached=$(sed -n 's/^.*DONE *\(cov: [0-9]*\).*/\1/p' "$scratch/log")
	echo "$kind-fuzz: $(find "$corpus" -type f | wc -l) files, then $did runs (at most $runs, $seconds s), seed $seed, $reached: good"
done
rm -rf "$scratch"
