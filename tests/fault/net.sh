# SPDX-License-Identifier: Apache-2.0
# For replicas.sh: a network of namespaces, each with a link of its own to one that routes, so that any direction can be cut there.
#
# net_up PREFIX NAME=NUMBER...: namespace PREFIX-NAME has the address 10.77.NUMBER.2; its link in PREFIX-hub is called NAME.
NET=
declare -a NET_NAMES=()

net_up() {
	local name number
	NET=$1
	shift
	ip netns add "$NET-hub" 2>/dev/null || skip "can't make network namespaces"
	NET_NAMES=(hub)
	ip netns exec "$NET-hub" sysctl -qw net.ipv4.ip_forward=1 || skip "can't route between namespaces"
	for name; do
		number=${name#*=} name=${name%=*}
		ip netns add "$NET-$name"
		NET_NAMES+=("$name")
		ip -n "$NET-hub" link add name "$name" type veth peer name eth netns "$NET-$name"
		ip -n "$NET-hub" addr add "10.77.$number.1/24" dev "$name"
		ip -n "$NET-hub" link set dev "$name" up
		ip -n "$NET-$name" addr add "10.77.$number.2/24" dev eth
		ip -n "$NET-$name" link set eth up
		ip -n "$NET-$name" link set lo up
		ip -n "$NET-$name" route add default via "10.77.$number.1"
	done
}
net_down() {
	local name
	for name in "${NET_NAMES[@]}"; do
		ip netns del "$NET-$name" 2>/dev/null
	done
}
# Nothing is cut any more.
net_mend() {
	local name
	while ip -n "$NET-hub" rule del pref 100 2>/dev/null; do :; done
	for name in "${NET_NAMES[@]:1}"; do ip -n "$NET-hub" link set dev "$name" up; done
}
