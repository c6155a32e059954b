#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Access points of a tenant on a replica set: their clients lie in what cluster/afr says to the members (tests/hostile/set-points.py), with what is the tenant's, and is not below
# their directories. They get, hold up and are told nothing of it; and the bricks are equal afterwards.
# limit: 900 s
BRICKS=3 SET=yes
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/stage.sh"
need_root
need_stack
need python3 setfattr

id_of() { "$STRATUS" tenant info photos "$1" --json | json 'd["id"]' | tr -d -; }
whole() { [ "$("$STRATUS" heal status --json photos | json '[(m["state"], m["pending"]) for m in d[0]["members"]]')" = "[('in', 0), ('in', 0), ('in', 0)]" ]; }
point() { # NAME WORDS of access create
	identity "$1" --access "acme/$("$STRATUS" access create photos acme "${@:2}" --json | json 'd["id"]')"
}

stage
VICTIMS=$LAST_PID
A=$SCRATCH/mnt-acme
sed "s,own\\.,acme.," client-photos.vol >acme.vol
start_mount "$A" acme.vol
ACMES=$LAST_PID
mkdir -p "$A/point/below" "$A/point/moved" "$A/private" "$A/docs"
echo inside | tee "$A/point/page" "$A/point/below/deep" "$A/point/moved/inside" "$A/point/moved-file" "$A/point/shared" "$A/docs/text" >/dev/null
echo secret >"$A/private/secret"
ln "$A/point/shared" "$A/private/hard"
point web /point
point docs /docs --read-only
say "seed $SEED"
mkfifo go
python3 "$HOSTILE/set-points.py" "$(IFS=,; echo "${PORTS[*]}")" "$SCRATCH" "$SEED" "$(id_of acme)" "$(id_of globex)" $SECRETS <go >told 2>&1 &
LIAR=$!
note "$LIAR" "the client that lies"
exec 8>go
waits() { grep -qx move told || gone "$LIAR"; }
wait_until 600 waits || fail "set-points (SEED=$SEED) hangs: $(head -30 told)"
# What is moved out of the directory, and another directory in its place.
mv "$A/point/moved" "$A/point/moved-file" "$A/private/" && mv "$A/point" "$A/was-point" && mkdir "$A/point" && touch "$A/point/other" || fail "the tenant can't move what is his"
gone "$LIAR" || echo >&8
exec 8>&-
status=0
wait "$LIAR" || status=$?
unset "PIDS[$LIAR]"
[ $status = 0 ] && [ "$(cat told)" = move ] || fail "set-points (SEED=$SEED): $(head -40 told)"
victim_works "what clients of access points say to a set"
[ "$(cat "$A/private/secret" "$A/was-point/page" "$A/docs/text")" = $'secret\ninside\ninside' ] || fail "the tenant's files are changed"
stop_mount "$A" "$ACMES"
curtain
wait_until 60 whole || fail "the set is not whole: $("$STRATUS" heal status)"
rm "$V/large" # all of it would be read
stop_mount "$V" "$VICTIMS"
for i in 1 2; do
	python3 "$TOP/tests/mount/same.py" b0 b$i >differ 2>&1 || fail "the bricks differ: $(cat differ)"
done
pass
