package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// run runs a command and returns its output.
func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// runAll runs commands, one a line, until one fails.
func runAll(ctx context.Context, lines string) error {
	for line := range strings.SplitSeq(lines, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if _, err := run(ctx, fields[0], fields[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// makeBridge makes the bridge that joins the hosts. Its hardware address is
// its own: by default it takes that of one of its ports, so that it changes
// with each host that comes or goes, and the others send to the old one for
// half a minute.
func makeBridge(ctx context.Context) error {
	return runAll(ctx, fmt.Sprintf(`
		ip link add %[1]s address 02:00:0a:4d:00:01 type bridge
		ip addr add %[2]s/24 dev %[1]s
		ip link set %[1]s up`, bridge, Address))
}

// makeNetwork makes a host's network namespace, joins it to the bridge, and
// routes its pods' addresses to it.
func (h Host) makeNetwork(ctx context.Context) error {
	return runAll(ctx, fmt.Sprintf(`
		ip netns add %[1]s
		ip link add %[2]s type veth peer name eth0 netns %[1]s
		ip link set %[2]s master %[3]s up
		ip -n %[1]s link set lo up
		ip -n %[1]s addr add %[4]s/24 dev eth0
		ip -n %[1]s link set eth0 up
		ip -n %[1]s route add default via %[5]s
		ip route replace %[6]s via %[4]s
		nsenter --net=%[7]s sysctl -qw net.ipv4.ip_forward=1`,
		h.namespace(), h.veth(), bridge, h.ip(), Address, h.podCIDR(), h.netns()))
}

// removeNetwork removes what makeNetwork made, as far as it is there.
func (h Host) removeNetwork(ctx context.Context) error {
	if _, err := os.Stat("/sys/class/net/" + h.veth()); err == nil {
		if _, err := run(ctx, "ip", "link", "del", h.veth()); err != nil {
			return err
		}
	}
	if _, err := os.Stat(h.netns()); err == nil {
		if _, err := run(ctx, "ip", "netns", "del", h.namespace()); err != nil {
			return err
		}
	}
	return nil
}

// SetLink takes the host's network up or down.
func (h Host) SetLink(ctx context.Context, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	_, err := run(ctx, "ip", "link", "set", h.veth(), state)
	return err
}

// Settings of the kernel that a kubelet or we change. They are put back in
// the end.
var sysctls = []string{
	"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

func saveSysctls() error {
	var saved strings.Builder
	for _, name := range sysctls {
		value, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			continue // This kernel does not have it.
		}
		fmt.Fprintf(&saved, "%s %s\n", name, strings.TrimSpace(string(value)))
	}
	return writeFile(Root+"/sysctls", saved.String())
}

func restoreSysctls() error {
	saved, err := os.ReadFile(Root + "/sysctls")
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(saved)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		now, err := os.ReadFile("/proc/sys/" + name)
		if err != nil || strings.TrimSpace(string(now)) == value {
			continue
		}
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			return fmt.Errorf("put back %s: %w", name, err)
		}
	}
	return nil
}
