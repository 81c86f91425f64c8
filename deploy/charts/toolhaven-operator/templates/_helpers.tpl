{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ .Values.fullnameOverride }}
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: toolhaven
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "operator.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Values.fullnameOverride }}
{{- end }}

{{- /* The reference of an image: (list . image). */ -}}
{{- define "operator.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* The objects of a file of deploy/operator, as {objects: [...]}: (list . path). */ -}}
{{- define "operator.objects" -}}
{{- $objects := list -}}
{{- range regexSplit "(?m)^---$" ((index . 0).Files.Get (index . 1)) -1 -}}
{{- $objects = append $objects (fromYaml .) -}}
{{- end -}}
{{ toYaml (dict "objects" $objects) }}
{{- end }}

{{- /* A name of deploy/operator here: (list . name). */ -}}
{{- define "operator.name" -}}
{{ replace "thv-operator" (index . 0).Values.fullnameOverride (index . 1) }}
{{- end }}

{{- /* Rights of deploy/operator for this release, a cluster's or those in one namespace:
(list . object namespace). namespace is "" for all. */ -}}
{{- define "operator.rights" -}}
{{- $root := index . 0 -}}
{{- $object := deepCopy (index . 1) -}}
{{- $namespace := index . 2 -}}
{{- $metadata := dict "name" (include "operator.name" (list $root $object.metadata.name)) "labels" (include "operator.labels" $root | fromYaml) -}}
{{- with $namespace -}}
{{- $_ := set $metadata "namespace" . -}}
{{- $_ := set $object "kind" (replace "Cluster" "" $object.kind) -}}
{{- end -}}
{{- $_ := set $object "metadata" $metadata -}}
{{- with $object.roleRef -}}
{{- $_ := set . "name" (include "operator.name" (list $root .name)) -}}
{{- if $namespace -}}
{{- $_ := set . "kind" "Role" -}}
{{- end -}}
{{- end -}}
{{- range $object.subjects -}}
{{- $_ := set . "name" (include "operator.serviceAccount" $root) -}}
{{- $_ := set . "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- range $object.rules -}}
{{- if .resourceNames -}}
{{- $names := list -}}
{{- range .resourceNames -}}
{{- $names = append $names (eq . "toolhaven" | ternary $root.Values.webhook.configuration (include "operator.name" (list $root .))) -}}
{{- end -}}
{{- $_ := set . "resourceNames" $names -}}
{{- end -}}
{{- end -}}
{{ toYaml $object }}
{{- end }}
