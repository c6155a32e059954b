#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Directories of a tenant that have quotas, in two replica sets of three servers, over TLS: members have the same tags; each quota holds whoever races into it by two mounts, and though a server is
# killed meanwhile, as a walk over each member counts; names cross its border by no set; what a member that was away has missed of quotas healing brings it; a quota is taken away from an empty
# directory only; a third set changes nothing, and keeps what a quota holds when it is to go.
# limit: 900 s
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need bc
scratch
cd "$SCRATCH"
STACK=$SCRATCH
. "$TOP/tests/mount/tenants-cluster.sh"
. "$TOP/tests/mount/quotas.sh"
BYTES=$((4 << 20)) INODES=60

start_for acme
"$STRATUS" cert issue --dir ca --tenant-admin acme --out keeper >/dev/null || fail "the certificate of an administrator"
apply_on_sets
lead tenant create photos acme --quota 200M >/dev/null 2>err || fail "tenant create: $(cat err)"
wait_until 30 known || fail "not all bricks hear of the tenant"
start_mount "$SCRATCH/a" "$SERVERS:/photos" --tls-dir "$SCRATCH/acme"
start_mount "$SCRATCH/k" "$SERVERS:/photos" --tls-dir "$SCRATCH/keeper"
A=$SCRATCH/a K=$SCRATCH/k

# ---- one in each set ----
can_make() { mkdir -p "$A/plain0"; } # the tenant's limit is known when all sets have said what they have
wait_until 60 can_make || fail "nothing can be made"
dir_in() { # SET PREFIX: makes it
	local n
	for ((n = 0; ; n++)); do
		mkdir "$A/$2$n" || fail "mkdir"
		[ ! -d "s$1-alpha/tenants/acme/$2$n" ] || break
		rmdir "$A/$2$n"
	done
	echo "$2$n"
}
rmdir "$A/plain0"
Q=() P=()
for i in 0 1; do Q[i]=$(dir_in $i q$i-) P[i]=$(dir_in $i p$i-); done
refused "certificate of the tenant's administrator" set "$A/${Q[0]}" --bytes 4M
touch "$A/${P[0]}/file"
refused "is not empty" set "$K/${P[0]}" --bytes 4M
rm "$A/${P[0]}/file"
refused "it is the root" set "$K" --bytes 4M
for i in 0 1; do quota set "$K/${Q[i]}" --bytes $BYTES --inodes $INODES || fail "no quota in set $i"; done
mkdir "$A/${Q[0]}/sub"
refused "is in a directory that has a quota" set "$K/${Q[0]}/sub" --bytes 1M
[ "$(used "$A/${Q[0]}/sub" directory)" = "/${Q[0]}" ] || fail "shown: $(quota show "$A/${Q[0]}/sub")"
refused "from an empty directory only" remove "$K/${Q[0]}"
rmdir "$A/${Q[0]}/sub"
listed() { quota list "$K" --json | json 'sorted((q["directory"], q["bytes_limit"], q["inodes_limit"], q["inodes"]) for q in d)'; }
wanted=$(python3 -c 'import sys; print(sorted((f"/{q}", int(sys.argv[1]), int(sys.argv[2]), 1) for q in sys.argv[3:]))' $BYTES $INODES "${Q[@]}")
[ "$(listed)" = "$wanted" ] || fail "listed: $(listed) instead of $wanted"
alike "with quotas"

# ---- names cross by no set ----
python3 - "$A" "${Q[@]}" "${P[@]}" <<-'END' || fail "names cross the border"
	import errno, os, sys
	os.chdir(sys.argv[1])
	held, plain = sys.argv[2:4], sys.argv[4:]
	def crosses(fn, *args):
	    try:
	        fn(*args)
	    except OSError as e:
	        if e.errno == errno.EXDEV:
	            return
	        sys.exit(f"{fn.__name__}{args}: {e}")
	    sys.exit(f"{fn.__name__}{args} is done")
	for p in plain:
	    open(f"{p}/out", "w").write(p)
	    os.mkdir(f"{p}/dir")
	for q in held:
	    open(f"{q}/in", "w").write(q)
	    os.mkdir(f"{q}/dir")
	    for other in plain + [o for o in held if o != q]:
	        crosses(os.rename, f"{q}/in", f"{other}/new")
	        crosses(os.rename, f"{q}/dir", f"{other}/new")
	        crosses(os.link, f"{q}/in", f"{other}/new")
	    for p in plain:
	        crosses(os.rename, f"{p}/out", f"{q}/new")
	        crosses(os.rename, f"{p}/dir", f"{q}/new")
	        crosses(os.link, f"{p}/out", f"{q}/new")
	    os.rename(f"{q}/in", f"{q}/dir/in")
	    os.link(f"{q}/dir/in", f"{q}/again")
	    assert open(f"{q}/again").read() == q
	    for name in "again", "dir/in":
	        os.unlink(f"{q}/{name}")
	    os.rmdir(f"{q}/dir")
	for p in plain:
	    os.unlink(f"{p}/out")
	    os.rmdir(f"{p}/dir")
END
[ "$(size "$A/${Q[1]}")" = $BYTES ] || fail "df does not show the quota: $(df -B1 "$A/${Q[1]}")"
[ "$(inodes "$A/${Q[1]}")" = $INODES ] || fail "df does not show the inodes: $(df -i "$A/${Q[1]}")"
alike "after names did not cross"

# ---- raced into by two mounts while a server is killed ----
counted() { # MEMBER_SUFFIX: by tags, over the members of that server: what is there, never more than may be; and what a directory with a tag has, has that tag
	python3 - "$TOP/tests/fault" --set $(for set in $SETS; do echo "s$set-$1"; done) 2>counted.err <<-'END'
	import os, sys
	sys.path.insert(0, sys.argv[1])
	import usage
	sums, limits, tag_of = {}, {}, {}
	def numbers(path):
	    try:
	        tag = os.getxattr(path, "trusted.usage.quota", follow_symlinks=False)
	    except OSError:
	        return [0]
	    return [int.from_bytes(tag[i:i + 8], "big") for i in range(0, len(tag), 8)]
	for brick in sys.argv[3:]:
	    seen = set()
	    for path in usage.objects(brick):
	        info, tag = os.lstat(path), numbers(path)
	        outside = numbers(os.path.dirname(path))[0] if path != brick else 0
	        assert tag[0] == outside or (len(tag) == 3 and not outside), f"{path} has {tag}, its directory {outside}"
	        if tag == [0] or info.st_ino in seen:
	            continue
	        seen.add(info.st_ino)
	        if len(tag) == 3:
	            limits[tag[0]] = tag[1:]
	        is_, had = usage.charge(path, info), sums.get(tag[0], (0, 0))
	        sums[tag[0]] = had[0] + is_, had[1] + 1
	for tag, limit in limits.items():
	    assert all(not l or s <= l for s, l in zip(sums[tag], limit)), f"more than the limit: {sums}, {limits}"
	print(sorted(sums[tag] for tag in limits))
	END
}
told() { quota list "$K" --json | json 'sorted((q["bytes"], q["inodes"]) for q in d)'; }
as_counted() { local name is; is=$(told) || return 1; for name in $SERVER_NAMES; do [ "$is" = "$(counted "$name")" ] || return 1; done; }
why() { echo "told: $(told)"; for name in $SERVER_NAMES; do echo "$name: $(counted "$name"; tail -n 1 counted.err)"; done; }
race() { # ROUNDS
	local i pids=()
	for i in 1 2 3 4; do
		# shellcheck disable=SC2046
		python3 "$TOP/tests/mount/quota-race.py" "$((SEED + i))" "$1" $(for q in "${Q[@]}"; do [ $((i % 2)) = 0 ] && echo "$A/$q" || echo "$K/$q"; done) >race$i 2>&1 &
		pids+=($!)
	done
	"${MEANWHILE:-:}"
	for i in 1 2 3 4; do
		wait "${pids[i - 1]}" || fail "a writer (SEED=$SEED): $(cat race$i)"
	done
}
race 150
[ "$(cat race? | paste -sd+ | bc)" -gt 0 ] || fail "nobody was refused"
alike "after a race"
wait_until 30 as_counted || fail "after a race: $(why)"
for i in 0 1; do
	message=$(dd if=/dev/zero of="$A/${Q[i]}/large" bs=64k count=200 2>&1) && fail "more than the quota can be written in set $i"
	grep -q "Disk quota exceeded" <<<"$message" || fail "not EDQUOT: $message"
	dd if=/dev/zero of="$A/${P[i]}/large" bs=64k count=100 2>/dev/null || fail "the quota holds elsewhere, too"
done
kill_one() {
	kill_hard "${PID[$VICTIM]}" "stratusd $VICTIM"
	start_server "$VICTIM"
}
for VICTIM in alpha beta; do
	MEANWHILE=kill_one race 100
	alike "after kill -9 of $VICTIM"
	wait_until 60 as_counted || fail "after kill -9 of $VICTIM: $(why)"
done
rm -r "$A/${Q[0]}"/* "$A/${Q[1]}"/* || fail "at the limit nothing can be removed"

# ---- a member that was away: a limit that was set, one that was changed, one that was taken away, and a directory that went with its limit ----
mkdir "$A/late0" "$A/late1" "$A/gone0" "$A/lifted0"
quota set "$K/gone0" --inodes 9 && quota set "$K/lifted0" --inodes 9 || fail "no quota"
touch "$A/gone0/file"
kill_hard "${PID[gamma]}" "stratusd gamma"
wait_until 60 find_leader || fail "nobody leads"
sets_late() { quota set "$K/late0" --inodes 5 --bytes 1M 2>/dev/null; }
wait_until 60 sets_late || fail "no quota while a member is away"
quota set "$K/late1" --inodes 7 || fail "no quota while a member is away"
mkdir -p "$A/late0/deep/deeper" && echo kept >"$A/late0/deep/deeper/file" || fail "less than the quota is refused"
quota set "$K/${Q[0]}" --inodes $((INODES + 1)) || fail "a quota can't be changed"
touch "$A/${Q[0]}/new"
rm -r "$A/gone0"
quota remove "$K/lifted0" && mkdir "$A/lifted0/free" || fail "a quota of an empty directory can't be taken away"
start_server gamma
alike "when gamma is back"
wait_until 60 as_counted || fail "when gamma is back: $(why)"
mv "$A/lifted0/free" "$A/${P[0]}/free" || fail "a border is left where there is no quota any more"
touch "$A/late0/more" || fail "five are refused"
message=$(touch "$A/late0/evenmore" 2>&1) && fail "more than the quota that was set while a member was away"
grep -q "Disk quota exceeded" <<<"$message" || fail "not EDQUOT: $message"

# ---- the others go, one after the other: who was away decides ----
for VICTIM in alpha beta; do
	kill_hard "${PID[$VICTIM]}" "stratusd $VICTIM"
	is_refused() { message=$(touch "$A/late0/evenmore" 2>&1) && fail "more than the quota, without $VICTIM"; grep -q "Disk quota exceeded" <<<"$message"; }
	wait_until 60 is_refused || fail "not EDQUOT: $message"
	start_server "$VICTIM"
	alike "when $VICTIM is back"
done

# ---- a third set comes ----
wait_until 60 find_leader || fail "nobody leads"
on $LEADER volume info photos | sed 1d >now.yaml
python3 - "$SCRATCH/s2" alpha "$(free_port)" beta "$(free_port)" gamma "$(free_port)" <<-'END' || fail "a specification with a third set"
	import sys, uuid
	lines = open("now.yaml").read().splitlines()
	at = max(i for i, line in enumerate(lines) if line.startswith("    port: ")) + 1
	for name, port in zip(sys.argv[2::2], sys.argv[3::2]):
	    lines[at:at] = [f"  - server: {name}", f"    directory: {sys.argv[1]}-{name}", f"    id: {uuid.uuid4()}", f"    port: {port}"]
	    at += 4
	open("photos.yaml", "w").write("\n".join(lines) + "\n")
END
lead apply photos.yaml >out 2>&1 || fail "a third set: $(cat out)"
SETS="0 1 2"
lead rebalance start photos >out 2>&1 || fail "rebalance start: $(cat out)"
balanced() { on $LEADER rebalance status photos --json | json 'd["state"]' | grep -q done; }
race 60
wait_until 200 balanced || fail "not balanced: $(on $LEADER rebalance status photos --json)"
alike "with a third set"
wait_until 60 as_counted || fail "with a third set: $(why)"
are_listed() { [ "$(quota list "$K" --json | json 'sorted(q["directory"] for q in d)')" = "$(python3 -c 'import sys; print(sorted(f"/{q}" for q in sys.argv[1:]))' "$@")" ]; }
wait_until 60 are_listed "${Q[0]}" "${Q[1]}" late0 late1 || fail "listed with a third set: $(quota list "$K")"
[ "$(cat "$A/late0/deep/deeper/file")" = kept ] || fail "something is lost"
message=$(touch "$A/late0/evenmore" 2>&1) && fail "more than the quota, with a third set"
grep -q "Disk quota exceeded" <<<"$message" || fail "not EDQUOT: $message"

# ---- and is to go: it keeps what a quota holds, and says so ----
Q[2]=$(dir_in 2 q2-)
quota set "$K/${Q[2]}" --inodes 3 && echo kept >"$A/${Q[2]}/file" || fail "no quota in the third set"
# shellcheck disable=SC2046
lead brick remove photos $(for name in $SERVER_NAMES; do echo "$name:$SCRATCH/s2-$name"; done) >out 2>&1 || fail "brick remove: $(cat out)"
says_why() { on $LEADER rebalance status photos >out 2>&1 && grep -q 'has a quota of its own, or is in one that has: it stays until' out; }
wait_until 120 says_why || fail "what keeps the set is not told: $(cat out)"
[ "$(cat "$A/${Q[2]}/file")" = kept ] || fail "what the quota holds can't be read"
refused "from an empty directory only" remove "$K/${Q[2]}"
rm "$A/${Q[2]}/file"
quota remove "$K/${Q[2]}" || fail "can't be taken away"
is_out() { ! on $LEADER volume info photos 2>/dev/null | grep -q s2-alpha; }
wait_until 200 is_out || fail "it does not leave: $(on $LEADER rebalance status photos)"
SETS="0 1"
wait_until 60 are_listed "${Q[0]}" "${Q[1]}" late0 late1 || fail "listed when the third set is gone: $(quota list "$K")"
alike "when the third set is gone"
pass
