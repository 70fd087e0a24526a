package kwok

func nodeStages() []stage {
	return []stage{
		{
			name: "node-ready",
			kind: "Node",
			when: `ann("not-ready") == null and (.status.addresses == null or ([.status.conditions[]? | select(.type == "Ready" and .status == "True")] | length) == 0)`,
			template: `
{{- $now := Now -}}
conditions:
{{- range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{- end }}
{{- if not .status.addresses }}
addresses:
- {type: InternalIP, address: 10.255.255.254}
- {type: Hostname, address: {{ .metadata.name | Quote }}}
{{- end }}
{{- if not .status.allocatable }}
{{- $capacity := or .status.capacity (dict "cpu" "64" "memory" "256Gi" "pods" "110") }}
capacity: {{ $capacity | toJson }}
allocatable: {{ $capacity | toJson }}
{{- end }}
{{- $info := or .status.nodeInfo dict }}
nodeInfo:
  architecture: {{ or $info.architecture "amd64" }}
  operatingSystem: {{ or $info.operatingSystem "linux" }}
  bootID: {{ or $info.bootID .metadata.uid }}
  machineID: {{ or $info.machineID .metadata.uid }}
  systemUUID: {{ or $info.systemUUID .metadata.uid }}
  osImage: {{ or $info.osImage "KWOK" }}
  kernelVersion: {{ or $info.kernelVersion "KWOK" | Quote }}
  containerRuntimeVersion: {{ or $info.containerRuntimeVersion "kwok://0" | Quote }}
  kubeletVersion: {{ or $info.kubeletVersion "kwok" | Quote }}
  kubeProxyVersion: ""`,
		},
		{
			name: "node-not-ready",
			kind: "Node",
			when: `ann("not-ready") != null
  and ([.metadata.annotations["` + Prefix + `not-ready"] as $message
        | .status.conditions[]? | select(.type == "Ready" and .status == "False" and .message == $message)] | length) == 0`,
			template: `
{{- $now := Now -}}
conditions:
- type: Ready
  status: "False"
  reason: KubeletNotReady
  message: {{ get .metadata.annotations "` + Prefix + `not-ready" | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}`,
		},
	}
}
