#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants on four bricks: a client of one lies in what cluster/dht says to the bricks (tests/hostile/layouts.py), and in all that one of a single brick may say
# (tests/hostile/forge.py): it gets nothing of the other's, and what it breaks is its own: the other one works on, also between bricks.
# limit: 900 s, 3600 s with LONG=1
BRICKS=4
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/stage.sh"
need_root
need_stack
need python3 setfattr

id_of() { "$STRATUS" tenant info photos "$1" --json | json 'd["id"]' | tr -d -; }
moves() { # of the victim, between bricks, while the attacker's own root is broken on all of them
	local i
	for i in {1..12}; do
		mkdir "$V/m$i" && mv "$V/m$i" "$V/n$i" && mkdir "$V/o$i" && mv "$V/o$i" "$V/n$i/below" && touch "$V/p$i" && mv "$V/p$i" "$V/n$i/file" || return 1
	done
	rm -r "$V"/n{1..12}
}

stage
COUNT=5000
[ "$LONG" = 1 ] && COUNT=100000
say "seed $SEED, $COUNT forged handles"
i=$(ls -d b?/tenants/globex/secret | sed 's,^b\(.\).*,\1,')
LEASES=no BRICK=$i python3 "$HOSTILE/forge.py" "${PORTS[i]}" "$SCRATCH" "$COUNT" "$SEED" $SECRETS >forged.out 2>&1 || fail "forged at brick $i (SEED=$SEED): $(head -20 forged.out)"
mkfifo go
python3 "$HOSTILE/layouts.py" "$(IFS=,; echo "${PORTS[*]}")" "$SCRATCH" "$SEED" "$(id_of acme)" "$(id_of globex)" $SECRETS <go >layouts.out 2>&1 &
LIAR=$!
note "$LIAR" "the attacker"
exec 8>go
broken() { grep -q '^broken$' layouts.out; }
wait_until 100 broken || fail "layouts (SEED=$SEED): $(head -20 layouts.out)"
moves || fail "what one tenant did to its own root stops another"
victim_works "forged layouts"
echo >&8
exec 8>&-
wait "$LIAR" || fail "layouts (SEED=$SEED): $(head -20 layouts.out)"
unset "PIDS[$LIAR]"
[ "$(grep -c "makes no sense" stratusd.log)" = 0 ] || fail "the attacker filled the log: $(grep "makes no sense" stratusd.log | head -3)"
curtain
pass
