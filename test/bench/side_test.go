//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
	"pathways.domain/pathways-job/internal/testing/wrappers"
	"pathways.domain/pathways-job/internal/tpu"
)

const (
	machineType = "ct5p-hightpu-4t"
	// reservation is the label by which a side's job selects its own pools.
	reservation = "cloud.google.com/reservation-name"
)

// topologies of ct5p-hightpu-4t, by the VMs of a slice.
var topologies = map[int]string{4: "2x2x4", 16: "4x4x4"}

// pods take half a second to start, and one second to stop.
var times = map[string]string{cluster.ReadyAfter: "500ms", cluster.StopAfter: "1s"}

// side is one of the two that suffer the same faults: a PathwaysJob, or a
// plain JobSet. Its name is that of its namespace, job and reservation.
type side struct {
	name        string
	vms, slices int
	pools       int
	priority    string
	// reservation, if its pools are another side's.
	reservation string
}

// selects is the reservation whose pools the side's workers run on.
func (s *side) selects() string {
	if s.reservation != "" {
		return s.reservation
	}
	return s.name
}

// addPool makes one more pool for a side, and returns its name.
func (e *env) addPool(t *testing.T, s *side) string {
	t.Helper()
	p := cluster.TPUPool(fmt.Sprintf("%s-%d", s.name, s.pools), machineType, topologies[s.vms])
	p.Labels = map[string]string{reservation: s.name}
	s.pools++
	if _, err := e.CreatePool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p.Name
}

// restore makes a pool whole again, whatever was done to it.
func (e *env) restore(t *testing.T, s *side, pool string) {
	t.Helper()
	ctx := t.Context()
	p := cluster.TPUPool(pool, machineType, topologies[s.vms])
	p.Labels = map[string]string{reservation: s.name}
	nodes, err := p.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		err := e.Client.Create(ctx, n.DeepCopy())
		if err != nil {
			err = e.ChangeNode(ctx, n.Name, func(live *corev1.Node) {
				live.Labels[cluster.KubeletLabel] = cluster.KubeletAlive
				var taints []corev1.Taint
				for _, taint := range live.Spec.Taints {
					if taint.Key != cluster.TaintImpendingTermination.Key {
						taints = append(taints, taint)
					}
				}
				live.Spec.Taints = taints
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 2*time.Minute, pool+" is whole and not fenced", func() bool {
		var list corev1.NodeList
		if err := e.Client.List(ctx, &list, client.MatchingLabels{tpu.LabelNodePool: pool}); err != nil || len(list.Items) < s.vms {
			return false
		}
		for _, n := range list.Items {
			if len(n.Spec.Taints) != 1 { // that of all TPU nodes
				return false
			}
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
					return false
				}
			}
		}
		return true
	})
}

// job is the side as a PathwaysJob. Only disruptions, no crashes, are in play.
func (s *side) job() *v1.PathwaysJob {
	return wrappers.MakePathwaysJob(s.name, s.name).
		Workers(machineType, topologies[s.vms], int32(s.slices)).
		ElasticSlices(int32(s.slices)).MaxSliceRestarts(100).
		Worker(func(w *v1.WorkerSpec) {
			w.PriorityClassName = s.priority
			w.NodeSelector = map[string]string{reservation: s.selects()}
			w.Template = &corev1.PodTemplateSpec{}
			w.Template.Annotations = times
		}).Obj()
}

// jobSet is the side as google/pathways-job would make it.
func (s *side) jobSet(t *testing.T) *jobsetv1alpha2.JobSet {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(envtest.Root(), "internal", "render", "testdata", "compat", "elastic-v5p.jobset.json"))
	if err != nil {
		t.Fatal(err)
	}
	data = []byte(strings.ReplaceAll(string(data), "4x4x4", topologies[s.vms]))
	js := &jobsetv1alpha2.JobSet{}
	if err := json.Unmarshal(data, js); err != nil {
		t.Fatal(err)
	}
	js.Name, js.Namespace = s.name, s.name
	workers := &js.Spec.ReplicatedJobs[1]
	workers.Replicas = int32(s.slices)
	spec := &workers.Template.Spec
	spec.Completions, spec.Parallelism = ptr.To(int32(s.vms)), ptr.To(int32(s.vms))
	spec.BackoffLimit = ptr.To(int32(3 * s.vms))
	spec.Template.Spec.NodeSelector[reservation] = s.name
	for k, v := range times {
		spec.Template.Annotations[k] = v
	}
	return js
}

// start makes a side with that many pools, and returns when all of its slices
// are ready. Its namespace and pools go with the test.
func (e *env) start(t *testing.T, o *observer, s *side, pools int, plain bool) {
	t.Helper()
	ctx := t.Context()
	e.namespace(t, s.name)
	t.Cleanup(func() { // the test's context has ended
		if _, err := e.Kubectl(context.Background(), "delete", "nodes", "-l", reservation+"="+s.name, "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	for range pools {
		e.addPool(t, s)
	}
	var object client.Object = s.job()
	if plain {
		object = s.jobSet(t)
	}
	if err := e.Client.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	e.allReady(t, o, s)
}

func (e *env) allReady(t *testing.T, o *observer, s *side) {
	t.Helper()
	eventually(t, 3*time.Minute, s.name+": "+strconv.Itoa(s.slices)+" slices are ready", func() bool {
		return o.readySlices(t.Context(), s) == s.slices
	})
}

// end deletes a side's job, and its hold on its pools.
func (e *env) end(t *testing.T, o client.Object) {
	t.Helper()
	if err := e.Client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, o.GetName()+" has no pods", func() bool {
		var pods corev1.PodList
		return e.Client.List(t.Context(), &pods, client.InNamespace(o.GetNamespace())) == nil && len(pods.Items) == 0
	})
}

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	c := &schedulingv1.PriorityClass{Value: value}
	c.Name = name
	return c
}
