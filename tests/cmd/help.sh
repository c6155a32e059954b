#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every command explains itself, its options are in the manual pages, and a wrong command line is status 2.
. "$(dirname "$0")/../mount/lib.sh"
need_programs() { [ -x "$STRATUS" ] && [ -x "$STRATUSD" ] || skip "no $STRATUS: run ./bootstrap build, or set STRATUS_BIN"; }
need_programs
need man python3

expect() { # STATUS COMMAND...
	local want=$1 status=0
	shift
	OUT=$("$@" 2>&1) || status=$?
	[ "$status" = "$want" ] || fail "'$*' ended with status $status, not $want: $OUT"
}
# in_page PAGE COMMAND...: each long option of --help is written in the page. All are in $OPTIONS.
OPTIONS=
in_page() {
	local page=$TOP/cmd/$1 option options
	shift
	expect 0 "$@" --help
	options=$(printf '%s\n' "$OUT" | grep -o -- '^ *\(-., \)\?  *--[a-z-]*\|^ *-., --[a-z-]*' | grep -o -- '--[a-z-]*')
	OPTIONS+=$options$'\n'
	for option in $options; do
		grep -q -- "${option//-/\\\\-}" "$page" || fail "$option of '$*' is not in $(basename "$page")"
	done
}
in_page stratusd.8 "$STRATUSD"
expect 0 "$STRATUS" --help
commands=$(printf '%s\n' "$OUT" | sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 14 ] || fail "stratus --help lists too few commands: $commands"
for command in $commands; do
	in_page stratus.1 "$STRATUS" "$command"
	grep -q "^\.SS stratus $command" "$TOP/cmd/stratus.1" || fail "stratus $command has no section in its manual page"
	expect 2 "$STRATUS" "$command" --no-such-option
done
for option in $(sed 's/\\-/-/g' "$TOP/cmd/stratus.1" | grep -oE -- '--[a-z][a-z-]*' | sort -u); do
	grep -qxF -- "$option" <<<"$OPTIONS" || fail "stratus.1 has $option, which no command has"
done
ln -s "$STRATUS" "${SCRATCH:=$(mktemp -d)}/mount.stratus"
trap 'rm -rf "$SCRATCH"' EXIT
in_page mount.stratus.8 "$SCRATCH/mount.stratus"
for page in stratus.1 stratusd.8 mount.stratus.8; do
	[ -z "$(man --warnings -l "$TOP/cmd/$page" 2>&1 >/dev/null)" ] || fail "$page is not clean roff"
done

expect 2 "$STRATUS"
expect 2 "$STRATUS" mont
grep -q "did you mean 'mount'" <<<"$OUT" || fail "the nearest command is not named: $OUT"
expect 2 "$STRATUS" mount only-one-word
expect 2 "$STRATUSD"
expect 2 "$STRATUSD" --log-level loud x.vol
expect 2 "$STRATUSD" --foregroud x.vol
grep -q -- "did you mean .--foreground" <<<"$OUT" || fail "the nearest option is not named: $OUT"
expect 2 "$STRATUS" demo --bricks 0

# ---- options that do not go with a verb: nobody is asked anything ----
goes_with() { # OPTION VERBS COMMAND...
	local option=$1 verbs=$2
	shift 2
	expect 2 "$STRATUS" "$@" "$option"
	grep -q -- "^stratus $1: ${option%%=*} goes with $verbs; see stratus $1 --help\$" <<<"$OUT" || fail "'$* $option' says: $OUT"
}
goes_with --dry-run "create, start, stop and set" volume delete photos
goes_with --dry-run "create, start, stop and set" volume info
goes_with --keep-bricks remove server list
for verb in "info photos" "start photos" "stop photos" "delete photos" "set photos protocol/client max-wait 5s"; do
	# shellcheck disable=SC2086
	for option in --replica=2 --arbiter --start; do goes_with $option create volume $verb; done
done
for option in --bricks=2 --mount=/mnt --replica=2; do
	goes_with $option start demo stop
	goes_with $option start demo status
done
goes_with --purge stop demo
goes_with --purge stop demo status
expect 2 "$STRATUS" demo strat
grep -q "did you mean 'start'" <<<"$OUT" || fail "the nearest verb is not named: $OUT"
for words in "--init photos h:/d --json" "--init photos h:/d --state /s" "--init photos h:/d --stdout" "x.yaml --stdout -o ." "x.yaml --port 5" \
	"x.yaml --replica 2" "x.yaml --arbiter" "x.yaml y.yaml"; do
	# shellcheck disable=SC2086
	expect 2 "$STRATUS" volgen $words
	grep -q 'go with\|one specification' <<<"$OUT" || fail "volgen $words: $OUT"
done
# ---- a slip of the pen: the nearest option is named; what is no slip is told as ever; values are no options ----
expect 2 "$STRATUS" tenant resize photos acme --qouta 1T
[ "$OUT" = "stratus tenant: there is no option '--qouta': did you mean '--quota'?; see stratus tenant --help" ] || fail "--qouta: $OUT"
expect 2 "$STRATUS" mount --tls-dri=x h:/v /mnt
grep -q "did you mean '--tls-dir'" <<<"$OUT" || fail "--tls-dri: $OUT"
expect 2 "$STRATUS" usage --zzzzzzzz
grep -q "unrecognized option" <<<"$OUT" || fail "--zzzzzzzz: $OUT"
for words in "--key --qouta" "--key=--qouta" "-o --qouta" "-- --qouta"; do
	# shellcheck disable=SC2086
	expect 2 "$STRATUS" mount $words
	! grep -q "did you mean" <<<"$OUT" || fail "mount $words: $OUT"
done
# ---- behind PROCESS and VOLUME nothing is an option of `stratus ctl`: a name may begin with "-", and those of encrypted ones do now and then ----
for words in "-Kj_WT" "--qouta" "--jsno" "--json" "-- -Kj_WT"; do
	# shellcheck disable=SC2086
	expect 1 "$STRATUS" ctl /nowhere dht locate $words
	grep -q "no process of yours is" <<<"$OUT" || fail "ctl /nowhere dht locate $words: $OUT"
done
expect 2 "$STRATUS" ctl --jsno /nowhere dht locate name
grep -q -- "did you mean '--json'" <<<"$OUT" || fail "ctl --jsno: $OUT"
for words in "" "/nowhere" "/nowhere dht" "-- /nowhere dht" "--json /nowhere dht"; do
	# shellcheck disable=SC2086
	expect 2 "$STRATUS" ctl $words
	grep -q "write PROCESS VOLUME WORDS" <<<"$OUT" || fail "ctl $words: $OUT"
done
# ---- what can't be written is told: half a bill would pass for a whole one ----
for words in "--help" "version" "xlator list" "volgen --help"; do
	# shellcheck disable=SC2086
	! "$STRATUS" $words >/dev/full 2>"$SCRATCH/err" && grep -q "could be written" "$SCRATCH/err" || fail "$words to a full disk: $(cat "$SCRATCH/err")"
done
# ---- too few words: what is to be written is told ----
expect 2 "$STRATUS" scrub
[ "$(head -n 1 <<<"$OUT")" = "stratus scrub: nothing to work on is named: write VOLUME start|check|stop|status" ] || fail "scrub: $OUT"
expect 2 "$STRATUS" mount h:/v
grep -q "something is missing: write SERVER.*:/VOLUME DIRECTORY | VOLFILE DIRECTORY" <<<"$OUT" || fail "mount h:/v: $OUT"
expect 0 "$STRATUS" --version
[ "$OUT" = "$("$STRATUS" version)" ] || fail "two versions"
expect 0 "$STRATUS" version --json
python3 -c 'import json,sys; json.loads(sys.argv[1])["version"]' "$OUT" || fail "version --json is no JSON"

expect 0 "$STRATUS" xlator list
types=$(awk '{print $1}' <<<"$OUT")
for type in $types; do
	expect 0 "$STRATUS" xlator help "$type"
	expect 0 "$STRATUS" xlator help "$type" --man
	expect 0 "$STRATUS" xlator help "$type" --json
	python3 -c 'import json,sys; t = json.loads(sys.argv[1]); assert t["type"] == sys.argv[2] and all(o["help"] for o in t["options"])' \
		"$OUT" "$type" || fail "an option of $type has no help"
	page=$TOP/xlators/$type/${type#*/}.md
	[ -e "$page" ] || continue
	for option in $(python3 -c 'import json,sys; print(*[o["name"] for o in json.loads(sys.argv[1])["options"]])' "$OUT"); do
		grep -qE -- "(^|[^a-z-])$option([^a-z-]|\$)" "$page" || fail "option $option of $type is not on its page"
	done
done
# ---- one that can't be loaded is told of, and the others are listed ----
mkdir -p "$SCRATCH/modules/aaa"
echo "no library" >"$SCRATCH/modules/aaa/broken.so"
STRATUS_XLATOR_PATH=$SCRATCH/modules expect 1 "$STRATUS" xlator list
grep -q "aaa/broken can't be loaded" <<<"$OUT" || fail "xlator list does not say what is broken: $OUT"
for type in $types; do
	grep -q "^$type " <<<"$OUT" || fail "xlator list leaves $type out after one that is broken: $OUT"
done
expect 1 "$STRATUS" xlator help storage/posx
grep -q "did you mean 'storage/posix'" <<<"$OUT" || fail "the nearest translator is not named: $OUT"
pass
