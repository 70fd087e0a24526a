package wire

// Register is a worker's first word to the resource manager.
type Register struct {
	Slice     int `json:"slice"`
	Worker    int `json:"worker"`
	NumSlices int `json:"numSlices"`
	// Incarnation tells one process from its successor with the same index.
	Incarnation string `json:"incarnation"`
	// Port on which it serves the proxy; Ports are all that it listens on.
	Port  int   `json:"port"`
	Ports []int `json:"ports"`
	// Megascale is its MEGASCALE_COORDINATOR_ADDRESS.
	Megascale string `json:"megascale"`
}

// Registered answers Register.
type Registered struct {
	// Epoch names the client session that the worker serves, or will serve.
	// When it changes, the client has gone and the worker ends.
	Epoch string `json:"epoch"`
}

// Heartbeat is what a worker says once a second.
type Heartbeat struct {
	Slice       int    `json:"slice"`
	Worker      int    `json:"worker"`
	Incarnation string `json:"incarnation"`
	// Loaded: it has read back a predecessor's state, or found none.
	Loaded bool `json:"loaded"`
	// Draining: it has got SIGTERM. Gone: it ends now.
	Draining bool `json:"draining,omitempty"`
	Gone     bool `json:"gone,omitempty"`
}

// ProxyLease is what the proxy says once a second.
type ProxyLease struct {
	Incarnation string `json:"incarnation"`
	// Number orders what one incarnation says: of two that are on their way
	// at once, the later may arrive first.
	Number int `json:"number"`
	// Client is the connected client's session; empty where there is none.
	Client string `json:"client"`
}

// Slice is one slice as the resource manager sees it.
type Slice struct {
	Index   int      `json:"index"`
	Healthy bool     `json:"healthy"`
	Why     string   `json:"why,omitempty"`
	Workers []Worker `json:"workers"`
}

// Worker is one worker of a slice.
type Worker struct {
	Index int `json:"index"`
	// Address is host:port; empty where none ever registered.
	Address     string `json:"address,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
}

// Cluster is all that the resource manager knows.
type Cluster struct {
	ID     string  `json:"id"`
	Epoch  string  `json:"epoch"`
	Slices []Slice `json:"slices"`
	// Violations are things that must never happen, such as two living
	// workers with one identity.
	Violations []string `json:"violations,omitempty"`
	// Notes are what a test may want to look at, such as what the head's own
	// name resolves to.
	Notes map[string]string `json:"notes,omitempty"`
}

// Kinds of operations.
const (
	// OpPut stores Values[worker] with Step under Name.
	OpPut = "put"
	// OpStep trains one step on what is under Name.
	OpStep = "step"
	// OpCopy stores under Name what is under From.
	OpCopy = "copy"
	// OpGet reads what is under Name.
	OpGet = "get"
	// OpPing changes nothing: an answer shows that the worker is there.
	OpPing = "ping"
	// OpPython runs on the colocated Python sidecar of each worker.
	OpPython = "python"
)

// Op is one operation on all workers of some slices. One that is sent twice
// with one ID takes effect once.
type Op struct {
	ID      string   `json:"id"`
	Session string   `json:"session,omitempty"`
	Kind    string   `json:"kind"`
	Name    string   `json:"name,omitempty"`
	From    string   `json:"from,omitempty"`
	Step    int      `json:"step,omitempty"`
	Values  []string `json:"values,omitempty"`
	Slices  []int    `json:"slices,omitempty"`
}

// Buffer is one worker's shard of an array in its memory.
type Buffer struct {
	Step  int    `json:"step"`
	Value string `json:"value"`
}

// Results are the buffers that an Op left, by slice and then by worker.
type Results struct {
	Slices map[int][]Buffer `json:"slices"`
}

// Session is a client's session with the proxy.
type Session struct {
	ID string `json:"id"`
	// NumSlices and WorkersPerSlice are those of the job, whatever is down.
	NumSlices       int `json:"numSlices"`
	WorkersPerSlice int `json:"workersPerSlice"`
	// Elastic: errors of slices reach the client.
	Elastic bool `json:"elastic"`
}

// Empty is a message without content.
type Empty struct{}
