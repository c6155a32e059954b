#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Known answers of encryption/crypt are opened by another implementation (Python's cryptography, with AES-SIV: 37 or later).
set -eu
TOP=$(cd "$(dirname "$0")/../.." && pwd)
PROGRAM=${STRATUS_BUILD:-$TOP/build/obj}/tests/unit/crypt-format-test
python3 -c 'from cryptography.hazmat.primitives.ciphers.aead import AESSIV; AESSIV(bytes(range(64)))' 2>/dev/null || {
	echo "crypt-vectors: skipped: no python3-cryptography with AES-SIV"
	exit 77
}
[ -x "$PROGRAM" ] || { echo "crypt-vectors: skipped: no $PROGRAM"; exit 77; }
"$PROGRAM" vectors | python3 "$TOP/tests/cmd/crypt-vectors.py"
echo "crypt-vectors: passed"
