package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PathwaysJob runs one Pathways workload: a head with the Pathways resource
// manager, the IFRT proxy and the user's program, and one or more TPU slices
// of workers.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pwj,categories=all
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Slices",type=string,JSONPath=`.status.sliceSummary`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.restarts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Type",type=string,priority=1,JSONPath=`.spec.workers[0].type`
// +kubebuilder:printcolumn:name="Topology",type=string,priority=1,JSONPath=`.spec.workers[0].topology`
// +kubebuilder:printcolumn:name="Head-Node",type=string,priority=1,JSONPath=`.status.head.nodeName`
// +kubebuilder:printcolumn:name="TerminalState",type=string,priority=1,JSONPath=`.status.terminalState`
// +kubebuilder:printcolumn:name="Completed",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Completed")].status`
// +kubebuilder:printcolumn:name="Failed",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Failed")].status`
// +kubebuilder:printcolumn:name="Suspended",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Suspended")].status`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() || has(self.spec)`,optionalOldSelf=true,fieldPath=`.spec`,reason=FieldValueRequired,message=`say at least workers and controller`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() || size(self.metadata.name) <= 39`,optionalOldSelf=true,fieldPath=`.metadata.name`,messageExpression=`'"%s" has %d characters, at most 39 are possible: its head pod is named <name>-pathways-head-0-0-xxxxx, and a pod name has at most 63'.format([self.metadata.name, size(self.metadata.name)])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')`,optionalOldSelf=true,fieldPath=`.metadata.name`,messageExpression=`'"%s" cannot name a JobSet and its pods: it must have only lower case letters, digits and -, begin with a letter and end with a letter or digit%s'.format([self.metadata.name, [self.metadata.name.lowerAscii().replace('_', '-').replace('.', '-').find('[a-z0-9](.*[a-z0-9])?')].map(n, n.matches('^[0-9]') ? 'job-' + n : n).map(n, n.matches('^[-a-z0-9]+$') && size(n) <= 39 ? ', for example "' + n + '"' : "")[0]])`
type PathwaysJob struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what runs. Required.
	// +optional
	Spec PathwaysJobSpec `json:"spec,omitzero"`

	// status says what runs, what does not, and why.
	// +optional
	Status PathwaysJobStatus `json:"status,omitzero"`
}

// PathwaysJobList is a list of PathwaysJobs.
//
// +kubebuilder:object:root=true
type PathwaysJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PathwaysJob `json:"items"`
}

// PathwaysJobSpec is what a user asks for.
//
// +kubebuilder:validation:XValidation:rule=`self.?maxRestarts.orValue(0) == oldSelf.?maxRestarts.orValue(0)`,fieldPath=`.maxRestarts`,reason=FieldValueForbidden,messageExpression=`'cannot change from %d to %d: a job keeps it from its creation on'.format([oldSelf.?maxRestarts.orValue(0), self.?maxRestarts.orValue(0)])`
// +kubebuilder:validation:XValidation:rule=`(has(self.pathwaysDir) ? self.pathwaysDir : "") == (has(oldSelf.pathwaysDir) ? oldSelf.pathwaysDir : "")`,fieldPath=`.pathwaysDir`,reason=FieldValueForbidden,messageExpression=`'cannot change from "%s" to "%s": a job keeps it from its creation on'.format([(has(oldSelf.pathwaysDir) ? oldSelf.pathwaysDir : ""), (has(self.pathwaysDir) ? self.pathwaysDir : "")])`
// +kubebuilder:validation:XValidation:rule=`(has(self.pathwaysVersion) ? self.pathwaysVersion : "") == (has(oldSelf.pathwaysVersion) ? oldSelf.pathwaysVersion : "")`,fieldPath=`.pathwaysVersion`,reason=FieldValueForbidden,messageExpression=`'cannot change from "%s" to "%s": a job keeps it from its creation on'.format([(has(oldSelf.pathwaysVersion) ? oldSelf.pathwaysVersion : ""), (has(self.pathwaysVersion) ? self.pathwaysVersion : "")])`
// +kubebuilder:validation:XValidation:rule=`self.workers.all(w, oldSelf.workers.exists(o, o.type == w.type))`,fieldPath=`.workers`,reason=FieldValueForbidden,messageExpression=`'type cannot change from %s to %s: a job keeps it from its creation on'.format([oldSelf.workers.map(o, o.type), self.workers.map(w, w.type)])`
// +kubebuilder:validation:XValidation:rule=`has(self.customComponents) == has(oldSelf.customComponents) && (!has(self.customComponents) || self.customComponents == oldSelf.customComponents)`,fieldPath=`.customComponents`,reason=FieldValueForbidden,message=`cannot change: a job keeps it from its creation on`
// +kubebuilder:validation:XValidation:rule=`self.?hostNetwork.orValue(true) == oldSelf.?hostNetwork.orValue(true)`,fieldPath=`.hostNetwork`,reason=FieldValueForbidden,messageExpression=`'cannot change from %s to %s: a job keeps it from its creation on'.format([oldSelf.?hostNetwork.orValue(true), self.?hostNetwork.orValue(true)])`
// +kubebuilder:validation:XValidation:rule=`(has(self.managedBy) ? self.managedBy : "") == (has(oldSelf.managedBy) ? oldSelf.managedBy : "")`,fieldPath=`.managedBy`,reason=FieldValueForbidden,messageExpression=`'cannot change from "%s" to "%s": a job keeps it from its creation on'.format([(has(oldSelf.managedBy) ? oldSelf.managedBy : ""), (has(self.managedBy) ? self.managedBy : "")])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() || !has(self.pathwaysVersion) || self.pathwaysVersion.matches('^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$')`,optionalOldSelf=true,fieldPath=`.pathwaysVersion`,messageExpression=`'"%s" is no image tag: a tag has at most 128 letters, digits, _, . and -, and begins with none of the last two, like jax-0.5.3; other images are set in customComponents'.format([self.pathwaysVersion])`
// +kubebuilder:validation:XValidation:rule=`!has(self.managedBy) || oldSelf.?managedBy.orValue("") == self.managedBy || self.managedBy.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/.+$')`,optionalOldSelf=true,fieldPath=`.managedBy`,messageExpression=`'"%s" names no controller: write it as <domain>/<path>, like pathways-job.pathways.domain/controller'.format([self.managedBy])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() || !has(self.customComponents) || !self.customComponents.exists(c, c.componentType == 'colocated_python_sidecar') || self.workers.all(w, !has(w.template) || !has(w.template.spec) || (!has(w.template.spec.containers) || !w.template.spec.containers.exists(c, c.name == 'colocated-python-sidecar')) && (!has(w.template.spec.initContainers) || !w.template.spec.initContainers.exists(c, c.name == 'colocated-python-sidecar')))`,optionalOldSelf=true,fieldPath=`.workers`,message=`a container of the template is named colocated-python-sidecar, as the one that customComponents asks for: give it another name`
type PathwaysJobSpec struct {
	// maxRestarts is how often the whole job, head included, may be restarted
	// after failures before it counts as Failed. Restarts for disruptions
	// (lost hosts, preemption, maintenance) are not counted. Default 0.
	// Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// pathwaysDir is an existing Cloud Storage location, such as
	// gs://bucket/dir, in which Pathways keeps its compilation cache and the
	// state of suspended slices. Without it a suspended slice's state cannot
	// be saved, so an interruption of a job that is not elastic restarts the
	// whole job. Use one location for many jobs: a bucket holds at most 50
	// life cycle policies. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	PathwaysDir string `json:"pathwaysDir,omitempty"`

	// pathwaysVersion is the image tag of all Pathways components, for
	// example jax-0.5.3; it must match the JAX version of the program.
	// Default: the tag that the operator was started with. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	PathwaysVersion string `json:"pathwaysVersion,omitempty"`

	// workers describes the TPU slices: exactly one entry. Immutable but for
	// maxSliceRestarts.
	// +required
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:MinItems=1
	Workers []WorkerSpec `json:"workers,omitempty"`

	// controller describes the head: the user's program and how it is placed.
	// +required
	Controller ControllerSpec `json:"controller"`

	// customComponents changes the image, flags, environment or resources of
	// Pathways components, and adds the colocated Python sidecar. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=componentType
	// +kubebuilder:validation:MaxItems=4
	CustomComponents []CustomComponent `json:"customComponents,omitempty"`

	// hostNetwork puts head and workers on their hosts' network, which
	// Pathways' data plane is fastest on. Set it to false for Workload
	// Identity. Default true. Immutable.
	// +optional
	HostNetwork *bool `json:"hostNetwork,omitempty"`

	// suspend stops the job and frees its nodes while true, and starts it
	// again when false. Unset leaves that to whoever else manages the JobSet,
	// such as Kueue. On a job with a Kueue queue label it is not applied: use
	// spec.active of its Workload.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// ttlSecondsAfterFinished is how many seconds after it has completed or
	// failed the PathwaysJob is deleted, with all it owns. Unset: never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// managedBy names the controller that manages this PathwaysJob. Any value
	// but pathways-job.pathways.domain/controller makes this operator leave
	// the object alone. Default: this operator. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ManagedBy *string `json:"managedBy,omitempty"`
}

// WorkerSpec describes the TPU slices of a job.
//
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || !(self.type in ['ct5lp-hightpu-1t', 'ct5lp-hightpu-8t', 'ct6e-standard-1t', 'ct6e-standard-8t', 'tpu7x-standard-1t']) || self.topology == (self.type.endsWith('8t') ? '2x4' : self.type.startsWith('tpu7x') ? '1x1x1' : '1x1')`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is not possible: a slice of %s is one VM, with topology %s'.format([self.topology, self.type, self.type.endsWith('8t') ? '2x4' : self.type.startsWith('tpu7x') ? '1x1x1' : '1x1'])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || self.type in ['ct5lp-hightpu-1t', 'ct5lp-hightpu-8t', 'ct6e-standard-1t', 'ct6e-standard-8t', 'tpu7x-standard-1t'] || self.topology.matches('^[0-9]+(x[0-9]+){1,2}$')`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is no topology: write sides joined by x, like %s for %s'.format([self.topology, self.topology.lowerAscii().replace(' ', "").replace('*', 'x').matches('^[1-9][0-9]{0,2}(x[1-9][0-9]{0,2}){1,2}$') ? self.topology.lowerAscii().replace(' ', "").replace('*', 'x') : self.type in ['ct5lp-hightpu-4t', 'ct6e-standard-4t'] ? '4x4' : '4x4x4', self.type])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || self.type in ['ct5lp-hightpu-1t', 'ct5lp-hightpu-8t', 'ct6e-standard-1t', 'ct6e-standard-8t', 'tpu7x-standard-1t'] || !self.topology.matches('^[0-9]+(x[0-9]+){1,2}$') || self.topology.matches('^[1-9][0-9]{0,2}(x[1-9][0-9]{0,2}){1,2}$')`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is not possible: a side is %s, without leading zeros, like %s for %s'.format([self.topology, self.type in ['ct5lp-hightpu-4t', 'ct6e-standard-4t'] ? '2 to 16' : '1 to 256', self.type in ['ct5lp-hightpu-4t', 'ct6e-standard-4t'] ? '4x4' : '4x4x4', self.type])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || self.type in ['ct5lp-hightpu-1t', 'ct5lp-hightpu-8t', 'ct6e-standard-1t', 'ct6e-standard-8t', 'tpu7x-standard-1t'] || !self.topology.matches('^[1-9][0-9]{0,2}(x[1-9][0-9]{0,2}){1,2}$') || (self.type in ['ct5lp-hightpu-4t', 'ct6e-standard-4t'] ? self.topology.matches('^[1-9][0-9]{0,2}x[1-9][0-9]{0,2}$') : self.topology.matches('^[1-9][0-9]{0,2}x[1-9][0-9]{0,2}x[1-9][0-9]{0,2}$'))`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" has %d sides: a slice of %s has %d, like %s'.format([self.topology, size(self.topology.split('x')), self.type, self.type in ['ct5lp-hightpu-4t', 'ct6e-standard-4t'] ? 2 : 3, self.type in ['ct5lp-hightpu-4t', 'ct6e-standard-4t'] ? '4x4' : '4x4x4'])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || !(self.type in ['ct5lp-hightpu-4t', 'ct6e-standard-4t']) || !(self.topology in ['4x2', '8x4', '16x8'])`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is in the wrong order: write the smaller side first, %s'.format([self.topology, self.topology == '4x2' ? '2x4' : self.topology == '8x4' ? '4x8' : '8x16'])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || !(self.type in ['ct5lp-hightpu-4t', 'ct6e-standard-4t']) || !self.topology.matches('^[1-9][0-9]{0,2}x[1-9][0-9]{0,2}$') || self.topology in ['2x2', '2x4', '4x2', '4x4', '4x8', '8x4', '8x8', '8x16', '16x8', '16x16']`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is not possible with %s: it can be 2x2, 2x4, 4x4, 4x8, 8x8, 8x16 or 16x16%s'.format([self.topology, self.type, self.topology == '1x1' ? '; 1x1 is what ' + self.type.replace('4t', '1t') + ' has' : ""])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || !(self.type in {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}) || !(self.topology in {'1x2x2': '2x2x1', '2x1x2': '2x2x1', '2x4x2': '2x2x4', '4x2x2': '2x2x4', '4x2x4': '2x4x4', '4x4x2': '2x4x4'})`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is in the wrong order: write %s'.format([self.topology, {'1x2x2': '2x2x1', '2x1x2': '2x2x1', '2x4x2': '2x2x4', '4x2x2': '2x2x4', '4x2x4': '2x4x4', '4x4x2': '2x4x4'}[self.topology]])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || !(self.type in {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}) || !self.topology.matches('^[1-9][0-9]{0,2}x[1-9][0-9]{0,2}x[1-9][0-9]{0,2}$') || [self.topology.split('x').map(d, int(d))].all(s, [s[0] / 4, 1].max() * [s[1] / 4, 1].max() * [s[2] / 4, 1].max() <= {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type])`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is too large: a slice of %s has at most %d cubes of 4x4x4 chips, the largest %s'.format([self.topology, self.type, {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type], self.type.startsWith('ct4p') ? '16x16x16' : self.type.startsWith('ct5p') ? '16x20x28' : '16x24x24'])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || !(self.type in {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}) || !self.topology.matches('^[1-9][0-9]{0,2}x[1-9][0-9]{0,2}x[1-9][0-9]{0,2}$') || self.topology in ['2x2x1', '2x2x2', '2x2x4', '2x4x4'] || self.topology in {'1x2x2': '2x2x1', '2x1x2': '2x2x1', '2x4x2': '2x2x4', '4x2x2': '2x2x4', '4x2x4': '2x4x4', '4x4x2': '2x4x4'} || [self.topology.split('x').map(d, int(d))].all(s, s.all(d, d % 4 == 0 && d <= 256) || [s[0] / 4, 1].max() * [s[1] / 4, 1].max() * [s[2] / 4, 1].max() > {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type])`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is not possible with %s: it can be 2x2x1, 2x2x2, 2x2x4, 2x4x4, or three multiples of 4 up to 256, the nearest %dx%dx%d'.format([self.topology, self.type, [self.topology.split('x').map(d, int(d)).map(d, [256, [4, (d + 2) / 4 * 4].max()].min())].map(s, [s[0] / 4, 1].max() * [s[1] / 4, 1].max() * [s[2] / 4, 1].max() <= {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type] ? s : self.topology.split('x').map(d, int(d)).map(d, [256, [4, d / 4 * 4].max()].min()))[0].min(), [self.topology.split('x').map(d, int(d)).map(d, [256, [4, (d + 2) / 4 * 4].max()].min())].map(s, [s[0] / 4, 1].max() * [s[1] / 4, 1].max() * [s[2] / 4, 1].max() <= {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type] ? s : self.topology.split('x').map(d, int(d)).map(d, [256, [4, d / 4 * 4].max()].min()))[0].sum() - [self.topology.split('x').map(d, int(d)).map(d, [256, [4, (d + 2) / 4 * 4].max()].min())].map(s, [s[0] / 4, 1].max() * [s[1] / 4, 1].max() * [s[2] / 4, 1].max() <= {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type] ? s : self.topology.split('x').map(d, int(d)).map(d, [256, [4, d / 4 * 4].max()].min()))[0].min() - [self.topology.split('x').map(d, int(d)).map(d, [256, [4, (d + 2) / 4 * 4].max()].min())].map(s, [s[0] / 4, 1].max() * [s[1] / 4, 1].max() * [s[2] / 4, 1].max() <= {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type] ? s : self.topology.split('x').map(d, int(d)).map(d, [256, [4, d / 4 * 4].max()].min()))[0].max(), [self.topology.split('x').map(d, int(d)).map(d, [256, [4, (d + 2) / 4 * 4].max()].min())].map(s, [s[0] / 4, 1].max() * [s[1] / 4, 1].max() * [s[2] / 4, 1].max() <= {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type] ? s : self.topology.split('x').map(d, int(d)).map(d, [256, [4, d / 4 * 4].max()].min()))[0].max()])`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() && oldSelf.value().topology == self.topology || !(self.type in {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}) || !self.topology.matches('^[1-9][0-9]{0,2}x[1-9][0-9]{0,2}x[1-9][0-9]{0,2}$') || [self.topology.split('x').map(d, int(d))].all(s, s[0] <= s[1] && s[1] <= s[2] || s.exists(d, d % 4 != 0 || d > 256) || [s[0] / 4, 1].max() * [s[1] / 4, 1].max() * [s[2] / 4, 1].max() > {'ct4p-hightpu-4t': 64, 'ct5p-hightpu-4t': 140, 'tpu7x-standard-4t': 144}[self.type])`,optionalOldSelf=true,fieldPath=`.topology`,messageExpression=`'"%s" is in the wrong order: write the smallest side first, %dx%dx%d'.format([self.topology, self.topology.split('x').map(d, int(d)).min(), self.topology.split('x').map(d, int(d)).sum() - self.topology.split('x').map(d, int(d)).min() - self.topology.split('x').map(d, int(d)).max(), self.topology.split('x').map(d, int(d)).max()])`
// +kubebuilder:validation:XValidation:rule=`self.topology == oldSelf.topology`,fieldPath=`.topology`,reason=FieldValueForbidden,messageExpression=`'cannot change from %s to %s: a job keeps it from its creation on'.format([oldSelf.topology, self.topology])`
// +kubebuilder:validation:XValidation:rule=`self.numSlices == oldSelf.numSlices`,fieldPath=`.numSlices`,reason=FieldValueForbidden,messageExpression=`'cannot change from %d to %d: a job keeps it from its creation on'.format([oldSelf.numSlices, self.numSlices])`
// +kubebuilder:validation:XValidation:rule=`self.?terminationGracePeriodSeconds.orValue(30) == oldSelf.?terminationGracePeriodSeconds.orValue(30)`,fieldPath=`.terminationGracePeriodSeconds`,reason=FieldValueForbidden,messageExpression=`'cannot change from %d to %d: a job keeps it from its creation on'.format([oldSelf.?terminationGracePeriodSeconds.orValue(30), self.?terminationGracePeriodSeconds.orValue(30)])`
// +kubebuilder:validation:XValidation:rule=`(has(self.priorityClassName) ? self.priorityClassName : "") == (has(oldSelf.priorityClassName) ? oldSelf.priorityClassName : "")`,fieldPath=`.priorityClassName`,reason=FieldValueForbidden,messageExpression=`'cannot change from "%s" to "%s": a job keeps it from its creation on'.format([(has(oldSelf.priorityClassName) ? oldSelf.priorityClassName : ""), (has(self.priorityClassName) ? self.priorityClassName : "")])`
// +kubebuilder:validation:XValidation:rule=`has(self.nodeSelector) == has(oldSelf.nodeSelector) && (!has(self.nodeSelector) || self.nodeSelector == oldSelf.nodeSelector)`,fieldPath=`.nodeSelector`,reason=FieldValueForbidden,message=`cannot change: a job keeps it from its creation on`
// +kubebuilder:validation:XValidation:rule=`has(self.template) == has(oldSelf.template) && (!has(self.template) || self.template == oldSelf.template)`,fieldPath=`.template`,reason=FieldValueForbidden,message=`cannot change: a job keeps it from its creation on`
type WorkerSpec struct {
	// type is the GKE machine type of the TPU VMs, for example
	// ct5p-hightpu-4t.
	// +required
	Type MachineType `json:"type,omitempty"`

	// topology is the shape of one slice in chips, for example 4x4 (v5e, v6e)
	// or 2x2x4 (v4, v5p, tpu7x).
	// +required
	// +kubebuilder:validation:MaxLength=32
	Topology string `json:"topology,omitempty"`

	// numSlices is the number of slices, 1 to 2048. The bound keeps the status
	// of a job well below what the API server stores of an object.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2048
	NumSlices int32 `json:"numSlices,omitempty"`

	// maxSliceRestarts is how often the workers of one slice of an elastic
	// job may fail and restart between two whole restarts. Beyond that the
	// slice is lost and stays down. Disruptions are not counted. May be
	// changed while the job runs. Default 1. Not for other jobs: where
	// elasticSlices is 0 a slice always has 4 restarts, and in a headless job
	// as many as it needs.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	MaxSliceRestarts *int32 `json:"maxSliceRestarts,omitempty"`

	// terminationGracePeriodSeconds is the time in seconds between SIGTERM
	// and SIGKILL in which the workers of a suspended slice save its state.
	// Default: that of the template, else Kubernetes' 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// priorityClassName is the PriorityClass of the worker pods. With a
	// higher one than another job's a failed slice takes that job's slice
	// (hot-swap). Default: that of the template, else the cluster's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// nodeSelector restricts the nodes of the workers further. The TPU
	// accelerator and topology labels are always set by the operator. One
	// that asks for cloud.google.com/gke-spot brings the toleration for it.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// template holds what the worker pods need beside Pathways: service
	// account, tolerations, pull secrets, labels, annotations, volumes, more
	// containers. The container pathways-worker is added, or merged into one
	// of that name. Where a field of workers[] says the same thing, that
	// field wins.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

// MachineType is a GKE TPU machine type. Its name says the TPU generation
// and the number of chips per VM.
//
// +kubebuilder:validation:Enum=ct4p-hightpu-4t;ct5lp-hightpu-1t;ct5lp-hightpu-4t;ct5lp-hightpu-8t;ct5p-hightpu-4t;ct6e-standard-1t;ct6e-standard-4t;ct6e-standard-8t;tpu7x-standard-1t;tpu7x-standard-4t
type MachineType string

// DeploymentMode says where the head runs.
//
// +kubebuilder:validation:Enum=default;colocate_head_with_workers
type DeploymentMode string

const (
	// DeploymentModeDefault runs the head on a CPU node of its own.
	DeploymentModeDefault DeploymentMode = "default"
	// DeploymentModeColocate runs the head beside worker 0 of slice 0.
	DeploymentModeColocate DeploymentMode = "colocate_head_with_workers"
)

// ControllerSpec describes the head of the job.
//
// +kubebuilder:validation:XValidation:rule=`self.deploymentMode == oldSelf.deploymentMode`,fieldPath=`.deploymentMode`,reason=FieldValueForbidden,messageExpression=`'cannot change from %s to %s: a job keeps it from its creation on'.format([oldSelf.deploymentMode, self.deploymentMode])`
// +kubebuilder:validation:XValidation:rule=`self.mainContainerName == oldSelf.mainContainerName`,fieldPath=`.mainContainerName`,reason=FieldValueForbidden,messageExpression=`'cannot change from "%s" to "%s": a job keeps it from its creation on'.format([oldSelf.mainContainerName, self.mainContainerName])`
// +kubebuilder:validation:XValidation:rule=`self.?enableMetricsCollection.orValue(false) == oldSelf.?enableMetricsCollection.orValue(false)`,fieldPath=`.enableMetricsCollection`,reason=FieldValueForbidden,messageExpression=`'cannot change from %s to %s: a job keeps it from its creation on'.format([oldSelf.?enableMetricsCollection.orValue(false), self.?enableMetricsCollection.orValue(false)])`
// +kubebuilder:validation:XValidation:rule=`(self.?elasticSlices.orValue(0) == 0) == (oldSelf.?elasticSlices.orValue(0) == 0)`,fieldPath=`.elasticSlices`,reason=FieldValueForbidden,messageExpression=`'cannot change from %d to %d: a job is elastic or not from its creation on; among values above 0 it can change'.format([oldSelf.?elasticSlices.orValue(0), self.?elasticSlices.orValue(0)])`
// +kubebuilder:validation:XValidation:rule=`has(self.template) == has(oldSelf.template) && (!has(self.template) || self.template == oldSelf.template)`,fieldPath=`.template`,reason=FieldValueForbidden,message=`cannot change: a job keeps it from its creation on`
// +kubebuilder:validation:XValidation:rule=`oldSelf.hasValue() || !has(self.template) || !has(self.template.spec) || !has(self.template.spec.containers) || size(self.template.spec.containers) < 2 || self.template.spec.containers.exists(c, c.name == self.mainContainerName || has(c.env) && c.env.exists(e, e.name == 'JAX_PLATFORMS' || e.name == 'JAX_BACKEND_TARGET'))`,optionalOldSelf=true,fieldPath=`.mainContainerName`,messageExpression=`'no container is named "%s": name the one that runs the JAX program, one of %s, or set JAX_PLATFORMS and JAX_BACKEND_TARGET in it yourself'.format([self.mainContainerName, self.template.spec.containers.map(c, c.name)])`
type ControllerSpec struct {
	// deploymentMode says where the head runs: default, on a CPU node of its
	// own, or colocate_head_with_workers, beside the first worker of slice 0.
	// Default: default. Immutable.
	// +optional
	// +kubebuilder:default=default
	DeploymentMode DeploymentMode `json:"deploymentMode,omitempty"`

	// mainContainerName is the container of the template that runs the JAX
	// program; it gets the environment that connects it to the proxy.
	// Default: main, or the only container. Immutable.
	// +optional
	// +kubebuilder:default=main
	// +kubebuilder:validation:MaxLength=63
	MainContainerName string `json:"mainContainerName,omitempty"`

	// enableMetricsCollection makes the Pathways components export metrics.
	// Default false. Immutable.
	// +optional
	EnableMetricsCollection *bool `json:"enableMetricsCollection,omitempty"`

	// elasticSlices above 0 makes the job elastic: the program handles the
	// loss of slices itself, and this many may be missing before the job
	// counts as unhealthy. May be changed while the job runs, but never from
	// or to 0. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ElasticSlices *int32 `json:"elasticSlices,omitempty"`

	// template is the pod template of the user's program. Without it, or
	// without containers in it, the job is headless: clients outside the job
	// connect to status.proxyAddress. Immutable.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

// ComponentType names a Pathways component.
//
// +kubebuilder:validation:Enum=pathways_server;proxy_server;worker;colocated_python_sidecar
type ComponentType string

const (
	// ComponentPathwaysServer is the resource manager.
	ComponentPathwaysServer ComponentType = "pathways_server"
	// ComponentProxyServer is the IFRT proxy.
	ComponentProxyServer ComponentType = "proxy_server"
	// ComponentWorker is the worker on each TPU VM.
	ComponentWorker ComponentType = "worker"
	// ComponentColocatedPythonSidecar is the colocated Python sidecar beside
	// each worker; it runs only where it is listed.
	ComponentColocatedPythonSidecar ComponentType = "colocated_python_sidecar"
)

// CustomComponent changes one Pathways component.
//
// +kubebuilder:validation:XValidation:rule=`self.componentType != 'colocated_python_sidecar' || self.?image.orValue("") != ""`,fieldPath=`.image`,reason=FieldValueRequired,message=`colocated_python_sidecar has no image of its own: name one that holds your Python code`
type CustomComponent struct {
	// componentType is the component that is changed.
	// +required
	ComponentType ComponentType `json:"componentType,omitempty"`

	// image replaces the component's image, tag included. Default: the
	// operator's image with the tag pathwaysVersion; there is none for
	// colocated_python_sidecar, which requires it.
	// +optional
	Image string `json:"image,omitempty"`

	// customFlags are added to the component's command line, each like
	// --name=value; one of a name that the operator sets too replaces it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule=`self.all(f, !f.startsWith('--server_port=') || f.matches('^--server_port=0*[1-9][0-9]{0,4}$') && int(f.substring(14)) < 65536)`,messageExpression=`'%s: write --server_port=N with N from 1 to 65535'.format([self.filter(f, f.startsWith('--server_port=') && !(f.matches('^--server_port=0*[1-9][0-9]{0,4}$') && int(f.substring(14)) < 65536))])`
	CustomFlags []string `json:"customFlags,omitempty"`

	// customEnv is added to the component's environment; a variable that the
	// operator sets too is replaced.
	// +optional
	// +listType=map
	// +listMapKey=name
	CustomEnv []corev1.EnvVar `json:"customEnv,omitempty"`

	// resources replaces the component's compute resources. Default: 8 CPU
	// and 32 GB for the resource manager, 16 CPU and 100 GB for the proxy,
	// all chips of the VM for the worker.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}
