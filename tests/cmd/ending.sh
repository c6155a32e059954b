#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Certificates that will end: stratusd and mounts warn of their own once, and not of those that are good for long, or just begun; the status and the metrics tell when; a new one ends the warning
# without a restart; and of one that has ended the server's log says whose it is.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/keeper.sh"
need_root
need_stack
need openssl python3 curl
scratch
cd "$SCRATCH"
DAY=86400
made() { python3 "$TOP/tests/cmd/ending.py" "$@" 2>made.err || fail "no certificate $1: $(cat made.err)"; }
"$STRATUS" ca init --dir ca --days 3000 >/dev/null || fail "ca init"
made own ca stratus:server 127.0.0.1 -$((355 * DAY)) $((10 * DAY + 3600))
made fresh ca stratus:client/fresh "" -3600 $((23 * 3600))
made tired ca stratus:client/tired "" -$((20 * 3600)) $((4 * 3600 + 1800))
made old ca stratus:client/old "" -$((20 * DAY)) -$DAY
made admin ca stratus:admin "" -3600 $((300 * DAY))
for name in own fresh tired old; do cp ca/crl.pem $name/; done
HTTP=$(free_port) MNT=$SCRATCH/mnt
mkdir mnt

"$STRATUSD" --foreground --state state --name alpha --listen 127.0.0.1:"$HTTP" --tls-dir own >>stratusd.log 2>&1 &
KEEPER=$!
note "$KEEPER" stratusd
wait_until 20 "$STRATUS" status || fail "stratusd does not answer"
warned() { # FILE PATTERN
	grep -qE "^[^ ]+ warning .*$2" "$1"
}

# ---- the server's own: in the log, the status and the metrics ----
OWN_ENDS="the certificate $SCRATCH/own/cert.pem ends on [0-9-]+ [0-9:]+ UTC, in 10 days: have another one issued"
wait_until 20 warned stratusd.log "$OWN_ENDS" || fail "stratusd does not warn"
"$STRATUS" volume create photos --start --tls-dir "$SCRATCH/own" 127.0.0.1:"$SCRATCH/b0" >/dev/null
"$STRATUS" status >out
grep -qE "^$OWN_ENDS" out && grep -qE "^the authority $SCRATCH/own/ca.pem ends on [^:]*:[0-9]+ UTC, in (2999|3000) days$" out || fail "status: $(cat out)"
near() { # the roles, and which of them are near
	"$STRATUS" status --json | json '" ".join("%s:%s" % (c["role"], c["near"]) for c in d["certificates"])'
}
[ "$(near)" = "own:True authority:False" ] || fail "status --json: $("$STRATUS" status --json)"
seconds() { date -d "$(openssl x509 -in "$1" -noout -enddate | cut -d= -f2)" +%s; }
gauge() { # ROLE
	curl -sf --cacert ca/ca.pem --cert admin/cert.pem --key admin/key.pem "https://127.0.0.1:$HTTP/metrics" |
		sed -n "s,^stratus_certificate_end_timestamp_seconds{role=\"$1\"\,file=\"$SCRATCH/own/[a-z.]*\"} ,,p"
}
[ "$(gauge own)" = "$(seconds own/cert.pem)" ] && [ "$(gauge authority)" = "$(seconds ca/ca.pem)" ] || fail "metrics: $(gauge own), $(gauge authority)"

status=0
"$STRATUS" status --check --full 100 >out || status=$?
[ "$status" = 3 ] && [ "$(wc -l <out)" = 1 ] && grep -qE "^$OWN_ENDS" out || fail "--check: status $status, $(cat out)"

# ---- mounts: one whose certificate has just begun, and one whose is about to end ----
for name in fresh tired; do
	mkdir "mnt-$name"
	MOUNTS+=("$SCRATCH/mnt-$name")
	"$STRATUS" mount --log "$name.log" --pid-file "$name.pid" --tls-dir "$name" 127.0.0.1:"$HTTP":/photos "mnt-$name" || fail "$name: no mount"
	note "$(cat "$name.pid")" "mount $name"
done
wait_until 20 warned tired.log "the certificate $SCRATCH/tired/cert.pem ends on .* in 4 hours: " || fail "the mount does not warn"
! grep ' ends on ' fresh.log || fail "a certificate that has just begun is told of"

# ---- who comes with one that has ended: the server tells whose it is, in the volfile service and at the brick ----
EXPIRED="connection from 127.0.0.1:[0-9]+ closed: TLS: the certificate of stratus:client/old has expired on [0-9-]+ [0-9:]+ UTC: it needs another one"
refused 'certificate expired' mount --tls-dir old 127.0.0.1:"$HTTP":/photos "$MNT"
wait_until 20 warned stratusd.log "$EXPIRED" || fail "the volfile service does not tell who was refused"
count() { grep -cE "$EXPIRED" stratusd.log || true; }
before=$(count)
"$STRATUS" volume info photos >photos.yaml
"$STRATUS" volgen photos.yaml --out . >/dev/null
sed -i "s,$SCRATCH/own,$SCRATCH/old,; /wait-for-brick/d; s/option max-wait .*/option max-wait 1s/" client-photos.vol
refused 'certificate expired' mount client-photos.vol "$MNT"
more() { [ "$(count)" -gt "$before" ]; }
wait_until 20 more || fail "the brick does not tell who was refused"
grep -E "brick.* $EXPIRED|server.* $EXPIRED" stratusd.log >/dev/null || fail "it was not the brick: $(grep -E "$EXPIRED" stratusd.log)"

# ---- an authority that ends soon counts if the certificate is of it, and not only because it is trusted, too ----
made brief - - - -$((300 * DAY)) $((20 * DAY))
made next brief stratus:server 127.0.0.1 -3600 $((19 * DAY))
cat ca/ca.pem brief/ca.pem >own/.new && mv own/.new own/ca.pem
[ "$(near)" = "own:True authority:False" ] || fail "an authority that is not ours is told of: $(near)"
cp next/key.pem own/.new && mv own/.new own/key.pem
cp next/cert.pem own/.new && mv own/.new own/cert.pem
[ "$(near)" = "own:False authority:True" ] || fail "our authority is not told of: $(near)"
AUTHORITY_ENDS="the authority $SCRATCH/own/ca.pem ends on .* and with it each certificate of it: make another authority"
grep -q "^$AUTHORITY_ENDS" < <("$STRATUS" status) || fail "status: $("$STRATUS" status)"
wait_until 90 warned stratusd.log "$AUTHORITY_ENDS" || fail "the log does not tell of the authority"

# ---- a new one ends it; one that has ended is told of at once; all of it once, however often it was looked ----
made own ca stratus:server 127.0.0.1 -3600 $((300 * DAY))
[ "$(near)" = "own:False authority:False" ] || fail "a new certificate is not seen: $(near)"
made own ca stratus:server 127.0.0.1 -$((20 * DAY)) -$DAY
ended() { grep -qE "^[^ ]+ error .*the certificate $SCRATCH/own/cert.pem has ended on .*, 24 hours ago: this process is refused" stratusd.log; }
wait_until 90 ended || fail "the log does not tell that it has ended"
[ "$(grep -cE "$OWN_ENDS" stratusd.log)" = 1 ] && [ "$(grep -c "$AUTHORITY_ENDS" stratusd.log)" = 1 ] || fail "one is told of twice: $(grep ' ends on ' stratusd.log)"
rm own/cert.pem
grep -q "^there is no certificate in $SCRATCH/own/cert.pem" < <("$STRATUS" status) || fail "a missing one is not told of: $("$STRATUS" status)"
pass
