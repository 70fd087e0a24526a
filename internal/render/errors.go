package render

import "fmt"

// Reasons of a RefusedError, in the form of a condition's reason.
const (
	// ReasonInvalidName: the name cannot be carried by the JobSet's pods.
	ReasonInvalidName = "InvalidName"
	// ReasonInvalidWorkers: there is not exactly one entry of workers, its
	// machine type is unknown, or its number of slices is out of range.
	ReasonInvalidWorkers = "InvalidWorkers"
	// ReasonInvalidTopology: the machine type has no slices of that shape.
	ReasonInvalidTopology = "InvalidTopology"
	// ReasonMainContainerNotFound: no container of the template is known to
	// run the program.
	ReasonMainContainerNotFound = "MainContainerNotFound"
	// ReasonInvalidTemplate: a pod template holds what a Job cannot run, or a
	// container name that is the operator's own.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonInvalidComponent: a custom component cannot be run as it is
	// given, or the version of the components is no image tag.
	ReasonInvalidComponent = "InvalidComponent"
)

// RefusedError says that no JobSet can be made of a PathwaysJob. Trying again
// does not help: only another spec does.
type RefusedError struct {
	// Reason is one of the constants of this package.
	Reason string
	// Message names the field, its value and what would be right.
	Message string
}

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }

func refuse(reason, format string, args ...any) *RefusedError {
	return &RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
