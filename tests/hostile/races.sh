#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant that renames its directories and puts symbolic links in their places while it resolves names through them does not get out of its
# tree; and what it is charged is what is there.
# limit: 900 s, 3600 s with LONG=1
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/stage.sh"
need_root
need_stack
need python3 setfattr

stage
COUNT=10000
[ "$LONG" = 1 ] && COUNT=100000
say "seed $SEED, $COUNT resolutions"
timeout 3000 python3 "$HOSTILE/races.py" "$PORT" "$SCRATCH" "$COUNT" "$SEED" $SECRETS >races.out 2>&1 || fail "races (SEED=$SEED): $(head -20 races.out)"
victim_works "races of renames against resolution"
curtain
pass
