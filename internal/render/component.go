package render

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "pathways.domain/pathways-job/api/v1"
)

// Ports of the Pathways components, as their documentation has them.
const (
	portProxy               int32 = 29000
	portResourceManager     int32 = 29001
	portResourceManagerData int32 = 29002
	portWorker              int32 = 29005
	portWorkerData          int32 = 29006
	portTPURuntime          int32 = 8471
	portTPUMetrics          int32 = 8080
	portColocatedPython     int32 = 50051
)

// Names of flags that the operator reads from the user, too.
const (
	flagServerPort       = "server_port"
	flagElasticInstances = "num_elastic_instances"
	flagElasticSlices    = "num_elastic_slices"
)

// component is one Pathways component with what the user changed of it.
type component struct {
	image  string
	port   int32
	custom v1.CustomComponent
}

// readComponents fills in the components; what others need to know of one,
// its port, is known after that.
func (p *plan) readComponents() error {
	if err := checkVersion(p.job.Spec.PathwaysVersion); err != nil {
		return err
	}
	for _, c := range []struct {
		into *component
		kind v1.ComponentType
		name string
		port int32
	}{
		{&p.resourceManager, v1.ComponentPathwaysServer, p.options.ServerImage, portResourceManager},
		{&p.proxy, v1.ComponentProxyServer, p.options.ProxyImage, portProxy},
		{&p.worker, v1.ComponentWorker, p.options.ServerImage, portWorker},
	} {
		*c.into = component{image: c.name + ":" + p.version(), port: c.port}
		custom := customComponent(p.job, c.kind)
		if custom == nil {
			continue
		}
		port, err := serverPort(custom, c.port)
		if err != nil {
			return err
		}
		c.into.port, c.into.custom = port, *custom
		if custom.Image != "" {
			c.into.image = custom.Image
		}
	}
	if p.resourceManager.port == p.proxy.port {
		return refuse(ReasonInvalidComponent, "spec.customComponents: pathways_server and proxy_server share the head's network and have the same --server_port=%d: give one of them another", p.proxy.port)
	}
	if custom := customComponent(p.job, v1.ComponentColocatedPythonSidecar); custom != nil {
		if custom.Image == "" {
			return refuse(ReasonInvalidComponent, "spec.customComponents[colocated_python_sidecar].image is empty: it is required, there is no default image")
		}
		p.colocatedPython = &component{image: custom.Image, port: portColocatedPython, custom: *custom}
	}
	return nil
}

// version is the image tag of the components.
func (p *plan) version() string {
	if p.job.Spec.PathwaysVersion != "" {
		return p.job.Spec.PathwaysVersion
	}
	return p.options.DefaultVersion
}

func customComponent(job *v1.PathwaysJob, kind v1.ComponentType) *v1.CustomComponent {
	for i := range job.Spec.CustomComponents {
		if job.Spec.CustomComponents[i].ComponentType == kind {
			return &job.Spec.CustomComponents[i]
		}
	}
	return nil
}

// serverPort reads --server_port from the custom flags. As in Pathways itself,
// the last one wins.
func serverPort(custom *v1.CustomComponent, port int32) (int32, error) {
	for i, flag := range custom.CustomFlags {
		if flagName(flag) != flagServerPort {
			continue
		}
		_, value, found := strings.Cut(flag, "=")
		if !found && i+1 < len(custom.CustomFlags) {
			value = custom.CustomFlags[i+1]
		}
		number, err := strconv.ParseUint(value, 10, 16)
		if err != nil || number == 0 {
			return 0, refuse(ReasonInvalidComponent, "spec.customComponents[%s].customFlags: %q is no port: write --%s=N with N from 1 to 65535", custom.ComponentType, flag, flagServerPort)
		}
		port = int32(number)
	}
	return port, nil
}

// isFlag tells flags from the value that stands after a flag as a word of its
// own.
func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") }

// argsWith returns our flags but for those that the user gives anew, and then
// the user's.
func argsWith(ours, custom []string) []string {
	return override(ours, custom, func(arg string) string {
		if !isFlag(arg) {
			return ""
		}
		return flagName(arg)
	})
}

// container returns the component's container: our part, changed by the
// user's.
func (c *component) container(ours corev1.Container) corev1.Container {
	ours.Image = c.image
	ours.ImagePullPolicy = corev1.PullAlways
	ours.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	ours.Args = argsWith(ours.Args, c.custom.CustomFlags)
	ours.Env = override(ours.Env, c.custom.CustomEnv, envName)
	if c.custom.Resources != nil {
		ours.Resources = *c.custom.Resources
	}
	return ours
}

// ports lists each port once, as TCP.
func ports(numbers ...int32) []corev1.ContainerPort {
	var result []corev1.ContainerPort
	seen := map[int32]bool{}
	for _, n := range numbers {
		if !seen[n] {
			seen[n] = true
			result = append(result, corev1.ContainerPort{ContainerPort: n, Protocol: corev1.ProtocolTCP})
		}
	}
	return result
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func flag(name, value string) string { return "--" + name + "=" + value }
