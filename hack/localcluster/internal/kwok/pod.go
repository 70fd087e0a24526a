package kwok

// jqFunctions come before each jq expression.
const jqFunctions = `
def ann($k): .metadata.annotations["` + Prefix + `" + $k];
def secs: if endswith("ms") then (rtrimstr("ms") | tonumber) / 1000
  elif endswith("s") then (rtrimstr("s") | tonumber)
  elif endswith("m") then (rtrimstr("m") | tonumber) * 60
  else tonumber end;
def duration: "\(.)s";
def live: .metadata.deletionTimestamp == null;
def ended: .status.phase == "Succeeded" or .status.phase == "Failed";
def code: (ann("exit-code") // "0") | tonumber;
def sidecars: [.spec.initContainers[]? | select(.restartPolicy == "Always") | .name];
def plain: [.spec.containers[].name];
def statuses: [.status.containerStatuses[]?, .status.initContainerStatuses[]?];
def targets: plain as $plain | (ann("exit-container") // $plain[0]) as $t
  | if $t == "*" then $plain else [$t] end;
def dying: targets as $t | ((ann("exit-times") // "1000000000") | tonumber) as $n
  | [statuses[] | select(.name as $name | $t | index($name)) | select(.state.running and .restartCount < $n)];
def allReady: (plain + sidecars) as $all | ([statuses[] | select(.ready and (.name as $name | $all | index($name)))] | length) == ($all | length);
def restarts($code): .spec.restartPolicy == "Always" or (.spec.restartPolicy == "OnFailure" and $code != 0);
def down: sidecars as $sidecars | . as $pod
  | [statuses[] | select(.state.terminated) | .state.terminated.exitCode as $code | .name as $name
     | select(if ($sidecars | index($name)) then true
              elif ($pod | plain | index($name)) then ($pod | restarts($code))
              else false end)];
`

// The functions of the Go templates, which come before each template. Lists of container statuses are atomic, so
// that a patch gives them whole; a list or map as JSON is YAML too.
const templateFunctions = `
{{- if eq (NodeIPWith .spec.nodeName) "` + unmanagedIP + `" }}{{ fail "the host is dead" }}{{ end -}}
{{- $now := Now -}}
{{- $pod := . -}}
{{- $ann := dict -}}
{{- with .metadata.annotations }}{{ $ann = . }}{{ end -}}
{{- $plain := dict -}}
{{- range .spec.containers }}{{ $_ := set $plain .name true }}{{ end -}}
{{- $sidecars := dict -}}
{{- range .spec.initContainers }}{{ if eq (toString (get . "restartPolicy")) "Always" }}{{ $_ := set $sidecars .name true }}{{ end }}{{ end -}}
`

// readyConditions sets Ready and ContainersReady to $ready, with $reason.
const readyConditions = `
- {type: Ready, status: {{ $ready | Quote }}, reason: {{ $reason | Quote }}, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: {{ $ready | Quote }}, reason: {{ $reason | Quote }}, lastTransitionTime: {{ $now | Quote }}}
`

// endOfPod sets $phase and $reason from the plain containers in $plainList, which are all terminated, and ends the
// sidecars in $initList that still run.
const endOfPod = `
{{- $phase := "Succeeded" -}}
{{- range $plainList }}{{ if ne (toString .state.terminated.exitCode) "0" }}{{ $phase = "Failed" }}{{ end }}{{ end -}}
{{- $reason = ternary "PodCompleted" "PodFailed" (eq $phase "Succeeded") -}}
{{- $ended := list -}}
{{- range $status := $initList -}}
  {{- $s := deepCopy $status -}}
  {{- if $s.state.running -}}
    {{- $_ := set $s "ready" false }}{{ $_ := set $s "started" false -}}
    {{- $_ := set $s "state" (dict "terminated" (dict "exitCode" 143 "reason" "Error" "startedAt" $s.state.running.startedAt "finishedAt" $now)) -}}
  {{- end -}}
  {{- $ended = append $ended $s -}}
{{- end -}}
{{- $initList = $ended -}}
`

func podStages() []stage {
	return []stage{
		{
			name:  "pod-ready",
			kind:  "Pod",
			when:  `live and .status.phase == "Pending" and ann("waiting-reason") == null`,
			delay: `(ann("ready-after") // "300ms") | secs | duration`,
			template: templateFunctions + `
{{- $ready := "True" }}{{ $reason := "" }}
phase: Running
startTime: {{ or .status.startTime $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
hostIPs: [{ip: {{ NodeIPWith .spec.nodeName | Quote }}}]
{{- $ip := PodIPWith .spec.nodeName (or .spec.hostNetwork false) (or .metadata.uid "") .metadata.name .metadata.namespace }}
podIP: {{ $ip | Quote }}
podIPs: [{ip: {{ $ip | Quote }}}]
conditions:
- {type: PodReadyToStartContainers, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}` + readyConditions + `
containerStatuses:
{{- range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ printf "local/%s" .image | Quote }}
  containerID: {{ printf "kwok://%s/%s/0" $pod.metadata.uid .name | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{- end }}
{{- if .spec.initContainers }}
initContainerStatuses:
{{- range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ printf "local/%s" .image | Quote }}
  containerID: {{ printf "kwok://%s/%s/0" $pod.metadata.uid .name | Quote }}
  ready: true
  restartCount: 0
  {{- if hasKey $sidecars .name }}
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
  {{- else }}
  started: false
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
  {{- end }}
{{- end }}
{{- end }}`,
		},
		{
			name: "pod-waiting",
			kind: "Pod",
			when: `live and .status.phase == "Pending" and ann("waiting-reason") != null
  and .status.containerStatuses[0]?.state.waiting.reason != ann("waiting-reason")`,
			template: templateFunctions + `
{{- $ready := "False" }}{{ $reason := "ContainersNotReady" }}
phase: Pending
startTime: {{ or .status.startTime $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
hostIPs: [{ip: {{ NodeIPWith .spec.nodeName | Quote }}}]
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}` + readyConditions + `
containerStatuses:
{{- range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state: {waiting: {reason: {{ get $ann "` + Prefix + `waiting-reason" | Quote }}, message: {{ get $ann "` + Prefix + `waiting-message" | Quote }}}}
{{- end }}`,
		},
		{
			name: "pod-exit",
			kind: "Pod",
			when: `live and .status.phase == "Running" and (ann("exit-code") != null or ann("exit-after") != null)
  and (dying | length) > 0 and (down | length) == 0`,
			delay: `((ann("exit-after") // "0") | secs) as $after | dying[0].state.running.startedAt | fromdateiso8601 + $after | todateiso8601`,
			template: templateFunctions + `
{{- $code := int (or (get $ann "` + Prefix + `exit-code") "0") -}}
{{- $target := or (get $ann "` + Prefix + `exit-container") (index .spec.containers 0).name -}}
{{- $message := or (get $ann "` + Prefix + `exit-message") "" -}}
{{- $times := int (or (get $ann "` + Prefix + `exit-times") "1000000000") -}}
{{- $end := not (or (eq .spec.restartPolicy "Always") (and (eq .spec.restartPolicy "OnFailure") (ne $code 0))) -}}
{{- $lists := dict -}}
{{- range $key := list "containerStatuses" "initContainerStatuses" -}}
  {{- $out := list -}}
  {{- range $status := or (get $pod.status $key) list -}}
    {{- $s := deepCopy $status -}}
    {{- $is := or (eq $target $s.name) (and (eq $target "*") (hasKey $plain $s.name)) -}}
    {{- if and $s.state.running $is (lt (int (toString $s.restartCount)) $times) -}}
      {{- $terminated := dict "exitCode" $code "reason" (ternary "Completed" "Error" (eq $code 0)) "startedAt" $s.state.running.startedAt "finishedAt" $now -}}
      {{- if $message }}{{ $_ := set $terminated "message" $message }}{{ end -}}
      {{- $_ := set $s "state" (dict "terminated" $terminated) -}}
      {{- $_ := set $s "ready" false }}{{ $_ := set $s "started" false -}}
    {{- end -}}
    {{- if and (hasKey $plain $s.name) (not $s.state.terminated) }}{{ $end = false }}{{ end -}}
    {{- $out = append $out $s -}}
  {{- end -}}
  {{- $_ := set $lists $key $out -}}
{{- end -}}
{{- $plainList := $lists.containerStatuses -}}
{{- $initList := $lists.initContainerStatuses -}}
{{- $ready := "False" }}{{ $reason := "ContainersNotReady" -}}
{{- if $end -}}` + endOfPod + `
phase: {{ $phase }}
{{- end }}
conditions:` + readyConditions + `
containerStatuses: {{ $plainList | toJson }}
{{- if $initList }}
initContainerStatuses: {{ $initList | toJson }}
{{- end }}`,
		},
		{
			name:  "pod-restart",
			kind:  "Pod",
			when:  `live and .status.phase == "Running" and (down | length) > 0`,
			delay: `(ann("restart-after") // "1s") | secs | duration`,
			template: templateFunctions + `
{{- $policy := .spec.restartPolicy -}}
{{- $ready := "True" }}{{ $reason := "" -}}
{{- $lists := dict -}}
{{- range $key := list "containerStatuses" "initContainerStatuses" -}}
  {{- $out := list -}}
  {{- range $status := or (get $pod.status $key) list -}}
    {{- $s := deepCopy $status -}}
    {{- $restart := false -}}
    {{- if $s.state.terminated -}}
      {{- if hasKey $sidecars $s.name }}{{ $restart = true -}}
      {{- else if hasKey $plain $s.name }}{{ $restart = or (eq $policy "Always") (and (eq $policy "OnFailure") (ne (toString $s.state.terminated.exitCode) "0")) -}}
      {{- end -}}
    {{- end -}}
    {{- if $restart -}}
      {{- $count := add1 (int (toString $s.restartCount)) -}}
      {{- $_ := set $s "lastState" $s.state -}}
      {{- $_ := set $s "state" (dict "running" (dict "startedAt" $now)) -}}
      {{- $_ := set $s "restartCount" $count -}}
      {{- $_ := set $s "containerID" (printf "kwok://%s/%s/%d" $pod.metadata.uid $s.name $count) -}}
      {{- $_ := set $s "ready" true }}{{ $_ := set $s "started" true -}}
    {{- end -}}
    {{- if and (not $s.ready) (or (hasKey $plain $s.name) (hasKey $sidecars $s.name)) }}{{ $ready = "False" }}{{ $reason = "ContainersNotReady" }}{{ end -}}
    {{- $out = append $out $s -}}
  {{- end -}}
  {{- $_ := set $lists $key $out -}}
{{- end -}}
conditions:` + readyConditions + `
containerStatuses: {{ $lists.containerStatuses | toJson }}
{{- if $lists.initContainerStatuses }}
initContainerStatuses: {{ $lists.initContainerStatuses | toJson }}
{{- end }}`,
		},
		{
			// When a node is not Ready, the controller-manager says so of its pods; a kubelet that lives, or lives
			// again, says that they are.
			name: "pod-ready-again",
			kind: "Pod",
			when: `live and .status.phase == "Running" and (down | length) == 0
  and ((ann("exit-code") == null and ann("exit-after") == null) or (dying | length) == 0)
  and ([.status.conditions[]? | select(.type == "Ready" and .status == "False")] | length) > 0
  and allReady`,
			delay: `"1s"`,
			template: templateFunctions + `
{{- $ready := "True" }}{{ $reason := "" }}
conditions:` + readyConditions,
		},
		{
			name: "pod-stop",
			kind: "Pod",
			when: `(live | not) and (ended | not)`,
			delay: `((ann("stop-after") // "1s") | secs) as $stop | (.metadata.deletionGracePeriodSeconds // 0) as $grace
  | (if $stop < $grace then $stop else $grace end) | duration`,
			template: templateFunctions + `
{{- $stop := get $ann "` + Prefix + `stop-after" | default "1s" -}}
{{- $ms := 0 -}}
{{- if hasSuffix "ms" $stop }}{{ $ms = int (trimSuffix "ms" $stop) -}}
{{- else if hasSuffix "m" $stop }}{{ $ms = int (mulf 60000.0 (float64 (trimSuffix "m" $stop))) -}}
{{- else }}{{ $ms = int (mulf 1000.0 (float64 (trimSuffix "s" $stop))) }}{{ end -}}
{{- $code := int (get $ann "` + Prefix + `stop-exit-code" | default "143") -}}
{{- $grace := mul 1000 (int (toString (or .metadata.deletionGracePeriodSeconds 0))) -}}
{{- if gt $ms $grace }}{{ $code = 137 }}{{ end -}}
{{- $plainList := list -}}
{{- if .status.containerStatuses -}}
{{- range $status := .status.containerStatuses -}}
  {{- $s := deepCopy $status -}}
  {{- if not $s.state.terminated -}}
    {{- $terminated := dict "exitCode" 137 "reason" "ContainerStatusUnknown" "message" "the container never started" "finishedAt" $now -}}
    {{- if $s.state.running }}{{ $terminated = dict "exitCode" $code "reason" (ternary "Completed" "Error" (eq $code 0)) "startedAt" $s.state.running.startedAt "finishedAt" $now }}{{ end -}}
    {{- $_ := set $s "state" (dict "terminated" $terminated) -}}
  {{- end -}}
  {{- $_ := set $s "ready" false }}{{ $_ := set $s "started" false -}}
  {{- $plainList = append $plainList $s -}}
{{- end -}}
{{- else -}}
{{- range .spec.containers -}}
  {{- $terminated := dict "exitCode" 137 "reason" "ContainerStatusUnknown" "message" "the container never started" "finishedAt" $now -}}
  {{- $plainList = append $plainList (dict "name" .name "image" .image "imageID" "" "ready" false "started" false "restartCount" 0 "state" (dict "terminated" $terminated)) -}}
{{- end -}}
{{- end -}}
{{- $ready := "False" }}{{ $reason := "" }}{{ $initList := or .status.initContainerStatuses list -}}` + endOfPod + `
phase: {{ $phase }}
conditions:` + readyConditions + `
containerStatuses: {{ $plainList | toJson }}
{{- if $initList }}
initContainerStatuses: {{ $initList | toJson }}
{{- end }}`,
		},
		{
			name:   "pod-delete",
			kind:   "Pod",
			when:   `(live | not) and ended and .metadata.deletionGracePeriodSeconds != 0`,
			delete: true,
		},
	}
}
