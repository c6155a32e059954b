#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants of one brick, over TLS, from the cluster store: neither sees the other, each has user ids and a root of its own; one that is
# suspended or deleted is cut off while the other works; and a client that forges gets nothing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../cmd/keeper.sh"
need_root
need_stack
need openssl python3 curl setfacl getfacl setfattr

certificate() { # NAME SUBJECT_ALTERNATIVE_NAMES
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA good-ca.pem -CAkey good-ca.key -CAcreateserial -days 2 -out "$1.pem" \
		-extfile <(echo "subjectAltName=$2") 2>/dev/null
}
volfile_of() { # NAME: a client's, with the certificate of that one
	sed "s,own\\.,$1.," client-photos.vol >"$1.vol"
}
mount_as() { # NAME
	volfile_of "$1"
	start_mount "$SCRATCH/mnt-$1" "$1.vol"
}
not_let_in() { # NAME PATTERN
	volfile_of "$1"
	mkdir -p refused
	! timeout 30 "$STRATUS" mount "$1.vol" "$SCRATCH/refused" 2>err || fail "$1 is let in"
	grep -q "$2" err || fail "$1: the refusal does not say why: $(cat err)"
}

scratch
cd "$SCRATCH"
HTTP=$(free_port) STACK=$SCRATCH
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout good-ca.key -out good-ca.pem -days 2 -subj "/CN=authority" 2>/dev/null ||
	fail "openssl can't make an authority"
certificate own "IP:127.0.0.1,URI:stratus:server"
certificate acme URI:stratus:tenant/acme
certificate globex URI:stratus:tenant/globex
certificate stranger URI:stratus:tenant/stranger
certificate nobody DNS:client
certificate admin URI:stratus:admin

# ---- made ----
start_keeper
"$STRATUS" volume create photos --tenants 127.0.0.1:"$SCRATCH/b0" >/dev/null
refused "told apart by their certificates" volume start photos
for side in server client; do
	"$STRATUS" volume set photos protocol/$side transport tls >/dev/null
	"$STRATUS" volume set photos protocol/$side tls-certificate "$SCRATCH/own.pem" >/dev/null
	"$STRATUS" volume set photos protocol/$side tls-key "$SCRATCH/own.key" >/dev/null
	"$STRATUS" volume set photos protocol/$side tls-authorities "$SCRATCH/good-ca.pem" >/dev/null
done
"$STRATUS" tenant create photos acme --dry-run | grep -q '^+  - name: "acme"' || fail "--dry-run shows nothing"
[ "$("$STRATUS" tenant list photos --json)" = "[]" ] || fail "--dry-run made a tenant"
"$STRATUS" tenant create photos acme | grep -q 'user ids 65536 to 131071' || fail "acme: $("$STRATUS" tenant info photos acme)"
"$STRATUS" tenant create photos globex >/dev/null
"$STRATUS" tenant create photos acme | grep -q 'nothing differs' || fail "a second create is a change"
refused "never change" tenant create photos acme --ids 5
refused "no tenant 'nix'" tenant suspend photos nix
"$STRATUS" volume start photos >/dev/null
"$STRATUS" volume info photos | sed 1d >photos.yaml
"$STRATUS" volgen photos.yaml --out . >/dev/null
PORT=$(sed -n 's/.*option remote-port //p' client-photos.vol)
wait_until 20 port_open "$PORT" || fail "the brick is not served"

# ---- who is let in, and what there is ----
not_let_in nobody "may not use this brick"
not_let_in admin "may not use this brick"
not_let_in stranger "may not use this brick"
mount_as acme
mount_as globex
mount_as own
A=$SCRATCH/mnt-acme G=$SCRATCH/mnt-globex ALL=$SCRATCH/mnt-own
echo "of acme" >"$A/same"
echo "of globex" >"$G/same"
echo "top secret" >"$G/secret"
[ "$(cat "$A/same" "$G/same")" = $'of acme\nof globex' ] || fail "one tenant's file is the other's"
[ "$(ls "$A")" = same ] || fail "acme sees: $(ls "$A")"
[ "$(stat -c %i "$A") $(stat -c %i "$G")" = "1 1" ] || fail "a tenant's root is not like all roots"
[ "$(ls "$ALL/tenants")" = $'acme\nglobex' ] || fail "a server sees: $(ls "$ALL/tenants")"

# ---- ids: the same at both mounts, apart on the brick ----
mkdir -m 777 "$A/d" "$G/d"
for mnt in "$A" "$G"; do
	setpriv --reuid 1000 --regid 1000 --clear-groups touch "$mnt/d/mine"
	setpriv --reuid 1000 --regid 1000 --clear-groups mkdir -m 700 "$mnt/d/private"
	[ "$(stat -c %u:%g "$mnt/d/mine")" = 1000:1000 ] || fail "an id is changed: $(stat -c %u:%g "$mnt/d/mine")"
	touch "$mnt/d/given" && chown 4000:4001 "$mnt/d/given"
	touch "$mnt/d/private/by-root" || fail "the root of a tenant has no power inside"
	! setpriv --reuid 1001 --regid 1001 --clear-groups ls "$mnt/d/private" 2>/dev/null || fail "another user gets in"
	setfacl -m u:1001:rx,g:7:rx "$mnt/d/private"
	setfacl -d -m u:1001:rwx "$mnt/d/private"
	setpriv --reuid 1001 --regid 1001 --clear-groups ls "$mnt/d/private" >/dev/null || fail "an ACL does not let in"
	mkdir "$mnt/d/private/inherited"
	getfacl -np "$mnt/d/private" | grep -q '^user:1001:r-x' || fail "an ACL comes back changed: $(getfacl -np "$mnt/d/private")"
	getfacl -np "$mnt/d/private/inherited" | grep -q '^user:1001:rwx' || fail "an ACL is not inherited"
	! chown 70000 "$mnt/d/given" 2>/dev/null || fail "an id outside the range is taken"
	! setfattr -n trusted.x -v y "$mnt/d/given" 2>/dev/null || fail "a tenant has trusted attributes"
done
[ "$(stat -c %u:%g b0/tenants/acme/d/given b0/tenants/globex/d/given)" = $'69536:69537\n135072:135073' ] || fail "ids on the brick: $(stat -c %u:%g b0/tenants/*/d/given)"
getfacl -np b0/tenants/globex/d/private/inherited | grep -q '^user:132073:rwx' || fail "an inherited ACL on the brick is not in the tenant's ids"
[ -z "$(find b0/tenants/acme \( -not -uid +65535 -o -uid +131071 -o -not -gid +65535 -o -gid +131071 \))" ] || fail "acme has ids outside its range on the brick"
[ -z "$(find b0/tenants/globex \( -not -uid +131071 -o -uid +196607 \))" ] || fail "globex has ids outside its range on the brick"

# ---- charged, and not more than the quota ----
counted() { "$STRATUS" usage --json | json 'sorted((a["account"], a["bytes"], a["inodes"]) for b in d if b["exact"] for a in b["accounts"] if a["account"] in ("acme", "globex"))'; }
there() { python3 "$TOP/tests/fault/usage.py" count b0 acme:65536:65536 globex:131072:65536 | json 'sorted((n, a["bytes"], a["inodes"]) for n, a in d.items() if n != "-")'; }
as_there() { [ "$(counted)" = "$(there)" ]; }
wait_until 20 as_there || fail "charged: $(counted), there are: $(there)"
curl -fsS "http://127.0.0.1:$HTTP/metrics" >metrics || fail "no metrics"
grep -qF "stratus_usage_bytes{brick=\"$SCRATCH/b0\",volume=\"photos\",tenant=\"acme\"} $(counted | sed "s/.*'acme', \([0-9]*\),.*/\1/")" metrics && grep -q '^stratus_usage_exact{.*} 1$' metrics ||
	fail "metrics: $(cat metrics)"
grep -qF "stratus_throttle_held_total{brick=\"$SCRATCH/b0\",volume=\"photos\",tenant=\"acme\",why=\"limit\"} 0" metrics || fail "metrics: $(grep throttle metrics)"
[ "$("$STRATUS" usage --json | json 'sorted({b["volume"] for b in d})')" = "['photos']" ] || fail "usage --json names no volume"
[ "$("$STRATUS" usage --csv --tenant acme | sed 's/.*,//' | paste -sd' ')" = "volume photos" ] || fail "--csv does not end with the volume: $("$STRATUS" usage --csv)"
"$STRATUS" usage --total | grep -q '^photos  *acme ' || fail "--total does not name the volume: $("$STRATUS" usage --total)"
for type in usage throttle cloud; do refused "takes the commands\? .*\(status\|tenants\)" ctl -- "$KEEPER" features/$type nonsense; done
refused "say what it is to have" tenant resize photos globex
status=0
"$STRATUS" tenant resize photos acme --weight 0 2>err || status=$?
[ "$status" = 2 ] && grep -q "'0' is no weight" err || fail "--weight 0: status $status, $(cat err)"
"$STRATUS" tenant resize photos globex --quota 8M --inodes 100 | grep -q 'may have 8388608 bytes (8 MiB)' || fail "the quota is not told"
quota_is_there() { [ "$(df -B1 --output=size "$G" | tail -n 1 | tr -d ' ')" = 8388608 ]; }
wait_until 10 quota_is_there || fail "df does not show the quota: $(df -B1 "$G")"
message=$(dd if=/dev/zero of="$G/large" bs=64k count=200 2>&1) && fail "more than the quota can be written"
grep -q "Disk quota exceeded" <<<"$message" || fail "not EDQUOT: $message"
charged=$("$STRATUS" usage --tenant globex --csv | sed -n '2s/[^,]*,globex,\([0-9]*\),.*/\1/p')
[ "$charged" -le 8388608 ] && [ "$charged" -gt $((8388608 - 131072)) ] || fail "of 8 MiB $charged are charged when no more can be had"
dd if=/dev/zero of="$A/large" bs=64k count=200 2>/dev/null || fail "one tenant's quota stops another"
rm "$G/large" "$A/large"
mkdir "$G/count"
message=$(touch "$G"/count/{1..200} 2>&1) && fail "more inodes than the quota"
grep -q "Disk quota exceeded" <<<"$message" || fail "not EDQUOT: $message"
rm -r "$G/count"
"$STRATUS" tenant resize photos globex --quota 0 --inodes 0 >/dev/null
wait_until 20 as_there || fail "charged: $(counted), there are: $(there)"

# ---- a client that forges ----
python3 "$TOP/tests/hostile/forge.py" "$PORT" "$SCRATCH" 2000 "$SEED" >forged || # more of it: tests/hostile
	fail "forged (SEED=$SEED): $(head -20 forged)"
[ "$(cat "$G/secret")" = "top secret" ] && [ "$(ls "$G")" = $'d\nsame\nsecret' ] || fail "the victim has: $(ls "$G")"

# ---- suspended while it works, and the other works on ----
before=$("$STRATUS" ps --json | json '[p["pid"] for p in d]')
exec 7>>"$A/log"
echo 1 >&7
sessions() { "$STRATUS" dump "$KEEPER" | grep -c "session: .*stratus:tenant/$1,"; }
has_none() { [ "$(sessions "$1")" = 0 ]; }
[ "$(sessions acme)" -gt 0 ] || fail "no session of acme is shown: $("$STRATUS" dump "$KEEPER" | grep session)"
cut_off() { ! timeout 2 stat "$A/same"; }
"$STRATUS" tenant suspend photos acme | grep -q suspended || fail "it is not told"
wait_until 3 cut_off || fail "a suspended tenant works on"
wait_until 3 has_none acme || fail "sessions of a suspended tenant are still there"
echo more >>"$G/same" || fail "the other tenant does not work on"
not_let_in acme "may not use this brick"
"$STRATUS" tenant resume photos acme >/dev/null
back() { timeout 20 cat "$A/same"; }
wait_until 30 back || fail "a tenant that was resumed does not come back"
exec 7>&- || true
[ "$("$STRATUS" ps --json | json '[p["pid"] for p in d]')" = "$before" ] || fail "something was restarted"

# ---- deleted ----
mkdir "$A/many" && touch "$A"/many/{1..500}
"$STRATUS" tenant delete photos acme >/dev/null
wait_until 3 cut_off || fail "a deleted tenant works on"
hidden() { [ ! -e b0/tenants/acme ]; }
wait_until 30 hidden || fail "the files of a deleted tenant stay: $(find b0/tenants/acme | head)"
removed() { "$STRATUS" tenant info photos acme | grep -q 'its files are removed'; }
wait_until 20 removed || fail "how far the removal is, is not told: $("$STRATUS" tenant info photos acme)"
refused "take another name" tenant create photos acme
refused "is deleted" tenant resume photos acme
"$STRATUS" tenant create photos initech | grep -q 'user ids 196608 to' || fail "ids are used again: $("$STRATUS" tenant list photos)"
[ "$(cat "$G/secret")" = "top secret" ] || fail "the other tenant lost something"

# ---- no mercy from a kill ----
kill_keeper
start_keeper
back_again() { timeout 20 cat "$G/secret"; }
wait_until 60 back_again || fail "after kill -9 a tenant does not come back"
wait_until 20 as_there || fail "after kill -9 charged: $(counted), there are: $(there)"
[ "$("$STRATUS" tenant list photos --json | json '[(t["tenant"], t["base"], t["state"]) for t in d]')" = \
	"[('acme', 65536, 'deleted'), ('globex', 131072, 'active'), ('initech', 196608, 'active')]" ] || fail "$("$STRATUS" tenant list photos)"

# ---- a brick that is not served is missing on the bill, which says so ----
"$STRATUS" usage >out 2>err && [ ! -s err ] || fail "usage, with all that there is: $(cat err)"
kill_keeper
mv b0 elsewhere
start_keeper
! "$STRATUS" usage >out 2>err || fail "usage without a brick succeeds: $(cat out)"
grep -q "/b0 of volume photos is not served: what is charged there is missing" err || fail "usage without a brick says: $(cat out err)"
kill_keeper
mv elsewhere b0
start_keeper
whole_again() { "$STRATUS" usage >out 2>err; }
wait_until 30 whole_again || fail "usage, with the brick again: $(cat err)"
pass
