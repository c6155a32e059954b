#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stratus demo: usable when it returns, known to status, survives its server, keeps its data until it is purged.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
scratch
D=$SCRATCH/data M=$SCRATCH/mnt
demo() { timeout 300 "$STRATUS" demo "$@" --dir "$D"; }
stop_demo() { demo stop >/dev/null 2>&1; }
AT_EXIT=stop_demo

! demo --bricks 3 --replica 2 2>"$SCRATCH/err" || fail "3 bricks were taken for replica 2"
grep -q 'give a multiple' "$SCRATCH/err" && [ ! -e "$D" ] || fail "something was made"
! demo status 2>/dev/null || fail "status of no demo"
mkdir "$SCRATCH/full"; touch "$SCRATCH/full/precious"
! "$STRATUS" demo --dir "$SCRATCH/full" 2>"$SCRATCH/err" || fail "a directory with files was taken"
[ "$(ls "$SCRATCH/full")" = precious ] || fail "files were made in a directory that is not ours"
# a mount point can't be removed, whether it is empty or not
mkdir "$SCRATCH/disk"
mount -t tmpfs -o size=300m none "$SCRATCH/disk"
touch "$SCRATCH/disk/precious"
! "$STRATUS" demo --dir "$SCRATCH/disk" 2>"$SCRATCH/err" || fail "a disk with files was taken"
rm "$SCRATCH/disk/precious"
mkdir "$SCRATCH/disk/lost+found"
of_disk() { "$STRATUS" demo "$@" --dir "$SCRATCH/disk" >/dev/null; }
of_disk --mount "$M" --bricks 1 || fail "an empty disk was not taken"
mkdir "$SCRATCH/disk/bricks"
touch "$SCRATCH/disk/bricks/precious" "$SCRATCH/disk/brick1x"
of_disk stop --purge
[ "$(cd "$SCRATCH/disk" && echo *)" = "brick1x bricks lost+found" ] && [ -e "$SCRATCH/disk/bricks/precious" ] ||
	fail "purge has left $(ls "$SCRATCH/disk")"
umount "$SCRATCH/disk"

demo --mount "$M" --bricks 2 >"$SCRATCH/out"
grep -q "demo stop" "$SCRATCH/out" || fail "does not say what to try"
on() { # BRICK: a name that is there
	local i=0
	until [ "$("$STRATUS" ctl "$M" dht locate "file$i")" = "client$1" ]; do i=$((i + 1)); done
	echo "file$i"
}
A=$(on 0) B=$(on 1)
echo one >"$M/$A"; echo two >"$M/$B"
[ "$(cat "$D/brick0/$A" "$D/brick1/$B" | tr '\n' ' ')" = "one two " ] && [ "$(ls "$M" | wc -l)" = 2 ] || fail "not on the bricks"
[ "$(demo status --json | json 'd["running"], len(d["bricks"]), d["bricks"][1]["mounted"], d["replica"]')" = "True 2 True 1" ] ||
	fail "demo status --json"
[ "$("$STRATUS" status --json | json '[b["state"] for b in d["volumes"][0]["bricks"]]')" = "['serving', 'serving']" ] ||
	fail "stratus status --json: $("$STRATUS" status --json)"
demo >/dev/null || fail "a second start is no error"
! demo --bricks 3 2>/dev/null || fail "another number of bricks was taken"

# the server dies: the next start brings it back, and the mount has waited
kill -9 "$(demo status --json | json 'd["server-pid"]')"
[ "$(demo status --json | json 'd["running"]')" = False ] || fail "a dead server is shown as running"
demo >/dev/null
[ "$(timeout 300 cat "$M/$A")" = one ] || fail "the mount did not survive"
# so does a mount
kill -9 "$(demo status --json | json 'd["bricks"][1]["pid"]')"
demo >/dev/null
[ "$(cat "$M/$B")" = two ] || fail "a dead mount was not replaced"

! STRATUS_RUN=$SCRATCH demo stop --purge 2>"$SCRATCH/err" || fail "a demo that runs elsewhere was removed"
grep -q STRATUS_RUN "$SCRATCH/err" || fail "the cause is not told: $(cat "$SCRATCH/err")"
demo stop >/dev/null
! mountpoint -q "$M" || fail "still mounted"
[ "$("$STRATUS" ps --json | json 'len(d)')" = 0 ] || fail "processes are left: $("$STRATUS" ps)"
demo stop >/dev/null || fail "a second stop is no error"
demo >/dev/null
[ "$(cat "$M/$A" "$M/$B" | tr '\n' ' ')" = "one two " ] || fail "the data were not kept"
# deeper than a path can be long, or than a process can have files open
python3 - "$D/brick0" <<'END'
import os, sys
os.chdir(sys.argv[1])
for level in range(5000):
    os.mkdir("d")
    open("file", "w").close()
    os.chdir("d")
END
(ulimit -n 64 && demo stop --purge >/dev/null)
[ ! -e "$D" ] && [ ! -e "$M" ] || fail "purge leaves $(ls -d "$D" "$M" 2>/dev/null)"

# one brick, mounted at the mount point itself
demo --mount "$M" --bricks 1 --replica 1 >/dev/null
echo one >"$M/file"
[ "$(cat "$D/brick0/file")" = one ] || fail "not on the brick"
# what is changed in the cluster stays when the demo is stopped
"$STRATUS" volume set demo protocol/client max-wait 44s >/dev/null
demo stop >/dev/null
demo >/dev/null
is_kept() { grep -q 'max-wait: 44000ms' < <("$STRATUS" dump "$M"); }
wait_until 20 is_kept || fail "the change was forgotten"
demo stop --purge >/dev/null

# without a word: three replicas, one mount
demo --mount "$M" >/dev/null
[ "$(demo status --json | json 'd["replica"], len(d["bricks"])')" = "3 3" ] || fail "not three replicas"
echo all >"$M/file"
cat "$D"/brick?/file >"$SCRATCH/got"
[ "$(wc -l <"$SCRATCH/got")" = 3 ] || fail "not on all bricks: $(cat "$SCRATCH/got")"
demo stop --purge >/dev/null

# two sets of two, one mount
demo --mount "$M" --bricks 4 --replica 2 >"$SCRATCH/out"
grep -q '2 replicas, spread over 2 sets, mounted' "$SCRATCH/out" || fail "the sets are not told: $(cat "$SCRATCH/out")"
for i in 1 2 3 4 5 6 7 8; do echo "$i" >"$M/f$i"; done
[ "$(ls "$D/brick0" "$D/brick2" | grep -c '^f')" = 8 ] && [ "$(ls "$D/brick0")" = "$(ls "$D/brick1")" ] &&
	[ -n "$(ls "$D/brick0")" ] && [ -n "$(ls "$D/brick2")" ] || fail "not spread: $(ls "$D"/brick?)"
[ "$("$STRATUS" status --json | json '[s["volume"] for s in d["volumes"][0]["sets"]]')" = "['demo:0', 'demo:1']" ] || fail "status --json: $("$STRATUS" status)"
[ "$("$STRATUS" heal status demo --json | json '[m["brick"] for s in d for m in s["members"]]')" = "['brick0', 'brick1', 'brick2', 'brick3']" ] ||
	fail "heal status: $("$STRATUS" heal status)"
"$STRATUS" heal full demo:1 brick3 >/dev/null || fail "heal full of a set"
healed() { # a view ends a scrub: the healed brick leaves, and is in again
	[ "$("$STRATUS" heal status demo:1 --json | json '[(m["state"], m["to_heal"]) for m in d[0]["members"]], d[0]["epoch"] > 2')" = "[('in', False), ('in', False)] True" ]
}
wait_until 30 healed || fail "not healed: $("$STRATUS" heal status demo:1)"
! "$STRATUS" heal full demo:1 brick0 2>"$SCRATCH/err" || fail "heal full of another set's brick"
grep -q 'it has brick2 to brick3' "$SCRATCH/err" || fail "not told which bricks there are: $(cat "$SCRATCH/err")"
"$STRATUS" scrub demo check >/dev/null || fail "scrub of all sets"
scrubbed() { [ "$("$STRATUS" scrub demo status --json | json '[(s["volume"], s["state"], s["differences"]) for s in d]')" = "[('demo:0', 'done', 0), ('demo:1', 'done', 0)]" ]; }
wait_until 20 scrubbed || fail "scrub status: $("$STRATUS" scrub demo status)"
"$STRATUS" volume stop demo >/dev/null && "$STRATUS" umount "$M" && "$STRATUS" volume delete demo >/dev/null || fail "the volume can't be deleted"
demo stop --purge >/dev/null
# encrypted: nothing can be read on the bricks
demo --encrypt --mount "$M" --bricks 2 >"$SCRATCH/out" || fail "no encrypted demo: $(cat "$SCRATCH/out")"
mkdir "$M/plain-directory"
for i in 1 2 3 4 5 6; do echo "plain-contents $i" >"$M/plain-directory/plain-name$i"; done
sync -f "$M"
[ "$(find "$D"/brick? -path '*/.stratus*' -prune -o -type f -print | wc -l)" -ge 6 ] || fail "the files are not on the bricks: $(find "$D"/brick?)"
! grep -rqa plain-contents "$D"/brick? && ! find "$D"/brick? | grep -q 'plain-' || fail "what is encrypted can be read on the bricks"
demo stop >/dev/null && demo >/dev/null || fail "an encrypted demo does not start again"
[ "$(cat "$M"/plain-directory/plain-name* | wc -l)" = 6 ] || fail "an encrypted demo has not kept its files"
demo stop --purge >/dev/null
# tenants: a mount for each, who do not see each other, and a bill
T=$SCRATCH/tenants TM=$SCRATCH/of
tenants() { timeout 300 "$STRATUS" demo "$@" --dir "$T"; }
stop_demos() { demo stop; tenants stop; } >/dev/null 2>&1
AT_EXIT=stop_demos
! tenants --tenants acme,a/b 2>"$SCRATCH/err" || fail "a/b is a tenant"
[ ! -e "$T" ] || fail "something was made for a name that is none"
tenants --tenants acme,globex --mount "$TM" >"$SCRATCH/out" || fail "no demo with tenants"
grep -q usage "$SCRATCH/out" || fail "does not say how to see the bills"
head -c 100000 /dev/zero >"$TM/acme/file"
[ -z "$(ls "$TM/globex")" ] || fail "globex sees $(ls "$TM/globex")"
bill() { "$STRATUS" usage --stratusd "$(tenants status --json | json 'd["server-pid"]')" --tenant "$1" --csv | sed -n "2s/^[^,]*,$1,\([0-9]*\),.*/\1/p"; }
[ $(($(bill acme) - $(bill globex))) = $((102400 + 4096)) ] || fail "a file of 100,000 bytes costs $(bill acme) - $(bill globex)"
[ "$(tenants status --json | json '[(m["tenant"], m["mounted"]) for m in d["mounts"]]')" = "[('acme', True), ('globex', True)]" ] || fail "status --json: $(tenants status --json)"
! tenants --tenants initech 2>/dev/null || fail "another tenant was taken"
tenants stop >/dev/null && tenants >/dev/null || fail "it does not start again"
tenants stop >/dev/null
flock "$T/state/store/lock" sleep 1 & # as a server that was killed, until the kernel has done with it
still_taken() { ! flock -n "$T/state/store/lock" true; }
wait_until 10 still_taken || fail "nobody has the lock"
tenants >/dev/null || fail "it does not start after one that was just dying"
[ "$(stat -c %s "$TM/acme/file")" = 100000 ] || fail "the data did not stay"
tenants stop --purge >/dev/null
[ ! -e "$T" ] && [ ! -e "$TM/acme" ] || fail "purge has left $(ls "$T" "$TM")"
tenants --tenants acme,globex --replica 3 --mount "$TM" >"$SCRATCH/out" || fail "no demo with tenants on replicas"
echo everywhere >"$TM/acme/file" && [ -z "$(ls "$TM/globex")" ] || fail "globex sees $(ls "$TM/globex")"
[ "$(cat "$T"/*/tenants/acme/file 2>/dev/null | grep -c everywhere)" = 3 ] || fail "not at each of three bricks: $(ls -d "$T"/*/tenants/acme/file)"
tenants stop --purge >/dev/null
tenants --tenants acme,globex --bricks 4 --replica 2 --mount "$TM" >"$SCRATCH/out" || fail "no demo with tenants on several sets"
for i in {0..11}; do echo everywhere >"$TM/acme/file$i"; done
[ -z "$(ls "$TM/globex")" ] || fail "globex sees $(ls "$TM/globex")"
[ "$(cat "$T"/*/tenants/acme/file* 2>/dev/null | grep -c everywhere)" = 24 ] || fail "not each at two bricks: $(ls -d "$T"/*/tenants/acme/file*)"
[ "$(ls -d "$T"/*/tenants/acme/file* | sed 's,/tenants/acme/.*,,' | sort -u | wc -l)" = 4 ] || fail "not at all sets: $(ls -d "$T"/*/tenants/acme/file*)"
tenants stop --purge >/dev/null
pass
