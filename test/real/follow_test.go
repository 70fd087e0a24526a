//go:build real

package real

import (
	"bytes"
	"context"
	"io"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// follower reads a container's log as it grows, so that it is there after the
// pod has gone.
type follower struct {
	mu   sync.Mutex
	text bytes.Buffer
	done bool
}

func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.Write(p)
}

func (f *follower) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// ended says whether the container has.
func (f *follower) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

func (t *training) follow(ctx context.Context, pod, container string) *follower {
	GinkgoHelper()
	stream, err := kube.CoreV1().Pods(t.job.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
	Expect(err).NotTo(HaveOccurred())
	f := &follower{}
	go func() {
		defer GinkgoRecover()
		_, _ = io.Copy(f, stream) // Its end, however it came, is what counts.
		_ = stream.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done = true
	}()
	return f
}
