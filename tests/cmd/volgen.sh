#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A specification becomes volfiles that load; a wrong one changes no file.
. "$(dirname "$0")/../mount/lib.sh"
[ -x "$STRATUS" ] || skip "no $STRATUS: run ./bootstrap build, or set STRATUS_BIN"
scratch
cd "$SCRATCH"

# the example of the page
sed -n '/# two bricks on two servers/,/grace-period/s/^    //p' "$TOP/doc/volfile.md" >photos.yaml
mkdir out
"$STRATUS" volgen photos.yaml --out out >list
[ "$(sort list | tr '\n' ' ')" = "out/client-photos.vol out/server-alpha.vol out/server-beta.vol " ] ||
	fail "wrong files: $(cat list)"
for file in out/*.vol; do "$STRATUS" graph "$file" --json >/dev/null || fail "$file can't be read"; done
grep -q 'option max-wait 60s' out/client-photos.vol || fail "the client's option is missing"
grep -q 'option listen 0.0.0.0:7000' out/server-beta.vol || fail "listen is missing"
# the volfiles of the page
sed -n '/^    volume posix/,/^    volume brick/{/^    volume brick/!s/^    //p}' "$TOP/doc/volfile.md" >server.vol
"$STRATUS" graph server.vol | grep -q digraph || fail "the server's volfile of the page can't be read"

cp -r out before
"$STRATUS" volgen photos.yaml --out out >/dev/null
diff -r out before || fail "the same specification gave other bytes"
! sed 's/max-wait/max-wiat/' photos.yaml | tee bad.yaml | grep -q max-wait || fail "sed"
! "$STRATUS" volgen bad.yaml --out out 2>err || fail "an unknown option was taken"
grep -q 'max-wait' err || fail "the nearest option is not named: $(cat err)"
! sed 's/port: 7000/port: x/' photos.yaml >bad.yaml || ! "$STRATUS" volgen bad.yaml --out out 2>err || fail "port x was taken"
grep -q 'bad.yaml:9: ' err || fail "no line in: $(cat err)"
diff -r out before || fail "a wrong specification has changed files"
[ "$(ls out | wc -l)" = 3 ] || fail "files were left behind: $(ls out)"
! "$STRATUS" volgen photos.yaml --out nowhere 2>err || fail "a missing directory was taken"

"$STRATUS" volgen --init vol host:/a 'other:/b c' --port 7001 --out vol.yaml
! "$STRATUS" volgen --init vol host:/a --out vol.yaml 2>err || fail "an old specification was overwritten"
"$STRATUS" volgen vol.yaml --stdout --json >all.json
python3 - all.json <<'END' || fail "wrong JSON"
import json, sys
files = {f["name"]: f for f in json.load(open(sys.argv[1]))}
assert sorted(files) == ["client-vol.vol", "server-host.vol", "server-other.vol"], files
assert 'option directory "/b c"' in files["server-other.vol"]["text"] and files["server-other.vol"]["side"] == "server"
assert "option remote-port 7001" in files["client-vol.vol"]["text"] and "type cluster/dht" in files["client-vol.vol"]["text"]
END

# a replica set: one file for clients, one for the coordinator
"$STRATUS" volgen --init set h:/a h:/b h:/c --replica 3 --arbiter --out set.yaml
mkdir set
[ "$("$STRATUS" volgen set.yaml --out set --state /s | sort | tr '\n' ' ')" = \
	"set/client-set.vol set/coordinator-set.vol set/server-h.vol " ] || fail "wrong files of the set: $(ls set)"
for file in set/*.vol; do "$STRATUS" graph "$file" --json >/dev/null || fail "$file can't be read"; done
grep -q 'option state-file /s/set.view' set/coordinator-set.vol || fail "--state is not heeded"
# several sets: a coordinator each
"$STRATUS" volgen --init sets h:/a h:/b h:/c h:/d --replica 2 --out sets.yaml
mkdir sets
[ "$("$STRATUS" volgen sets.yaml --out sets --state /s | sort | tr '\n' ' ')" = \
	"sets/client-sets.vol sets/coordinator-sets:0.vol sets/coordinator-sets:1.vol sets/server-h.vol " ] || fail "wrong files of the sets: $(ls sets)"
for file in sets/*.vol; do "$STRATUS" graph "$file" --json >/dev/null || fail "$file can't be read"; done
grep -q 'option state-file /s/sets:1.view' sets/coordinator-sets:1.vol || fail "the sets have no views of their own"
! "$STRATUS" volgen --init set h:/a h:/b --replica 3 2>err || fail "a set of 2 bricks for 3 replicas was taken"
grep -q "needs 3 bricks, not 2" err || fail "the number of bricks is not named: $(cat err)"
! "$STRATUS" volgen --init vol nonsense 2>err || fail "a brick without host was taken"
pass
