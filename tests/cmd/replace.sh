#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus brick replace` never takes the last brick that has everything, nor one of two while the third is healed; done twice it is done once; who ends its waiting has seen what it did. With --force
# it takes all of them, and `stratus apply` with the old directories and ids brings all back.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/keeper.sh"
need_root
need_stack
scratch
cd "$SCRATCH"
HTTP=$(free_port)
whole() { [ "$("$STRATUS" heal status --json | json '[(m["state"], m["pending"]) for m in d[0]["members"]]')" = "[('in', 0), ('in', 0), ('in', 0)]" ]; }
healed() { wait_until 60 whole || fail "the set is not whole: $("$STRATUS" heal status)"; }
info() { "$STRATUS" volume info set; }
replace() { timeout 200 "$STRATUS" brick replace set "$@" >out 2>err || fail "brick replace $*: $(cat out err)"; }

start_keeper
"$STRATUS" volume create set --replica 3 --start 127.0.0.1:"$SCRATCH/r0" 127.0.0.1:"$SCRATCH/r1" 127.0.0.1:"$SCRATCH/r2" >/dev/null
healed
mkdir mnt
"$STRATUS" mount --log mnt.log --pid-file mnt.pid 127.0.0.1:"$HTTP":/set mnt
note "$(cat mnt.pid)" mount
head -c 4M /dev/urandom >mnt/large
cp mnt/large copy
sync -f mnt

# ---- one is being healed: no other one of the set ----
"$STRATUS" volume set set cluster/coordinator heal-bandwidth 16K >/dev/null
healed
replace brick2 127.0.0.1:"$SCRATCH/r5" # the server by its address
grep -q "^committed; waiting until alpha:$SCRATCH/r5 is in service" out || fail "what is waited for is not told: $(cat out)"
info >before
refused "brick1 of volume set can't be replaced now: brick2 of the same replica set does not have all files" brick replace set brick1 alpha:"$SCRATCH/r6"
refused "brick1 of volume set can't be replaced now" brick replace set brick1 alpha:"$SCRATCH/r6" --dry-run
refused "brick0 of volume set can't be replaced now" apply <(sed '1d; s|/r0|/r6|; 0,/    id: .*/s//    id: '"$(uuid)"'/' before)
info | cmp - before || fail "what is refused has changed something"

# ---- the same again ----
replace brick2 alpha:"$SCRATCH/r5"
grep -q '^brick2 is that already$' out && grep -q 'nothing differs' out || fail "the same again says: $(cat out)"
replace alpha:"$SCRATCH/r2" alpha:"$SCRATCH/r5"
info | cmp - before || fail "the same again is a change"
refused "has no brick 'brick7'" brick replace set brick7 alpha:"$SCRATCH/r5"
refused "$SCRATCH/r5 is brick .*, not brick" brick replace set brick2 alpha:"$SCRATCH/r5" --new-disk
[ "$(timeout 100 "$STRATUS" brick replace set brick2 alpha:"$SCRATCH/r5" --json | json 'd["before"] == d["after"]')" = True ] || fail "--json of the same again"
"$STRATUS" volume set set cluster/coordinator heal-bandwidth >/dev/null
healed
cmp r5/large copy || fail "it is whole, but the file is not"

# ---- who ends the waiting has seen what was done, and may wait on ----
mkdir full
mount -t tmpfs -o nr_inodes=1 none full # a brick can't be made there
"$STRATUS" brick replace set brick1 alpha:"$SCRATCH/full" >out 2>err &
WAITS=$!
note "$WAITS" "brick replace"
wait_until 60 grep -q '^committed; waiting' out || fail "not told before the waiting: $(cat out err)"
kill -TERM "$WAITS" || fail "it does not wait: $(cat out err)"
wait "$WAITS" || true
unset "PIDS[$WAITS]"
grep -q "^+.*full" out || fail "the difference is not shown: $(cat out)"
info >before
timeout 10 "$STRATUS" brick replace set brick1 alpha:"$SCRATCH/full" >out 2>err && fail "it is in service" || [ $? = 124 ] || fail "it does not wait on: $(cat out err)"
grep -q '^brick1 is that already$' out && grep -q 'waiting for alpha:.*full: .*No space' err || fail "what is waited for is not told: $(cat out err)"
info | cmp - before || fail "waiting on is a change"
replace brick1 alpha:"$SCRATCH/r6"
umount full
healed

# ---- an empty disk in place of the old one ----
"$STRATUS" volume stop set >/dev/null 2>&1
refused "is not known while that is stopped" brick replace set brick2 alpha:"$SCRATCH/r7"
mv r5 r5-lost
"$STRATUS" volume start set >/dev/null 2>&1 || true
mkdir r5
two_are_in() { [ "$("$STRATUS" heal status --json | json '[m["state"] for m in d[0]["members"]]')" = "['in', 'in', 'out']" ]; }
wait_until 60 two_are_in || fail "the others do not go on: $("$STRATUS" heal status)"
refused 'can.t be replaced now: brick2' brick replace set brick1 alpha:"$SCRATCH/r7"
replace brick2 alpha:"$SCRATCH/r5" --new-disk
healed
cmp r5/large copy || fail "the new disk is not healed"

# ---- all of them, by force; the way back ----
info | sed 1d >good.yaml
umount mnt
"$STRATUS" volume set set cluster/coordinator heal-bandwidth 16K >/dev/null
for i in 2 1 0; do replace brick$i alpha:"$SCRATCH/n$i" --force; done
refused "can't be replaced now: no other brick" brick replace set brick0 alpha:"$SCRATCH/n3"
[ ! -e n0/large ] || fail "the last brick was healed from nobody"
for i in 0 1 2; do # one at a time
	info | sed 1d >now.yaml
	python3 - good.yaml now.yaml "$i" >back.yaml <<-'PY'
		import sys, yaml
		good, now = (yaml.safe_load(open(f)) for f in sys.argv[1:3])
		now["bricks"][int(sys.argv[3])] = good["bricks"][int(sys.argv[3])]
		print(yaml.safe_dump(now, sort_keys=False))
	PY
	"$STRATUS" apply --force back.yaml >out 2>err || fail "apply --force of brick$i: $(cat out err)"
done
"$STRATUS" volume set set cluster/coordinator heal-bandwidth >/dev/null
healed
"$STRATUS" mount --log mnt.log --pid-file mnt.pid 127.0.0.1:"$HTTP":/set mnt
note "$(cat mnt.pid)" mount
cmp mnt/large copy || fail "the way back has lost something"
umount mnt
stop_process "$KEEPER" stratusd
pass
