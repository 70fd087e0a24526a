// Package cluster gives tests, benchmarks and the demonstration a local cluster with node pools as GKE makes them,
// hosts that can be killed, and the operator as a process beside it. hack/localcluster is what boots the cluster.
package cluster
