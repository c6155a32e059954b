# SPDX-License-Identifier: Apache-2.0
# Counts of what a process holds, and whether they have grown (for flat.sh and switch.sh).

# counts FILE NAME PID [NAME PID]...: after the kernel has forgotten what it knew of the mount.
counts() {
	local file=$1 name pid
	shift
	sync
	echo 3 >/proc/sys/vm/drop_caches
	settled "$2" # the kernel's forgets are on their way
	: >"$file"
	while [ $# -gt 0 ]; do
		name=$1 pid=$2
		shift 2
		facts "$pid" >"$file.$name.dump"
		{
			echo "$name descriptors $(fd_count "$pid")"
			echo "$name threads $(ls "/proc/$pid/task" | wc -l)"
			echo "$name resident_kib $(rss_kib "$pid")"
			awk -v name="$name" '
				/^tasks/ {print name, "tasks", $3}
				/^memory/ {print name, "files", $5; print name, "requests", $7}
				/^graph/ {graphs++; sub(/.*: /, ""); inodes += $1}
				END {print name, "graphs", graphs + 0; print name, "inodes", inodes + 0}' "$file.$name.dump"
		} >>"$file"
	done
}
# Until the number of inodes stays the same for half a second.
settled() {
	local last=-1 now=0 same=0 try
	for try in $(seq 100); do
		now=$(facts "$1" | awk '/^graph/ {sub(/.*: /, ""); n += $1} END {print n + 0}')
		[ "$now" = "$last" ] && same=$((same + 1)) || same=0
		[ $same -lt 5 ] || return 0
		last=$now
		sleep 0.1
	done
}
# compare_counts BEFORE AFTER KIB: memory may grow by KIB (and $RSS_SLACK_KIB: a sanitizer keeps what was freed), other counts by a few that come and go.
compare_counts() {
	paste -d ' ' "$1" "$2" | awk -v kib="$(($3 + ${RSS_SLACK_KIB:-0}))" '
		{slack = $2 == "resident_kib" ? kib : $2 == "graphs" ? 0 : 8
		 printf "  %-6s %-12s %8d -> %d%s\n", $1, $2, $3, $6, ($6 > $3 + slack) ? "  GROWS" : ""
		 if ($6 > $3 + slack) bad = 1}
		END {exit bad}'
}
