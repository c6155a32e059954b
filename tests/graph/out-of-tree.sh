#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The template and the example build outside of the tree, against what is installed, and load; rot13 rotates.
. "$(dirname "$0")/../mount/lib.sh"
[ -x "$STRATUS_BIN/stratus-graph-run" ] || skip "no $STRATUS_BIN/stratus-graph-run: run ./bootstrap build, or set STRATUS_BIN"
need pkg-config "${CC:-cc}"
scratch
export PKG_CONFIG_PATH=$STRATUS_BIN/../lib/pkgconfig PATH=$STRATUS_BIN:$PATH
unset STRATUS_XLATOR_PATH

for name in template rot13; do
	cp -r "$TOP/extras/$name" "$SCRATCH/$name"
	make -s -C "$SCRATCH/$name" CFLAGS="-O2 -g -Werror" >"$SCRATCH/$name.log" 2>&1 || fail "$name doesn't build"
	make -s -C "$SCRATCH/$name" check >"$SCRATCH/$name.log" 2>&1 || fail "$name: make check"
done
pass
