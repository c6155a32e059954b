#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant's administrator lists what is his and makes access points, over TLS, and nobody else's; the clients of an access point see its directory, are who it says, and change
# nothing where they may only read; one that is revoked or has expired is cut off while the tenant works on.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../cmd/keeper.sh"
need_root
need_stack
need curl python3 flock setpriv openssl

issue() { # NAME WORDS of stratus cert issue
	"$STRATUS" cert issue --dir ca "${@:2}" --out "$1" >/dev/null || fail "stratus cert issue $*"
}
start_secure() {
	"$STRATUSD" --foreground --state "$SCRATCH/state" --name alpha --listen 127.0.0.1:"$HTTP" --tls-dir "$SCRATCH/own" >>"$SCRATCH/stratusd.log" 2>&1 &
	KEEPER=$!
	note "$KEEPER" stratusd
	wait_until 20 "$STRATUS" status || fail "stratusd does not answer"
}
as() { # WHO COMMAND...: over the network
	"$STRATUS" "${@:2}" --server 127.0.0.1:"$HTTP" --tls-dir "$SCRATCH/$1"
}
not_for() { # WHO PATTERN COMMAND...
	! as "$1" "${@:3}" >out 2>err || fail "$1 may $3 $4: $(cat out)"
	grep -q -- "$2" err || fail "$1, $3 $4: '$2' is not in: $(cat err)"
}
fetch() { # WHO PATH [CURL WORDS]: the status, then the body
	curl -sS --max-time 60 --cacert own/ca.pem --cert "$1/cert.pem" --key "$1/key.pem" -o body -w '%{http_code} ' "${@:3}" --path-as-is "https://127.0.0.1:$HTTP$2" && cat body
}
mount_as() { # WHO
	start_mount "$SCRATCH/mnt-$1" "127.0.0.1:$HTTP:/photos" --tls-dir "$SCRATCH/$1"
}
not_let_in() { # WHO
	mkdir -p refused
	! timeout 30 "$STRATUS" mount --tls-dir "$SCRATCH/$1" "127.0.0.1:$HTTP:/photos" "$SCRATCH/refused" 2>err || fail "$1 is let in"
}
new_point() { # NAME WHO WORDS of access create: its certificate is NAME's; ID has the id
	if [ "$2" = provider ]; then "$STRATUS" access create photos acme "${@:3}" --json >point; else as "$2" access create photos acme "${@:3}" --json >point; fi ||
		fail "access create $*"
	ID=$(json 'd["id"]' <point)
	issue "$1" --access "acme/$ID"
}
user() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }

scratch
cd "$SCRATCH"
HTTP=$(free_port) STACK=$SCRATCH
"$STRATUS" ca init --dir ca >/dev/null
issue own --server 127.0.0.1
issue acme --tenant acme
issue globex --tenant globex
issue acme-admin --tenant-admin acme
issue globex-admin --tenant-admin globex
issue root --admin root
issue never --access acme/aaaaaaaa-0000-4000-8000-000000000001
start_secure
"$STRATUS" volume create photos --tenants --start --tls-dir "$SCRATCH/own" 127.0.0.1:"$SCRATCH/b0" >/dev/null
"$STRATUS" volume create wide --tenants --tls-dir "$SCRATCH/own" 127.0.0.1:"$SCRATCH/b1" 127.0.0.1:"$SCRATCH/b2" >/dev/null
"$STRATUS" tenant create photos acme --quota 64M >/dev/null
"$STRATUS" tenant create photos globex --ops 100000 >/dev/null
"$STRATUS" tenant create wide acme >/dev/null
PID=$("$STRATUS" ps --json | json '[p["pid"] for p in d if p["program"] == "stratusd"]')
mount_as acme
A=$SCRATCH/mnt-acme
mkdir "$A/web" "$A/private" "$A/docs" "$A/od d, \"ü"
echo secret >"$A/private/secret"
echo page >"$A/web/page"
echo text >"$A/docs/text"
mkdir -m 700 "$A/web/closed"
echo closed >"$A/web/closed/file"
echo "of root" >"$A/web/roots"
chown -R 1000:1001 "$A/web" "$A/docs"
chown 0:0 "$A/web/roots"

# ---- the administrator is told what is his ----
as acme-admin tenant info photos acme >info || fail "tenant info"
grep -q 'may have 67108864 bytes' info && grep -q '  it has [0-9]* bytes and [0-9]* files' info || fail "info: $(cat info)"
[ "$(as acme-admin tenant info photos acme --json | json 'd["charged"]["bytes"]')" = "$("$STRATUS" tenant info photos acme --json | json 'd["charged"]["bytes"]')" ] || fail "another number is told"
as acme-admin tenant info photos acme --json | json '(d.get("base"), d.get("id"))' | grep -q "(None, None)" || fail "what is the provider's is told"
as acme-admin usage --json >usage || fail "usage"
[ "$(json '[(b["brick"], [a["account"] for a in b["accounts"]]) for b in d]' <usage)" = "[('photos:brick0', ['acme'])]" ] || fail "usage: $(cat usage)"
! grep -qF "$SCRATCH" usage || fail "the brick's directory is told: $(cat usage)"
as acme-admin usage | grep -q '^photos:brick0  *acme  *[0-9]' || fail "usage: $(as acme-admin usage)"
as globex-admin usage --json | json '[a["account"] for b in d for a in b["accounts"]]' | grep -q "^\['globex'\]$" || fail "globex is told: $(as globex-admin usage --json)"

# ---- and nobody else is, nor told that there is anything ----
mount_as globex
new_point web acme-admin /web --uid 1000 --gid 1001
WEB=$ID
not_for globex-admin "no such thing of yours" tenant info photos acme
not_for globex-admin "no such thing of yours" tenant info nix globex
not_for globex-admin "no such thing of yours" tenant info nix nix
not_for globex-admin "no such thing of yours" access list photos acme
not_for globex-admin "no such thing of yours" access create photos acme /web
not_for globex-admin "no such thing of yours" access revoke photos acme "$WEB"
not_for globex-admin "no access point" access revoke photos globex "$WEB"
for who in acme web root own never; do
	not_for $who "administrator: show a certificate" access list photos acme
	not_for $who "administrator: show a certificate" usage
done
[ "$(as globex-admin access list photos globex --json)" = "[]" ] || fail "globex sees: $(as globex-admin access list photos globex)"
for path in /v1/status /metrics; do [[ "$(fetch acme-admin $path)" = 403* ]] || fail "$path: $(fetch acme-admin $path)"; done
of_another=$(fetch globex-admin /v1/volume/photos/tenant/acme)
[ "$of_another" = "$(fetch globex-admin /v1/volume/nix/tenant/acme)" ] && [[ "$of_another" = 404* ]] || fail "of another's tenant it is said: $of_another"
for path in /v1/volume/photos/tenant/acme/access/../../globex /v1/volume/photos/tenant/globex/../acme /v1/volume/photos/tenant//access /v1/volume/photos/tenant/acme/quotas; do
	[[ "$(fetch globex-admin "$path")" = 404* ]] || fail "$path: $(fetch globex-admin "$path")"
done
[[ "$(fetch acme-admin /v1/volume/photos/client -X POST -d x)" = 405* ]] || fail "a volfile is posted to"
for body in '' x '[]' '{}' '{"directory": 5}' '{"directory": "/web", "uid": -1, "gid": 0}' '{"directory": "/web", "uid": 1}' '{"directory": "/../globex"}' '{"directory": "/web\u0000/x"}' \
	'{"directory": "/web", "expires": "x"}' '{"directory": "/web", "read_only": 1}' '{"directory": "/web", "uid": 65536, "gid": 0}'; do
	[[ "$(fetch acme-admin /v1/volume/photos/tenant/acme/access -X POST -d "$body")" = 400* ]] || fail "$body: $(cat body)"
done
[[ "$(fetch acme-admin /v1/volume/photos/tenant/acme/access -X POST -d "$(printf '%05000d' 0)")" = 413* ]] || fail "5000 bytes: $(cat body)"
[[ "$(fetch acme-admin /v1/volume/wide/tenant/acme/access -X POST -d '{"directory": "/a"}')" = 400* ]] && grep -q "has a quota there" body || fail "several bricks: $(cat body)"
refused "has a quota there" access create wide acme /a
[ "$("$STRATUS" access list photos acme --json | json '[p["id"] for p in d]')" = "['$WEB']" ] || fail "there are: $("$STRATUS" access list photos acme)"

# ---- what its clients see, and who they are ----
mount_as web
W=$SCRATCH/mnt-web
[ "$(ls "$W")" = $'closed\npage\nroots' ] && [ "$(stat -c %i "$W")" = 1 ] || fail "the client sees: $(ls -la "$W")"
user 77 cat "$W/closed/file" >/dev/null || fail "a client is not who the access point says"
user 77 mkdir "$W/made"
touch "$W/made/by-root"
[ "$(stat -c %u:%g "$W/made" "$A/web/made/by-root" "$W/roots" b0/tenants/acme/web/made)" = $'1000:1001\n1000:1001\n0:0\n66536:66537' ] ||
	fail "owners: $(stat -c '%n %u:%g' "$W/made" "$W/made/by-root" "$W/roots" b0/tenants/acme/web/made)"
message=$(chown 0 "$W/page" 2>&1) && fail "a client gives a file to root"
grep -q "not permitted" <<<"$message" || fail "chown: $message"
! rm "$W/closed/../../private/secret" 2>/dev/null && [ -e "$A/private/secret" ] || fail "it reaches what is beside it"
ln -s ../private/secret "$W/out" && ! cat "$W/out" 2>/dev/null || fail "a symbolic link leads out"
mv "$W/made" "$W/renamed" && ln "$W/page" "$W/renamed/again" && rm "$W/page" && mv "$W/renamed/again" "$W/page" || fail "names can't be changed inside"
[ "$(df -B1 --output=size "$W" | tail -n 1 | tr -d ' ')" = 67108864 ] || fail "df: $(df -B1 "$W")"
echo changed >"$A/web/page"
is_changed() { [ "$(cat "$W/page")" = changed ]; }
wait_until 10 is_changed || fail "what the tenant changes is not seen: $(cat "$W/page")"
echo back >"$W/page"
is_back() { [ "$(cat "$A/web/page")" = back ]; }
wait_until 10 is_back || fail "what an access point's client changes is not seen"
exec 8>>"$W/page"
flock -x 8
flock -n "$A/web/page" true && fail "a lock of an access point is none for the tenant"
exec 8>&-

# ---- one that only reads, and one with an odd name ----
new_point docs provider /docs --read-only --uid 1000 --gid 1001
mount_as docs
D=$SCRATCH/mnt-docs
[ "$(user 77 cat "$D/text")" = text ] || fail "nothing is read"
for change in "touch $D/new" "rm $D/text" "mv $D/text $D/x" "mkdir $D/d" "chmod 777 $D/text" "ln -s x $D/l" "truncate -s 0 $D/text" "touch $D/text" "setfattr -n user.a -v b $D/text"; do
	message=$($change 2>&1) && fail "$change succeeds"
	grep -q "Read-only file system" <<<"$message" || fail "$change: $message"
done
[ "$(cat "$A/docs/text")" = text ] || fail "something is changed"
flock -n -s "$D/text" true || fail "no lock of who reads"
flock -n -x "$D/text" true 2>/dev/null && fail "one that only reads keeps others from reading"
new_point odd acme-admin "/od d, \"ü" --uid 0 --gid 0
mount_as odd
touch "$SCRATCH/mnt-odd/here" && [ -e "$A/od d, \"ü/here" ] || fail "another directory is shown"
[ "$(as acme-admin access list photos acme --json | json '[(p["directory"], p["uid"], p["read_only"]) for p in d]')" = \
	"[('/web', 1000, False), ('/docs', 1000, True), ('/od d, \"ü', 0, False)]" ] || fail "listed: $(as acme-admin access list photos acme --json)"
as acme-admin access list photos acme | grep -q "^$WEB  *1000  *1001 never  *rw /web$" || fail "listed: $(as acme-admin access list photos acme)"

# ---- its directory is moved away ----
mv "$A/web" "$A/moved"
[ "$(cat "$W/page")" = back ] || fail "a session loses a directory that is moved"
issue web2 --access "acme/$WEB"
not_let_in web2
grep -q "the directory of access point .* is not there" err || fail "the refusal does not say why: $(cat err)"
mv "$A/moved" "$A/web"

# ---- revoked, expired, suspended: cut off, and the others work on ----
cut_off() { ! timeout 2 stat "$W/page"; }
as acme-admin access revoke photos acme "$WEB" >/dev/null
wait_until 5 cut_off || fail "a revoked access point works on"
not_let_in web2
not_let_in never

# ---- of a directory that is not there: said when it is made, and to who comes by it ----
"$STRATUS" access create photos acme /later --json >point 2>err || fail "access create: $(cat err)"
grep -q "warning: tenant acme has no directory /later here" err || fail "nobody is warned of a directory that is not there: $(cat err)"
ID=$(json 'd["id"]' <point)
issue later --access "acme/$ID"
not_let_in later
grep -q "the directory of access point $ID is not there" err || fail "who comes is told: $(cat err)"
mkdir "$A/later"
"$STRATUS" access create photos acme /later --json >point 2>err && [ ! -s err ] || fail "there is a warning: $(cat err)"
for id in "$ID" "$(json 'd["id"]' <point)"; do "$STRATUS" access revoke photos acme "$id" >/dev/null; done
[ "$(cat "$A/web/page" "$D/text")" = $'back\ntext' ] || fail "others do not work on"
as acme-admin access list photos acme --json | json '[p["id"] for p in d]' | grep -q "$WEB" && fail "it is still listed"
not_for acme-admin "no access point" access revoke photos acme "$WEB"
new_point short acme-admin /web --uid 1000 --gid 1001 --expires 20s
mount_as short
W=$SCRATCH/mnt-short
[ "$(cat "$W/page")" = back ] || cut_off || fail "nothing is there before it expires"
wait_until 20 cut_off || fail "an access point that has expired works on"
as acme-admin access list photos acme | grep -q expired || fail "it is not told: $(as acme-admin access list photos acme)"
W=$D
cut_off() { ! timeout 2 stat "$D/text"; }
"$STRATUS" tenant suspend photos acme >/dev/null
wait_until 5 cut_off || fail "an access point of a suspended tenant works on"
not_for acme-admin "suspended" access create photos acme /web
"$STRATUS" tenant resume photos acme >/dev/null
back() { [ "$(timeout 20 cat "$D/text")" = text ]; }
wait_until 30 back || fail "an access point of a tenant that was resumed does not come back"
[ "$("$STRATUS" ps --json | json '[p["pid"] for p in d if p["program"] == "stratusd"]')" = "$PID" ] || fail "stratusd was restarted"

# ---- over a kill ----
kill_hard "$KEEPER" stratusd
start_secure
wait_until 60 back || fail "after kill -9 an access point does not come back"
[ "$(as acme-admin access list photos acme --json | json 'len(d)')" = 3 ] || fail "after kill -9 there are: $(as acme-admin access list photos acme)"
pass
