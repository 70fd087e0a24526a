// Package v1 holds the PathwaysJob API, group pathways-job.pathways.domain.
//
// +kubebuilder:object:generate=true
// +groupName=pathways-job.pathways.domain
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of everything in this package.
	GroupVersion = schema.GroupVersion{Group: "pathways-job.pathways.domain", Version: "v1"}

	// SchemeBuilder registers the types of this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PathwaysJob{}, &PathwaysJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
