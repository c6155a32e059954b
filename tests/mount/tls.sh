#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With transport tls only who has a certificate of the right authority gets in, on both sides, and data get through unharmed.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need openssl python3

authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1-ca.key" -out "$1-ca.pem" -days 2 \
		-subj "/CN=$1 authority" 2>/dev/null
}
certificate() { # AUTHORITY NAME SUBJECT_ALTERNATIVE_NAMES
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$2.key" -out "$2.csr" -subj "/CN=$2" 2>/dev/null
	openssl x509 -req -in "$2.csr" -CA "$1-ca.pem" -CAkey "$1-ca.key" -CAcreateserial -days 2 -out "$2.pem" \
		-extfile <(echo "subjectAltName=$3") 2>/dev/null
}
tls_options() { # NAME AUTHORITY: as lines of a volfile
	printf '    option transport tls\n    option tls-certificate %s/%s.pem\n    option tls-key %s/%s.key\n    option tls-authorities %s/%s-ca.pem\n' \
		"$SCRATCH" "$1" "$SCRATCH" "$1" "$SCRATCH" "$2"
}
server_with() { # NAME AUTHORITY
	write_server_volfile "$SERVER_VOL" "$BRICK" "$PORT" "$VOLUME_ID" "$BRICK_ID"
	sed -i "/option listen/r /dev/fd/3" "$SERVER_VOL" 3< <(tls_options "$1" "$2")
}
client_with() { # FILE NAME AUTHORITY
	write_client_volfile "$1" "$PORT" "$VOLUME_ID" "$BRICK_ID"
	sed -i "/option remote-port/r /dev/fd/3" "$1" 3< <(tls_options "$2" "$3")
}
refused() { # WHAT PATTERN VOLFILE
	local out
	mkdir -p "$SCRATCH/refused"
	if out=$(timeout 30 "$STRATUS" mount "$3" "$SCRATCH/refused" 2>&1); then
		umount "$SCRATCH/refused"
		fail "$1 is let in"
	fi
	grep -qE "$2" <<<"$out" || fail "$1: the refusal does not say why: $out"
	[ "$(wc -l <<<"$out")" -eq 1 ] || fail "$1: more than one sentence: $out"
}

scratch
cd "$SCRATCH"
authority good && authority bad || fail "openssl can't make authorities"
certificate good server IP:127.0.0.1,DNS:localhost
certificate good elsewhere DNS:other.example
certificate good client DNS:client
certificate bad stranger DNS:client
BRICK=$SCRATCH/brick MNT=$SCRATCH/mnt SERVER_VOL=$SCRATCH/server.vol CLIENT_VOL=$SCRATCH/client.vol STACK=$SCRATCH
PORT=$(free_port) VOLUME_ID=$(uuid) BRICK_ID=$(uuid)
mkdir -p "$BRICK"

server_with server good
client_with "$CLIENT_VOL" client good
start_brick
start_mount "$MNT"
MOUNT_PID=$LAST_PID

# Data, names, large and small, also over a restart of the brick.
head -c 20000000 /dev/urandom >"$SCRATCH/data"
cp "$SCRATCH/data" "$MNT/data"
cmp "$SCRATCH/data" "$MNT/data" || fail "data are changed on the way"
cp -a "$TOP/libcore" "$MNT/tree"
diff -r "$TOP/libcore" "$MNT/tree" || fail "a tree comes back changed"
exec 7>>"$MNT/log"
echo before >&7
restart_brick 7>&-
echo after >&7
exec 7>&-
[ "$(cat "$MNT/log")" = $'before\nafter' ] || fail "an open file did not survive a restart of the brick"
python3 "$TOP/tests/fault/load.py" "$MNT/load" 2000 "$SEED" >"$SCRATCH/load.out" || fail "load: $(cat "$SCRATCH/load.out")"

# Who is not let in, and what it is told.
client_with "$SCRATCH/stranger.vol" stranger good
refused "a client of another authority" 'alert unknown ca' "$SCRATCH/stranger.vol"
write_client_volfile "$SCRATCH/plain.vol" "$PORT" "$VOLUME_ID" "$BRICK_ID"
refused "a client without TLS" 'with the same transport' "$SCRATCH/plain.vol"
client_with "$SCRATCH/distrust.vol" client bad
refused "a server of another authority" 'TLS: .*certificate' "$SCRATCH/distrust.vol"
client_with "$SCRATCH/missing.vol" nobody good
refused "a missing certificate" 'tls-certificate.*nobody.pem.*No such file' "$SCRATCH/missing.vol"
client_with "$SCRATCH/mixed.vol" client good
sed -i 's,client.key,server.key,' "$SCRATCH/mixed.vol"
refused "the key of another certificate" 'tls-key.*not the key' "$SCRATCH/mixed.vol"
sed '/tls-key/d' "$CLIENT_VOL" >"$SCRATCH/keyless.vol"
refused "no key" 'needs the option tls-key' "$SCRATCH/keyless.vol"
head -c 100000 /dev/urandom >/dev/tcp/127.0.0.1/"$PORT" || true # closed on us, or not
[ "$(cat "$MNT/log")" = $'before\nafter' ] || fail "the server did not survive garbage"
stop_stack

server_with elsewhere good
start_brick
refused "a server with the certificate of another host" 'IP address mismatch|hostname mismatch' "$CLIENT_VOL"
stop_brick
server_with server good
sed -i 's,server.pem,nowhere.pem,' "$SERVER_VOL"
status=0
out=$(timeout 30 "$STRATUSD" --foreground "$SERVER_VOL" 2>&1) || status=$?
[ $status -eq 1 ] && grep -q 'tls-certificate.*nowhere.pem' <<<"$out" || fail "a server without its certificate: status $status, $out"
pass
