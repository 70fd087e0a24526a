package render

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"
)

func number(n int32) string { return strconv.Itoa(int(n)) }

func (p *plan) resourceManagerArgs() []string {
	args := []string{flag(flagServerPort, number(p.resourceManager.port))}
	args = append(args, p.scratchArgs()...)
	args = append(args,
		"--node_type=resource_manager",
		flag("instance_count", number(p.spec.NumSlices)),
		flag("instance_type", p.machine.InstanceType(p.spec.Topology)))
	return append(args, p.metricsArgs()...)
}

func (p *plan) proxyArgs() []string {
	args := []string{flag(flagServerPort, number(p.proxy.port)), p.resourceManagerAddress()}
	args = append(args, p.scratchArgs()...)
	if p.colocatedPython != nil {
		args = append(args, "--sidecar_name=external")
	}
	args = append(args, p.elasticArgs()...)
	return append(args, p.metricsArgs()...)
}

func (p *plan) workerArgs() []string {
	args := []string{flag(flagServerPort, number(p.worker.port)), p.resourceManagerAddress()}
	args = append(args, p.scratchArgs()...)
	return append(args, p.metricsArgs()...)
}

func (p *plan) resourceManagerAddress() string {
	return flag("resource_manager_address", "$("+envHead+"):"+number(p.resourceManager.port))
}

func (p *plan) scratchArgs() []string {
	if p.job.Spec.PathwaysDir == "" {
		return nil
	}
	return []string{flag("gcs_scratch_location", p.job.Spec.PathwaysDir)}
}

func (p *plan) metricsArgs() []string {
	if !ptr.Deref(p.job.Spec.Controller.EnableMetricsCollection, false) {
		return nil
	}
	return []string{"--enable_metrics_collection=true"}
}

// elasticArgs is the one flag that makes the proxy elastic. There are two
// spellings, with different meanings, and an image that does not know the one
// that it is given exits at once. The user's own flag of either spelling
// stands for ours.
func (p *plan) elasticArgs() []string {
	missing := p.job.Spec.MissingSlices()
	if missing == 0 || slices.ContainsFunc(p.proxy.custom.CustomFlags, isElasticFlag) {
		return nil
	}
	instances := p.options.ElasticFlag == ElasticFlagInstances ||
		p.options.ElasticFlag == ElasticFlagAuto && isLatest(p.proxy.image)
	if instances {
		return []string{flag(flagElasticInstances, number(p.spec.NumSlices))}
	}
	return []string{flag(flagElasticSlices, number(missing))}
}

func isElasticFlag(f string) bool {
	return isFlag(f) && (flagName(f) == flagElasticInstances || flagName(f) == flagElasticSlices)
}

// isLatest tells whether an image is pulled by the tag latest, named or not.
func isLatest(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, tagged := strings.Cut(name, ":")
	return !tagged || tag == DefaultVersion
}
