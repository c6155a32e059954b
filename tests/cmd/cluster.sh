#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stratusd --state: volumes come, change and go without a restart; mounts get their volfile from it and follow; nothing that was
# committed is lost when it is killed.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/keeper.sh"
need_root
need_stack
need curl
scratch
cd "$SCRATCH"
HTTP=$(free_port) MNT=$SCRATCH/mnt
mkdir "$MNT"
MOUNTS+=("$MNT")
get() { curl -s -m 60 -o "${2:-body}" -w '%{http_code}\n' "http://127.0.0.1:$HTTP/v1/$1"; }
version() { "$STRATUS" volume info "$1" --json | json 'd["version"]'; }

refused "no stratusd" volume info
start_keeper
refused "there is no volume 'photos'" volume start photos

# ---- made, started, mounted, without a restart ----
"$STRATUS" volume create photos alpha:"$SCRATCH/b0" --dry-run >out
grep -q 'would be new' out && [ ! -e "$SCRATCH/b0" ] && [ "$("$STRATUS" volume info --json)" = "[]" ] || fail "--dry-run made something"
"$STRATUS" volume create photos 127.0.0.1:"$SCRATCH/b0" >out
refused "there is a volume photos already" volume create photos 127.0.0.1:"$SCRATCH/b1"
[ ! -e b0 ] || fail "a stopped volume is served"
refused "is stopped" mount 127.0.0.1:"$HTTP":/photos "$MNT"
"$STRATUS" volume start photos >out
[ "$(cat out)" = "-stopped: true
volume photos: version 2 committed" ] || fail "the difference is not shown: $(cat out)"
"$STRATUS" volume start photos | grep -q 'nothing differs' || fail "a second start is a change"
[ "$(version photos)" = 2 ] || fail "a change without difference has a version"
refused "no volume 'fotos'" mount 127.0.0.1:"$HTTP":/fotos "$MNT"
refused "is no volume" mount 127.0.0.1:"$HTTP":/photos/brick0 "$MNT"
refused "is no volume" mount 127.0.0.1:"$HTTP":/photos/x "$MNT"
refused "no answer from 127.0.0.1:1:" mount 127.0.0.1:1:/photos "$MNT"
# a server that is away is passed over; the port is that of the last one
"$STRATUS" mount --log mnt.log --pid-file mnt.pid 127.0.0.1:1,127.0.0.1:"$HTTP":/photos "$MNT"
note "$(cat mnt.pid)" mount
echo hello >"$MNT/file"
[ "$(cat b0/file)" = hello ] || fail "not on the brick"
serves_one() { [ "$("$STRATUS" status --json | json '[(b["state"], b["clients"]) for b in d["volumes"][0]["bricks"]]')" = "[('serving', 1)]" ]; }
wait_until 60 serves_one ||
	fail "status: $("$STRATUS" status)"
wait_until 60 says 'brick0 .*serving, 1 client' "$STRATUS" status || fail "status: $("$STRATUS" status)"

# ---- the mount follows, with a file open ----
exec 8<>"$MNT/file"
"$STRATUS" volume set photos protocol/client max-wait 61s >/dev/null
follows() { grep -q "$1" < <("$STRATUS" dump "$MNT"); }
wait_until 20 follows 'max-wait: 61000ms' || fail "the mount does not follow an option"
"$STRATUS" volume info photos | sed '1d; $a client-translators: [debug/io-stats]' >photos.yaml
"$STRATUS" apply --dry-run photos.yaml | grep -q '^+client-translators' || fail "apply --dry-run shows no difference"
[ "$(version photos)" = 3 ] || fail "--dry-run has committed"
"$STRATUS" apply photos.yaml >/dev/null
wait_until 20 follows 'volume top debug/io-stats' || fail "the mount does not follow to another graph"
read -r line <&8
[ "$line" = hello ] || fail "the open file was lost"
exec 8<&-
"$STRATUS" volume set photos protocol/client max-wait >/dev/null
"$STRATUS" volume info photos >out
! grep -q max-wait out || fail "an option can't be removed"

# ---- a server that lags behind is passed over: this one says what was true before ----
mkdir lag
cat >lagging.py <<'END'
import http.server, os, sys, urllib.request
class Lags(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if "/other/" in self.path:
            return self.send_error(501, "call \x1b[2J this number")
        if "/away/" in self.path:
            self.send_response(500)
            self.send_header("X-Stratus-Sentence", "1")
            self.end_headers()
            self.wfile.write(b"the store \x1b[2Jis away\nand more\n")
            return
        answer = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}{self.path.split('?')[0]}")
        text, version = answer.read(), answer.headers["X-Stratus-Version"]
        if "after=" in self.path:
            text, version = text.replace(b"type protocol/client\n", b"type protocol/client\n    option max-wait 77s\n"), "1"
        self.send_response(200)
        self.send_header("X-Stratus-Version", version)
        self.end_headers()
        self.wfile.write(text)
server = http.server.HTTPServer(("127.0.0.1", 0), Lags)
with open("lagging.new", "w") as f:
    f.write(str(server.server_port))
os.rename("lagging.new", "lagging.port")
server.serve_forever()
END
python3 lagging.py "$HTTP" >lagging.log 2>&1 &
note $! lagging
wait_until 20 test -s lagging.port || fail "no server that lags: $(cat lagging.log)"
"$STRATUS" mount --log lag.log --pid-file lag.pid 127.0.0.1:"$(cat lagging.port)",127.0.0.1:"$HTTP":/photos "$SCRATCH/lag"
note "$(cat lag.pid)" "mount beside a server that lags"
"$STRATUS" volume set photos protocol/client max-wait 79s >/dev/null
lag_follows() { grep -q 'max-wait: 79000ms' < <("$STRATUS" dump "$SCRATCH/lag"); }
wait_until 20 lag_follows || fail "the mount does not ask the next server: $(tail -n 3 lag.log)"
! grep 'switched to version 1 ' lag.log || fail "the mount went back to an older version"
umount "$SCRATCH/lag"
"$STRATUS" volume set photos protocol/client max-wait >/dev/null
# ---- of several that refuse, or are silent, who refuses is told, in words that do nothing to a terminal ----
refused 'says: the store ?\[2Jis away$' mount 127.0.0.1:"$(cat lagging.port)",127.0.0.1:1:/away "$SCRATCH/lag"

# ---- no other program's text is shown ----
refused 'no stratusd.*HTTP status 501' mount 127.0.0.1:"$(cat lagging.port)":/other "$SCRATCH/lag"

# ---- a brick's options: live ones change in place and the client stays connected, for others the brick is started anew ----
connects() { "$STRATUS" dump "$MNT" | sed -n 's/ *connects: //p'; }
wait_until 20 follows 'max-wait: 30000ms' || fail "the mount does not follow back"
before=$(connects)
[ -n "$before" ] || fail "the client does not say how often it has connected: $("$STRATUS" dump "$MNT")"
"$STRATUS" volume set photos features/locks max-locks 5000 >/dev/null
grep -q 'max-locks: 5000' < <("$STRATUS" dump "$KEEPER") || fail "the brick's live option has not changed"
[ "$(timeout 300 cat "$MNT/file")" = hello ] && [ "$(connects)" = "$before" ] || fail "the brick was started anew for a live option"
"$STRATUS" volume set photos features/locks grace-period 7s >/dev/null
grep -q 'grace-period: 7000ms' < <("$STRATUS" dump "$KEEPER") || fail "the brick's option has not changed"
[ "$(timeout 300 cat "$MNT/file")" = hello ] || fail "the mount does not work after the brick's option has changed"
# The mount may have had the contents from before: it connects when it connects.
connects_again() { [ "$(connects)" != "$before" ]; }
wait_until 40 connects_again || fail "the brick was not started anew for an option that is not live"

# ---- what is refused changes nothing ----
v=$(version photos)
refused 'did you mean "max-wait"' volume set photos protocol/client max-wiat 5s
refused "keep their order" apply <(sed 's/^bricks:/&\n  - {server: alpha, directory: \/x, id: 0b9f4f0e-95ce-4bb4-8f5c-95a4f6d7a6a1}/' photos.yaml)
refused "with another id" apply <(sed "s/^id: .*/id: $(uuid)/" photos.yaml)
refused "it can't be replaced" brick replace photos brick0 alpha:"$SCRATCH/b9"
refused "has no brick 'brick7'" brick replace photos brick7 alpha:"$SCRATCH/b9"
refused "the same server and directory" brick add photos alpha:"$SCRATCH/b0"
refused "has no brick 'brick7'" brick remove photos brick7
refused "has no other bricks" brick remove photos brick0
refused "'replica' and 'arbiter'" apply <(sed 's/^bricks:/replica: 2\n&\n  - {server: alpha, directory: \/x, id: 0b9f4f0e-95ce-4bb4-8f5c-95a4f6d7a6a1}/' photos.yaml)
refused "one server.s alone" server add beta 127.0.0.1:1
refused "is not of this cluster" volume create more alpha:"$SCRATCH/b1" beta:"$SCRATCH/b2"
refused "overlaps" volume create more alpha:"$SCRATCH/b0/inside"
refused "stop photos. it first" volume delete photos
refused ":1: 'volume' is missing" apply <(echo "id: $(uuid)")
[ "$(version photos)" = "$v" ] && [ "$("$STRATUS" volume info)" = photos ] || fail "something refused has changed something"

# ---- two bricks without replicas are one mount ----
"$STRATUS" volume create two --start 127.0.0.1:"$SCRATCH/c0" 127.0.0.1:"$SCRATCH/c1" >/dev/null
[ "$(get 'volume/two/client')" = 200 ] && grep -q 'type cluster/dht' body || fail "no volfile for both bricks: $(cat body)"
[ "$(get 'volume/two/client?brick=1')" = 409 ] && grep -q 'as a whole' body || fail "there is a volfile for brick 1: $(cat body)"

# ---- with how many it began stays; others come at the end ----
told() { "$STRATUS" volume info two | sed -n 's/^began-with: //p'; }
two_with() { "$STRATUS" volume info two | sed "$1"; }
[ "$(told)" = 2 ] || fail "the volume does not say with how many it began: $("$STRATUS" volume info two)"
refused "says otherwise" apply <(two_with 's/^began-with: 2/began-with: 1/')
refused "that have names, or are to have them" apply <(two_with '/^began-with/d' | awk '/- server/ {n++} n < 2')
"$STRATUS" apply <(two_with '/^began-with/d') | grep -q 'nothing differs' || fail "a specification that does not say it is a change"
"$STRATUS" brick add two alpha:"$SCRATCH/c2" --dry-run >out
grep -q '^+ *directory: .*/c2' out && grep -q 'would be changed' out && [ ! -e c2 ] || fail "brick add --dry-run: $(cat out)"
"$STRATUS" brick add two alpha:"$SCRATCH/c2" >out
grep -q 'stratus rebalance start two' out || fail "the next step is not told: $(cat out)"
[ "$("$STRATUS" status --json | json '[v.get("balanced") for v in d["volumes"] if v["name"] == "two"]')" = "[False]" ] || fail "all have names, says the status"
[ "$(told)" = 2 ] && [ -e c2/.stratus/format ] || fail "the third brick: $("$STRATUS" volume info two; ls -A c2)"
[ "$("$STRATUS" status --json | json '[b["state"] for v in d["volumes"] if v["name"] == "two" for b in v["bricks"]]')" = "['serving', 'serving', 'serving']" ] ||
	fail "the third brick is not served: $("$STRATUS" status)"
[ "$(get 'volume/two/client')" = 200 ] && grep -q 'option initial 2' body && grep -q 'subvolumes client0 client1 client2' body ||
	fail "the clients' volfile: $(cat body)"
refused "says otherwise" apply <(two_with 's/^began-with: 2/began-with: 3/')
refused "overlaps" brick add two alpha:"$SCRATCH/c2/inside"

# ---- killed: all comes back, the mount has waited ----
kill_keeper
[ "$("$STRATUS" ps --json | json 'len([p for p in d if p["program"] == "stratusd"])')" = 0 ] || fail "a dead server is listed"
start_keeper
[ "$(timeout 300 cat "$MNT/file")" = hello ] || fail "the mount does not work after stratusd was killed"
[ "$(version photos)" = "$v" ] || fail "a version was lost"
"$STRATUS" volume set photos protocol/client max-wait 62s >/dev/null
wait_until 40 follows 'max-wait: 62000ms' || fail "the mount does not follow a restarted server"

# ---- a disk that is not mounted is no new brick ----
"$STRATUS" volume stop two >/dev/null
refused "is stopped" rebalance start two
mv c1 c1-away
mkdir c1
refused "not all is served yet .*.stratus status. tells when it is.*mount its disk" volume start two
wait_until 60 says 'brick0 .*serving' "$STRATUS" status || fail "the other brick is not served"
[ -z "$(ls -A c1)" ] || fail "an empty directory was made a brick"
rmdir c1
mv c1-away c1
served() { "$STRATUS" status --json | json '[v for v in d["volumes"] if v["name"] == "two"][0]["bricks"][1]["state"]' | grep -q serving; }
wait_until 15 served || fail "it is not tried again"

# ---- the service ----
[ "$(get nonsense)" = 404 ] && [ "$(get volume/nix/client)" = 404 ] && [ "$(get status)" = 200 ] || fail "wrong answers of the service"
[ "$(curl -s -m 10 -o /dev/null -w '%{http_code}' -X POST -d x "http://127.0.0.1:$HTTP/v1/volume/photos/client")" = 405 ] || fail "POST is taken"
for word in 'brick=abc' 'brick=-0' 'brick=' 'brick=0x0' 'after=abc' 'after=-1' 'after=' 'after=99999999999999999999'; do
	[ "$(get "volume/photos/client?$word")" = 400 ] || fail "$word is taken: $(cat body)"
done
for i in $(seq 40); do get status "status$i" >"code$i" & done
wait_until 20 eval '[ "$(cat code* | wc -l)" = 40 ]' || fail "not all who ask for the status get an answer"
! grep -qvxE '200|503' code* || fail "who asks for the status gets $(cat code* | sort | uniq -c)"
grep -qx 200 code1 code40 code20 || fail "nobody gets the status"
begin=$(now_ms)
[ "$(get 'volume/nix/client?after=0')" = 404 ] && [ $(($(now_ms) - begin)) -lt 20000 ] || fail "who asks for a volume that is not there has to wait"
v=$(version photos)
[ "$(get "volume/photos/client?after=$((v - 1))")" = 200 ] || fail "an older version has to wait"
begin=$(now_ms)
(sleep 1; "$STRATUS" volume set photos protocol/client max-wait 63s >/dev/null) &
[ "$(get "volume/photos/client?after=$v")" = 200 ] || fail "the long poll has no answer"
took=$(($(now_ms) - begin))
[ "$took" -ge 900 ] && [ "$took" -lt 25000 ] || fail "the long poll took $took ms, the change came after 1000"
wait $!
begin=$(now_ms)
[ "$(get "volume/photos/client?after=$((v + 2))")" = 304 ] || fail "an unchanged volume is not 304"
took=$(($(now_ms) - begin))
[ "$took" -ge 25000 ] && [ "$took" -lt 55000 ] || fail "304 after $took ms"

# ---- secrets: of a set, mode 0600, never served ----
"$STRATUS" volume create set --replica 3 --start 127.0.0.1:"$SCRATCH/r0" 127.0.0.1:"$SCRATCH/r1" 127.0.0.1:"$SCRATCH/r2" >/dev/null
secret=$(cat "$SCRATCH/state/set.secret")
[ "${#secret}" = 64 ] || fail "the secret is '$secret'"
for file in "$SCRATCH/state/set.secret" r0/.stratus/secret r1/.stratus/secret r2/.stratus/secret; do
	[ "$(stat -c %a "$file") $(cat "$file")" = "600 $secret" ] || fail "$file is wrong"
done
[ "$(get volume/set/client all)" = 200 ] && [ "$(get status)" = 200 ] && [ -s all ] && [ -s body ] || fail "the set is not served"
! grep -q -- "$secret" body all || fail "the secret is served"
# ---- a brick is replaced while the set is mounted, then all is killed ----
"$STRATUS" volume create other --replica 2 --start 127.0.0.1:"$SCRATCH/o0" 127.0.0.1:"$SCRATCH/o1" >/dev/null
mkdir mset
MOUNTS+=("$SCRATCH/mset")
"$STRATUS" mount --log mset.log --pid-file mset.pid 127.0.0.1:"$HTTP":/set mset
note "$(cat mset.pid)" "mount of a set"
echo one >mset/file
views() { "$STRATUS" status --json | json 'sorted((v["name"], v["set"]["volume"], [m["state"] for m in v["set"]["members"]]) for v in d["volumes"] if v["replica"] > 1)'; }
whole="[('other', 'other', ['in', 'in']), ('set', 'set', ['in', 'in', 'in'])]"
are_whole() { [ "$(views)" = "$whole" ]; }
wait_until 20 are_whole || fail "the sets are not whole: $(views)"
exec 8>>mset/open
"$STRATUS" brick replace set brick1 alpha:"$SCRATCH/r9" >/dev/null
[ "$("$STRATUS" status --json | json '[v["set"]["members"][1]["answers"] for v in d["volumes"] if v["name"] == "set"]')" = "[True]" ] || fail "replace returns before the brick is in service: $("$STRATUS" status)"
wait_until 20 grep -q 'switched to version 2' mset.log || fail "the mount does not follow the replaced brick"
timeout 300 sh -c 'echo two >>mset/file' || fail "no change is possible after a brick was replaced"
timeout 300 sh -c 'echo before and after >&8' || fail "a file that was open when a brick was replaced can't be written to"
[ "$(cat mset/open)" = "before and after" ] || fail "what was written to a file that was open is not there"
exec 8>&-
wait_until 30 cmp r0/file r9/file && wait_until 30 are_whole || fail "the new brick is not healed: $(views)"
cmp r0/open r9/open || fail "a file that was open when the brick was replaced is not healed"
kill_keeper
start_keeper
[ "$(timeout 300 cat mset/file | tr '\n' ' ')" = "one two " ] || fail "the set is not there after stratusd was killed"
timeout 300 sh -c 'echo three >>mset/file' || fail "no change is possible after stratusd was killed"
wait_until 30 are_whole || fail "the sets are not whole after stratusd was killed: $(views)"
cmp r0/file r9/file && cmp r0/file r2/file || fail "the replicas differ"
umount mset
refused "sets of 3 bricks" brick add set alpha:"$SCRATCH/s0"
refused "would be new at once" apply <("$STRATUS" volume info set | awk '/    id:/ && n++ < 2 {sub(/id:.*/, "id: '"$(uuid)"'"); sub(/.$/, n)} 1')
[ "$(stat -c %a "$SCRATCH/state" "$SCRATCH/state/store/state" | tr '\n' ' ')" = "700 600 " ] || fail "the store can be read by others"

# ---- what comes over the network does not touch this machine's files, and mounts nothing else ----
mkdir lied elsewhere
python3 - "$HTTP" "$SCRATCH/elsewhere" >liar.port <<-'PY' &
	import http.server, re, sys, urllib.request
	real, where = sys.argv[1:]
	class Liar(http.server.BaseHTTPRequestHandler):
	    """Between the mount and the server: adds a mount of its own."""
	    def do_GET(self):
	        with urllib.request.urlopen(f"http://127.0.0.1:{real}{self.path}", timeout=30) as r:
	            text, headers = r.read().decode(), r.headers
	        first, last = re.search(r"^volume (\S+)", text, re.M).group(1), text.rindex("\nvolume ")
	        more = f"\nvolume more\n    type mount/fuse\n    option mountpoint {where}\n    subvolumes {first}\nend-volume\n"
	        body = (text[:last] + more + text[last:]).encode()
	        self.send_response(200)
	        for name, value in headers.items():
	            if name.lower() not in ("content-length", "connection", "date", "server"):
	                self.send_header(name, value)
	        self.send_header("Content-Length", str(len(body)))
	        self.end_headers()
	        self.wfile.write(body)
	    def log_message(self, *args):
	        pass
	server = http.server.HTTPServer(("127.0.0.1", 0), Liar)
	print(server.server_port, flush=True)
	server.serve_forever()
PY
LIAR=$!
note "$LIAR" "a liar"
wait_until 20 test -s liar.port || fail "there is no liar"
! timeout 60 "$STRATUS" mount 127.0.0.1:"$(cat liar.port)":/photos lied 2>err || fail "a volfile from a server may mount where it likes"
grep -q 'a second mount' err || fail "the cause is not told: $(cat err)"
! mountpoint -q elsewhere && ! mountpoint -q lied || fail "something is mounted"
kill "$LIAR" || fail "the liar ended by itself"
status=0
wait "$LIAR" || status=$?
unset "PIDS[$LIAR]"
[ "$status" = 143 ] || fail "the liar ended with status $status"
"$STRATUS" volume info photos | sed '1d; s|^client-translators:.*|client-translators: [debug/trace]|; s|^options:|options:\n  debug/trace: {file: /etc/stratus-test-trace}|' >traced.yaml
"$STRATUS" apply traced.yaml >/dev/null 2>err || fail "a trace can't be wanted: $(cat err traced.yaml)"
mkdir traced
! timeout 60 "$STRATUS" mount 127.0.0.1:"$HTTP":/photos traced 2>err || fail "a volfile from a server may name a file to write"
grep -q 'only from a file' err || fail "the cause is not told: $(cat err)"
[ ! -e /etc/stratus-test-trace ] || fail "a file was written"

# ---- gone ----
umount "$MNT"
"$STRATUS" volume stop photos >/dev/null
status=0
"$STRATUS" volume delete photos --dry-run 2>err || status=$?
[ "$status" = 2 ] && version photos >/dev/null || fail "volume delete --dry-run: status $status, $(cat err)"
"$STRATUS" volume delete photos >/dev/null
refused "there is no volume 'photos'" volume info photos
[ "$(cat b0/file)" = hello ] || fail "the data went with the volume"
stop_process "$KEEPER" stratusd
pass
