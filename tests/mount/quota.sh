#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Directories of a tenant that have quotas, over TLS: set by his administrator only, raced into by several writers at two mounts, not to be crossed by names, seen by df(1); and exact
# after kill -9.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3 setfattr getfattr

scratch
T=$SCRATCH/tenants TM=$SCRATCH/of A=$SCRATCH/of/acme G=$SCRATCH/of/globex
ADMIN=$SCRATCH/admin ALL=$SCRATCH/all # mounts of acme's administrator, and of the provider
demo() { timeout 300 "$STRATUS" demo "$@" --dir "$T"; }
end_demo() {
	unmount_below "$ADMIN"
	unmount_below "$ALL"
	demo stop >/dev/null 2>&1
}
AT_EXIT=end_demo
demo --tenants acme,globex --mount "$TM" >/dev/null || fail "no demo with tenants"
server() { demo status --json | json 'd["server-pid"]'; }
SOURCE=127.0.0.1:$(demo status --json | json 'd["service-port"]'):/demo
mount_with() { # TLS_DIRECTORY MOUNT_POINT
	mkdir -p "$2"
	timeout 300 "$STRATUS" mount --tls-dir "$1" "$SOURCE" "$2" || fail "no mount with $1"
	MOUNTS+=("$2")
}
"$STRATUS" cert issue --tenant-admin acme --dir "$T/ca" --out "$SCRATCH/keeper" >/dev/null || fail "no certificate for an administrator"
mount_with "$SCRATCH/keeper" "$ADMIN"
mount_with "$T/tls" "$ALL"

. "$TOP/tests/mount/quotas.sh"
verify() {
	local status=0
	"$STRATUS" usage verify --stratusd "$(server)" --json >"$SCRATCH/verified" 2>"$SCRATCH/verified.err" || status=$?
	[ "$status" = 0 ] || fail "$1: usage verify ends with $status: $(cat "$SCRATCH/verified" "$SCRATCH/verified.err")"
	[ "$(json 'sum("directory" in a for b in d for a in b["accounts"])' <"$SCRATCH/verified")" = "$2" ] || fail "$1: usage verify has looked at: $(cat "$SCRATCH/verified")"
}

# ---- who may, and where ----
mkdir "$A/q" "$A/full" "$A/plain" "$G/q"
touch "$A/full/file" "$A/plain/file"
refused "certificate of the tenant's administrator" set "$A/q" --bytes 4M
refused "certificate of the tenant's administrator" list "$A"
refused "certificate of the tenant's administrator" set "$G/q" --bytes 4M
refused "is not empty" set "$ADMIN/full" --bytes 4M
refused "is no directory" set "$ADMIN/full/file" --bytes 4M
refused "it is the root" set "$ADMIN" --bytes 4M
refused "say what it may have" set "$ADMIN/q"
refused "no quota of its own" remove "$ADMIN/q"
refused "has no quota" show "$A/q"
refused "not on a mount" set "$SCRATCH" --bytes 4M
! setpriv --reuid 1000 --regid 1000 --clear-groups "$STRATUS" quota set "$ADMIN/q" --bytes 4M 2>/dev/null || fail "another user of the administrator's machine may"
quota set "$ADMIN/q" --bytes 4M --inodes 60 || fail "the administrator may not"
mkdir "$A/q/sub"
refused "none inside another" set "$ADMIN/q/sub" --bytes 1M
quota set "$ALL/tenants/globex/q" --bytes 1M || fail "the provider may not"
[ "$(used "$G/q" bytes_limit)" = 1048576 ] || fail "globex is shown: $(quota show "$G/q")"
[ "$(quota list "$ADMIN" --json | json '[(q["directory"], q["bytes_limit"], q["inodes_limit"], q["inodes"]) for q in d]')" = "[('/q', 4194304, 60, 2)]" ] ||
	fail "listed: $(quota list "$ADMIN")"
[ "$(used "$A/q/sub" directory)" = /q ] || fail "a tenant is shown: $(quota show "$A/q/sub")"
quota show "$A/q" | grep -q ' 4194304 .* 60 /q$' || fail "shown: $(quota show "$A/q")"

# ---- nobody has the tag, or another ----
! setfattr -n trusted.usage.quota -v 12345678 "$A/plain/file" 2>/dev/null || fail "a tenant sets a tag"
! setfattr -n trusted.usage.quota -v 12345678 "$ALL/tenants/acme/plain/file" 2>/dev/null || fail "a provider's mount sets a tag"
[ -z "$(getfattr -h -d -m - "$A/q/sub" 2>/dev/null | grep usage)" ] || fail "the tag is seen: $(getfattr -d -m - "$A/q/sub")"
python3 - "$A" <<-'END' || fail "names cross the border"
	import errno, os, sys
	os.chdir(sys.argv[1])
	def crosses(fn, *args):
	    try:
	        fn(*args)
	    except OSError as e:
	        return e.errno == errno.EXDEV
	    return False
	open("q/in", "w").write("in")
	done = [crosses(os.rename, "q/in", "plain/in"), crosses(os.rename, "plain/file", "q/out"), crosses(os.link, "q/in", "plain/in"),
	        crosses(os.link, "plain/file", "q/out"), crosses(os.rename, "plain", "q/plain"), crosses(os.rename, "q/sub", "sub")]
	os.rename("q/in", "q/sub/in")
	os.rename("q", "moved")
	os.rename("moved", "q")
	sys.exit(done != [True] * len(done))
END
mv "$A/q/sub/in" "$A/plain/in" && mv "$A/plain/in" "$A/q/sub/in" && [ "$(cat "$A/q/sub/in")" = in ] || fail "mv(1) does not copy"
rm "$A/q/sub/in"

# ---- df, of the smaller one ----
[ "$(size "$A/q/sub")" = 4194304 ] || fail "df does not show the quota: $(df -B1 "$A/q/sub")"
[ "$(inodes "$A/q")" = 60 ] || fail "df does not show the inodes: $(df -i "$A/q")"
[ "$(size "$A")" -gt 4194304 ] || fail "df shows the quota elsewhere"
"$STRATUS" tenant resize demo acme --quota 2M --stratusd "$(server)" >/dev/null
smaller() { [ "$(size "$A/q")" = 2097152 ]; }
wait_until 10 smaller || fail "df does not show the tenant's limit, which is smaller: $(df -B1 "$A/q")"
"$STRATUS" tenant resize demo acme --quota 0 --stratusd "$(server)" >/dev/null
larger() { [ "$(size "$A/q")" = 4194304 ]; }
wait_until 10 larger || fail "df does not show the directory's limit again: $(df -B1 "$A/q")"

# ---- raced into the limit, by two mounts ----
race() { # ROUNDS: all writers, and nobody ever sees more than the limit
	local i pids=()
	for i in 1 2 3 4; do
		python3 "$TOP/tests/mount/quota-race.py" "$((SEED + i))" "$1" "$([ $((i % 2)) = 0 ] && echo "$A/q" || echo "$ADMIN/q")" >"$SCRATCH/race$i" 2>&1 &
		pids+=($!)
	done
	until gone "${pids[@]}"; do
		[ "$(used "$A/q" bytes)" -le 4194304 ] && [ "$(used "$A/q" inodes)" -le 60 ] || fail "more than the limit: $(quota show "$A/q")"
	done
	for i in 1 2 3 4; do
		wait "${pids[i - 1]}" || fail "a writer (SEED=$SEED): $(cat "$SCRATCH/race$i")"
	done
}
race 150
[ "$(cat "$SCRATCH"/race? | paste -sd+ | bc)" -gt 0 ] || fail "nobody was refused"
verify "after the race" 2
message=$(dd if=/dev/zero of="$A/q/large" bs=64k count=200 2>&1) && fail "more than the quota can be written"
grep -q "Disk quota exceeded" <<<"$message" || fail "not EDQUOT: $message"
rm -f "$A"/q/f* "$A/q/large"

# What fits of a write is written.
python3 - "$A/q/fits" <<-'END' || fail "a write at the limit is not short, but refused, or the next one is not"
	import errno, os, sys
	fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
	os.write(fd, b"x" * 1000)
	data, size, counts = os.urandom(1000000), 1000, []
	try:
	    while True:
	        counts.append(os.write(fd, data))
	        size += counts[-1]
	except OSError as e:
	    whole = open(sys.argv[1], "rb").read()
	    expected = b"x" * 1000 + b"".join(data[:n] for n in counts)
	    sys.exit(e.errno != errno.EDQUOT or not 0 < counts[-1] < len(data) or whole != expected)
END
[ "$(used "$A/q" bytes)" -gt $((4194304 - 12288)) ] || fail "$(quota show "$A/q")"
rm "$A/q/fits"
verify "after what fits" 2
dd if=/dev/zero of="$A/plain/large" bs=64k count=100 2>/dev/null || fail "the quota holds elsewhere, too"

# ---- kill -9 beside the work ----
for i in 1 2 3; do
	race 100 &
	RACE=$!
	sleep "0.$((RANDOM % 9 + 1))"
	kill -9 "$(server)"
	demo >/dev/null || fail "the server does not come back"
	wait "$RACE" || fail "the work beside kill -9 fails"
	verify "after kill -9" 2
done

# ---- changed, and taken away ----
quota set "$ADMIN/q" --inodes 5000 || fail "can't be changed"
[ "$(used "$A/q" bytes_limit) $(used "$A/q" inodes_limit)" = "4194304 5000" ] || fail "what was not said is changed: $(quota show "$A/q")"
rm -f "$A"/q/f* "$A/q/large"
quota remove "$ADMIN/q" || fail "can't be taken away"
refused "has no quota" show "$A/q"
[ -z "$(quota list "$ADMIN" --json | json '"".join(q["directory"] for q in d)')" ] || fail "still listed: $(quota list "$ADMIN")"
mv "$A/q/sub" "$A/sub" && dd if=/dev/zero of="$A/q/large" bs=64k count=100 2>/dev/null || fail "what was taken away still holds"
rmdir "$G/q"
verify "with none" 0
end_demo
AT_EXIT=
pass
