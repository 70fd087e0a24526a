package kwok

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"
	"sigs.k8s.io/yaml"
)

// The tests here play the stages as KWOK does, one object at a time, without a cluster.

const (
	now    = "2026-11-29T12:00:10.5Z"
	before = "2026-11-29T12:00:00Z"
)

// match returns the one stage that the object is in; "" if none.
func match(t *testing.T, stages []stage, object map[string]any) stage {
	t.Helper()
	var found []stage
	for _, s := range stages {
		if out := jq(t, s.when, object); out == true {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return stage{}
	case 1:
		return found[0]
	}
	t.Fatalf("stages %s and %s match both: KWOK would take one at random", found[0].name, found[1].name)
	return stage{}
}

func jq(t *testing.T, expression string, object any) any {
	t.Helper()
	query, err := gojq.Parse(jqFunctions + expression)
	if err != nil {
		t.Fatalf("jq %s: %v", expression, err)
	}
	v, _ := query.Run(roundTrip(t, object)).Next()
	if err, ok := v.(error); ok {
		t.Fatalf("jq %s: %v", expression, err)
	}
	return v
}

// render runs a stage's template on an object, as if its host were alive or dead.
func render(t *testing.T, s stage, object map[string]any, alive bool) (map[string]any, error) {
	t.Helper()
	funcs := sprig.TxtFuncMap()
	funcs["Quote"] = func(v any) string {
		data, err := json.Marshal(v)
		if err == nil && len(data) > 0 && data[0] == '"' {
			return string(data)
		}
		return strconv.Quote(string(data))
	}
	funcs["Now"] = func() string { return now }
	funcs["NodeIPWith"] = func(string) string {
		if alive {
			return "10.0.0.1"
		}
		return unmanagedIP
	}
	funcs["PodIPWith"] = func(_ string, host bool, _, _, _ string) string { return fmt.Sprintf("ip of host %t", host) }
	funcs["NodeConditions"] = func() any {
		return []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"}}
	}
	tmpl, err := template.New("").Funcs(funcs).Parse(s.template)
	if err != nil {
		t.Fatalf("template of %s: %v", s.name, err)
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var in any
	if err := decoder.Decode(&in); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := tmpl.Execute(&out, in); err != nil {
		return nil, err
	}
	patch := map[string]any{}
	if err := yaml.Unmarshal(out.Bytes(), &patch); err != nil {
		t.Fatalf("%s gives no YAML: %v\n%s", s.name, err, out.String())
	}
	return patch, nil
}

// play plays the stage that the object is in, and returns its name.
func play(t *testing.T, stages []stage, object map[string]any) string {
	t.Helper()
	s := match(t, stages, object)
	if s.name == "" || s.delete {
		return s.name
	}
	patch, err := render(t, s, object, true)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	status, _ := object["status"].(map[string]any)
	for k, v := range patch {
		if k != "conditions" {
			status[k] = v
			continue
		}
		byType := map[string]any{}
		for _, list := range []any{status[k], v} {
			conditions, _ := list.([]any)
			for _, c := range conditions {
				byType[c.(map[string]any)["type"].(string)] = c
			}
		}
		var merged []any
		for _, c := range byType {
			merged = append(merged, c)
		}
		status[k] = merged
	}
	return s.name
}

func roundTrip(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// pod is a bound pod with a resource manager as sidecar, a setup container, and two plain containers.
func pod(policy string, annotations map[string]any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": "head", "namespace": "default", "uid": "u", "annotations": annotations},
		"spec": map[string]any{
			"nodeName":      "node",
			"restartPolicy": policy,
			"initContainers": []any{
				map[string]any{"name": "setup", "image": "i"},
				map[string]any{"name": "rm", "image": "i", "restartPolicy": "Always"},
			},
			"containers": []any{map[string]any{"name": "main", "image": "i"}},
		},
		"status": map[string]any{"phase": "Pending"},
	}
}

// deleting marks a pod as being deleted.
func deleting(p map[string]any, grace int) map[string]any {
	meta := p["metadata"].(map[string]any)
	meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = before, grace
	return p
}

// summary is what a controller sees of a pod.
func summary(p map[string]any) map[string]string {
	status := p["status"].(map[string]any)
	out := map[string]string{"phase": status["phase"].(string)}
	for _, key := range []string{"initContainerStatuses", "containerStatuses"} {
		list, _ := status[key].([]any)
		for _, s := range list {
			s := s.(map[string]any)
			word := ""
			for kind, state := range s["state"].(map[string]any) {
				word = kind
				if kind == "terminated" {
					word = fmt.Sprint(state.(map[string]any)["exitCode"])
				}
				if kind == "waiting" {
					word = fmt.Sprint(state.(map[string]any)["reason"])
				}
			}
			out[s["name"].(string)] = fmt.Sprintf("%s ready=%v restarts=%v", word, s["ready"], s["restartCount"])
		}
	}
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "Ready" {
			out["Ready"] = c["status"].(string)
		}
	}
	return out
}

func TestPodStages(t *testing.T) {
	const setup = "0 ready=true restarts=0"
	running := map[string]string{
		"phase": "Running", "Ready": "True", "setup": setup,
		"rm": "running ready=true restarts=0", "main": "running ready=true restarts=0",
	}
	type step struct {
		change func(map[string]any) // before the step
		stage  string               // that is played
		want   map[string]string
	}
	annotate := func(k, v string) func(map[string]any) {
		return func(p map[string]any) { p["metadata"].(map[string]any)["annotations"].(map[string]any)[Prefix+k] = v }
	}
	remove := func(grace int) func(map[string]any) { return func(p map[string]any) { deleting(p, grace) } }
	tests := map[string]struct {
		policy      string
		annotations map[string]any
		steps       []step
	}{
		"gets Ready and stays": {
			policy: "Never",
			steps:  []step{{stage: "pod-ready", want: running}, {}},
		},
		"ends with 0": {
			policy:      "Never",
			annotations: map[string]any{Prefix + "exit-after": "5s"},
			steps: []step{
				{stage: "pod-ready", want: running},
				{stage: "pod-exit", want: map[string]string{
					"phase": "Succeeded", "Ready": "False", "setup": setup,
					"rm": "143 ready=false restarts=0", "main": "0 ready=false restarts=0",
				}},
				{},
				{change: remove(30), stage: "pod-delete"},
			},
		},
		"fails and is not restarted": {
			policy:      "Never",
			annotations: map[string]any{Prefix + "exit-code": "3"},
			steps: []step{
				{stage: "pod-ready", want: running},
				{stage: "pod-exit", want: map[string]string{
					"phase": "Failed", "Ready": "False", "setup": setup,
					"rm": "143 ready=false restarts=0", "main": "3 ready=false restarts=0",
				}},
				{},
			},
		},
		"fails and is restarted in place, twice": {
			policy:      "OnFailure",
			annotations: map[string]any{Prefix + "exit-code": "3", Prefix + "exit-times": "2"},
			steps: []step{
				{stage: "pod-ready", want: running},
				{stage: "pod-exit", want: map[string]string{
					"phase": "Running", "Ready": "False", "setup": setup,
					"rm": "running ready=true restarts=0", "main": "3 ready=false restarts=0",
				}},
				{stage: "pod-restart", want: map[string]string{
					"phase": "Running", "Ready": "True", "setup": setup,
					"rm": "running ready=true restarts=0", "main": "running ready=true restarts=1",
				}},
				{stage: "pod-exit"},
				{stage: "pod-restart", want: map[string]string{
					"phase": "Running", "Ready": "True", "setup": setup,
					"rm": "running ready=true restarts=0", "main": "running ready=true restarts=2",
				}},
				{},
			},
		},
		"its sidecar fails and is restarted": {
			policy:      "Never",
			annotations: map[string]any{Prefix + "exit-code": "1", Prefix + "exit-times": "1", Prefix + "exit-container": "rm"},
			steps: []step{
				{stage: "pod-ready", want: running},
				{stage: "pod-exit", want: map[string]string{
					"phase": "Running", "Ready": "False", "setup": setup,
					"rm": "1 ready=false restarts=0", "main": "running ready=true restarts=0",
				}},
				{stage: "pod-restart", want: map[string]string{
					"phase": "Running", "Ready": "True", "setup": setup,
					"rm": "running ready=true restarts=1", "main": "running ready=true restarts=0",
				}},
				{},
			},
		},
		"cannot pull its image, then can": {
			policy:      "Never",
			annotations: map[string]any{Prefix + "waiting-reason": "ImagePullBackOff", Prefix + "waiting-message": "no such image"},
			steps: []step{
				{stage: "pod-waiting", want: map[string]string{
					"phase": "Pending", "Ready": "False", "main": "ImagePullBackOff ready=false restarts=0",
				}},
				{},
				{change: func(p map[string]any) {
					delete(p["metadata"].(map[string]any)["annotations"].(map[string]any), Prefix+"waiting-reason")
				}, stage: "pod-ready", want: running},
			},
		},
		"is stopped by SIGTERM": {
			policy: "OnFailure",
			steps: []step{
				{stage: "pod-ready", want: running},
				{change: remove(30), stage: "pod-stop", want: map[string]string{
					"phase": "Failed", "Ready": "False", "setup": setup,
					"rm": "143 ready=false restarts=0", "main": "143 ready=false restarts=0",
				}},
				{stage: "pod-delete"},
			},
		},
		"exits 0 on SIGTERM": {
			policy: "OnFailure",
			steps: []step{
				{stage: "pod-ready", want: running},
				{change: annotate("stop-exit-code", "0")},
				{change: remove(30), stage: "pod-stop", want: map[string]string{
					"phase": "Succeeded", "Ready": "False", "setup": setup,
					"rm": "143 ready=false restarts=0", "main": "0 ready=false restarts=0",
				}},
				{stage: "pod-delete"},
			},
		},
		"is killed at the end of its grace period": {
			policy:      "OnFailure",
			annotations: map[string]any{Prefix + "stop-after": "1.5m", Prefix + "stop-exit-code": "0"},
			steps: []step{
				{stage: "pod-ready", want: running},
				{change: remove(30), stage: "pod-stop", want: map[string]string{
					"phase": "Failed", "Ready": "False", "setup": setup,
					"rm": "143 ready=false restarts=0", "main": "137 ready=false restarts=0",
				}},
				{stage: "pod-delete"},
			},
		},
		"is Ready again after its node was not": {
			policy: "Never",
			steps: []step{
				{stage: "pod-ready", want: running},
				{change: func(p map[string]any) {
					p["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": "False"}}
				}, stage: "pod-ready-again", want: running},
				{},
			},
		},
		"is deleted before it starts": {
			policy: "Never",
			steps: []step{
				{change: remove(30), stage: "pod-stop", want: map[string]string{
					"phase": "Failed", "Ready": "False", "main": "137 ready=false restarts=0",
				}},
				{stage: "pod-delete"},
			},
		},
		"is force-deleted, but held by a finalizer": {
			policy: "Never",
			steps: []step{
				{stage: "pod-ready", want: running},
				{change: remove(0), stage: "pod-stop"},
				{},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.annotations == nil {
				tc.annotations = map[string]any{}
			}
			p := pod(tc.policy, tc.annotations)
			for i, s := range tc.steps {
				if s.change != nil {
					s.change(p)
				}
				if got := play(t, podStages(), p); got != s.stage {
					t.Fatalf("step %d plays stage %q, want %q; the pod: %v", i, got, s.stage, p)
				}
				if s.want != nil {
					if diff := cmp.Diff(s.want, summary(p)); diff != "" {
						t.Fatalf("after step %d, %s (-want +got):\n%s", i, s.stage, diff)
					}
				}
			}
		})
	}
}

// A pod without sidecars and annotations goes through the same stages.
func TestPlainPod(t *testing.T) {
	plain := func(annotations map[string]any) map[string]any {
		p := pod("OnFailure", annotations)
		delete(p["spec"].(map[string]any), "initContainers")
		if annotations == nil {
			delete(p["metadata"].(map[string]any), "annotations")
		}
		return p
	}
	tests := map[string]struct {
		pod  map[string]any
		want []string // stages
	}{
		"runs":            {pod: plain(nil), want: []string{"pod-ready", ""}},
		"fails once":      {pod: plain(map[string]any{Prefix + "exit-code": "1", Prefix + "exit-times": "1"}), want: []string{"pod-ready", "pod-exit", "pod-restart", ""}},
		"completes":       {pod: plain(map[string]any{Prefix + "exit-after": "1s"}), want: []string{"pod-ready", "pod-exit", ""}},
		"waits":           {pod: plain(map[string]any{Prefix + "waiting-reason": "ErrImagePull"}), want: []string{"pod-waiting", ""}},
		"stops unstarted": {pod: deleting(plain(nil), 30), want: []string{"pod-stop", "pod-delete"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for range tc.want {
				got = append(got, play(t, podStages(), tc.pod))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDelays(t *testing.T) {
	tests := map[string]struct {
		stage       string
		annotations map[string]any
		grace       int
		want        any
	}{
		"ready, by default":         {stage: "pod-ready", want: "0.3s"},
		"ready":                     {stage: "pod-ready", annotations: map[string]any{Prefix + "ready-after": "1500ms"}, want: "1.5s"},
		"restart, by default":       {stage: "pod-restart", want: "1s"},
		"exit, by default":          {stage: "pod-exit", want: before},
		"exit":                      {stage: "pod-exit", annotations: map[string]any{Prefix + "exit-after": "1m"}, want: "2026-11-29T12:01:00Z"},
		"stop, by default":          {stage: "pod-stop", grace: 30, want: "1s"},
		"stop in a bare number":     {stage: "pod-stop", annotations: map[string]any{Prefix + "stop-after": "12"}, grace: 30, want: "12s"},
		"stop within the grace":     {stage: "pod-stop", annotations: map[string]any{Prefix + "stop-after": "45s"}, grace: 30, want: "30s"},
		"stop by a forced deletion": {stage: "pod-stop", grace: 0, want: "0s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := deleting(pod("OnFailure", tc.annotations), tc.grace)
			p["status"] = map[string]any{"containerStatuses": []any{map[string]any{
				"name": "main", "restartCount": 0, "state": map[string]any{"running": map[string]any{"startedAt": before}},
			}}}
			for _, s := range podStages() {
				if s.name != tc.stage {
					continue
				}
				if diff := cmp.Diff(tc.want, jq(t, s.delay, p)); diff != "" {
					t.Errorf("delay (-want +got):\n%s", diff)
				}
				if d, ok := tc.want.(string); ok && d != "" && d[len(d)-1] == 's' {
					if _, err := time.ParseDuration(d); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

func TestDeadHostPlaysNothing(t *testing.T) {
	for _, s := range podStages() {
		if s.delete {
			continue
		}
		if _, err := render(t, s, pod("Never", nil), false); err == nil {
			t.Errorf("%s patches a pod of a dead host", s.name)
		}
	}
}

func TestNodeStages(t *testing.T) {
	node := map[string]any{
		"metadata": map[string]any{"name": "n", "uid": "u", "annotations": map[string]any{}},
		"spec":     map[string]any{},
		"status":   map[string]any{},
	}
	ready := func() string {
		conditions, _ := node["status"].(map[string]any)["conditions"].([]any)
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Ready" {
				return fmt.Sprint(c["status"], " ", c["message"])
			}
		}
		return ""
	}
	annotations := node["metadata"].(map[string]any)["annotations"].(map[string]any)
	for i, s := range []struct {
		notReady string
		stage    string
		want     string
	}{
		{stage: "node-ready", want: "True fine"},
		{want: "True fine"},
		{notReady: "node is shutting down", stage: "node-not-ready", want: "False node is shutting down"},
		{notReady: "node is shutting down", want: "False node is shutting down"},
		{notReady: "PLEG is not healthy", stage: "node-not-ready", want: "False PLEG is not healthy"},
		{stage: "node-ready", want: "True fine"},
	} {
		delete(annotations, Prefix+"not-ready")
		if s.notReady != "" {
			annotations[Prefix+"not-ready"] = s.notReady
		}
		if got := play(t, nodeStages(), node); got != s.stage {
			t.Fatalf("step %d plays stage %q, want %q", i, got, s.stage)
		}
		if diff := cmp.Diff(s.want, ready()); diff != "" {
			t.Errorf("after step %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestConfig(t *testing.T) {
	data, err := Config(40 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	docs := bytes.Split(data, []byte("---\n"))
	if want := 1 + 1 + len(podStages()) + len(nodeStages()); len(docs) != want { // the first is empty
		t.Errorf("Config has %d documents, want %d", len(docs), want)
	}
}
