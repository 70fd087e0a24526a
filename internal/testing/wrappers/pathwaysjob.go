// Package wrappers builds objects for tests in few words:
//
//	wrappers.MakePathwaysJob("train", "default").Workers("ct5p-hightpu-4t", "2x2x4", 3).Obj()
package wrappers

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "pathways.domain/pathways-job/api/v1"
)

// PathwaysJobWrapper builds a PathwaysJob.
type PathwaysJobWrapper struct{ v1.PathwaysJob }

// MakePathwaysJob starts from a job with two slices of v6e 4x4 and one
// container, main.
func MakePathwaysJob(name, namespace string) *PathwaysJobWrapper {
	w := &PathwaysJobWrapper{v1.PathwaysJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "PathwaysJob"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1.PathwaysJobSpec{
			PathwaysDir: "gs://example-bucket/scratch",
			Controller:  v1.ControllerSpec{DeploymentMode: v1.DeploymentModeDefault, MainContainerName: "main"},
		},
	}}
	return w.Workers("ct6e-standard-4t", "4x4", 2).
		Containers(corev1.Container{Name: "main", Image: "example.com/train:1", Command: []string{"python3", "train.py"}})
}

// Obj returns the job.
func (w *PathwaysJobWrapper) Obj() *v1.PathwaysJob { return w.DeepCopy() }

// Workers sets machine type, topology and number of slices.
func (w *PathwaysJobWrapper) Workers(machineType, topology string, slices int32) *PathwaysJobWrapper {
	w.Spec.Workers = []v1.WorkerSpec{{
		Type: v1.MachineType(machineType), Topology: topology, NumSlices: slices, MaxSliceRestarts: ptr.To[int32](1),
	}}
	return w
}

// Worker changes the entry of workers.
func (w *PathwaysJobWrapper) Worker(change func(*v1.WorkerSpec)) *PathwaysJobWrapper {
	change(&w.Spec.Workers[0])
	return w
}

// Containers sets the containers of the head's template.
func (w *PathwaysJobWrapper) Containers(containers ...corev1.Container) *PathwaysJobWrapper {
	return w.Template(func(t *corev1.PodTemplateSpec) { t.Spec.Containers = containers })
}

// Template changes the head's template.
func (w *PathwaysJobWrapper) Template(change func(*corev1.PodTemplateSpec)) *PathwaysJobWrapper {
	if w.Spec.Controller.Template == nil {
		w.Spec.Controller.Template = &corev1.PodTemplateSpec{}
	}
	change(w.Spec.Controller.Template)
	return w
}

// Headless removes the head's template.
func (w *PathwaysJobWrapper) Headless() *PathwaysJobWrapper {
	w.Spec.Controller.Template = nil
	return w
}

// Colocated puts the head beside a worker.
func (w *PathwaysJobWrapper) Colocated() *PathwaysJobWrapper {
	w.Spec.Controller.DeploymentMode = v1.DeploymentModeColocate
	return w
}

// ElasticSlices makes the job elastic.
func (w *PathwaysJobWrapper) ElasticSlices(n int32) *PathwaysJobWrapper {
	w.Spec.Controller.ElasticSlices = ptr.To(n)
	return w
}

// MaxSliceRestarts sets the budget of each slice.
func (w *PathwaysJobWrapper) MaxSliceRestarts(n int32) *PathwaysJobWrapper {
	w.Spec.Workers[0].MaxSliceRestarts = ptr.To(n)
	return w
}

// MaxRestarts sets the budget of whole restarts.
func (w *PathwaysJobWrapper) MaxRestarts(n int32) *PathwaysJobWrapper {
	w.Spec.MaxRestarts = ptr.To(n)
	return w
}

// Version sets pathwaysVersion.
func (w *PathwaysJobWrapper) Version(tag string) *PathwaysJobWrapper {
	w.Spec.PathwaysVersion = tag
	return w
}

// Component adds a custom component.
func (w *PathwaysJobWrapper) Component(c v1.CustomComponent) *PathwaysJobWrapper {
	w.Spec.CustomComponents = append(w.Spec.CustomComponents, c)
	return w
}

// Flags adds a custom component with these flags.
func (w *PathwaysJobWrapper) Flags(kind v1.ComponentType, flags ...string) *PathwaysJobWrapper {
	return w.Component(v1.CustomComponent{ComponentType: kind, CustomFlags: flags})
}

// Label sets a label of the job.
func (w *PathwaysJobWrapper) Label(key, value string) *PathwaysJobWrapper {
	metav1.SetMetaDataLabel(&w.ObjectMeta, key, value)
	return w
}

// Annotation sets an annotation of the job.
func (w *PathwaysJobWrapper) Annotation(key, value string) *PathwaysJobWrapper {
	metav1.SetMetaDataAnnotation(&w.ObjectMeta, key, value)
	return w
}

// UID sets the job's UID.
func (w *PathwaysJobWrapper) UID(uid types.UID) *PathwaysJobWrapper {
	w.ObjectMeta.UID = uid
	return w
}

// Suspend sets the user's own suspend.
func (w *PathwaysJobWrapper) Suspend(suspend bool) *PathwaysJobWrapper {
	w.Spec.Suspend = ptr.To(suspend)
	return w
}

// TTLSecondsAfterFinished sets when the finished job is deleted.
func (w *PathwaysJobWrapper) TTLSecondsAfterFinished(seconds int32) *PathwaysJobWrapper {
	w.Spec.TTLSecondsAfterFinished = ptr.To(seconds)
	return w
}

// ManagedBy names the controller that manages the job.
func (w *PathwaysJobWrapper) ManagedBy(name string) *PathwaysJobWrapper {
	w.Spec.ManagedBy = ptr.To(name)
	return w
}

// HostNetwork sets hostNetwork.
func (w *PathwaysJobWrapper) HostNetwork(on bool) *PathwaysJobWrapper {
	w.Spec.HostNetwork = ptr.To(on)
	return w
}

// Change makes any other change.
func (w *PathwaysJobWrapper) Change(change func(*v1.PathwaysJob)) *PathwaysJobWrapper {
	change(&w.PathwaysJob)
	return w
}
