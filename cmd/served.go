package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	v1 "pathways.domain/pathways-job/api/v1"
)

// How often, and for how long, waitUntilServed looks.
const (
	servedInterval = 500 * time.Millisecond
	servedTimeout  = time.Minute
)

// waitUntilServed waits until the API server serves PathwaysJobs: an install
// creates the CRD and the operator at the same time.
func waitUntilServed(ctx context.Context, config *rest.Config, interval, timeout time.Duration) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making a discovery client: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(context.Context) (bool, error) {
		_, last = client.ServerResourcesForGroupVersion(v1.GroupVersion.String())
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the API server serves %s, whose CRD may not be installed: %w (last answer: %w)", v1.GroupVersion, err, last)
	}
	return nil
}
