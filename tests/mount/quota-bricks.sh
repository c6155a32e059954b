#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Directories of a tenant that have quotas, on three bricks at three servers, over TLS, beside a limit of his that is held by allotments: each holds whoever races into it and though a server is
# killed meanwhile, as a walk over the bricks counts; names cross its border by no brick, and leave nothing behind when they try; all are listed by the paths of the mount; df(1) shows them;
# and a brick that is to go keeps what a quota holds, says so, and goes when the quota is taken away.
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
{
	volume_begins
	i=0
	for name in $SERVER_NAMES; do
		brick_of $name b$i
		i=$((i + 1))
	done
	printf 'options:\n  protocol/client: {max-wait: 20s, ping-interval: 1s}\n  cluster/dht: {sweep-interval: 200ms, lean: 0}\n  features/layout: {reopen-time: 2s}\n'
} >photos.yaml
lead apply photos.yaml >/dev/null 2>err || fail "apply: $(cat err)"
lead tenant create photos acme --quota 200M >/dev/null 2>err || fail "tenant create: $(cat err)"
mount_as() { # CERTIFICATE NAME
	mkdir -p "$SCRATCH/$2"
	MOUNTS+=("$SCRATCH/$2")
	"$STRATUS" mount --log "$SCRATCH/$2.log" --pid-file "$SCRATCH/$2.pid" --tls-dir "$SCRATCH/$1" "$SERVERS:/photos" "$SCRATCH/$2" 2>err || fail "$2 is not mounted: $(cat err)"
	note "$(cat "$SCRATCH/$2.pid")" "mount $2"
}
mount_as acme a
mount_as keeper k
A=$SCRATCH/a K=$SCRATCH/k

# ---- one at each brick, and one that is away ----
can_make() { mkdir -p "$A/plain0"; } # the tenant's limit is known when all servers have said what they have
wait_until 60 can_make || fail "nothing can be made"
dir_at() { # BRICK PREFIX: makes it
	local n
	for ((n = 0; ; n++)); do
		mkdir "$A/$2$n"
		[ ! -d "b$1/tenants/acme/$2$n" ] || break
		rmdir "$A/$2$n"
	done
	echo "$2$n"
}
rmdir "$A/plain0"
Q=() P=()
for i in 0 1 2; do Q[i]=$(dir_at $i q$i-) P[i]=$(dir_at $i p$i-); done
refused "certificate of the tenant's administrator" set "$A/${Q[0]}" --bytes 4M
touch "$A/${P[0]}/file"
refused "is not empty" set "$K/${P[0]}" --bytes 4M
refused "it is the root" set "$K" --bytes 4M
for i in 0 1 2; do quota set "$K/${Q[i]}" --bytes $BYTES --inodes $INODES || fail "no quota at brick $i"; done
python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$A/${Q[1]}" "$A/${P[2]}/away" || fail "a directory with a quota gets no other parent"
Q[1]=${P[2]}/away
mkdir "$A/${Q[1]}/sub"
[ "$(used "$A/${Q[1]}/sub" directory)" = "/${Q[1]}" ] || fail "shown of one that is away: $(quota show "$A/${Q[1]}/sub")"
rmdir "$A/${Q[1]}/sub"
listed=$(quota list "$K" --json | json 'sorted((q["directory"], q["bytes_limit"], q["inodes_limit"], q["inodes"]) for q in d)')
wanted=$(python3 -c 'import sys; print(sorted((f"/{q}", int(sys.argv[1]), int(sys.argv[2]), 1) for q in sys.argv[3:]))' $BYTES $INODES "${Q[@]}")
[ "$listed" = "$wanted" ] || fail "listed: $listed instead of $wanted"

# ---- names cross by no brick, and leave nothing ----
python3 - "$A" "${Q[0]}" "${Q[1]}" "${Q[2]}" "${P[0]}" "${P[1]}" "${P[2]}" <<-'END' || fail "names cross the border"
	import errno, os, sys
	os.chdir(sys.argv[1])
	held, plain = sys.argv[2:5], sys.argv[5:]
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
	    for other in [p for p in plain] + [o for o in held if o != q]:
	        crosses(os.rename, f"{q}/in", f"{other}/new")
	        crosses(os.rename, f"{q}/dir", f"{other}/new")
	        crosses(os.link, f"{q}/in", f"{other}/new")
	    for p in plain:
	        crosses(os.rename, f"{p}/out", f"{q}/new")
	        crosses(os.rename, f"{p}/out", f"{q}/in")
	        crosses(os.rename, f"{p}/dir", f"{q}/new")
	        crosses(os.link, f"{p}/out", f"{q}/new")
	    os.rename(f"{q}/in", f"{q}/dir/in")
	    os.link(f"{q}/dir/in", f"{q}/again")
	    assert open(f"{q}/again").read() == q
	    for name in "again", "dir/in":
	        os.unlink(f"{q}/{name}")
	    os.rmdir(f"{q}/dir")
	for p in plain:
	    assert open(f"{p}/out").read() == p
	    os.unlink(f"{p}/out")
	    os.rmdir(f"{p}/dir")
END
nothing_waits() { [ -z "$(find b?/tenants/acme/.stratus.dht/work -mindepth 2 2>/dev/null)" ] && [ -z "$(find b?/tenants/acme/.stratus.dht/away -name 'a.*' 2>/dev/null)" ]; }
wait_until 30 nothing_waits || fail "who was refused has left: $(find b?/tenants/acme/.stratus.dht -mindepth 3)"

# ---- df, of the smaller one ----
[ "$(size "$A/${Q[1]}")" = $BYTES ] || fail "df does not show the quota: $(df -B1 "$A/${Q[1]}")"
[ "$(inodes "$A/${Q[2]}")" = $INODES ] || fail "df does not show the inodes: $(df -i "$A/${Q[2]}")"
limit_shown() { local is; is=$(size "$A/${P[0]}") && [ "$is" -le $((200 << 20)) ] && [ "$is" -gt $(((200 << 20) - 8 * 4096)) ]; } # of parts, in whole blocks
wait_until 30 limit_shown || fail "df shows another limit of the tenant: $(df -B1 "$A/${P[0]}")"

# ---- raced into by two mounts, at all bricks, while a server is killed ----
counted() { # by tags: what is there, and what may be
	python3 - "$TOP/tests/fault" b0 b1 b2 2>counted.err <<-'END'
	import os, sys
	sys.path.insert(0, sys.argv[1])
	import usage
	sums, limits, seen, homes = {}, {}, set(), {}
	for brick in sys.argv[2:]:
	    for path in usage.objects(brick):
	        info = os.lstat(path)
	        if (brick, info.st_ino) in seen:
	            continue
	        seen.add((brick, info.st_ino))
	        try:
	            tag = os.getxattr(path, "trusted.usage.quota", follow_symlinks=False)
	        except OSError:
	            continue
	        numbers = [int.from_bytes(tag[i:i + 8], "big") for i in range(0, len(tag), 8)]
	        homes.setdefault(numbers[0], set()).add(brick)
	        if len(numbers) == 3:
	            limits[numbers[0]] = numbers[1:]
	        is_, had = usage.charge(path, info), sums.get(numbers[0], (0, 0))
	        sums[numbers[0]] = had[0] + is_, had[1] + 1
	assert all(len(at) == 1 for at in homes.values()), f"one at several bricks: {homes}"
	for tag, limit in limits.items():
	    assert all(not l or s <= l for s, l in zip(sums[tag], limit)), f"more than the limit: {sums}, {limits}"
	print(sorted(sums[tag] for tag in limits))
	END
}
told() { quota list "$K" --json | json 'sorted((q["bytes"], q["inodes"]) for q in d)'; }
as_counted() { [ "$(told)" = "$(counted)" ]; }
agrees() { for name in alpha beta gamma; do on $name usage verify --wait 30 --json >verified.$name 2>verify.err || return 1; done; }
race() { # ROUNDS
	local i pids=() shown
	for i in 1 2 3 4; do
		# shellcheck disable=SC2046
		python3 "$TOP/tests/mount/quota-race.py" "$((SEED + i))" "$1" $(for q in "${Q[@]}"; do [ $((i % 2)) = 0 ] && echo "$A/$q" || echo "$K/$q"; done) >race$i 2>&1 &
		pids+=($!)
	done
	"${MEANWHILE:-:}"
	until gone "${pids[@]}"; do
		for i in 0 1 2; do
			shown=$(quota show "$A/${Q[i]}" --json 2>/dev/null | json 'd["bytes"] <= '$BYTES' and d["inodes"] <= '$INODES 2>/dev/null) || true
			[ "$shown" != False ] || fail "more than the limit: $(quota show "$A/${Q[i]}")"
		done
	done
	for i in 1 2 3 4; do
		wait "${pids[i - 1]}" || fail "a writer (SEED=$SEED): $(cat race$i)"
	done
}
race 300
[ "$(cat race? | paste -sd+ | bc)" -gt 0 ] || fail "nobody was refused"
wait_until 30 as_counted || fail "told: $(told), counted: $(counted; tail -n 1 counted.err)"
agrees || fail "usage verify: $(cat verified.* verify.err)"
[ "$(for name in alpha beta gamma; do json 'sum("directory" in a for b in d for a in b["accounts"])' <verified.$name; done | paste -sd+ | bc)" = 3 ] ||
	fail "usage verify has looked at other directories: $(cat verified.*)"
for i in 0 1 2; do
	message=$(dd if=/dev/zero of="$A/${Q[i]}/large" bs=64k count=200 2>&1) && fail "more than the quota can be written at brick $i"
	grep -q "Disk quota exceeded" <<<"$message" || fail "not EDQUOT: $message"
done
dd if=/dev/zero of="$A/${P[0]}/large" bs=64k count=100 2>/dev/null || fail "the quota holds elsewhere, too"
kill_one() {
	sleep "0.$((RANDOM % 9 + 1))"
	kill_hard "${PID[$VICTIM]}" "stratusd $VICTIM"
	start_server "$VICTIM"
}
for VICTIM in beta gamma alpha; do
	MEANWHILE=kill_one race 200
	wait_until 60 as_counted || fail "after kill -9 of $VICTIM told: $(told), counted: $(counted; tail -n 1 counted.err)"
	wait_until 60 agrees || fail "after kill -9 of $VICTIM: $(cat verified.* verify.err)"
done

# ---- a brick that is to go ----
rm -rf "$A"/"${Q[0]}"/* "$A/${Q[1]}"/* "$A/${Q[2]}"/*
mkdir "$A/${Q[2]}/deep"
echo kept >"$A/${Q[2]}/deep/file"
wait_until 60 find_leader || fail "nobody leads"
lead brick remove photos gamma:"$SCRATCH/b2" >out 2>&1 || fail "brick remove: $(cat out)"
says_why() { on $LEADER rebalance status photos >out 2>&1 && grep -q 'has a quota of its own, or is in one that has: it stays until' out; }
wait_until 120 says_why || fail "what keeps the brick is not told: $(cat out)"
[ "$(cat "$A/${Q[2]}/deep/file")" = kept ] || fail "what the quota holds can't be read"
touch "$A/${Q[2]}/deep/more" || fail "nothing can be made where the quota holds"
[ "$(used "$A/${Q[2]}/deep" inodes)" = 4 ] || fail "what is made beside a brick that goes is not counted: $(quota show "$A/${Q[2]}")"
wait_until 30 as_counted || fail "told: $(told), counted: $(counted; tail -n 1 counted.err)"
quota remove "$K/${Q[2]}" || fail "can't be taken away"
is_out() { [ "$(on $LEADER volume info photos | grep -c 'directory: .*/b')" = 2 ]; }
wait_until 200 is_out || fail "it does not leave: $(on $LEADER rebalance status photos)"
[ "$(cat "$A/${Q[2]}/deep/file")" = kept ] && [ -e "$A/${Q[2]}/deep/more" ] || fail "something is lost with the brick"
are_listed() { [ "$(quota list "$K" --json | json 'sorted(q["directory"] for q in d)')" = "$(python3 -c 'import sys; print(sorted(f"/{q}" for q in sys.argv[1:]))' "$@")" ]; }
wait_until 60 are_listed "${Q[0]}" "${Q[1]}" || fail "listed: $(quota list "$K")" # a mount that goes by the brick still has no answer of it
rm -r "$A/${Q[2]}/deep"
quota set "$K/${Q[2]}" --inodes 3 || fail "no quota where it is at another brick now"
mkdir "$A/${Q[2]}/deep" && touch "$A/${Q[2]}/deep/file" || fail "less than the quota is refused"
message=$(touch "$A/${Q[2]}/deep/more" 2>&1) && fail "more than the quota, where it is at another brick now"
grep -q "Disk quota exceeded" <<<"$message" || fail "not EDQUOT: $message"
[ "$(used "$A/${Q[2]}/deep" directory) $(used "$A/${Q[2]}/deep" inodes)" = "/${Q[2]} 3" ] || fail "shown where it is at another brick now: $(quota show "$A/${Q[2]}/deep")"
[ "$(used "$A/${Q[2]}" directory)" = "/${Q[2]}" ] || fail "shown where it is at another brick now: $(quota show "$A/${Q[2]}")"
pass
