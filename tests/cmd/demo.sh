#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stratus demo: usable when it returns, known to status, survives its server, keeps its data until it is purged.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
scratch
D=$SCRATCH/data M=$SCRATCH/mnt
demo() { timeout 120 "$STRATUS" demo "$@" --dir "$D"; }
clean() { demo stop >/dev/null 2>&1 || true; cleanup; }
trap clean EXIT
json() { python3 -c "import json,sys; d = json.load(sys.stdin); print($1)"; }

! demo --replica 2 2>"$SCRATCH/err" || fail "replica 2 was taken"
grep -q 'replication' "$SCRATCH/err" && [ ! -e "$D" ] || fail "something was made"
! demo status 2>/dev/null || fail "status of no demo"
mkdir "$SCRATCH/full"; touch "$SCRATCH/full/precious"
! "$STRATUS" demo --dir "$SCRATCH/full" 2>"$SCRATCH/err" || fail "a directory with files was taken"
[ "$(ls "$SCRATCH/full")" = precious ] || fail "files were made in a directory that is not ours"

demo --mount "$M" --bricks 2 >"$SCRATCH/out"
grep -q "demo stop" "$SCRATCH/out" || fail "does not say what to try"
echo one >"$M/brick0/file"; echo two >"$M/brick1/file"
[ "$(cat "$D/brick0/file" "$D/brick1/file" | tr '\n' ' ')" = "one two " ] || fail "not on the bricks"
[ "$(demo status --json | json 'd["running"], len(d["bricks"]), d["bricks"][1]["mounted"]')" = "True 2 True" ] || fail "status --json"
demo >/dev/null || fail "a second start is no error"
! demo --bricks 3 2>/dev/null || fail "another number of bricks was taken"

# the server dies: the next start brings it back, and the mount has waited
kill -9 "$(demo status --json | json 'd["server-pid"]')"
[ "$(demo status --json | json 'd["running"]')" = False ] || fail "a dead server is shown as running"
demo >/dev/null
[ "$(timeout 40 cat "$M/brick0/file")" = one ] || fail "the mount did not survive"
# so does a mount
kill -9 "$(demo status --json | json 'd["bricks"][1]["pid"]')"
demo >/dev/null
[ "$(cat "$M/brick1/file")" = two ] || fail "a dead mount was not replaced"

demo stop >/dev/null
! mountpoint -q "$M/brick0" || fail "still mounted"
[ "$("$STRATUS" ps --json | json 'len(d)')" = 0 ] || fail "processes are left: $("$STRATUS" ps)"
demo stop >/dev/null || fail "a second stop is no error"
demo >/dev/null
[ "$(cat "$M/brick0/file")" = one ] || fail "the data were not kept"
demo stop --purge >/dev/null
[ ! -e "$D" ] && [ ! -e "$M" ] || fail "purge leaves $(ls -d "$D" "$M" 2>/dev/null)"
trap cleanup EXIT
pass
