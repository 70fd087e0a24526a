package render

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	v1 "pathways.domain/pathways-job/api/v1"
)

const (
	// labelQueueName on a job hands its JobSet's suspend to Kueue.
	labelQueueName = "kueue.x-k8s.io/queue-name"

	// headHost is what JobSet adds to its name for the host name of the head.
	headHost = "-" + v1.HeadReplicatedJob + "-0-0"
	// podSuffix is as long as what Kubernetes adds to the names of Job pods.
	podSuffix = "-abcde"
	// maxName is the longest name whose head pod has a host name. The names of
	// workers are shorter, up to the last of the largest slice.
	maxName = validation.DNS1035LabelMaxLength - len(headHost) - len(podSuffix)
)

// checkName refuses names that JobSet or the pods cannot carry.
func checkName(name string) error {
	if errs := validation.IsDNS1035Label(name); len(errs) > 0 {
		return refuse(ReasonInvalidName, "metadata.name %q: %s", name, strings.Join(errs, "; "))
	}
	if len(name) > maxName {
		return refuse(ReasonInvalidName, "metadata.name %q has %d characters: at most %d fit into the names of its pods", name, len(name), maxName)
	}
	return nil
}

// Subdomain returns the DNS subdomain, and headless Service, of the job's
// pods. It is the job's name as long as JobSet's coordinator label, which
// holds name and subdomain, has room for both; for longer names it is a hash,
// as long as fits, of what is the job's alone.
func Subdomain(job *v1.PathwaysJob) string {
	room := validation.LabelValueMaxLength - len(job.Name) - len(headHost) - len(".")
	if len(job.Name) <= room {
		return job.Name
	}
	sum := sha256.Sum256([]byte(job.Namespace + "/" + job.Name + "/" + string(job.UID)))
	hash := "p" + fmt.Sprintf("%050s", new(big.Int).SetBytes(sum[:]).Text(36))
	return hash[:max(1, min(room, len(hash)))]
}

// network is nil where JobSet's defaults do.
func (p *plan) network() *jobsetv1alpha2.Network {
	subdomain := Subdomain(p.job)
	if subdomain == p.job.Name {
		return nil
	}
	return &jobsetv1alpha2.Network{Subdomain: subdomain}
}

// ProxyAddress returns what clients set as JAX_BACKEND_TARGET to reach the
// job's proxy from anywhere in the cluster.
func ProxyAddress(job *v1.PathwaysJob, _ Options) string {
	port := portProxy
	if custom := customComponent(job, v1.ComponentProxyServer); custom != nil {
		if p, err := serverPort(custom, portProxy); err == nil {
			port = p
		}
	}
	return "grpc://" + job.Name + headHost + "." + Subdomain(job) + "." + job.Namespace + ".svc:" + strconv.Itoa(int(port))
}
