package boot

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// layout names the files in a cluster's folder.
type layout struct {
	dir, pki, logs                          string
	ca, servingCert, servingKey             string
	serviceAccountPublic, serviceAccountKey string
	kubeconfig, jobsetConfig, kwokConfig    string
	state                                   string
}

func newLayout(dir string) layout {
	pki := filepath.Join(dir, "pki")
	return layout{
		dir:                  dir,
		pki:                  pki,
		logs:                 filepath.Join(dir, "logs"),
		ca:                   filepath.Join(pki, "ca.crt"),
		servingCert:          filepath.Join(pki, "tls.crt"), // the name that JobSet looks for
		servingKey:           filepath.Join(pki, "tls.key"),
		serviceAccountPublic: filepath.Join(pki, "service-account.pub"),
		serviceAccountKey:    filepath.Join(pki, "service-account.key"),
		kubeconfig:           filepath.Join(dir, "kubeconfig"),
		jobsetConfig:         filepath.Join(dir, "jobset.yaml"),
		kwokConfig:           filepath.Join(dir, "kwok.yaml"),
		state:                filepath.Join(dir, "state.json"),
	}
}

// State is what a cluster's folder says about it, in state.json. It is written with each program that starts, so
// that the end of a boot at any moment leaves nothing that cannot be found again.
type State struct {
	Ready      bool      `json:"ready"` // the boot is complete
	Kubernetes string    `json:"kubernetes"`
	Bin        string    `json:"bin"`
	Kubeconfig string    `json:"kubeconfig"`
	Server     string    `json:"server"`
	Processes  []Process `json:"processes"`
}

// Process is a program of the cluster.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Guest is a program that Run added; the cluster is whole without it.
	Guest bool `json:"guest,omitempty"`
}

// ReadState reads the state of the cluster in dir; nil if there is none.
func ReadState(dir string) (*State, error) {
	data, err := os.ReadFile(newLayout(dir).state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(State)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("reading the state of the cluster in %s: %w", dir, err)
	}
	return s, nil
}

func (s *State) write(l layout) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp := l.state + ".tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, l.state)
}

// kubeconfig is a client configuration with a client certificate.
func kubeconfig(server string, ca, cert, key []byte) string {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: localcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: localcluster
  context: {cluster: localcluster, user: admin}
current-context: localcluster
`, server, b64(ca), b64(cert), b64(key))
}

// The ports are looked for below the kernel's range for outgoing connections (from 32768), so that no such
// connection takes one between the search and the use.
const firstPort, lastPort = 18000, 32000

// freePorts finds n ports on which nobody listens. It starts at random: clusters that boot side by side rarely
// meet, and then the one that comes second fails to boot and is tried again.
func freePorts(n int) ([]int, error) {
	var out []int
	port := firstPort + rand.IntN(lastPort-firstPort)
	for tries := 0; len(out) < n; tries++ {
		if tries > lastPort-firstPort {
			return nil, errors.New("no free ports on 127.0.0.1")
		}
		if port++; port > lastPort {
			port = firstPort
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}

func newPorts() (ports, error) {
	p, err := freePorts(8)
	if err != nil {
		return ports{}, err
	}
	return ports{p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]}, nil
}
