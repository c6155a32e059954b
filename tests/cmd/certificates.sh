#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus ca` and `stratus cert`, with openssl(1) as the judge: chains, names, uses, revocation; nothing is overwritten, and each
# mistake is one sentence.
. "$(dirname "$0")/../mount/lib.sh"
[ -x "$STRATUS" ] || skip "no $STRATUS: run ./bootstrap build, or set STRATUS_BIN"
need openssl python3
scratch
cd "$SCRATCH"

refused() { # STATUS PATTERN COMMAND...: with one sentence
	local want=$1 pattern=$2 status=0 out
	shift 2
	out=$("$STRATUS" "$@" 2>&1) || status=$?
	[ "$status" = "$want" ] || fail "'$*' ended with status $status, not $want: $out"
	grep -qE -- "$pattern" <<<"$out" || fail "'$*' does not say why: $out"
	[ "$(wc -l <<<"$out")" = 1 ] || fail "'$*' says more than a sentence: $out"
}
cert() { "$STRATUS" cert "$@" --dir ca >/dev/null || fail "stratus cert $*"; }
judge() { openssl verify -x509_strict -CAfile ca/ca.pem -CRLfile ca/crl.pem -crl_check "$@" 2>&1; }
is_good() { judge "$@" >/dev/null || fail "openssl refuses $*: $(judge "$@")"; }
is_bad() { # PATTERN ...
	local out
	out=$(judge "${@:2}") && fail "openssl takes ${*:2}"
	grep -q "$1" <<<"$out" || fail "${*:2} is refused for another reason: $out"
}

refused 1 'there is no authority|stratus ca init' cert list --dir ca
"$STRATUS" ca init --dir ca --name "Test authority" --days 1000 >/dev/null || fail "ca init"
[ "$(stat -c %a ca/ca.key ca ca/registry | tr '\n' ' ')" = "600 700 600 " ] || fail "others may read what is secret: $(ls -la ca)"
[ "$(openssl x509 -in ca/ca.pem -noout -subject)" = "subject=CN = Test authority" ] || fail "the authority is called otherwise"
openssl verify -x509_strict -CAfile ca/ca.pem ca/ca.pem >/dev/null || fail "openssl does not take the authority"
cp -r ca before
"$STRATUS" ca init --dir ca --name Another >out || fail "a second init"
grep -q 'nothing was changed' out && diff -r before ca || fail "an authority was changed: $(cat out)"

# ---- what the certificates are good for ----
cert issue --server alpha.example,alpha,10.9.0.1,2001:db8::1 --out alpha
cert issue --tenant acme --out acme --days 30
cert issue --client mounter --out client
cert issue --admin root --out admin
cert issue --access acme/photos --out access
cert issue --tenant-admin acme --out keeper
[ "$(stat -c %a alpha/key.pem)" = 600 ] || fail "the key may be read by others"
for one in alpha acme client admin access keeper; do
	is_good -purpose sslclient "$one/cert.pem"
	[ "$(openssl x509 -in $one/cert.pem -noout -pubkey)" = "$(openssl pkey -in $one/key.pem -pubout)" ] || fail "$one: another key"
	cmp "$one/ca.pem" ca/ca.pem && cmp "$one/crl.pem" ca/crl.pem || fail "$one: another authority"
done
is_good -purpose sslserver alpha/cert.pem
for host in alpha.example alpha; do is_good -purpose sslserver -verify_hostname $host alpha/cert.pem; done
for address in 10.9.0.1 2001:db8::1; do is_good -verify_ip $address alpha/cert.pem; done
is_bad 'hostname mismatch' -verify_hostname beta.example alpha/cert.pem
for one in acme client admin access keeper; do is_bad 'purpose' -purpose sslserver $one/cert.pem; done
# a certificate signs no other
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout x.key -out x.csr -subj /CN=x 2>/dev/null
openssl x509 -req -in x.csr -CA acme/cert.pem -CAkey acme/key.pem -CAcreateserial -out x.pem 2>/dev/null
is_bad 'invalid CA\|issuer' -untrusted acme/cert.pem x.pem
uri() { openssl x509 -in "$1/cert.pem" -noout -ext subjectAltName | grep -o 'URI:[^,]*'; }
[ "$(for one in alpha acme client admin access keeper; do uri $one; done | tr '\n' ' ')" = \
"URI:stratus:server URI:stratus:tenant/acme URI:stratus:client/mounter URI:stratus:admin URI:stratus:tenant/acme/access/photos URI:stratus:tenant/acme/admin " ] ||
	fail "wrong identities"
openssl x509 -in acme/cert.pem -noout -checkend $((29 * 86400)) >/dev/null || fail "it ends before its days"
! openssl x509 -in acme/cert.pem -noout -checkend $((31 * 86400)) >/dev/null || fail "it ends after its days"

# ---- nothing is overwritten ----
cp -r acme kept
refused 1 'has a certificate already.*--replace' cert issue --tenant other --out acme --dir ca
diff -r kept acme || fail "a refused issue has changed files"
[ "$("$STRATUS" cert list --dir ca --json | json 'len(d)')" = 6 ] || fail "a refused issue has issued something"
cert issue --tenant acme --out acme --replace
is_good acme/cert.pem
! cmp -s kept/cert.pem acme/cert.pem && ! cmp -s kept/key.pem acme/key.pem || fail "--replace has replaced nothing"
"$STRATUS" ca init --dir ca2 --name "Test authority" >/dev/null
refused 1 'another authority' cert issue --tenant acme --out acme --replace --dir ca2
is_good acme/cert.pem
cat ca2/ca.pem >>acme/ca.pem # both are trusted: what was put together by hand stays
cp acme/ca.pem both
cert issue --tenant acme --out acme --replace
cmp both acme/ca.pem || fail "the authorities put together by hand were replaced"

# ---- revocation ----
cert revoke kept/cert.pem
is_bad 'certificate revoked' kept/cert.pem
is_good acme/cert.pem
serial=$(openssl x509 -in client/cert.pem -noout -serial | cut -d= -f2)
cert revoke "$(sed 's/../&:/g; s/:$//' <<<"$serial")" # as openssl prints it elsewhere
is_bad 'certificate revoked' client/cert.pem
cert revoke "$serial"
number() { openssl crl -in ca/crl.pem -noout -crlnumber | cut -dx -f2; }
was=$(number)
cert revoke admin/cert.pem
[ $((0x$(number))) -gt $((0x$was)) ] || fail "the list's number does not grow"
openssl crl -in ca/crl.pem -CAfile ca/ca.pem -noout 2>verdict
grep -q 'verify OK' verdict || fail "the list is not signed by the authority: $(cat verdict)"
"$STRATUS" cert list --dir ca --json >list.json
[ "$(json '" ".join(c["state"] for c in d)' <list.json)" = "valid revoked revoked revoked valid valid valid valid" ] ||
	fail "wrong states: $(cat list.json)"
[ "$("$STRATUS" cert list --dir ca | grep -c '  valid ')" = 5 ] || fail "the table differs: $("$STRATUS" cert list --dir ca)"

# ---- two at once: each is in the registry ----
for i in 1 2 3 4 5 6; do "$STRATUS" cert issue --client c$i --out c$i --dir ca >/dev/null & done
wait
[ "$("$STRATUS" cert list --dir ca --json | json 'len({c["serial"] for c in d})')" = 14 ] || fail "the registry has lost one"

# ---- mistakes ----
for host in 'a b' '*.example' '10.0.0.256' '' 'a,,b'; do refused 1 'neither a host name' cert issue --server "$host" --dir ca --out n; done
for name in 'a/b' '' '.x' 'ä'; do refused 1 'is no name' cert issue --tenant "$name" --dir ca --out n; done
for uri in https://a stratus:server2 stratus:tenant/ stratus:tenant/a/b stratus:tenant/a/access/b/c; do
	refused 1 'is no identity' cert issue --uri "$uri" --dir ca --out n
done
refused 1 'is no access point' cert issue --access acme --dir ca --out n
refused 1 'use --server' cert issue --uri stratus:server --dir ca --out n
refused 1 'the authority itself ends in' cert issue --client a --days 2000 --dir ca --out n
refused 1 'neither a serial number' cert revoke nothing --dir ca
refused 1 'no certificate in PEM' cert revoke list.json --dir ca
refused 1 'no certificate with the serial number' cert revoke 00000000000000000000000000000000 --dir ca
"$STRATUS" cert issue --dir ca2 --client a --out foreign >/dev/null
refused 1 'was not issued by the authority' cert revoke foreign/cert.pem --dir ca
refused 2 'one owner' cert issue --client a --tenant b --dir ca
refused 2 'whom shall it be for' cert issue --dir ca
refused 2 'go with issue' cert list --days 3 --dir ca
refused 2 'go with issue' cert revoke --out x abc --dir ca
[ ! -e n ] || fail "a mistake has left files"
cp ca/registry registry; echo nonsense >>ca/registry
refused 1 'registry:[0-9]+: this line is damaged' cert list --dir ca
cp registry ca/registry; cp ca2/ca.key ca/ca.key
refused 1 'is not the key of' cert list --dir ca
pass
