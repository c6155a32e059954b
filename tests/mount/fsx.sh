#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What was written is what is read, through read, write, shared mmap, truncate, punch, fallocate and copy_file_range.
#
# The judge is the crate fsx, from $FSX or built by cargo into $CARGO_TOOLS (a cache). Four seeds; 100,000 operations each
# with LONG=1, else 10,000, or $FSX_OPS. $SEED is the first seed. FSX_DIR=DIR runs on any directory instead of a mount.
# No operation is of 0 bytes: posix_fallocate(3) of none is EINVAL on each file system, which the judge takes for an error.
# limit: 900 s
. "$(dirname "$0")/lib.sh"
VERSION=0.3.2
OPS=${FSX_OPS:-$([ "$LONG" = 1 ] && echo 100000 || echo 10000)}

install_crate() {
	local cache=${CARGO_TOOLS:-$TOP/build/cargo-tools}
	FSX=${FSX:-$cache/bin/fsx}
	[ ! -x "$FSX" ] || return 0
	PATH=$PATH:${HOME:-/root}/.cargo/bin
	need cargo
	cargo install --quiet fsx --version "$VERSION" --locked --root "$cache" ||
		fail "cargo can't build fsx $VERSION (it needs Rust 1.82: rustup, or Debian's package cargo-web)"
}

[ "${1-}" != install ] || { install_crate; exit 0; }
need_root
[ -n "${FSX_DIR:-}" ] || need_stack
scratch
install_crate
cat >"$SCRATCH/fsx.toml" <<'END'
flen = 1048576
[opsize]
min = 1
max = 262144
[weights]
close_open = 2
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 3
punch_hole = 5
sendfile = 3
posix_fadvise = 2
copy_file_range = 3
END
if [ -n "${FSX_DIR:-}" ]; then MNT=$FSX_DIR; else start_stack "$SCRATCH"; fi
say "seeds $SEED to $((SEED + 3)), $OPS operations each"
for i in 0 1 2 3; do
	status=0
	timeout 1500 "$FSX" -q -f "$SCRATCH/fsx.toml" -N "$OPS" -S $((SEED + i)) -P "$SCRATCH" "$MNT/fsx-$i" \
		>"$SCRATCH/fsx-$i.log" 2>&1 || status=$?
	[ "$status" -eq 0 ] || fail "fsx with seed $((SEED + i)) found a mismatch or an error (status $status)"
	rm -f "$MNT/fsx-$i"
done
[ -n "${FSX_DIR:-}" ] || stop_stack
pass
