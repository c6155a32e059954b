# SPDX-License-Identifier: Apache-2.0
# For lib.sh: with TENANT=NAME the brick of a test is for tenants, over TLS, and the test is that tenant: what passes for all passes for him.
# $BRICK is then his tree on it.

tenant_certificate() { # NAME SUBJECT_ALTERNATIVE_NAMES
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -out "$1.pem" \
		-extfile <(echo "subjectAltName=$2") 2>/dev/null
}
tenant_certificates() {
	TLS=$SCRATCH/tls
	[ ! -e "$TLS" ] || return 0
	mkdir -m 755 "$TLS"
	(
		cd "$TLS"
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout authority.key -out authority.pem -days 2 \
			-subj "/CN=authority" 2>/dev/null
		tenant_certificate server IP:127.0.0.1
		tenant_certificate client "URI:stratus:tenant/$TENANT"
		chmod 644 ./*
	) || fail "openssl can't make certificates"
}
tenant_tls() { # FILE TYPE NAME: the options of all volumes of that type, with the certificate of that name
	tenant_certificates
	sed -i "s,^ *type $2\$,&\n    option transport tls\n    option tls-certificate $TLS/$3.pem\n    option tls-key $TLS/$3.key\n    option tls-authorities $TLS/authority.pem," "$1"
}
tenant_server() { # FILE
	"$STRATUS" volgen filter cloud --table "$TENANT 7e7a0000-0000-4000-8000-000000000001 65536 65536 active" --out "$1.filtered" <"$1" ||
		fail "the volfile of a server can't be filtered"
	mv "$1.filtered" "$1"
	tenant_tls "$1" protocol/server server
}
