#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The systemd unit: it is installed and has no mistakes; stratusd, started as it says, tells when it serves and when it stops, and with the capabilities that it leaves a brick can do all that is asked
# of one; a mistake of the command line is told from a failure; nothing in it forbids what bricks do.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/keeper.sh"
need_root
need_stack
need systemd-analyze setpriv prlimit python3 setfattr setfacl
UNIT=$STRATUS_BIN/../lib/systemd/system/stratusd.service
[ -e "$UNIT" ] || fail "there is no $UNIT"
scratch
cd "$SCRATCH"
setting() { sed -n "s/^$1=//p" "$UNIT"; }

# ---- as systemd reads it ----
cp "$UNIT" stratusd.service
systemd-analyze verify --man=no --recursive-errors=no "$SCRATCH/stratusd.service" >said 2>&1 || fail "systemd refuses it: $(cat said)"
[ ! -s said ] || fail "systemd has found: $(cat said)"
sed 's/^KillMode=.*/KillMode=some/' "$UNIT" >stratusd.service
systemd-analyze verify --man=no --recursive-errors=no "$SCRATCH/stratusd.service" >said 2>&1 || true
grep -q 'kill mode' said || fail "systemd-analyze finds no mistakes, so that it found none means nothing: $(cat said)"
sed -n '/^    \[Unit\]/,/^    WantedBy/s/^    //p' "$TOP/doc/tenant-guide.md" >mnt-acme.mount # the one that tenants are shown
grep -qx 'Type=stratus' mnt-acme.mount || fail "the guide has no unit of a mount: $(cat mnt-acme.mount)"
systemd-analyze verify --man=no --recursive-errors=no "$SCRATCH/mnt-acme.mount" >said 2>&1 && [ ! -s said ] || fail "systemd has found in the guide's unit: $(cat said)"
read -r -a command < <(setting ExecStart)
[ "$(realpath "${command[0]}")" = "$(realpath "$STRATUSD")" ] || fail "it starts ${command[0]}, and not $STRATUSD"
# What would be a mount, a set-user-id bit or a device that a tenant can't make, or a brick that is gone after a stop.
! grep -E '^(PrivateDevices|DevicePolicy|DeviceAllow|ProtectClock|RestrictSUIDSGID|PrivateTmp|PrivateUsers|DynamicUser|User|PrivateNetwork|IPAddressDeny)=|^ProtectSystem=strict' "$UNIT" ||
	fail "a brick can't work with that"
[ "$(setting Type) $(setting KillMode) $(setting Restart) $(setting RestartPreventExitStatus)" = "notify mixed on-failure 2" ] || fail "it is handled otherwise"

# ---- started as it says, but for the directory of its state, which is the test's ----
HTTP=$(free_port) MNT=$SCRATCH/mnt
export STRATUSD_OPTIONS="--name alpha --listen 127.0.0.1:$HTTP"
IFS=' ' read -r -a words <<<"$(sed "s,/var/lib/stratus,$SCRATCH/state,; s/\\\$STRATUSD_OPTIONS/$(sed 's/[&,/]/\\&/g' <<<"$STRATUSD_OPTIONS")/" <<<"${command[*]}")"
[[ " ${words[*]} " == *" --state $SCRATCH/state "* && " ${words[*]} " == *" --name alpha "* ]] || fail "other words: ${words[*]}"
files=$(setting LimitNOFILE)
[ "$files" -ge 500000 ] || fail "a brick may open $files files only"
[ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge "$files" ] || files=$(ulimit -Hn) # where the test may not have as many
bounds=-all
for capability in $(setting CapabilityBoundingSet | tr 'A-Z' 'a-z'); do bounds+=,+${capability#cap_}; done
cat >manager.py <<'END'
# What a service manager hears: a line for each datagram.
import socket, sys
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.bind(sys.argv[1])
print("listens", flush=True)
while True:
    print(heard.recv(4096).decode(), flush=True)
END
python3 manager.py "$SCRATCH/notify" >heard 2>manager.log &
note $! manager
wait_until 20 grep -q listens heard || fail "no socket"
NOTIFY_SOCKET=$SCRATCH/notify prlimit --nofile="$files" setpriv --no-new-privs --inh-caps=-all --bounding-set "$bounds" "${words[@]}" >stratusd.log 2>&1 &
KEEPER=$!
note "$KEEPER" stratusd
wait_until 30 grep -qx READY=1 heard || fail "it does not tell that it serves: $(cat heard)"
"$STRATUS" status >/dev/null || fail "it has told that it serves, and does not answer"
[ "$(sed -n 's/^Max open files *\([0-9]*\).*/\1/p' "/proc/$KEEPER/limits")" = "$files" ] || fail "it may not open $files files"

# ---- a brick with these capabilities alone ----
"$STRATUS" volume create photos --start 127.0.0.1:"$SCRATCH/b0" >/dev/null || fail "no volume: $("$STRATUS" status)"
mkdir mnt
"$STRATUS" mount -o dev,suid --log mnt.log --pid-file mnt.pid 127.0.0.1:"$HTTP":/photos "$MNT"
note "$(cat mnt.pid)" mount
echo hello >mnt/file
chown 1234:5678 mnt/file && chmod 6755 mnt/file || fail "owner and mode"
[ "$(stat -c '%u:%g %a' mnt/file)" = "1234:5678 6755" ] || fail "owner and mode are others: $(stat mnt/file)"
mknod mnt/null c 1 3 || fail "no device"
[ "$(stat -c '%F %t:%T' mnt/null)" = "character special file 1:3" ] || fail "another device: $(stat mnt/null)"
chmod 000 mnt/file && [ "$(cat mnt/file)" = hello ] || fail "what has no mode can't be read by root"
setfattr -n user.color -v blue mnt/file && setfacl -m u:99:r mnt/file || fail "attributes and ACLs"
ln mnt/file mnt/link && mv mnt/link mnt/link2 && rm mnt/file mnt/null || fail "names"
umount mnt

# ---- told to stop it does, and says so; a mistake is status 2, a failure is 1 ----
kill -TERM "$KEEPER"
status=0
wait "$KEEPER" || status=$?
unset "PIDS[$KEEPER]"
[ "$status" = 0 ] && grep -qx STOPPING=1 heard || fail "status $status after a stop: $(cat heard)"
[ "$(grep -c READY heard)" = 1 ] || fail "it says more often that it serves: $(cat heard)"
status=0
NOTIFY_SOCKET=$SCRATCH/notify "${words[@]}" --nonsense 2>err || status=$?
[ "$status" = 2 ] || fail "a wrong command line is status $status: $(cat err)"
status=0
NOTIFY_SOCKET=$SCRATCH/notify timeout 100 "${words[@]}" --name beta 2>err || status=$?
[ "$status" = 1 ] && [ "$(grep -c READY heard)" = 1 ] || fail "what can't start is status $status: $(cat err heard)"
pass
