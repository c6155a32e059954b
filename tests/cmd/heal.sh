#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus heal` and `stratus scrub`: a file that was damaged on one brick is found and healed, a brick is healed as a whole, and who
# asks for what can't be done is told why.
REPLICA=3
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
scratch
cd "$SCRATCH"
HTTP=$(free_port) STATE=$SCRATCH/state

ends() { # STATUS PATTERN COMMAND...: its sentence, one line, has the pattern
	local want=$1 pattern=$2 status=0
	shift 2
	timeout 300 "$STRATUS" "$@" >out 2>err || status=$?
	[ "$status" = "$want" ] || fail "status $status instead of $want for $*: $(cat out err)"
	grep -q -- "$pattern" err && [ "$(wc -l <err)" = 1 ] || fail "'$pattern' is not the sentence of $*: $(cat err)"
}
heal() { "$STRATUS" heal status --json "$@"; }
epoch() { heal photos | json 'd[0]["epoch"]'; }
scrub_is() { [ "$("$STRATUS" scrub photos status --json | json 'd["state"]')" = "$1" ]; }
members() { heal photos | json '[(m["state"], m["pending"], m["to_heal"]) for m in d[0]["members"]]'; }
whole() { [ "$(members)" = "[('in', 0, False), ('in', 0, False), ('in', 0, False)]" ]; }
damage() { printf 'XXXX' | dd of="$1" bs=1 seek="${2:-2}" conv=notrunc status=none; } # FILE [OFFSET]

# ---- wrong words ----
ends 2 "did you mean 'status'" heal statsu
ends 2 "takes other words: write stratus heal full VOLUME" heal full photos
ends 2 "takes other words" heal status photos brick1
ends 2 "there is no 'photos'" scrub check photos
ends 2 "did you mean 'check'" scrub photos chek
ends 1 "no stratusd with a cluster store" heal status
ends 1 "no stratusd with a cluster store" scrub photos status

"$STRATUSD" --foreground --state "$STATE" --name alpha --listen 127.0.0.1:"$HTTP" >>stratusd.log 2>&1 &
note $! stratusd
KEEPER=$!
wait_until 20 "$STRATUS" status || fail "stratusd does not answer"
[ "$("$STRATUS" heal status)" = "no replica set is coordinated here" ] && [ "$(heal | json d)" = "[]" ] || fail "a set from nowhere"
"$STRATUS" volume create photos --replica 3 127.0.0.1:"$SCRATCH/r0" 127.0.0.1:"$SCRATCH/r1" 127.0.0.1:"$SCRATCH/r2" >/dev/null
"$STRATUS" volume create plain --start 127.0.0.1:"$SCRATCH/p0" >/dev/null
ends 1 "photos is stopped" heal status photos
ends 1 "photos is stopped" scrub photos start
ends 1 "there is no volume 'fotos'" scrub fotos start
ends 1 "has no replicas" heal full plain brick0
"$STRATUS" volume start photos >/dev/null
wait_until 20 whole || fail "the set is not whole: $("$STRATUS" heal status)"
mkdir mnt
MOUNTS+=("$SCRATCH/mnt")
"$STRATUS" mount --log mnt.log --pid-file mnt.pid 127.0.0.1:"$HTTP":/photos mnt
note "$(cat mnt.pid)" mount
mkdir mnt/dir
for i in $(seq 100); do echo "file number $i" >"mnt/dir/file$i"; done
head -c 300000 /dev/urandom >'mnt/dir/a "large" one'
sync -f mnt
wait_until 20 whole || fail "the set is not whole: $("$STRATUS" heal status)"

# ---- status ----
[ "$(heal | json '[(s["volume"], s["coordinator"], s["writable"]) for s in d]')" = "[('photos', 'photos:coordinator', True)]" ] ||
	fail "heal status: $(heal)"
[ "$(heal photos | json '[(m["brick"], m["member"], m["server"] + ":" + m["directory"]) for m in d[0]["members"]]')" = \
	"[('brick0', 0, 'alpha:$SCRATCH/r0'), ('brick1', 1, 'alpha:$SCRATCH/r1'), ('brick2', 2, 'alpha:$SCRATCH/r2')]" ] || fail "heal status: $(heal)"
wait_until 60 says "brick1 *alpha:$SCRATCH/r1  in, 0 pending" "$STRATUS" heal status photos || fail "heal status: $("$STRATUS" heal status)"
[ "$("$STRATUS" heal status)" = "$("$STRATUS" heal status --stratusd "$KEEPER" photos)" ] || fail "one set is not all sets"

# ---- a damaged file is told, then healed; a large one is compared in pieces ----
"$STRATUS" volume set photos cluster/coordinator heal-piece 64K >/dev/null
wait_until 20 whole || fail "the set is not whole: $("$STRATUS" heal status)"
damage 'r1/dir/a "large" one' 200000
damage 'r1/dir/a "large" one' 290000
! cmp -s r0/dir/a* r1/dir/a* || fail "nothing was damaged"
"$STRATUS" scrub photos check >out
grep -q '^scrub: ' out || fail "scrub check says: $(cat out)"
wait_until 30 scrub_is done || fail "the scrub does not end: $("$STRATUS" scrub photos status)"
"$STRATUS" scrub photos status >out
grep -q '^member 1: /dir/a "large" one$' out && grep -q ', 1 differences' out || fail "the damage is not found: $(cat out)"
[ "$("$STRATUS" scrub photos status --json | json '(d["volume"], d["differences"], d["repairs"], [(f["member"], f["path"]) for f in d["findings"]])')" = \
	"('photos', 1, False, [(1, '/dir/a \"large\" one')])" ] || fail "scrub status --json: $("$STRATUS" scrub photos status --json)"
! cmp -s r0/dir/a* r1/dir/a* || fail "a check has healed"
before=$(heal photos | json 'd[0]["healed_bytes"]')
"$STRATUS" scrub photos start --json | json 'd["repairs"]' >out
[ "$(cat out)" = True ] || fail "scrub start --json says: $(cat out)"
wait_until 30 scrub_is done || fail "the scrub does not end: $("$STRATUS" scrub photos status)"
wait_until 30 cmp r0/dir/a* r1/dir/a* || fail "the damage is not healed: $("$STRATUS" heal status)"
wait_until 30 whole || fail "the healed brick is not in again: $("$STRATUS" heal status)"
[ "$(heal photos | json 'd[0]["healed_bytes"]')" -gt "$before" ] || fail "nothing counts as healed: $("$STRATUS" heal status)"
"$STRATUS" scrub photos check >/dev/null
wait_until 30 scrub_is done && "$STRATUS" scrub photos status | grep -q ', 0 differences' || fail "it still differs"

# ---- one at a time; stop ----
"$STRATUS" volume set photos cluster/coordinator scrub-rate 1 >/dev/null
wait_until 20 whole || fail "the set is not whole: $("$STRATUS" heal status)"
"$STRATUS" scrub photos check >/dev/null
ends 1 "volume photos: a scrub is running already" scrub photos start
ends 1 "a scrub is running already" scrub photos check --json
scrub_is running || fail "the scrub has ended at once: $("$STRATUS" scrub photos status)"
"$STRATUS" scrub photos stop >out
grep -q '^scrub: interrupted' out && scrub_is interrupted || fail "the scrub goes on: $(cat out)"
"$STRATUS" scrub photos stop --json | json 'd["state"]' >/dev/null || fail "scrub stop --json is no JSON"

# ---- a brick is healed as a whole: out of reads, and in again ----
ends 1 "no brick 'brick7': it has brick0 to brick2" heal full photos brick7
ends 1 "no brick '-1'" heal full photos -- -1
for brick in brick2 1 alpha:"$SCRATCH/r0"; do
	case $brick in brick2) member=2 ;; 1) member=1 ;; *) member=0 ;; esac
	damage r$member/dir/file7
	before=$(epoch)
	[ "$("$STRATUS" heal full photos "$brick")" = "member $member will be healed as a whole" ] || fail "heal full $brick is not done"
	again() { [ "$(epoch)" -ge $((before + 2)) ] && whole; }
	wait_until 30 again || fail "$brick is not in again: $("$STRATUS" heal status)"
	[ "$(cat r$member/dir/file7)" = "file number 7" ] || fail "$brick is not healed: $(cat r$member/dir/file7)"
done
"$STRATUS" heal full photos brick1 --json | json '(d["volume"], d["member"])' | grep -qxF "('photos', 1)" || fail "heal full --json is no JSON"
[ "$(cat mnt/dir/file7)" = "file number 7" ] || fail "the mount reads something else"
umount mnt
stop_process "$KEEPER" stratusd

# ---- a coordinator without a cluster store ----
mkdir stack
start_stack "$SCRATCH/stack"
echo hello >"$MNT/file"
of="--stratusd $COORDINATOR_PID"
wait_until 20 all_in || fail "the set without a store is not whole"
[ "$(heal $of | json '[(s["volume"], [m["state"] for m in s["members"]]) for s in d]')" = "[('volume', ['in', 'in', 'in'])]" ] || fail "heal status: $(heal $of)"
"$STRATUS" heal status --stratusd "$STACK/coordinator.vol" volume | grep -q 'member 2  in, ' || fail "not found by its volfile"
"$STRATUS" scrub $of volume check >/dev/null
ended() { "$STRATUS" scrub $of volume status | grep -q '^scrub: done.* 0 differences'; }
wait_until 20 ended || fail "the scrub does not end"
epoch_now() { "$STRATUS" dump "$COORDINATOR_PID" | awk '$1 == "epoch:" { print $2; exit }'; }
before=$(epoch_now)
"$STRATUS" heal full $of volume brick1 | grep -q 'member 1 will be' || fail "no full heal without a store"
healed_whole() { [ "$(epoch_now)" -ge $((before + 2)) ] && all_in; }
wait_until 20 healed_whole || fail "the member that is healed as a whole does not come in" # two away are too many
ends 1 "coordinates no volume 'photos', but volume" scrub $of photos start
ends 1 "coordinates no volume" heal status --stratusd "${MEMBER_PID[0]}" volume
kill_member 2
out() { member_is 2 out; }
printf 'jello\n' | dd of="${MEMBER_BRICK[2]}/file" conv=notrunc status=none # no index tells of it
wait_until 20 out || fail "a member that was killed is not out"
"$STRATUS" heal full $of volume 2 | grep -q 'not in the set just now: it will be healed as a whole when it comes back' ||
	fail "what is asked for a member that is away is not told"
start_member 2
wait_until 30 all_in || fail "a member that is back is not in"
wait_until 30 cmp "${MEMBER_BRICK[2]}/file" "${MEMBER_BRICK[0]}/file" || fail "what was asked for a member that was away is forgotten"
wait_until 30 all_in || fail "a member that was healed as a whole is not in"

# ---- what is asked for while a member is healed is done after that ----
kill_member 2
wait_until 20 out || fail "a member that was killed is not out"
head -c 8M /dev/urandom >"$MNT/large"
sync -f "$MNT"
"$STRATUS" set "$COORDINATOR_PID" coordinator heal-bandwidth 16K >/dev/null
start_member 2
back() { member_is 2 back; }
wait_until 20 back || fail "a member that is here again is not healed"
damage "${MEMBER_BRICK[2]}/file" # which did not change of late
"$STRATUS" heal full $of volume 2 | grep -q 'not in the set just now' || fail "the member is not being healed any more: $("$STRATUS" dump "$COORDINATOR_PID")"
"$STRATUS" set "$COORDINATOR_PID" coordinator heal-bandwidth 0 >/dev/null
again() { [ "$(cat "${MEMBER_BRICK[2]}/file")" = hello ] && all_in; }
wait_until 40 again || fail "a heal of all that was asked for during another was forgotten"

# ---- the view is lost: nobody guesses who has everything ----
stop_process "$COORDINATOR_PID" "the coordinator"
for i in 0 1 2; do kill_member $i; done
rm "$STACK/view"
for i in 0 1 2; do start_member $i; done
start_coordinator
of="--stratusd $COORDINATOR_PID"
is_lost() { "$STRATUS" heal $of status volume 2>/dev/null | grep -q 'the view is lost'; }
wait_until 30 is_lost || fail "a lost view is not told"
wait_until 20 grep -q 'is its file system mounted' "$STACK/coordinator.log" || fail "the log does not say what to do about a lost view"
[ ! -e "$STACK/view" ] || fail "a view was made up"
begins() { "$STRATUS" ctl "$COORDINATOR_PID" coordinator begin 1 | grep -q 'begins anew from member 1'; }
wait_until 20 begins || fail "the set can't begin anew"
wait_until 60 all_in || fail "the set is not whole after it began anew"
[ "$(cat "$MNT/file")" = hello ] || fail "the mount reads something else after the set began anew"
! "$STRATUS" ctl "$COORDINATOR_PID" coordinator begin 0 >out 2>err && grep -q 'the view is not lost' err || fail "a set that has a view begins anew: $(cat out err)"
stop_stack
pass
