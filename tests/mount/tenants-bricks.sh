#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants whose names are spread over four bricks, over TLS, from the cluster store: neither sees the other, each has all that a mount of a distributed volume
# has, also between bricks; a limit holds for all bricks together, to the byte and whoever races; all bricks together charge what is there; and a
# deleted one leaves nothing on any of them.
# limit: 900 s, 1200 s with LONG=1
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../cmd/keeper.sh"
need_root
need_stack
need openssl python3

certificate() { # NAME SUBJECT_ALTERNATIVE_NAMES
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA good-ca.pem -CAkey good-ca.key -CAcreateserial -days 2 -out "$1.pem" \
		-extfile <(echo "subjectAltName=$2") 2>/dev/null
}
mount_as() { # NAME DIRECTORY
	sed "s,own\\.,$1.," client-photos.vol >"$1.vol"
	start_mount "$2" "$1.vol"
}

scratch
cd "$SCRATCH"
HTTP=$(free_port) STACK=$SCRATCH
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout good-ca.key -out good-ca.pem -days 2 -subj "/CN=authority" 2>/dev/null ||
	fail "openssl can't make an authority"
certificate own "IP:127.0.0.1,URI:stratus:server"
certificate acme URI:stratus:tenant/acme
certificate globex URI:stratus:tenant/globex

# ---- made ----
start_keeper
BRICKS=()
for i in 0 1 2 3; do BRICKS+=(127.0.0.1:"$SCRATCH/b$i"); done
"$STRATUS" volume create photos --tenants "${BRICKS[@]}" >/dev/null
for side in server client; do
	"$STRATUS" volume set photos protocol/$side transport tls >/dev/null
	"$STRATUS" volume set photos protocol/$side tls-certificate "$SCRATCH/own.pem" >/dev/null
	"$STRATUS" volume set photos protocol/$side tls-key "$SCRATCH/own.key" >/dev/null
	"$STRATUS" volume set photos protocol/$side tls-authorities "$SCRATCH/good-ca.pem" >/dev/null
done
"$STRATUS" volume set photos cluster/dht sweep-interval 100ms >/dev/null
"$STRATUS" tenant create photos acme >/dev/null
"$STRATUS" tenant create photos globex >/dev/null
refused "directories of tenants are at one brick each" volume set photos features/layout widen-at 8192
"$STRATUS" volume start photos >/dev/null
"$STRATUS" volume info photos | sed 1d >photos.yaml
"$STRATUS" volgen photos.yaml --out . >/dev/null
PORT=$(sed -n 's/.*option remote-port //p' client-photos.vol | head -n 1)
wait_until 20 port_open "$PORT" || fail "the bricks are not served"

# ---- what a mount can do, also between bricks ----
A=$SCRATCH/mnt-acme A2=$SCRATCH/mnt-acme2 G=$SCRATCH/mnt-globex
mount_as acme "$A"
mount_as acme "$A2"
DYING=$LAST_PID
mount_as globex "$G"
[ "$(stat -c %i "$A") $(stat -c %i "$G")" = "1 1" ] || fail "a tenant's root is not like all roots"
echo "top secret" >"$G/secret"
mkdir model
chmod 755 "$A" model
ACROSS=1 timeout 600 python3 "$TOP/tests/mount/believed.py" "$A" "$A2" "$SCRATCH/model" "${BELIEVED:-150}" "${SEED:=$RANDOM}" ||
	fail "one mount believes what is no longer so (SEED=$SEED)"
[ "$({ facts "$A"; facts "$A2"; } | sed -n 's/^ *recalls: //p' | sort -n | tail -1)" -gt 0 ] || fail "nothing was recalled (SEED=$SEED)"
rm -rf "${A:?}"/* model

# ---- what is listed, or looked at, again costs a few messages in all, by leases ----
. "$TOP/tests/mount/costs.sh"
LOOKER=$A2
look() { python3 -c 'import os, sys
for i in range(100): os.stat(sys.argv[1])' "$1"; }
python3 -c 'import os, sys
for d in range(4):
    os.makedirs(f"{sys.argv[1]}/list{d}")
    for i in range(200): open(f"{sys.argv[1]}/list{d}/{i}", "w").close()' "$A"
for i in 0 1 2 3; do
	await ${MOST_LISTED:-50} "ls -l of 200 files, of another mount" ls -ln "$A2/list$i"
	await ${MOST_LOOKED:-50} "100 looks at one of them" look "$A2/list$i/7"
done
rm -r "$A"/list*
(cd "$A" && MNT=$A timeout 600 python3 "$TOP/tests/mount/fops.py" >"$SCRATCH/fops.out" 2>&1) || fail "fops.py: $(tail -n 40 "$SCRATCH/fops.out")"
[ -z "$(ls -A "$A")" ] || rm -rf "${A:?}"/*
for i in {0..39}; do mkdir "$A/d$i" && echo "$i" >"$A/d$i/file" && echo "$i" >"$A/f$i"; done
[ "$(ls "$A2" | wc -l)" = 80 ] && [ "$(cat "$A2"/d?/file "$A2"/d??/file | sort -n | uniq | wc -l)" = 40 ] || fail "another mount sees: $(ls "$A2")"
for i in 0 1 2 3; do
	[ "$(ls "b$i/tenants/acme" | wc -l)" -ge 5 ] || fail "brick $i has of acme: $(ls "b$i/tenants/acme")"
	[ "$(ls "b$i/tenants")" = $'acme\nglobex' ] || fail "brick $i has: $(ls "b$i/tenants")"
	[ -z "$(find "b$i/tenants/acme" \( -not -uid +65535 -o -uid +131071 -o -not -gid +65535 -o -gid +131071 \))" ] || fail "acme has ids outside its range on brick $i"
done
[ "$(ls "$G")" = secret ] || fail "globex sees: $(ls "$G")"
for i in {0..39}; do
	python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$A/f$i" "$A/moved$i" || fail "rename of f$i"
	ln "$A/moved$i" "$A/linked$i" || fail "a link of moved$i"
	[ "$A2/moved$i" -ef "$A2/linked$i" ] && [ "$(stat -c %h "$A2/moved$i")" = 2 ] || fail "moved$i has $(stat -c %h "$A2/moved$i") links"
done
for i in {1..12}; do mkdir "$A/deep$i" && mv "$A/deep$i" "$A/d$((i + 13))/deep" || fail "mv of the directory deep$i"; done
for i in {1..11}; do
	! python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$A/d$((i + 13))" "$A/d$((i + 13))/deep/x" 2>/dev/null || fail "a directory got below itself"
	python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$A/d$((i + 13))/deep" "$A/d$((i + 14))/deeper" || fail "mv of a directory that is away"
done
! python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$A/d14" "$A/d15/deeper/x" 2>/dev/null || [ -d "$A2/d15/deeper/x" ] || fail "a directory is lost"
cat "$A2"/moved* | sort -n | uniq | wc -l | grep -qx 40 || fail "not all files are what they were"
setfattr -n user.of -v "all" "$A" && [ "$(getfattr --absolute-names --only-values -n user.of "$A2")" = all ] || fail "an attribute of the root"
chmod 1750 "$A" && chown 12:34 "$A"
[ "$(stat -c '%a %u:%g' b?/tenants/acme | sort -u)" = "1750 65548:65570" ] || fail "the shards of a tenant's root differ: $(stat -c '%a %u:%g' b?/tenants/acme)"
chmod 755 "$A" && chown 0:0 "$A"

# ---- what is told, and what is not ----
"$STRATUS" locate "$A/moved1" >located || fail "locate"
! grep -q "$SCRATCH\|tenants" <(grep -v "mnt-acme" located) || fail "a tenant hears where the bricks are: $(cat located)"
mkdir refused
sed "s,own\\.,own.," client-photos.vol >own.vol
if timeout 30 "$STRATUS" mount own.vol "$SCRATCH/refused" 2>err; then
	! ls "$SCRATCH/refused" 2>/dev/null || fail "a server's certificate spreads names over all tenants' trees"
	umount "$SCRATCH/refused" || umount -l "$SCRATCH/refused"
fi

"$STRATUS" fsck acme.vol >fsck.out 2>&1 || fail "a tenant's tree has findings: $(cat fsck.out)"
! "$STRATUS" fsck own.vol >fsck.out 2>&1 || fail "fsck takes the bricks' roots for one tree: $(cat fsck.out)"
! "$STRATUS" fsck --repair own.vol >fsck.out 2>&1 || fail "fsck mends the bricks' roots"

# ---- a mount dies while it renames between bricks: the tenant's other one ends what it began ----
moving() {
	local i
	for ((i = 0; ; i++)); do python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$A2/moves$i" "$A2/moves$((i + 1))" || return; done
}
touch "$A/moves0"
moving 2>/dev/null &
MOVING=$!
note "$MOVING" "what renames"
far() { [ ! -e "$A/moves0" ] && ls "$A" | grep -q 'moves[2-9][0-9]'; }
wait_until 300 far || fail "nothing is renamed"
kill_hard "$DYING" "the mount that dies"
unmount_below "$A2"
wait "$MOVING" || true
unset "PIDS[$MOVING]"
one_is_left() { [ "$(ls "$A" | grep -c '^moves')" = 1 ] && rm "$A"/moves*; }
wait_until 30 one_is_left || fail "after a mount has died there are: $(ls "$A" | grep moves)"
ended() { "$STRATUS" fsck acme.vol >fsck.out 2>&1 && [ -z "$(find b?/tenants/acme/.stratus.dht/work -mindepth 2 2>/dev/null)" ]; }
wait_until 60 ended || fail "what a dead mount left is there still: $(cat fsck.out; find b?/tenants/acme/.stratus.dht/work -mindepth 2)"
mount_as acme "$A2"

# ---- charged: all bricks together ----
sum() { "$STRATUS" usage --total --json | json 'sorted((a["account"], a["bytes"], a["inodes"]) for b in d if b["exact"] for a in b["accounts"] if a["account"] in ("acme", "globex"))'; }
there() {
	for i in 0 1 2 3; do python3 "$TOP/tests/fault/usage.py" count "b$i" acme:65536:65536 globex:131072:65536; echo; done |
		python3 -c 'import json, sys
all = [json.loads(line) for line in sys.stdin if line.strip()]
print(sorted((n, sum(d[n]["bytes"] for d in all), sum(d[n]["inodes"] for d in all)) for n in ("acme", "globex")))'
}
as_there() { [ "$(sum)" = "$(there)" ]; }
verified() { # on each brick by itself
	"$STRATUS" usage verify --json >verified || fail "usage verify: $(cat verified)"
	[ "$(json 'sorted(((b["brick"][-1], a["account"]) for b in d for a in b["accounts"] if a["result"] == "agrees")) == sorted((str(i), n) for i in range(4) for n in ("-", "acme", "globex"))' <verified)" = True ] ||
		fail "usage verify tells of other bricks or tenants: $(cat verified)"
}
wait_until 20 as_there || fail "charged: $(sum), there are: $(there)"
[ "$("$STRATUS" usage --json | json 'len(d)')" = 4 ] && [ "$("$STRATUS" usage --total --json | json '[b["bricks"] for b in d]')" = "[4]" ] ||
	fail "usage tells of other bricks: $("$STRATUS" usage)"

verified

# ---- a limit, which eight race into ----
LIMIT=$((48 << 20))
refused "soft limit of bytes of tenant 'globex' is more than its limit" tenant resize photos globex --quota 48M --soft-quota 49M
"$STRATUS" tenant resize photos globex --quota 48M --inodes 4001 --soft-quota 32M >/dev/null
above() { "$STRATUS" tenant info photos globex | grep -c 'above its soft limit of bytes for'; }
[ "$(above)" = 0 ] || fail "$("$STRATUS" tenant info photos globex)"
# Each brick has a part, of which it shows whole blocks: of some of each of them a block may be missing.
size_is() { local is; is=$(df -B1 --output=size "$G" | tail -n 1 | tr -d ' ') && [ "$is" -le "$1" ] && [ "$is" -gt $(($1 - 8 * 4096)) ]; }
wait_until 10 size_is $LIMIT || fail "df does not show the limit: $(df -B1 "$G")"
inodes=$(df --output=itotal "$G" | tail -n 1 | tr -d ' ')
[ "$inodes" = 4001 ] || fail "df shows $inodes inodes"
for i in {0..24}; do # away: removed from a full account, too
	touch "$G/f$i" && python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$G/f$i" "$G/a$i" && mkdir "$G/k$i" && mv "$G/k$i" "$G/l$i" && ln "$G/a$i" "$G/h$i" || fail "across"
done
G2=$SCRATCH/mnt-globex2
mount_as globex "$G2"
charged_to() { "$STRATUS" usage --total --tenant "$1" --json | json 'd[0]["accounts"][0]["bytes"]'; }
on_disk() { for i in 0 1 2 3; do python3 "$TOP/tests/fault/usage.py" count "b$i" globex:131072:65536 | json 'd["globex"]["bytes"]'; done | paste -sd+ | bc; }
race() { # into the limit: until each has met EDQUOT
	local pids=() pid i
	for i in 0 1 2 3 4 5 6 7; do
		python3 - "$([ $((i % 2)) = 0 ] && echo "$G" || echo "$G2")/race$i" <<-'END' &
		import errno, os, sys
		number = 0
		while True:
		    try:
		        fd = os.open(f"{sys.argv[1]}.{number}", os.O_WRONLY | os.O_CREAT, 0o644)
		    except OSError as e:
		        sys.exit(e.errno != errno.EDQUOT)
		    number += 1
		    try:
		        for _ in range(16):
		            os.write(fd, b"x" * 65536)
		    except OSError as e:
		        sys.exit(e.errno != errno.EDQUOT)
		    try:
		        os.close(fd)
		    except OSError as e:
		        sys.exit(e.errno != errno.EDQUOT)
		END
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || fail "a writer met something else than EDQUOT"; done
}
RACES=2
[ "$LONG" = 1 ] && RACES=20
for ((n = 0; n < RACES; n++)); do
	race
	charged=$(charged_to globex)
	[ "$charged" -le "$LIMIT" ] || fail "race $n: $charged are charged, of $LIMIT"
	[ "$charged" -ge $((LIMIT - (2 << 20))) ] || fail "race $n: refused with $charged of $LIMIT"
	[ "$(on_disk)" -le "$LIMIT" ] || fail "race $n: there are $(on_disk) of $LIMIT"
	wait_until 20 as_there || fail "race $n: charged: $(sum), there are: $(there)"
	no_room_shown() { [ "$(df -B1 --output=avail "$G" | tail -n 1 | tr -d ' ')" -le $((1 << 20)) ]; }
	wait_until 60 no_room_shown || fail "df shows room: $(df -B1 "$G")"
	# told once in the log, whichever brick it was, and everywhere else
	told_above() { [ "$(grep -c 'globex has [0-9]* bytes, more than its soft limit of 33554432$' stratusd.log)" = $((n + 1)) ]; }
	wait_until 20 told_above || fail "race $n: of the soft limit the log says: $(grep soft stratusd.log)"
	told_everywhere() { [ "$(above)" = 1 ] && says 'above its soft limit of bytes for' "$STRATUS" usage --total --tenant globex; }
	wait_until 60 told_everywhere || fail "race $n: $("$STRATUS" tenant info photos globex; "$STRATUS" usage)"
	[ "$(curl -fsS "http://127.0.0.1:$HTTP/metrics" | grep -c '^stratus_quota_soft_bytes_exceeded_timestamp_seconds{.*tenant="globex"} [1-9]')" = 4 ] || fail "race $n: the metrics do not tell that a soft limit is exceeded"
	# what is there can be read, and goes, when nothing more can be had
	cat "$G"/race* >/dev/null || fail "race $n: what is there can't be read"
	! dd if=/dev/zero of="$G/race.last" bs=4k count=512 2>/dev/null || fail "race $n: the limit was not reached" # and nothing is left of it
	rm "$G"/[ah]$n && rmdir "$G/l$n" || fail "race $n: with a full account what is away can't be removed"
	rm "$G2"/race* || fail "race $n: with a full account nothing can be removed"
	below() { [ "$(above)" = 0 ] && [ "$(grep -c 'globex has [0-9]* bytes, less than its soft limit of 33554432 again$' stratusd.log)" = $((n + 1)) ]; }
	wait_until 20 below || fail "race $n: less than the soft limit again, but: $("$STRATUS" tenant info photos globex; grep soft stratusd.log)"
done
dd if=/dev/zero of="$A/large" bs=1M count=60 2>/dev/null || fail "one tenant's limit stops another"
"$STRATUS" tenant resize photos globex --quota 0 --inodes 0 --soft-quota 0 --soft-inodes 3 --grace 7d >/dev/null
since() { "$STRATUS" usage --json --tenant globex | json 'sorted({(a["bytes_over_since"], a["inodes_over_since"]) for b in d for a in b["accounts"]})'; }
is_above() { SINCE=$(since) && [[ $SINCE =~ ^"[(0, "[1-9][0-9]*")]"$ ]]; }
wait_until 20 is_above || fail "a soft limit below what is there: $(since)"

# ---- after kill -9, and deleted ----
kill_keeper
start_keeper
back() { timeout 20 cat "$G/secret" && timeout 20 cat "$A/moved1"; }
wait_until 60 back || fail "after kill -9 the tenants do not come back"
wait_until 20 as_there || fail "after kill -9 charged: $(sum), there are: $(there)"
[ "$(since)" = "$SINCE" ] || fail "before kill -9 above a soft limit since $SINCE, after it since $(since)"
verified
"$STRATUS" tenant delete photos acme >/dev/null
gone_everywhere() { [ -z "$(compgen -G "b?/tenants/acme")" ]; } # ls would fail, too, when one goes before it is looked at
wait_until 60 gone_everywhere || fail "the files of a deleted tenant stay: $(find b?/tenants/acme | head)"
rm -r "$G"/[ahl]*
[ "$(cat "$G/secret")" = "top secret" ] && [ "$(ls "$G2")" = secret ] || fail "the other tenant lost something"
wait_until 20 as_there || fail "after the deletion charged: $(sum), there are: $(there)"
pass
