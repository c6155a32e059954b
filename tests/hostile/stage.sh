# SPDX-License-Identifier: Apache-2.0
# For lib.sh: a stratusd with a cluster store and one volume for tenants over TLS, of whom acme attacks, and globex works meanwhile in a mount, and
# is looked at in the end. `stage` makes all that; `curtain` sees that the victim missed nothing, that nothing was told, and nothing changed elsewhere.
. "$TOP/tests/cmd/keeper.sh"
HOSTILE=$TOP/tests/hostile
TOKEN=Kzq7TOKENw # in the victim's names, contents and attributes
BRICKS=${BRICKS:-1}
SET=${SET:-} # not empty: they are replica sets of MEMBERS bricks, or one
MEMBERS=${MEMBERS:-$BRICKS}
SIZE=457187593486 OWNER=23456 GROUP=34567 # of a file of the victim

identity() { # NAME WORDS of stratus cert issue
	"$STRATUS" cert issue --dir "${CA:-ca}" "${@:2}" --out "issued-$1" >/dev/null || fail "stratus cert issue $*"
	cp "issued-$1/cert.pem" "$1.pem"
	cp "issued-$1/key.pem" "$1.key"
}
expired() { # NAME URI: what `stratus cert` does not make
	python3 - ca "$1" "$2" <<-'END' || fail "python3-cryptography makes no certificate"
	import datetime, sys
	from cryptography import x509
	from cryptography.hazmat.primitives import hashes, serialization
	from cryptography.hazmat.primitives.asymmetric import ec
	ca, name, uri = sys.argv[1:]
	issuer = x509.load_pem_x509_certificate(open(f"{ca}/ca.pem", "rb").read())
	signer = serialization.load_pem_private_key(open(f"{ca}/ca.key", "rb").read(), None)
	key = ec.generate_private_key(ec.SECP256R1())
	made = x509.CertificateBuilder(issuer.subject, x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]), key.public_key(),
	                               x509.random_serial_number(), datetime.datetime(2020, 1, 1), datetime.datetime(2020, 2, 1))
	made = made.add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), False)
	made = made.add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), False)
	open(f"{name}.pem", "wb").write(made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
	open(f"{name}.key", "wb").write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
	END
}
certificates() {
	"$STRATUS" ca init --dir ca >/dev/null
	"$STRATUS" ca init --dir other-ca >/dev/null
	cp ca/ca.pem good-ca.pem
	identity own --server 127.0.0.1
	for name in acme globex stranger revoked; do identity "$name" --tenant "${name/revoked/acme}"; done
	identity nobody --client desk
	identity admin --admin root
	identity point --access acme/photos
	identity keeper --tenant-admin acme
	CA=other-ca identity foreign --tenant acme
	expired expired stratus:tenant/acme
	"$STRATUS" cert revoke --dir ca issued-revoked/cert.pem >/dev/null
}
volume() {
	local side i bricks=()
	for ((i = 0; i < BRICKS; i++)); do bricks+=(127.0.0.1:"$SCRATCH/b$i"); done
	"$STRATUS" volume create photos --tenants ${SET:+--replica "$MEMBERS"} "${bricks[@]}" >/dev/null
	for side in server client; do
		"$STRATUS" volume set photos protocol/$side transport tls >/dev/null
		"$STRATUS" volume set photos protocol/$side tls-certificate "$SCRATCH/own.pem" >/dev/null
		"$STRATUS" volume set photos protocol/$side tls-key "$SCRATCH/own.key" >/dev/null
		"$STRATUS" volume set photos protocol/$side tls-authorities "$SCRATCH/good-ca.pem" >/dev/null
	done
	"$STRATUS" volume set photos protocol/server tls-revoked "$SCRATCH/ca/crl.pem" >/dev/null
	"$STRATUS" volume set photos protocol/server session-timeout 3s >/dev/null
	"$STRATUS" tenant create photos acme >/dev/null
	"$STRATUS" tenant create photos globex >/dev/null
	"$STRATUS" volume start photos >/dev/null
	"$STRATUS" volume info photos | sed 1d >photos.yaml
	"$STRATUS" volgen photos.yaml --out . >/dev/null
	PORTS=($(sed -n 's/.*option remote-port //p' client-photos.vol)) # one for each brick
	PORT=${PORTS[0]}
	sed "s,own\\.,globex.," client-photos.vol >globex.vol
	wait_until 20 port_open "$PORT" || fail "the brick is not served"
}
treasure() { # what nobody else may hear of
	local i
	echo "$TOKEN" >"$V/secret"
	mkdir -p "$V/$TOKEN-directory/below"
	echo "$TOKEN" >"$V/$TOKEN-directory/below/$TOKEN-file"
	setfattr -n "user.$TOKEN" -v "$TOKEN" "$V/secret" "$V/$TOKEN-directory"
	ln -s "$TOKEN" "$V/link-$TOKEN"
	truncate -s "$SIZE" "$V/large"
	chown "$OWNER:$GROUP" "$V/large"
	SECRETS=$(printf '%s' "$TOKEN" | od -An -tx1 | tr -d ' \n')
	SECRETS="$SECRETS $(printf '%016x' "$SIZE") $(printf '%08x%08x' "$OWNER" "$GROUP") $(printf '%08x%08x' $((131072 + OWNER)) $((131072 + GROUP)))"
	for ((i = 0; i < BRICKS; i++)); do
		SECRETS="$SECRETS $(BRICK=$i python3 "$HOSTILE/wire.py" "${PORTS[i]}" "$SCRATCH" globex secret "$TOKEN-directory" large)" # their gfids
	done
}
# All of the brick but the attacker's own tree and what the brick keeps for itself; and what lies beside it.
elsewhere() {
	local i
	for ((i = 0; i < BRICKS; i++)); do
		(cd "$SCRATCH/b$i" && find . \( -path ./.stratus -o -path ./tenants/acme -o -path './tenants/new?' -o -path ./tenants/globex/work -o -path ./tenants/globex/.stratus.dht \) -prune -o -printf '%p %y %m %U %G %s\n' | sort)
		find "$SCRATCH/b$i" -maxdepth 1
	done
}
work() {
	mkdir "$V/work"
	python3 "$HOSTILE/victim.py" "$V/work" "$SCRATCH/victim" >victim.out 2>&1 &
	VICTIM=$!
	note "$VICTIM" "the victim"
	wait_until 20 test -s victim || fail "the victim does not begin: $(cat victim.out)"
}
stage() {
	scratch
	cd "$SCRATCH"
	HTTP=$(free_port) STACK=$SCRATCH V=$SCRATCH/mnt-globex
	certificates
	start_keeper
	volume
	start_mount "$V" globex.vol
	treasure
	elsewhere >elsewhere.before
	BRICK_PID=$(pid_of_brick)
	work
}
pid_of_brick() { "$STRATUS" ps --json | json '[p["pid"] for p in d if p["program"] == "stratusd"][0]'; }
# The worst of the victim's operations since the last look, in ms, and the median and the 99th percentile of them.
victims_time() {
	rm -f victim
	kill -USR1 "$VICTIM" || fail "the victim: $(cat victim.out)"
	wait_until 30 test -s victim || fail "the victim hangs, or found: $(cat victim.out)"
	cat victim
}
victim_works() { # WHILE
	local times
	times=$(victims_time)
	say "$1: the victim's operations take (ms, median, 99th percentile, most): $times"
	[ "$(cut -d ' ' -f 3 <<<"$times" | cut -d . -f 1)" -lt 20000 ] || fail "$1: the victim waits too long: $times"
}
counted() { "$STRATUS" usage --total --json | json 'sorted((a["account"], a["bytes"], a["inodes"]) for b in d if b["exact"] for a in b["accounts"] if a["account"] in ("acme", "globex"))'; }
there() { # at all bricks
	local i
	for ((i = 0; i < BRICKS; i++)); do python3 "$TOP/tests/fault/usage.py" count "b$i" acme:65536:65536 globex:131072:65536 && echo; done |
		python3 -c 'import json, sys
all = [json.loads(line) for line in sys.stdin if line.strip()]
print(sorted((n, sum(d[n]["bytes"] for d in all), sum(d[n]["inodes"] for d in all)) for n in ("acme", "globex")))'
}
as_there() { [ "$(counted)" = "$(there)" ]; }
curtain() {
	local status=0
	gone "$BRICK_PID" && fail "stratusd has ended"
	[ "$(pid_of_brick)" = "$BRICK_PID" ] || fail "stratusd was restarted"
	kill "$VICTIM"
	wait "$VICTIM" || status=$?
	unset "PIDS[$VICTIM]"
	[ "$status" = 0 ] || fail "the victim: $(tail -n 5 victim.out)"
	[ "$(cat "$V/secret" "$V/$TOKEN-directory/below/$TOKEN-file")" = "$TOKEN"$'\n'"$TOKEN" ] || fail "the victim's files are changed"
	elsewhere >elsewhere.after
	diff elsewhere.before elsewhere.after || fail "something changed outside of the attacker's tree"
	[ ! -e /tmp/stratus-was-here ] && [ ! -e /etc/stratus-was-here ] || fail "a file was made by the name of an attribute"
	[ -z "$(find b?/tenants/acme \( -not -uid +65535 -o -uid +131071 -o -not -gid +65535 -o -gid +131071 \))" ] || fail "acme has ids outside its range on the brick"
	[ -n "$SET" ] || wait_until 20 as_there || fail "charged: $(counted), there are: $(there)"
	grep -q "$TOKEN" stratusd.log && fail "the log has what the victim wrote"
	return 0
}
