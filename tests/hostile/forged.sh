#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant's client that forges and lies (tests/hostile/forge.py), and those who have no certificate that is good: they get nothing of another
# tenant's, not a byte, a name, a size or a count; and the server goes on, and the other tenant.
# limit: 900 s, 3600 s with LONG=1
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/stage.sh"
need_root
need_stack
need python3 setfattr

stage
for name in new0 new1 new2 new3; do
	identity $name --tenant $name
	"$STRATUS" tenant create photos $name >/dev/null
done
COUNT=10000
[ "$LONG" = 1 ] && COUNT=100000
say "seed $SEED, $COUNT forged handles"
python3 "$HOSTILE/strangers.py" "$PORT" "$SCRATCH" "$SEED" $SECRETS >strangers.out 2>&1 || fail "strangers (SEED=$SEED): $(head -20 strangers.out)"
python3 "$HOSTILE/forge.py" "$PORT" "$SCRATCH" "$COUNT" "$SEED" $SECRETS >forged.out 2>&1 || fail "forged (SEED=$SEED): $(head -20 forged.out)"
point() { # NAME WORDS of access create
	identity "$1" --access "acme/$("$STRATUS" access create photos acme "${@:2}" --json | json 'd["id"]')"
}
point web /point --uid 7 --gid 8
point docs /docs --read-only --uid 7 --gid 8
python3 "$HOSTILE/points.py" "$PORT" "$SCRATCH" "$SEED" $SECRETS >points.out 2>&1 || fail "access points (SEED=$SEED): $(head -20 points.out)"
victim_works "forged requests"
! grep -aqP '[\x00-\x09\x0b-\x1f\x7f]' stratusd.log || fail "the log has control characters that a client wrote: $(grep -aP '[\x00-\x09\x0b-\x1f\x7f]' stratusd.log | head -3 | cat -v)"
! grep -q '^2026 error: forged' stratusd.log || fail "a client wrote a line into the log"
curtain
pass
