package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// packages are Debian's, by a file that each brings.
var packages = map[string]string{
	"/usr/sbin/runc":     "runc",
	"/usr/lib/cni/ptp":   "containernetworking-plugins",
	"/usr/sbin/iptables": "iptables",
	"/usr/bin/nsenter":   "util-linux",
	"/usr/sbin/ip":       "iproute2",
}

// checkTime bounds Check on a busy machine; it takes a second on an idle one,
// but for packages.
const checkTime = 5 * time.Minute

// Check says why this machine cannot run real hosts; nil if it can. It
// installs Debian's packages that are missing, and tries for a moment what
// hosts do.
func Check(ctx context.Context, progress io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if err := checkRoot(); err != nil {
		return err
	}
	if err := install(ctx, progress); err != nil {
		return err
	}
	for _, t := range []struct {
		what string
		try  func(context.Context) error
	}{
		{"network namespaces, bridges and iptables", tryNetwork},
		{"mount namespaces and overlay mounts", tryMounts},
		{"cgroups", tryCgroups},
	} {
		if err := t.try(ctx); err != nil {
			return fmt.Errorf("real hosts need %s: %w", t.what, err)
		}
	}
	return nil
}

func checkRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("real hosts need root, for namespaces, cgroups and mounts")
	}
	return nil
}

// install brings Debian's packages that are missing.
func install(ctx context.Context, progress io.Writer) error {
	var missing []string
	for file, name := range packages {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintf(progress, "installing Debian's packages %s\n", strings.Join(missing, " "))
	_, err := run(ctx, "apt-get", "update", "-q")
	if err == nil {
		_, err = run(ctx, "apt-get", append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...)...)
	}
	if err != nil {
		return fmt.Errorf("real hosts need Debian's packages %s: %w", strings.Join(missing, " "), err)
	}
	return nil
}

// trial names what Check makes for a moment.
const trial = cgroupPrefix + "try"

// tryNetwork makes a namespace that a bridge joins, with a rule of the kinds
// that kube-proxy writes.
func tryNetwork(ctx context.Context) error {
	clean := func() {
		for _, args := range []string{"link del pwrealtry0", "link del pwrealtry", "netns del " + trial} {
			_, _ = run(context.WithoutCancel(ctx), "ip", strings.Fields(args)...) // What is not there needs no removal.
		}
	}
	clean() // of a trial that was killed
	defer clean()
	return runAll(ctx, fmt.Sprintf(`
		ip netns add %[1]s
		ip link add pwrealtry type bridge
		ip link add pwrealtry0 type veth peer name eth0 netns %[1]s
		ip link set pwrealtry0 master pwrealtry up
		nsenter --net=/run/netns/%[1]s sysctl -qw net.ipv4.ip_forward=1
		nsenter --net=/run/netns/%[1]s iptables -t nat -A POSTROUTING -m comment --comment try -m statistic --mode random --probability 0.5 -j MASQUERADE
		nsenter --net=/run/netns/%[1]s iptables -t nat -A PREROUTING -m conntrack --ctstate NEW -p tcp --dport 1 -j DNAT --to-destination 127.0.0.1:2`,
		trial))
}

// tryMounts mounts an overlay, as containerd does for each container.
func tryMounts(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(Root), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(Root), trial)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	_, err = run(ctx, "unshare", "--mount", "--propagation=private", "mount", "-t", "overlay", "overlay",
		"-o", fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir), dir+"/merged")
	return err
}

// tryCgroups makes a host's cgroup, and a process in it.
func tryCgroups(ctx context.Context) (err error) {
	h := Host{Name: "try"}
	if len(controllers()) == 0 {
		return errors.New("there are none at " + cgroups)
	}
	defer func() { err = errors.Join(err, h.removeCgroup()) }()
	if err := h.makeCgroup(); err != nil {
		return err
	}
	for _, c := range controllers() {
		procs := filepath.Join(c, h.cgroup(), "cgroup.procs")
		if _, err := run(ctx, "sh", "-c", "echo $$ >"+procs); err != nil {
			return err
		}
	}
	return nil
}
