package cluster

// Annotations of pods that say what the simulated kubelets do with them; the package comment of
// hack/localcluster/internal/kwok explains each. They can be on a pod template or on a running pod.
const (
	// ReadyAfter is the time from a pod's binding to Ready.
	ReadyAfter = "kwok.pathways.domain/ready-after"
	// WaitingReason keeps the containers from starting, with this reason.
	WaitingReason = "kwok.pathways.domain/waiting-reason"
	// WaitingMessage is the message beside WaitingReason.
	WaitingMessage = "kwok.pathways.domain/waiting-message"
	// ExitCode makes the main container exit with this code.
	ExitCode = "kwok.pathways.domain/exit-code"
	// ExitAfter is the time from a container's start to its exit.
	ExitAfter = "kwok.pathways.domain/exit-after"
	// ExitContainer names the container that exits, if not the first.
	ExitContainer = "kwok.pathways.domain/exit-container"
	// ExitTimes bounds how often the container exits.
	ExitTimes = "kwok.pathways.domain/exit-times"
	// ExitMessage is the termination message of the container that exits.
	ExitMessage = "kwok.pathways.domain/exit-message"
	// RestartAfter is the time from an exit to the restart in place.
	RestartAfter = "kwok.pathways.domain/restart-after"
	// StopAfter is how long a graceful stop takes.
	StopAfter = "kwok.pathways.domain/stop-after"
	// StopExitCode is the code with which containers end when the pod is stopped.
	StopExitCode = "kwok.pathways.domain/stop-exit-code"

	// NotReady on a node is the message with which its kubelet says that it is not Ready.
	NotReady = "kwok.pathways.domain/not-ready"

	// KubeletLabel on a node, with the value KubeletAlive, says that its kubelet lives.
	KubeletLabel = "kwok.pathways.domain/kubelet"
	// KubeletAlive is the value of KubeletLabel.
	KubeletAlive = "alive"
)
