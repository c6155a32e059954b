#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants on a replica set: a client of one lies in what cluster/afr says to the members (tests/hostile/sets.py). It gets, holds up and is told nothing of
# the other's, who works on; and the bricks are equal afterwards.
# limit: 900 s
BRICKS=3 SET=yes
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/stage.sh"
need_root
need_stack
need python3 setfattr

id_of() { "$STRATUS" tenant info photos "$1" --json | json 'd["id"]' | tr -d -; }
whole() { [ "$("$STRATUS" heal status --json photos | json '[(m["state"], m["pending"]) for m in d[0]["members"]]')" = "[('in', 0), ('in', 0), ('in', 0)]" ]; }

stage
VICTIMS=$LAST_PID
sed "s,own\\.,acme.," client-photos.vol >acme.vol
start_mount "$SCRATCH/mnt-acme" acme.vol
echo mine >"$SCRATCH/mnt-acme/own"
stop_mount "$SCRATCH/mnt-acme" "$LAST_PID"
say "seed $SEED"
python3 "$HOSTILE/sets.py" "$(IFS=,; echo "${PORTS[*]}")" "$SCRATCH" "$SEED" "$(id_of acme)" "$(id_of globex)" $SECRETS >sets.out 2>&1 || fail "sets (SEED=$SEED): $(head -30 sets.out)"
victim_works "forged verbs of a set"
curtain
wait_until 60 whole || fail "the set is not whole: $("$STRATUS" heal status)"
rm "$V/large" # all of it would be read
stop_mount "$V" "$VICTIMS"
for i in 1 2; do
	python3 "$TOP/tests/mount/same.py" b0 b$i >differ 2>&1 || fail "the bricks differ: $(cat differ)"
done
pass
