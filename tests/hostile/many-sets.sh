#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants whose names are spread over two replica sets: a client of one lies in what cluster/dht and cluster/afr say to the members of each (tests/hostile/many-sets.py,
# sets.py). It gets, holds up and is told nothing of the other's, who works on, also between the sets; and the members of each are equal afterwards.
# limit: 900 s
BRICKS=4 MEMBERS=2 SET=yes
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/stage.sh"
need_root
need_stack
need python3 setfattr

id_of() { "$STRATUS" tenant info photos "$1" --json | json 'd["id"]' | tr -d -; }
whole() { [ "$("$STRATUS" heal status --json photos | json 'sorted({(m["state"], m["pending"]) for s in d for m in s["members"]})')" = "[('in', 0)]" ]; }
names_at() { # BRICK TENANT PREFIX: those of its root there whose files these are, commas between them
	(cd "b$1/tenants/$2" && find . -maxdepth 1 -name "$3*" -type f -size +0 -printf '%P\n') | sort | paste -sd,
}

stage
VICTIMS=$LAST_PID
sed "s,own\\.,acme.," client-photos.vol >acme.vol
start_mount "$SCRATCH/mnt-acme" acme.vol
for i in {0..11}; do
	echo mine >"$SCRATCH/mnt-acme/own$i"
	echo "$TOKEN" >"$V/secret$i"
done
ALL=$(cd "$V" && ls -d secret* | paste -sd,)
stop_mount "$SCRATCH/mnt-acme" "$LAST_PID"
elsewhere >elsewhere.before
say "seed $SEED"
for first in 0 2; do
	own=$(names_at $first acme own) theirs=$(names_at $first globex secret)
	[ -n "$own" ] && [ -n "$theirs" ] || fail "of 12 names none is at the set of brick $first"
	FIRST=$first OWN=${own%%,*} THEIRS=$(cut -d , -f 1-3 <<<"$theirs") python3 "$HOSTILE/sets.py" "${PORTS[first]},${PORTS[first + 1]}" "$SCRATCH" "$SEED" "$(id_of acme)" "$(id_of globex)" $SECRETS >sets.out 2>&1 ||
		fail "sets at brick $first (SEED=$SEED): $(head -30 sets.out)"
done
MEMBERS=2 OWN=$(cd b0/tenants/acme && echo own{0..11} | tr ' ' ,) THEIRS=$ALL python3 "$HOSTILE/many-sets.py" "$(IFS=,; echo "${PORTS[*]}")" "$SCRATCH" "$SEED" "$(id_of acme)" "$(id_of globex)" $SECRETS >sets.out 2>&1 ||
	fail "many-sets (SEED=$SEED): $(head -30 sets.out)"
for i in {1..8}; do # between the sets, while nobody settles what the attacker has left
	mkdir "$V/m$i" && mv "$V/m$i" "$V/n$i" && mkdir "$V/o$i" && mv "$V/o$i" "$V/n$i/below" && touch "$V/p$i" && mv "$V/p$i" "$V/n$i/file" || fail "the victim's names can't move"
done
rm -r "$V"/n{1..8}
victim_works "forged verbs and places"
curtain
wait_until 60 whole || fail "the sets are not whole: $("$STRATUS" heal status)"
rm "$V/large" # all of it would be read
stop_mount "$V" "$VICTIMS"
for i in 0 2; do
	python3 "$TOP/tests/mount/same.py" b$i b$((i + 1)) >differ 2>&1 || fail "bricks $i and $((i + 1)) differ: $(cat differ)"
done
pass
