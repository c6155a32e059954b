#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Access points of a tenant whose volume has two bricks at two servers, over TLS (doc/tenants.md, A8): of a directory that has a quota, which its number names. Clients mount, list, write,
# rename, and hold what they have while the directory is renamed over bricks, a brick is added and filled, and the server with the other brick is killed; and they are cut off when
# the access point is revoked, or the quota taken away.
# limit: 900 s
. "$(dirname "$0")/lib.sh"
need_root
need_stack
scratch
cd "$SCRATCH"
STACK=$SCRATCH
. "$TOP/tests/mount/tenants-cluster.sh"
. "$TOP/tests/mount/quotas.sh"

start_for acme
"$STRATUS" cert issue --dir ca --tenant-admin acme --out keeper >/dev/null || fail "the certificate of an administrator"
{
	volume_begins
	brick_of alpha b0
	brick_of beta b1
	printf 'options:\n  protocol/client: {max-wait: 20s, ping-interval: 1s}\n  cluster/dht: {sweep-interval: 200ms, lean: 0}\n  protocol/server: {session-timeout: 5s}\n'
} >photos.yaml
lead apply photos.yaml >/dev/null 2>err || fail "apply: $(cat err)"
lead tenant create photos acme --quota 200M >/dev/null 2>err || fail "tenant create: $(cat err)"
try_mount() { timeout 60 "$STRATUS" mount --log "$SCRATCH/$1.log" --pid-file "$SCRATCH/$1.pid" --tls-dir "$SCRATCH/$1" "$SERVERS:/photos" "$SCRATCH/mnt-$1" 2>err; }
mount_as() { # CERTIFICATE: the server of the brick may hear of an access point after the one that leads has answered
	mkdir -p "$SCRATCH/mnt-$1"
	MOUNTS+=("$SCRATCH/mnt-$1")
	wait_until 60 try_mount "$1" || fail "$1 is not mounted: $(cat err)"
	note "$(cat "$SCRATCH/$1.pid")" "mount $1"
}
not_let_in() { # CERTIFICATE
	mkdir -p refused
	! timeout 60 "$STRATUS" mount --tls-dir "$SCRATCH/$1" "$SERVERS:/photos" "$SCRATCH/refused" 2>err || fail "$1 is let in"
}
mount_as acme
mount_as keeper
A=$SCRATCH/mnt-acme K=$SCRATCH/mnt-keeper
can_make() { mkdir -p "$A/private"; } # the tenant's limit is known when all servers have said what they have
wait_until 60 can_make || fail "nothing can be made"
echo secret >"$A/private/secret"
dir_at() { # BRICK PREFIX: makes it
	local n
	for ((n = 0; ; n++)); do
		mkdir "$A/$2$n"
		[ ! -d "b$1/tenants/acme/$2$n" ] || break
		rmdir "$A/$2$n"
	done
	echo "$2$n"
}
# Over the network, of whoever leads: who does not says so, and has done nothing.
asked() {
	find_leader || return
	STATUS=0
	"$STRATUS" access "$@" --server "127.0.0.1:${HTTP[$LEADER]}" --tls-dir "$SCRATCH/keeper" --json >point 2>err || STATUS=$?
	[ $STATUS = 0 ] || ! grep -q 'another server leads the cluster, or none can' err
}
access() { # VERB WORDS
	wait_until 60 asked "$@" && [ $STATUS = 0 ] || fail "access $*: $(cat err)"
}
new_point() { # NAME DIRECTORY [WORDS]: its certificate is NAME's; ID has the id
	AT=$(quota show "$K/$2" --json | json 'd["id"]')
	access create photos acme "$AT" "${@:3}"
	ID=$(json 'd["id"]' <point)
	"$STRATUS" cert issue --dir ca --access "acme/$ID" --out "$1" >/dev/null || fail "the certificate of $1"
}

# ---- by a path there is none ----
! lead access create photos acme /private 2>err || fail "an access point of a path"
grep -q 'stratus quota show DIRECTORY' err || fail "of a path it is said: $(cat err)"
! lead access create photos acme @7.0123456789abcdef 2>err || fail "an access point at a brick that there is not"
grep -q 'no brick 7' err || fail "of a brick that there is not it is said: $(cat err)"

# ---- one at each brick ----
D=() NAMES=(zero one)
for i in 0 1; do
	D[i]=$(dir_at $i site$i-)
	quota set "$K/${D[i]}" --bytes 0 || fail "no quota at brick $i"
	chmod 777 "$A/${D[i]}"
	echo "page $i" >"$A/${D[i]}/page"
	new_point ${NAMES[i]} "${D[i]}"
	quota show "$K/${D[i]}" | grep "^for .stratus access create. it is $AT\$" >/dev/null || fail "stratus quota show: $(quota show "$K/${D[i]}")"
	[[ "$AT" = @$i.* ]] || fail "it is at brick $i, and is called $AT"
	mount_as ${NAMES[i]}
done
Z=$SCRATCH/mnt-zero O=$SCRATCH/mnt-one
for i in 0 1; do
	W=$SCRATCH/mnt-${NAMES[i]}
	[ "$(ls -A "$W")" = page ] && [ "$(cat "$W/page")" = "page $i" ] && [ "$(stat -c %i "$W")" = 1 ] || fail "the client at brick $i sees: $(ls -la "$W")"
	mkdir "$W/dir" "$W/dir/below" && echo made >"$W/dir/made" && mv "$W/dir/made" "$W/dir/below/moved" && ln "$W/dir/below/moved" "$W/linked" && ln -s ../private/secret "$W/out" ||
		fail "names at brick $i"
	[ "$(cat "$A/${D[i]}/linked")" = made ] && [ "$(stat -c %h "$A/${D[i]}/linked")" = 2 ] || fail "the tenant sees: $(ls -lR "$A/${D[i]}")"
	! cat "$W/out" 2>/dev/null && ! cat "$W/../private/secret" 2>/dev/null || fail "it leads out"
	echo tenant >"$A/${D[i]}/dir/from-tenant"
	is_there() { [ "$(cat "$W/dir/from-tenant")" = tenant ]; }
	wait_until 10 is_there || fail "what the tenant makes is not seen"
	for name in trusted.dht.layout trusted.dht.pointer trusted.dht.path.0; do ! getfattr --only-values -n "$name" "$W" 2>/dev/null || fail "$name is told"; done
	! getfattr --only-values -n system.stratus.location "$W" 2>/dev/null | grep '^path\|^gfid' >/dev/null || fail "where it is is told"
	(cd "$W" && dd if=/dev/urandom of=big bs=1M count=4 2>/dev/null && cmp big "$A/${D[i]}/big") || fail "data of an access point"
	[ "$(stat -c %s "b$i/tenants/acme/${D[i]}/big")" = $((4 << 20)) ] || fail "it is elsewhere"
done

# ---- the directory gets another name, which another brick has; and the volume another brick ----
python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$A/${D[0]}" "$A/${D[1]}x" || fail "the directory is not renamed"
PLAIN=$(dir_at 1 plain)
python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$A/${D[1]}x" "$A/$PLAIN/away" || fail "the directory is not renamed over bricks"
[ "$(cat "$Z/page")" = "page 0" ] && echo later >"$Z/later" && [ "$(cat "$A/$PLAIN/away/later")" = later ] || fail "a session loses a directory that is renamed"
cp -r zero zero-again
mount_as zero-again
[ "$(cat "$SCRATCH/mnt-zero-again/later")" = later ] || fail "a directory that is away is not found"
lead brick add photos gamma:"$SCRATCH/b2" >/dev/null 2>err || fail "brick add: $(cat err)"
started() { lead rebalance start photos >/dev/null 2>err; }
wait_until 60 started || fail "rebalance: $(cat err)"
is_done() { [ "$(lead rebalance status photos --json | json 'd["state"]')" = done ]; }
wait_until 120 is_done || fail "the rebalance does not end: $(lead rebalance status photos 2>&1)"
for W in "$Z" "$O" "$SCRATCH/mnt-zero-again"; do
	echo rebalanced >"$W/rebalanced" && [ "$(cat "$W/rebalanced" "$W/linked")" = $'rebalanced\nmade' ] || fail "after a rebalance: $(ls -la "$W")"
done

# ---- the server with the other brick is killed: that is nothing to whom it does not show anything ----
kill_hard "${PID[alpha]}" "stratusd alpha"
echo alone >"$O/alone" && [ "$(cat "$O/alone" "$O/page")" = $'alone\npage 1' ] || fail "a client waits for a brick that has nothing of his"
start_server alpha
back() { [ "$(timeout 20 cat "$Z/page" 2>/dev/null)" = "page 0" ]; }
wait_until 60 back || fail "after kill -9 an access point does not come back"

# ---- one that reads; one that is revoked; and the quota is taken away ----
new_point reader "${D[1]}" --read-only
mount_as reader
R=$SCRATCH/mnt-reader
[ "$(cat "$R/page")" = "page 1" ] && ! touch "$R/new" 2>/dev/null && ! rm "$R/page" 2>/dev/null || fail "one that reads"
access revoke photos acme "$ID"
cut_off() { ! timeout 5 stat "$W/page" >/dev/null 2>&1; }
W=$R
wait_until 30 cut_off || fail "a revoked access point works on"
not_let_in reader
[ "$(cat "$O/page")" = "page 1" ] || fail "another access point does not work on"
quota remove "$K/${D[1]}" || fail "the quota stays"
W=$O
wait_until 30 cut_off || fail "without the quota an access point works on"
cp -r one one-again
not_let_in one-again
[ "$(cat "$A/${D[1]}/page" "$Z/page" "$A/private/secret")" = $'page 1\npage 0\nsecret' ] || fail "others do not work on"
pass
