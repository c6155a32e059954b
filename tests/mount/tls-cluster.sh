#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three servers with TLS on every connection: a replica set is mounted, written, and healed; who has no certificate, or a bad one, is
# told so in a sentence and sees nothing; a certificate is revoked under a mount, which is cut off; another is renewed under one, which is not.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need openssl python3 curl
scratch
cd "$SCRATCH"
. "$TOP/tests/mount/cluster.sh"

# ---- certificates ----
"$STRATUS" ca init --dir ca >/dev/null
cert() { "$STRATUS" cert "$@" --dir ca >/dev/null || fail "stratus cert $*"; }
for name in alpha beta gamma; do cert issue --server 127.0.0.1,localhost --out $name; done
for name in desk lost later; do cert issue --client $name --out $name; done
cert issue --tenant acme --out acme
cert issue --admin root --out admin
"$STRATUS" ca init --dir ca2 >/dev/null # of the same name
"$STRATUS" cert issue --client stranger --dir ca2 --out stranger >/dev/null
cp ca/ca.pem stranger/ca.pem; cp ca/crl.pem stranger/crl.pem # it trusts the right one, but is not trusted
# one that has expired: with openssl, which can make it
mkdir expired
cp desk/ca.pem desk/crl.pem expired/
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout expired/key.pem -out expired/csr -subj /CN=old 2>/dev/null
cat >expired.cnf <<'END'
[ca]
default_ca = it
[it]
database = expired.index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = extensions
[any]
commonName = supplied
[extensions]
subjectAltName = URI:stratus:client/old
extendedKeyUsage = clientAuth
END
: >expired.index
openssl ca -batch -config expired.cnf -cert ca/ca.pem -keyfile ca/ca.key -in expired/csr -out expired/cert.pem -notext \
	-startdate 20200101000000Z -enddate 20200201000000Z 2>openssl.log || fail "openssl: $(cat openssl.log)"

# ---- the cluster ----
start_three
# Each machine has its files at the same place; these three share one, so each server's bricks get the paths of one of them.
cp -r alpha own
{
	printf 'volume: photos\nid: %s\nreplica: 3\ntransport: tls\ntls:\n' "$(uuid)"
	printf '  %s: %s/own/%s\n' certificate "$SCRATCH" cert.pem key "$SCRATCH" key.pem authorities "$SCRATCH" ca.pem revoked "$SCRATCH" crl.pem
	printf 'servers:\n'
	for name in alpha beta gamma; do printf '  %s: {host: 127.0.0.1}\n' $name; done
	printf 'bricks:\n'
	for name in alpha beta gamma; do
		printf '  - {server: %s, directory: %s/brick-%s, id: %s, port: %s}\n' $name "$SCRATCH" $name "$(uuid)" "$(free_port)"
	done
	printf 'options:\n  protocol/client: {max-wait: 3s, ping-interval: 1s}\n'
} >photos.yaml
lead apply photos.yaml >/dev/null 2>err || fail "apply: $(cat err)"
[ ! -s err ] || fail "a warning: $(cat err)"
SERVERS=127.0.0.1:${HTTP[alpha]},127.0.0.1:${HTTP[beta]},127.0.0.1:${HTTP[gamma]}
healthy() {
	[ "$(on alpha status --json | json 'len(d["volumes"][0]["set"]["members"]) if d["volumes"][0]["set"] else 0')" = 3 ]
}

MNT=$SCRATCH/mnt
STACK=$SCRATCH
start_mount "$MNT" "$SERVERS:/photos" --tls-dir "$SCRATCH/desk"
MOUNT=$LAST_PID
head -c 5000000 /dev/urandom >data
cp data "$MNT/data"
cmp data "$MNT/data" || fail "data are changed on the way"
for name in alpha beta gamma; do
	wait_until 60 cmp -s data "brick-$name/data" || fail "$name has not what was written"
done
speaks() { openssl s_client -connect 127.0.0.1:"$1" "$2" </dev/null >said 2>&1 || true; grep -qE 'New, TLSv1|Protocol *: TLSv1' said && ! grep -q 'Cipher is (NONE)' said; }
for port in "${HTTP[@]}" "${PEER[@]}" $(grep -o ' port: [0-9]*' photos.yaml | cut -d' ' -f3); do
	speaks "$port" -tls1_3 || fail "port $port does not speak TLS 1.3: $(cat said)"
	! speaks "$port" -tls1_2 || fail "port $port speaks TLS 1.2: $(cat said)"
done

# ---- who is not let in ----
mkdir refused
refused() { # WHAT PATTERN DIRECTORY [SOURCE]
	local out status=0
	out=$(STRATUS_TLS_DIR=$3 timeout 40 "$STRATUS" mount "${4:-$SERVERS:/photos}" "$SCRATCH/refused" 2>&1) || status=$?
	[ $status -ne 0 ] || { umount refused; fail "$1 is let in"; }
	[ $status -ne 124 ] || fail "$1: no answer"
	grep -qE "$2" <<<"$out" || fail "$1: the refusal does not say why: $out"
	[ "$(wc -l <<<"$out")" -eq 1 ] || fail "$1: more than one sentence: $out"
}
refused "a mount without TLS" 'no answer from .*; does stratusd run there' ""
refused "a client of another authority" 'unknown ca|decrypt error|bad certificate' "$SCRATCH/stranger"
refused "an expired certificate" 'certificate expired' "$SCRATCH/expired"
refused "a tenant, of a volume that has not this tenant" "says: .*that have this tenant, and no others: check the name" "$SCRATCH/acme"
refused "an expired certificate, without OpenSSL's words" "^[^(]*refuses the certificate [^ ]*/cert.pem .alert certificate expired.: have another" "$SCRATCH/expired"
refused "a missing directory" 'cert.pem: No such file' "$SCRATCH/nowhere"
# the same at the bricks, whatever the volfile service says
"$STRATUS" volgen photos.yaml --out . >/dev/null
volfile() { sed "s,$SCRATCH/own,$SCRATCH/$1,; s/option max-wait 3s/option max-wait 1s/; /wait-for-brick/d" client-photos.vol >"client-$1.vol"; }
for name in stranger expired acme; do volfile $name; done
refused "another authority, at the brick" 'alert (unknown ca|decrypt error|bad certificate)|no brick|replica' "" client-stranger.vol
refused "an expired one, at the brick" 'alert certificate expired|replica' "" client-expired.vol
sed '/option t/d' client-acme.vol >client-plain.vol
refused "no TLS, at the brick" 'same transport|replica' "" client-plain.vol
refused "a volfile without TLS" 'without TLS, which --tls-dir forbids' "$SCRATCH/desk" client-plain.vol

# A client cannot play a server: neither the volfile service's, nor a brick's.
fake=$(free_port)
openssl s_server -accept "$fake" -cert desk/cert.pem -key desk/key.pem -tls1_3 -quiet >/dev/null 2>&1 &
note $! fake
FAKE=$!
wait_until 60 port_open "$fake" || fail "openssl s_server"
refused "a client's certificate as a server" 'purpose' "$SCRATCH/desk" "127.0.0.1:$fake:/photos"
kill $FAKE; wait $FAKE 2>/dev/null || true; unset "PIDS[$FAKE]"

# ---- who may see what ----
get() { # WHO PATH: the status
	curl -s -o answer -w '%{http_code}' --cacert ca/ca.pem --cert "$1/cert.pem" --key "$1/key.pem" "https://127.0.0.1:${HTTP[beta]}$2" || true
}
[ "$(get admin /v1/status)" = 200 ] && [ "$(get beta /v1/status)" = 200 ] || fail "an administrator does not get the status"
for who in desk acme; do
	[ "$(get $who /v1/status)" = 403 ] && grep -q 'for administrators and servers' answer || fail "$who gets the status: $(cat answer)"
done
[ "$(get desk /v1/volume/photos/client)" = 200 ] && grep -q 'option transport tls' answer || fail "desk does not get the volfile"
# a tenant gets that of its own volume, and of no other, be there one or not
for volume in photos none; do
	[ "$(get acme /v1/volume/$volume/client)" = 403 ] && grep -q 'that have this tenant' answer || fail "a tenant gets $volume: $(cat answer)"
	[ "$(get acme "/v1/volume/$volume/client?after=0")" = 403 ] || fail "a tenant may wait for $volume"
done
refused "a tenant, at the brick of a volume that is not for tenants" 'tenant|replica' "" client-acme.vol
{
	printf 'volume: shared\nid: %s\ntransport: tls\ntls:\n' "$(uuid)"
	grep -E '^  (certificate|key|authorities|revoked): ' photos.yaml
	printf 'servers:\n  alpha: {host: 127.0.0.1}\ntenants: []\ntenant-base: 65536\n'
	printf 'bricks:\n  - {server: alpha, directory: %s/brick-shared, id: %s, port: %s}\n' "$SCRATCH" "$(uuid)" "$(free_port)"
} >shared.yaml
lead apply shared.yaml >out 2>&1 || fail "apply: $(cat out)"
get_is() { [ "$(get acme /v1/volume/shared/client)" = "$1" ]; } # at beta, which hears of it a moment later
lead tenant create shared globex >/dev/null
get_is 403 || fail "a tenant gets the volume of another"
lead tenant create shared acme >/dev/null
wait_until 60 get_is 200 || fail "a tenant does not get its own volume: $(cat answer)"
lead tenant delete shared acme >/dev/null
wait_until 60 get_is 403 || fail "a deleted tenant gets the volume"
[ "$(get stranger /v1/volume/photos/client)" = 000 ] || fail "another authority's client gets the volfile"
[ "$(curl -s -o /dev/null -w '%{http_code}' --cacert ca/ca.pem "https://127.0.0.1:${HTTP[beta]}/v1/volume/photos/client" || true)" = 000 ] ||
	fail "without a certificate one gets the volfile"

# ---- revoked under a mount: cut off within two seconds or so, while the other goes on ----
start_mount "$SCRATCH/cut" "$SERVERS:/photos" --tls-dir "$SCRATCH/lost"
CUT=$LAST_PID
(exec 8>>"$SCRATCH/cut/held"; echo before >&8)
cert revoke lost/cert.pem
begin=$(now_ms)
for name in alpha beta gamma own; do cp ca/crl.pem $name/crl.pem; done
down() { grep -q 'brick: down' < <(facts "$CUT") && ! grep -q 'brick: up' < <(facts "$CUT"); }
wait_until 60 down || fail "a mount whose certificate is revoked goes on: $(facts "$CUT" | grep 'brick: ')"
say "revoked: cut off after $(( $(now_ms) - begin )) ms"
! timeout 20 sh -c "echo x >'$SCRATCH/cut/new'" 2>/dev/null || fail "it can still write"
says_why() { grep -qE 'the server at .*alert certificate revoked.*trying again' mount-cut.log; }
wait_until 60 says_why || fail "the mount does not say why: $(tail -n 5 mount-cut.log)"
cmp data "$MNT/data" || fail "the other mount was cut off, too"
refused "a revoked certificate" 'certificate revoked' "$SCRATCH/lost"
kill_hard "$CUT" "mount of the one who is revoked"
umount -l cut

# ---- a list that comes only now counts ----
mkdir late && cp desk/cert.pem desk/key.pem desk/ca.pem late/
start_mount "$SCRATCH/late-mnt" "$SERVERS:/photos" --tls-dir "$SCRATCH/late"
LATE=$LAST_PID
cmp data late-mnt/data || fail "a mount without a list does not work"
cp -r ca ca-late # of its revocations the others do not hear
"$STRATUS" cert revoke own/cert.pem --dir ca-late >/dev/null
cp ca-late/crl.pem late/.new && mv late/.new late/crl.pem
late_down() { grep -q 'brick: down' < <(facts "$LATE") && ! grep -q 'brick: up' < <(facts "$LATE"); }
wait_until 60 late_down || fail "a list that comes after the start is not read: $(facts "$LATE" | grep 'brick: ')"
kill_hard "$LATE" "mount with a list"
umount -l late-mnt

# ---- a server's certificate is renewed: the mount goes on without an error ----
before=$(openssl x509 -in own/cert.pem -noout -serial)
python3 - "$MNT/steady" steady.end >steady.out 2>&1 <<'END' &
import os, sys, time
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
end, longest, count = time.time() + 4, 0, 0
while time.time() < end or not os.path.exists(sys.argv[2]):
    begin = time.time()
    os.pwrite(fd, b"x" * 1000, count * 1000)
    os.fsync(fd)
    longest, count = max(longest, time.time() - begin), count + 1
    time.sleep(0.01)
print(count, "writes, the longest", int(longest * 1000), "ms")
sys.exit(longest > 20)
END
STEADY=$!
cert issue --server 127.0.0.1,localhost --out own --replace
for name in alpha beta gamma; do cert issue --server 127.0.0.1,localhost --out $name --replace; done
served() { # PORT: the serial number that is shown
	openssl s_client -connect 127.0.0.1:"$1" </dev/null 2>/dev/null | openssl x509 -noout -serial 2>/dev/null
}
port=$(grep -o ' port: [0-9]*' photos.yaml | head -n 1 | cut -d' ' -f3)
renewed() { [ "$(served "$port")" = "$(openssl x509 -in own/cert.pem -noout -serial)" ] && [ "$(served "${HTTP[alpha]}")" = "$(openssl x509 -in alpha/cert.pem -noout -serial)" ]; }
wait_until 60 renewed || fail "the new certificate is not in use: $before, $(served "$port")"
touch steady.end
wait $STEADY || fail "the mount was interrupted: $(cat steady.out)"
say "renewed: $(cat steady.out)"
grep -q 'connection .* lost' mount-mnt.log && fail "a connection was lost: $(grep lost mount-mnt.log)"

# ---- a bad certificate changes nothing, and the log says so once ----
cp desk/key.pem own/key.pem
told() { grep -q 'is not the key of the certificate.*stays in force' alpha.log; }
wait_until 60 told || fail "the log does not tell of a bad key"
start_mount "$SCRATCH/again" "$SERVERS:/photos" --tls-dir "$SCRATCH/desk"
cmp data again/data || fail "a bad key has stopped the servers"
stop_mount "$SCRATCH/again" "$LAST_PID"
cert issue --server 127.0.0.1,localhost --out own --replace

# ---- a server goes and comes back: the store and the set go on, healed by TLS ----
one_leads() { for leader in alpha beta gamma; do ! leads $leader || return 0; done; return 1; }
wait_until 60 one_leads || fail "nobody leads"
start_mount "$SCRATCH/lone" "127.0.0.1:${HTTP[$leader]}:/photos" --tls-dir "$SCRATCH/later"
LONE=$LAST_PID
kill_hard "${PID[$leader]}" "stratusd $leader"
others=$(for name in alpha beta gamma; do [ $name = "$leader" ] || echo $name; done)
somebody() { local name; for name in $others; do if leads "$name"; then leader2=$name; return 0; fi; done; return 1; }
wait_until 60 somebody || fail "nobody leads"
timeout 60 cp data "$MNT/second" || fail "no write with one of three away"
no_longer_follows() { grep -q "can't follow changes .*$1" mount-lone.log; }
wait_until 60 no_longer_follows 'no answer from' || fail "a mount does not say that its server is gone: $(tail -n 5 mount-lone.log)"
cert revoke later/cert.pem
for name in alpha beta gamma own; do cp ca/crl.pem $name/crl.pem; done
start_server "$leader" --join
wait_until 60 no_longer_follows 'certificate revoked' || fail "that it is for another reason now the log does not say: $(tail -n 5 mount-lone.log)"
kill_hard "$LONE" "mount with one server"
umount -l lone
wait_until 60 cmp -s data "brick-$leader/second" || fail "what the server missed is not healed"
on "$leader2" volume set photos protocol/client ping-timeout 20s >/dev/null
follows() { grep -q 'switched to version 2' mount-mnt.log; }
wait_until 60 follows || fail "the mount does not follow a change of the volume"
timeout 60 "$STRATUS" fsck --tls-dir desk --wait 1 "$SERVERS:/photos" >out 2>&1 || fail "fsck: $(cat out)"
! timeout 60 "$STRATUS" fsck --wait 1 "$SERVERS:/photos" >out 2>&1 || fail "fsck without a certificate"
cmp data "$MNT/second" || fail "data differ after the heal"
stop_mount "$MNT" "$MOUNT"
pass
