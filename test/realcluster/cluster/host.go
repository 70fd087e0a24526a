package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// private are the directories that each host has for itself, although they
// are named by constants in kubelet and containerd, or by the JobSets of
// PathwaysJobs (/tmp).
var private = map[string]string{
	"/tmp":             "tmp",
	"/var/log":         "log",
	"/var/lib/kubelet": "kubelet",
	"/var/lib/cni":     "cni-lib",
	"/run/containerd":  "containerd-run",
}

// mountNamespace is the file that holds the host's mount namespace.
func (h Host) mountNamespace() string { return filepath.Join(runtimeDir, "mnt", h.Name) }

// inside makes the command line that runs a program in the host.
func (h Host) inside(program string, args ...string) []string {
	return append([]string{"--net=" + h.netns(), "--mount=" + h.mountNamespace(), "--", program}, args...)
}

// makeMounts makes a mount namespace in which the host's containers can mount
// what they like: all of it goes with the namespace.
func (h Host) makeMounts(ctx context.Context) error {
	if err := writeFile(h.mountNamespace(), ""); err != nil {
		return err
	}
	if _, err := run(ctx, "unshare", "--mount="+h.mountNamespace(), "--propagation=private", "true"); err != nil {
		return err
	}
	for at, dir := range private {
		own := filepath.Join(h.dir(), dir)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if _, err := run(ctx, "nsenter", h.inside("mount", "--bind", own, at)...); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(h.dir(), "tmp"), 0o1777)
}

// boot starts the host from nothing.
func (h Host) boot(ctx context.Context) error {
	if err := h.makeNetwork(ctx); err != nil {
		return err
	}
	if err := h.makeMounts(ctx); err != nil {
		return err
	}
	if err := h.makeCgroup(); err != nil {
		return err
	}
	if err := h.writeConfigs(); err != nil {
		return err
	}
	return h.startPrograms(ctx)
}

func (h Host) startPrograms(ctx context.Context) error {
	// containerd looks for its shim on the PATH.
	path := []string{"PATH=" + filepath.Dir(program("containerd")) + ":" + os.Getenv("PATH")}
	err := start("containerd-"+h.Name, path, "nsenter", h.inside(program("containerd"), "--config", h.file("containerd.toml"))...)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, h.socket(), func() bool { _, err := os.Stat(h.socket()); return err == nil }); err != nil {
		return err
	}
	var labels []string
	for k, v := range h.labels() {
		labels = append(labels, k+"="+v)
	}
	err = start("kubelet-"+h.Name, path, "nsenter", h.inside(program("kubelet"),
		"--config="+h.file("kubelet.json"), "--kubeconfig="+hostKubeconfig(), "--hostname-override="+h.Name,
		"--node-ip="+h.ip(), "--node-labels="+strings.Join(labels, ","))...)
	if err != nil {
		return err
	}
	return start("kube-proxy-"+h.Name, path, "nsenter", h.inside(program("kube-proxy"),
		"--kubeconfig="+hostKubeconfig(), "--hostname-override="+h.Name, "--proxy-mode=iptables",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		"--oom-score-adj=0")...)
}

func (h Host) file(name string) string { return filepath.Join(h.dir(), name) }

func (h Host) writeConfigs() error {
	containerd := fmt.Sprintf(`version = 3
root = %q
state = %q
[grpc]
address = %q
[ttrpc]
address = %q
[plugins.'io.containerd.cri.v1.runtime']
# Lowering oom_score_adj needs a capability that not every machine gives.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = %q
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
Root = %q
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %q
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = %q
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.internal.v1.opt']
path = %q
`, h.file("containerd"), filepath.Join(h.run(), "state"), h.socket(), h.socket()+".ttrpc", h.file("cni"),
		filepath.Join(h.run(), "runc"), ImagePause, h.file("registries"), h.file("opt"))

	mirror := fmt.Sprintf("[host.\"http://%s:%d\"]\ncapabilities = [\"pull\", \"resolve\"]\n", Address, imagePort)

	cni := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "subnet": %q, "dataDir": %q, "routes": [{"dst": "0.0.0.0/0"}]}}]}`,
		h.podCIDR(), h.file("addresses"))

	type m = map[string]any
	kubelet := m{
		"apiVersion":                    "kubelet.config.k8s.io/v1beta1",
		"kind":                          "KubeletConfiguration",
		"authentication":                m{"anonymous": m{"enabled": true}, "webhook": m{"enabled": false}},
		"authorization":                 m{"mode": "AlwaysAllow"},
		"cgroupDriver":                  "cgroupfs",
		"cgroupRoot":                    "/" + h.cgroup(),
		"clusterDNS":                    []string{Address},
		"clusterDomain":                 "cluster.local",
		"containerRuntimeEndpoint":      "unix://" + h.socket(),
		"enforceNodeAllocatable":        []string{},
		"evictionHard":                  m{"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
		"failCgroupV1":                  false,
		"failSwapOn":                    false,
		"imageGCHighThresholdPercent":   100,
		"localStorageCapacityIsolation": false,
		"nodeLeaseDurationSeconds":      20, // renewed every 5 s: a busy machine may be late
		"oomScoreAdj":                   0,
		"resolvConf":                    h.file("resolv.conf"),
		"serializeImagePulls":           false,
		"volumePluginDir":               h.file("volume-plugins"),
	}
	if h.Chips > 0 {
		kubelet["registerWithTaints"] = []m{{"key": tpuResource, "value": "present", "effect": "NoSchedule"}}
	}
	kubeletJSON, err := json.MarshalIndent(kubelet, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.MkdirAll(h.run(), 0o755),
		writeFile(h.file("containerd.toml"), containerd),
		writeFile(h.file("registries/_default/hosts.toml"), mirror),
		writeFile(h.file("cni/10-pods.conflist"), cni),
		writeFile(h.file("kubelet.json"), string(kubeletJSON)),
		writeFile(h.file("resolv.conf"), "nameserver "+Address+"\n"),
	)
}

// Kill ends the host as a loss of power does: its kubelet, its containers and
// containerd at once, and its network.
func (h Host) Kill(ctx context.Context) error {
	if err := h.SetLink(ctx, false); err != nil {
		return err
	}
	return h.killPrograms()
}

func (h Host) killPrograms() error {
	// The kubelet and containerd first, so that they start nothing again.
	for _, name := range []string{"kubelet-", "kube-proxy-", "containerd-"} {
		if err := kill(name + h.Name); err != nil {
			return err
		}
	}
	if err := killAll(ourProcesses("containerd-shim-runc-v2", h.socket())); err != nil {
		return err
	}
	return h.killContainers()
}

// Start boots a host that was killed, as a new one: nothing of it is left but
// its name.
func (h Host) Start(ctx context.Context) error {
	if err := h.remove(ctx); err != nil {
		return err
	}
	if _, err := kubectl(ctx, "delete", "node", h.Name, "--ignore-not-found"); err != nil {
		return err
	}
	if err := h.boot(ctx); err != nil {
		return err
	}
	return h.becomesReady(ctx)
}

// remove ends the host and removes what it left.
func (h Host) remove(ctx context.Context) error {
	if err := h.killPrograms(); err != nil {
		return err
	}
	if _, err := os.Stat(h.mountNamespace()); err == nil {
		// The last reference: all mounts of the host go with it.
		_, _ = run(ctx, "umount", h.mountNamespace()) // An error says that it is not mounted.
		if err := os.Remove(h.mountNamespace()); err != nil {
			return err
		}
	}
	return errors.Join(
		h.removeNetwork(ctx),
		h.removeCgroup(),
		os.RemoveAll(h.run()),
		os.RemoveAll(h.dir()),
	)
}

// becomesReady waits for the node and gives it its TPUs.
func (h Host) becomesReady(ctx context.Context) error {
	err := waitFor(ctx, "node "+h.Name, func() bool {
		_, err := kubectl(ctx, "get", "node", h.Name)
		return err == nil
	})
	if err != nil {
		return err
	}
	if h.Chips > 0 {
		patch := fmt.Sprintf(`{"status":{"capacity":{%[1]q:"%[2]d"},"allocatable":{%[1]q:"%[2]d"}}}`, tpuResource, h.Chips)
		if _, err := kubectl(ctx, "patch", "node", h.Name, "--subresource=status", "--type=merge", "-p", patch); err != nil {
			return err
		}
	}
	_, err = kubectl(ctx, "wait", "--for=condition=Ready", "node/"+h.Name, "--timeout=120s")
	return err
}

// waitFor waits until ok, or two minutes.
func waitFor(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// kubectl runs kubectl as administrator.
func kubectl(ctx context.Context, args ...string) (string, error) {
	bin, err := Programs(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl"), append([]string{"--kubeconfig=" + Kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
