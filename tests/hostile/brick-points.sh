#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Access points of a tenant on two bricks: their clients say what cluster/dht says to bricks, and name what is the tenant's (tests/hostile/brick-points.py), also while names go over the
# borders of their directories in vain. They are told nothing of it; nor is another tenant disturbed.
# limit: 900 s
BRICKS=2
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/stage.sh"
need_root
need_stack
need python3 setfattr

id_of() { "$STRATUS" tenant info photos "$1" --json | json 'd["id"]' | tr -d -; }
dir_at() { # BRICK PREFIX: makes it
	local n
	for ((n = 0; ; n++)); do
		mkdir "$A/$2$n"
		[ ! -d "b$1/tenants/acme/$2$n" ] || break
		rmdir "$A/$2$n"
	done
	echo "$2$n"
}
point() { # NAME DIRECTORY [WORDS]
	local at id
	at=$("$STRATUS" quota show "$K/$2" --json | json 'd["id"]')
	id=$("$STRATUS" access create photos acme "$at" "${@:3}" --json | json 'd["id"]') || fail "access create of $2, $at"
	identity "$1" --access "acme/$id"
}

stage
A=$SCRATCH/mnt-acme K=$SCRATCH/mnt-keeper
for name in acme keeper; do
	sed "s,own\\.,$name.," client-photos.vol >$name.vol
	start_mount "$SCRATCH/mnt-$name" $name.vol
done
SITES=() PRIVATE=()
for i in 0 1; do
	SITES[i]=$(dir_at $i site$i-)
	PRIVATE[i]=$(dir_at $i private$i-)
	"$STRATUS" quota set "$K/${SITES[i]}" --bytes 0 || fail "no quota of ${SITES[i]}"
	echo page >"$A/${SITES[i]}/page"
	echo Kzq7PRIVATE >"$A/${PRIVATE[i]}/secret"
done
for i in 0 1; do touch "$A/${PRIVATE[i]}/away$i" && mv "$A/${PRIVATE[i]}/away$i" "$A/${PRIVATE[1 - i]}/away$i"; done # so there is .stratus.dht at both
point web "${SITES[0]}"
point docs "${SITES[1]}" --read-only
say "seed $SEED"
mkfifo go
python3 "$HOSTILE/brick-points.py" "$(IFS=,; echo "${PORTS[*]}")" "$SCRATCH" "$SEED" "$(id_of acme)" "$(IFS=,; echo "${SITES[*]}")" "$(IFS=,; echo "${PRIVATE[*]}")" $SECRETS <go >told 2>&1 &
LIAR=$!
note "$LIAR" "the client that lies"
exec 8>go
waits() { grep -qx end told || gone "$LIAR"; }
crossing() { # it prepares intents, pointers and anchors each time, and takes them back
	python3 - "$A/${PRIVATE[0]}/secret" "$A/${SITES[0]}/stolen" "$A/${PRIVATE[1]}/secret" "$A/${SITES[1]}/page" <<-'END'
	import errno, os, sys
	for from_, to in (sys.argv[1:3], sys.argv[3:5], (sys.argv[4], sys.argv[1])):
	    for fn in os.rename, os.link:
	        try:
	            fn(from_, to)
	        except OSError as e:
	            assert e.errno in (errno.EXDEV, errno.EEXIST), e
	        else:
	            sys.exit(f"{fn.__name__} {from_} {to}")
	END
}
until waits; do crossing || fail "a name crosses the border"; done
"$STRATUS" quota remove "$K/${SITES[0]}" || fail "the quota stays"
gone "$LIAR" || echo >&8
exec 8>&-
status=0
wait "$LIAR" || status=$?
unset "PIDS[$LIAR]"
[ $status = 0 ] && [ "$(cat told)" = end ] || fail "brick-points (SEED=$SEED): $(head -40 told)"
victim_works "what clients of access points say to bricks"
[ "$(cat "$A/${PRIVATE[0]}/secret" "$A/${PRIVATE[1]}/secret" "$A/${SITES[0]}/page")" = $'Kzq7PRIVATE\nKzq7PRIVATE\npage' ] || fail "the tenant's files are changed"
curtain
pass
