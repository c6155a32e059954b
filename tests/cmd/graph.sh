#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus graph` draws a volfile as text for dot, as JSON and as SVG, and says where a wrong one is wrong.
. "$(dirname "$0")/../mount/lib.sh"
[ -x "$STRATUS" ] || skip "no $STRATUS: run ./bootstrap build, or set STRATUS_BIN"
scratch
cd "$SCRATCH"
write_server_volfile a.vol /srv/b 7000 "$(uuid)" "$(uuid)"
"$STRATUS" graph a.vol | grep -q '^digraph' || fail "no digraph"
[ "$("$STRATUS" graph a.vol --json | python3 -c 'import json,sys; print(*[v["name"] for v in json.load(sys.stdin)])')" = \
	"posix locks access server" ] || fail "wrong JSON"
echo old >a.svg
! PATH=/nonexistent "$STRATUS" graph a.vol --svg a.svg 2>err || fail "drawn without dot"
grep -q graphviz err || fail "the next step is not named: $(cat err)"
[ "$(cat a.svg)" = old ] || fail "a picture that could not be drawn has replaced the old one"
if command -v dot >/dev/null; then
	"$STRATUS" graph a.vol --svg a.svg
	grep -q '<svg' a.svg || fail "no SVG"
fi
printf 'volume x\n    tipe a/b\nend-volume\n' >bad.vol
! "$STRATUS" graph bad.vol 2>err || fail "a wrong volfile was drawn"
grep -q 'bad.vol:2' err || fail "no line in: $(cat err)"
[ -z "$(ls | grep new)" ] || fail "files were left behind: $(ls)"
pass
