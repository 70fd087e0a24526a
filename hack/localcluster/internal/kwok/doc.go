// Package kwok configures KWOK, which plays the kubelets of the local cluster. KWOK's stock stages complete every
// pod of a Job and delete pods without a terminal phase; these do as a kubelet does, as far as a controller can see.
//
// A node is played while it carries the label kwok.pathways.domain/kubelet=alive. Taking the label away is a dead
// host: its lease is no longer renewed, its pods freeze as they are, and after the grace period the node's
// condition Ready is Unknown. Giving the label back is the host's return.
//
// Annotations say what a pod does. They can be on a pod template, or put on a running pod. Durations are numbers
// of seconds, or numbers with ms, s or m ("1500ms"). "Its main container" is the first of spec.containers, unless
// exit-container names another.
//
//	kwok.pathways.domain/ready-after        from the binding to Ready; 300ms
//	kwok.pathways.domain/waiting-reason     the containers do not start, but wait with this reason ("ImagePullBackOff")
//	kwok.pathways.domain/waiting-message    and with this message, until waiting-reason is taken away
//	kwok.pathways.domain/exit-code          the main container exits with this code; 0 if only exit-after is set
//	kwok.pathways.domain/exit-after         that long after its start, to the second; at once
//	kwok.pathways.domain/exit-container     which container exits, also one of the init sidecars; "*" is all plain ones
//	kwok.pathways.domain/exit-times         it exits only while its restart count is below this number
//	kwok.pathways.domain/exit-message       the termination message of the container that exits
//	kwok.pathways.domain/restart-after      from an exit to the restart in place; 1s
//	kwok.pathways.domain/stop-after         how long a graceful stop takes, at most the grace period; 1s
//	kwok.pathways.domain/stop-exit-code     the code with which the containers end then; 143 (SIGTERM)
//
// A container that exits is restarted in place, with its restart count one higher, where the pod's restartPolicy
// says so (Always, or OnFailure and a code other than 0; init sidecars always). Else it stays terminated, and when
// all plain containers are, the pod's phase is Succeeded or Failed. There is no back-off between restarts.
//
// A pod that is deleted stops gracefully: after stop-after its containers are terminated and its phase is terminal
// (Succeeded only if all plain containers ended with 0), and then the pod goes. A stop that would take longer than
// the grace period is killed at its end, with code 137.
//
// Init containers have run when the pod gets Ready; those with restartPolicy Always (sidecars) are running and ready.
//
// On nodes:
//
//	kwok.pathways.domain/not-ready     the kubelet lives and says that the node is not Ready, with this message, until the
//	                                   annotation is taken away
package kwok

// Prefix of all annotations, and of the label.
const Prefix = "kwok.pathways.domain/"

// Label and LabelValue mark the nodes whose kubelet is alive.
const (
	Label      = Prefix + "kubelet"
	LabelValue = "alive"
)
