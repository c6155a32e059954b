#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each .graph file (a volfile, a line "----", a script for stratus-graph-run) does what it says, without root or a mount.
. "$(dirname "$0")/../mount/lib.sh"
[ -x "$STRATUS_BIN/stratus-graph-run" ] || skip "no $STRATUS_BIN/stratus-graph-run: run ./bootstrap build, or set STRATUS_BIN"
scratch

for file in "$TOP"/tests/graph/*.graph; do
	name=$(basename "$file")
	sed '/^----$/,$d' "$file" >"$SCRATCH/volfile"
	sed '1,/^----$/s/.*/#/' "$file" >"$SCRATCH/$name" # so that messages name the lines of the .graph file
	(cd "$SCRATCH" && "$STRATUS_BIN/stratus-graph-run" volfile "$name") || fail "$name"
done
pass
