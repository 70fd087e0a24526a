{{- define "pathways-job.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "pathways-job.serviceAccountName" -}}
{{ include "pathways-job.fullname" . }}-controller-manager
{{- end }}

{{- define "pathways-job.selectorLabels" -}}
app.kubernetes.io/name: pathways-job
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: manager
{{- end }}

{{- define "pathways-job.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: pathways-job
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "pathways-job.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
The objects of files/NAME.yaml, with the chart's labels on them. The files are
copies from config/ ("make generate"), which name the operator's namespace and
ServiceAccount as config/ does; here they become the release's.
Takes a dict: root, file, annotations.
*/}}
{{- define "pathways-job.objects" -}}
{{- $root := .root -}}
{{- $labels := include "pathways-job.labels" $root | fromYaml -}}
{{- $user := printf "system:serviceaccount:%s:%s" $root.Release.Namespace (include "pathways-job.serviceAccountName" $root) -}}
{{- $text := $root.Files.Get .file | replace "system:serviceaccount:pathways-job-system:pathways-job-controller-manager" $user -}}
{{- range $part := regexSplit "(?m)^---\\s*$" $text -1 }}
{{- $object := fromYaml $part }}
{{- if $object }}
{{- if $object.Error }}{{ fail (printf "%s: %s" $.file $object.Error) }}{{ end }}
{{- $_ := set $object.metadata "labels" (merge (dict) (default (dict) $object.metadata.labels) $labels) }}
{{- if $.annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) $.annotations (default (dict) $object.metadata.annotations)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
