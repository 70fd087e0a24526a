package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLifetime of the tokens that ServiceAccountKubeconfig asks for.
const tokenLifetime = 24 * time.Hour

// ServiceAccountKubeconfig writes a kubeconfig file by which its user is a ServiceAccount, with a token of the
// TokenRequest API: who uses it may do what that account's roles allow, and no more.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name, file string) error {
	seconds := int64(tokenLifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
	config.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "account", Namespace: namespace}
	config.CurrentContext = "local"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// OperatorOptions say how to run the operator.
type OperatorOptions struct {
	// Program is the manager, as BuildOperator builds it.
	Program string
	// Kubeconfig is the file that says who it is.
	Kubeconfig string
	// Args are its flags.
	Args []string
	// Env is added to this process's environment.
	Env []string
	// Log takes its output too, if not nil.
	Log io.Writer
}

// Operator is the running manager.
type Operator struct {
	log    *buffer
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // how it ended; to be read when exited is closed
}

// StartOperator runs the manager as a process that dies with this one, however that ends.
func StartOperator(o OperatorOptions) (*Operator, error) {
	op := &Operator{log: &buffer{also: o.Log}, exited: make(chan struct{})}
	op.cmd = exec.Command(o.Program, o.Args...)
	op.cmd.Env = append(append(os.Environ(), "KUBECONFIG="+o.Kubeconfig), o.Env...)
	op.cmd.Stdout, op.cmd.Stderr = op.log, op.log
	op.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel's "parent" is the thread that forked, so that thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := op.cmd.Start()
		started <- err
		if err == nil {
			op.err = op.cmd.Wait()
			close(op.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.Program, err)
	}
	return op, nil
}

// Stop ends the operator as a pod's end does, and waits for it; an exit code other than 0 is an error.
func (o *Operator) Stop() error {
	select {
	case <-o.exited:
		return fmt.Errorf("the operator had ended by itself (%w); its log ends with:\n%s", o.err, o.Tail(20))
	default:
	}
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-o.exited:
		return o.err
	case <-time.After(stopTimeout):
		return errors.Join(errors.New("the operator does not end"), o.Kill())
	}
}

// Kill ends the operator at once, without any chance to clean up.
func (o *Operator) Kill() error {
	if err := o.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-o.exited
	return nil
}

// Exited is closed when the operator has ended.
func (o *Operator) Exited() <-chan struct{} { return o.exited }

// Logs returns what the operator has written so far.
func (o *Operator) Logs() string { return o.log.String() }

// Tail returns the last lines of the log.
func (o *Operator) Tail(lines int) string {
	data := bytes.TrimRight([]byte(o.Logs()), "\n")
	all := bytes.Split(data, []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// PID is the operator's process id.
func (o *Operator) PID() int { return o.cmd.Process.Pid }

// buffer keeps what is written to it, and passes it on.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
	also io.Writer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.also != nil {
		_, _ = b.also.Write(p) // the copy is a courtesy
	}
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}
