#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Access points of a tenant on a replica set of three servers, over TLS: their clients have their directory and nothing else, work on while a server is dead and when it is back, and
# while the tenant moves files and directories over its border; what they write is charged to the tenant; one that is revoked, or has expired, is cut off at all members; the bricks are equal then.
# limit: 900 s
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need curl openssl python3 setpriv flock
scratch
cd "$SCRATCH"
STACK=$SCRATCH
declare -A MOUNT
. "$TOP/tests/mount/cluster.sh"

"$STRATUS" ca init --dir ca >/dev/null
cert() { "$STRATUS" cert "$@" --dir ca >/dev/null || fail "stratus cert $*"; }
for name in alpha beta gamma; do cert issue --server 127.0.0.1,localhost --out $name; done
cert issue --tenant acme --out acme
cert issue --tenant-admin acme --out acme-admin
cp -r alpha own
start_three
{
	printf 'volume: photos\nid: %s\nreplica: 3\ntransport: tls\ntls:\n' "$(uuid)"
	printf '  %s: %s/own/%s\n' certificate "$SCRATCH" cert.pem key "$SCRATCH" key.pem authorities "$SCRATCH" ca.pem revoked "$SCRATCH" crl.pem
	printf 'servers:\n'
	for name in alpha beta gamma; do printf '  %s: {host: 127.0.0.1}\n' $name; done
	printf 'tenants: []\nbricks:\n'
	for name in alpha beta gamma; do
		printf '  - {server: %s, directory: %s/brick-%s, id: %s, port: %s}\n' "$name" "$SCRATCH" "$name" "$(uuid)" "$(free_port)"
	done
	printf 'options:\n  protocol/client: {max-wait: 3s, ping-interval: 1s}\n'
} >photos.yaml
on alpha apply photos.yaml >out 2>err || fail "apply: $(cat err)"
on alpha tenant create photos acme >/dev/null
SERVERS=127.0.0.1:${HTTP[alpha]},127.0.0.1:${HTTP[beta]},127.0.0.1:${HTTP[gamma]}
heal_is() { [ "$(on "$1" heal status --json photos | json '[(m["state"], m["pending"], m["to_heal"]) for m in d[0]["members"]] if d else ""')" = "[('in', 0, False), ('in', 0, False), ('in', 0, False)]" ]; }
whole() { heal_is alpha || heal_is beta || heal_is gamma; } # whoever leads
status_of_heal() { for name in alpha beta gamma; do on $name heal status photos 2>&1 || true; done; }
mount_as() { # WHO
	start_mount "$SCRATCH/mnt-$1" "$SERVERS:/photos" --tls-dir "$SCRATCH/$1"
	MOUNT[$1]=$LAST_PID
}
new_point() { # NAME WORDS of access create: its certificate is NAME's; ID has the id
	"$STRATUS" access create photos acme "${@:2}" --server 127.0.0.1:"${HTTP[alpha]}" --tls-dir "$SCRATCH/acme-admin" --json >point || fail "access create $*"
	ID=$(json 'd["id"]' <point)
	cert issue --access "acme/$ID" --out "$1"
}
mount_as acme
A=$SCRATCH/mnt-acme W=$SCRATCH/mnt-web D=$SCRATCH/mnt-docs
mkdir "$A/web" "$A/private" "$A/docs" "$A/web/closed"
echo page >"$A/web/page" && echo secret >"$A/private/secret" && echo text >"$A/docs/text"
chown -R 1000:1001 "$A/web" "$A/docs"

# ---- what its clients see, and who they are ----
new_point web /web --uid 1000 --gid 1001
WEB=$ID
new_point docs /docs --read-only --uid 1000 --gid 1001
mount_as web
mount_as docs
[ "$(ls "$W")" = $'closed\npage' ] && [ "$(stat -c %i "$W")" = 1 ] || fail "the client sees: $(ls -la "$W")"
mkdir "$W/made" && echo new >"$W/made/file" && [ "$(cat "$A/web/made/file")" = new ] || fail "what a client makes the tenant does not see: $(ls -R "$A/web")"
[ "$(stat -c %u:%g "$W/made" "$A/web/made/file")" = $'1000:1001\n1000:1001' ] || fail "owners: $(stat -c '%n %u:%g' "$W/made" "$A/web/made/file")"
touch "$W/in-root" "$A/web/in-root-too" # the token of the directory, which the one calls his root
[ "$(ls "$A/web")" = "$(ls "$W")" ] || fail "one sees $(ls "$W"), the other $(ls "$A/web")"
mv "$W/in-root" "$W/made/" && mkdir "$W/made/d" && mv "$W/made/d" "$W/closed/d" && ln "$W/page" "$W/made/again" && rm "$W/in-root-too" || fail "names can't be changed inside"
[ "$(cat "$D/text")" = text ] || fail "nothing is read"
for change in "touch $D/new" "rm $D/text" "mv $D/text $D/x" "mkdir $D/d" "chmod 777 $D/text" "truncate -s 0 $D/text"; do
	message=$($change 2>&1) && fail "$change succeeds"
	grep -q "Read-only file system" <<<"$message" || fail "$change: $message"
done
echo changed >"$A/docs/text"
is_changed() { [ "$(cat "$D/text")" = changed ]; }
wait_until 10 is_changed || fail "one that reads does not see what is changed: $(cat "$D/text")"
flock -n -s "$D/text" true || fail "no lock of who reads"
flock -n -x "$D/text" true 2>/dev/null && fail "one that only reads keeps others from reading"

# ---- what the tenant moves over the border while a client has it: the client ends with an error, or has done it; nobody else waits ----
mkdir "$A/web/goes" && touch "$A/web/goes/file" "$A/web/file-goes" && chown -R 1000:1001 "$A/web/goes" "$A/web/file-goes"
exec 8>>"$W/goes/file" 9>>"$W/file-goes"
mv "$A/web/goes" "$A/web/file-goes" "$A/private/"
timeout 60 bash -c 'echo more >&8; echo more >&9; true' || fail "a client waits for ever for what was moved away"
exec 8>&- 9>&-
[ ! -e "$W/goes" ] && [ ! -e "$W/file-goes" ] || fail "it is still there"
timeout 60 touch "$A/private/goes/more" "$W/works-on" || fail "somebody waits for what was moved away"
mv "$A/private/goes" "$A/web/back" && [ "$(ls "$W/back")" = $'file\nmore' ] || fail "what comes back is not seen: $(ls "$W" "$W/back")"
across() { # what goes in and out meanwhile
	local i
	for ((i = 0; i < 40; i++)); do
		mv "$A/web/back" "$A/private/back" && mv "$A/private/back" "$A/web/back" || return
	done
}
across & ACROSS=$!
while ! gone $ACROSS; do
	echo x >>"$W/back/file" || true
	ls "$W/back/" || true
done >across.out 2>&1
wait $ACROSS || fail "the tenant can't move what is his"
timeout 60 touch "$W/back/at-the-end" || fail "a client does not work on: $(tail -n 3 across.out)"
[ "$(cat "$A/private/secret")" = secret ] || fail "something outside is changed"

# ---- a server dies while they work, and comes back ----
working() {
	local i
	trap 'exit 0' TERM
	for ((i = 0; ; i++)); do
		mkdir -p "$W/w$((i % 5))" && echo "$i" >"$W/w$((i % 5))/f$i" && mv "$W/w$((i % 5))/f$i" "$W/w$((i % 3))/g$i" && echo "w$((i % 3))/g$i $i"
	done
}
working >done 2>errors & note $! "work"; WORKS=$!
done_more() { [ "$(wc -l <done)" -gt "$1" ]; }
wait_until 60 done_more 20 || fail "nothing is done: $(tail -n 3 errors)"
kill_hard "${PID[beta]}" "stratusd beta"
LEAST=$(wc -l <done)
wait_until 60 done_more $((LEAST + 20)) || fail "nothing is done with a server dead: $(status_of_heal; tail -n 3 errors)"
start_server beta
LEAST=$(wc -l <done)
wait_until 60 done_more $((LEAST + 20)) || fail "nothing is done any more: $(status_of_heal; tail -n 3 errors)"
wait_until 60 whole || fail "the backlog is not empty: $(status_of_heal)"
kill $WORKS
wait $WORKS || true
unset "PIDS[$WORKS]"
while read -r file number; do [ "$(cat "$A/web/$file")" = "$number" ] || fail "$file is $(cat "$A/web/$file"), not $number"; done <done
[ "$(cat "$D/text")" = changed ] || fail "one that reads does not read any more"

# ---- its directory is moved, and another is put in its place: who is there keeps his, at all members or none ----
mv "$A/web" "$A/moved" && mkdir "$A/web" && echo other >"$A/web/page" && chown -R 1000:1001 "$A/web"
[ "$(cat "$W/page")" = page ] || fail "a session loses a directory that is moved"
kill_hard "${PID[gamma]}" "stratusd gamma"
start_server gamma
wait_until 60 whole || fail "the backlog is not empty: $(status_of_heal)"
told() { grep -q "shows another directory than the others" "$SCRATCH"/mount-mnt-web.log; }
wait_until 60 told || fail "a member with another directory is taken for one with the same: $(tail -n 5 "$SCRATCH"/mount-mnt-web.log)"
[ "$(cat "$W/page")" = page ] || fail "the client reads $(cat "$W/page")"
timeout 60 touch "$W/late" 2>/dev/null || true # it has too few members for that, or has done it at all
[ "$(ls "$A/web")" = page ] && [ "$(cat "$A/web/page")" = other ] || fail "in the other directory is: $(ls "$A/web")"
rm -r "$A/web" && mv "$A/moved" "$A/web"
stop_mount "$W" "${MOUNT[web]}"
mount_as web
touch "$W/anew" && [ -e "$A/web/anew" ] || fail "a new mount does not work"

# ---- charged to the tenant ----
charged() { on alpha usage --total --json | json '[a["bytes"] for b in d for a in b["accounts"] if a["account"] == "acme"][0]'; }
BEFORE=$(charged)
dd if=/dev/zero of="$W/large" bs=1M count=4 conv=fsync 2>/dev/null
is_charged() { [ "$(charged)" -ge $((BEFORE + 4 * 1048576)) ]; }
wait_until 30 is_charged || fail "charged before: $BEFORE, now: $(charged)"

# ---- revoked, expired: at all members, and the others work on ----
cut_off() { ! timeout 10 stat "$W/page" 2>/dev/null && ! timeout 10 touch "$W/page" 2>/dev/null; }
"$STRATUS" access revoke photos acme "$WEB" --server 127.0.0.1:"${HTTP[alpha]}" --tls-dir "$SCRATCH/acme-admin" >/dev/null
wait_until 30 cut_off || fail "a revoked access point works on"
[ "$(cat "$D/text")" = changed ] && timeout 100 touch "$A/web/by-the-tenant" || fail "others do not work on"
mkdir refused
! timeout 30 "$STRATUS" mount --tls-dir "$SCRATCH/web" "$SERVERS:/photos" "$SCRATCH/refused" 2>err || fail "a revoked access point is let in"
umount -l "$W"
new_point short /web --uid 1000 --gid 1001 --expires 120s
mount_as short
W=$SCRATCH/mnt-short
[ "$(cat "$W/page")" = page ] || cut_off || fail "nothing is there before it expires"
wait_until 70 cut_off || fail "an access point that has expired works on"

# ---- equal ----
umount -l "$W"
stop_mount "$D" "${MOUNT[docs]}"
wait_until 60 whole || fail "the backlog is not empty: $(status_of_heal)"
stop_mount "$A" "${MOUNT[acme]}"
for name in beta gamma; do
	python3 "$TOP/tests/mount/same.py" brick-alpha brick-$name >differ 2>&1 || fail "the bricks differ: $(cat differ)"
done
pass
