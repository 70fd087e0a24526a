package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"pathways.domain/pathways-job/internal/testing/cluster"
	"pathways.domain/pathways-job/internal/testing/envtest"
	"pathways.domain/pathways-job/internal/tpu"
)

// The operator's names, as config/ has them.
const (
	systemNamespace = "pathways-job-system"
	operatorAccount = "pathways-job-controller-manager"
)

// fleet is what the samples need, with one spare v6e pool.
var fleet = []struct {
	name, machineType, topology string
	pools, hosts                int
	what                        string
}{
	{name: "cpu", pools: 1, hosts: 8, what: "heads"},
	{name: "v5p", machineType: "ct5p-hightpu-4t", topology: "2x2x4", pools: 2, what: "training"},
	{name: "v6e", machineType: "ct6e-standard-4t", topology: "4x4", pools: 6, what: "elastic, colocated-head, and one spare"},
	{name: "v5e", machineType: "ct5lp-hightpu-4t", topology: "4x4", pools: 3, what: "headless, colocated-python"},
	{name: "v5e-single", machineType: "ct5lp-hightpu-8t", topology: "2x4", pools: 1, hosts: 2, what: "batch-inference, two slices of one host"},
}

// makePools makes the fleet, or what is missing of it.
func (d *demo) makePools(ctx context.Context) error {
	for _, f := range fleet {
		hosts := 0
		for i := range f.pools {
			pool := cluster.Pool{Name: f.name, MachineType: f.machineType, Topology: f.topology, Hosts: f.hosts}
			if f.pools > 1 {
				pool.Name = fmt.Sprintf("%s-%c", f.name, 'a'+i)
			}
			nodes, err := d.ensurePool(ctx, pool)
			if err != nil {
				return err
			}
			hosts = nodes
		}
		shape := "n2-standard-64"
		if f.machineType != "" {
			shape = f.machineType + " " + f.topology
		}
		fmt.Fprintf(d.out.w, "   %d × %-22s %2d hosts each   for %s\n", f.pools, shape, hosts, f.what)
	}
	return nil
}

// ensurePool makes a pool, or what is missing of it, and returns the number of
// its hosts once all are Ready.
func (d *demo) ensurePool(ctx context.Context, pool cluster.Pool) (int, error) {
	var list corev1.NodeList
	if err := d.Client.List(ctx, &list, client.MatchingLabels{tpu.LabelNodePool: pool.Name}); err != nil {
		return 0, fmt.Errorf("reading pool %s: %w", pool.Name, err)
	}
	if len(list.Items) == 0 {
		names, err := d.CreatePool(ctx, pool)
		return len(names), err
	}
	// An earlier demo, or a person, was here.
	nodes, err := pool.Nodes()
	if err != nil {
		return 0, err
	}
	for _, node := range nodes {
		name := node.Name
		err := d.Client.Create(ctx, node)
		if apierrors.IsAlreadyExists(err) {
			err = d.ReviveHost(ctx, name)
		}
		if err != nil {
			return 0, fmt.Errorf("restoring pool %s: %w", pool.Name, err)
		}
	}
	for _, node := range nodes {
		if err := d.WaitNodeReady(ctx, node.Name, corev1.ConditionTrue, repairDeadline); err != nil {
			return 0, err
		}
	}
	return len(nodes), nil
}

// install puts the operator's objects into the cluster and starts it, as a
// process and not as the Deployment of config/manager.
func (d *demo) install(ctx context.Context) error {
	config := filepath.Join(envtest.Root(), "config")
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(config, "manager", "namespace.yaml")},
		{"apply", "-k", filepath.Join(config, "crd")},
		{"apply", "-k", filepath.Join(config, "rbac")},
		{"apply", "-k", filepath.Join(config, "admission")},
	} {
		if _, err := d.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := d.jobs(ctx)
		return err == nil, nil // not served yet
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server to serve PathwaysJobs: %w", err)
	}
	d.out.say("installed: config/crd, config/rbac and config/admission")
	kubeconfig := filepath.Join(d.Dir, "operator.kubeconfig")
	if err := d.ServiceAccountKubeconfig(ctx, systemNamespace, operatorAccount, kubeconfig); err != nil {
		return err
	}
	log, err := d.Run(ctx, filepath.Join(envtest.Root(), "bin", "manager"),
		"--kubeconfig="+kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	if err != nil {
		return err
	}
	d.operatorLog = log
	d.out.say("running: bin/manager, its log is %s", log)
	return nil
}

// applySamples applies the samples, anew where an earlier demo left them, and
// shows how they come up.
func (d *demo) applySamples(ctx context.Context) error {
	if _, err := d.Kubectl(ctx, "delete", "-k", d.samples, "--ignore-not-found", "--timeout=120s"); err != nil {
		return err
	}
	if err := d.noPods(ctx); err != nil {
		return err
	}
	if _, err := d.Kubectl(ctx, "apply", "-k", d.samples); err != nil {
		return err
	}
	return d.follow(ctx, jobsDeadline, allRunning)
}

// noPods waits until the pods of earlier samples have left their machines.
func (d *demo) noPods(ctx context.Context) error {
	of, err := labels.NewRequirement(jobsetv1alpha2.JobSetNameKey, selection.In, sampleNames)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, repairDeadline, true, func(ctx context.Context) (bool, error) {
		err := d.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*of)})
		return len(pods.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("%d pods of earlier samples do not go: %w", len(pods.Items), err)
	}
	return nil
}
