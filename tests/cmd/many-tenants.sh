#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A volume of four bricks with more tenants than a volfile of 1 MiB had room for: it starts, others are made while one works, and idle ones take little memory,
# and as many as a thousand are connected at one time, each of which is answered. (With LONG=1 10,000, else 100 of them connected.)
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3

scratch
MANY=$([ "$LONG" = 1 ] && echo 10000 || echo 5000)
CONNECTED=$([ "$LONG" = 1 ] && echo 1000 || echo 100)
MEMORY=$([ -n "${RSS_SLACK_KIB-}" ] || echo "--most-memory 32") # a sanitizer keeps what was freed
# shellcheck disable=SC2086
timeout 350 python3 "$TOP/tests/bench/tenants" --bin "$(dirname "$STRATUS")" --tenants "$MANY" --creates 3 --connections "$CONNECTED" $MEMORY >"$SCRATCH/out" 2>&1 ||
	fail "with $MANY tenants: $(cat "$SCRATCH/out")"
cat "$SCRATCH/out"
pass
