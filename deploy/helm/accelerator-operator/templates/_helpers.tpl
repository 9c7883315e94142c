{{- define "ao.chart" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of all namespaced objects. */}}
{{- define "ao.name" -}}
{{- $chart := include "ao.chart" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride }}
{{- else if contains $chart .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $chart | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* The name of cluster-scoped objects. */}}
{{- define "ao.clusterName" -}}
{{ printf "%s-%s" .Release.Namespace (include "ao.name" .) }}
{{- end }}

{{- /* The labels that select the pods. A Deployment's selector cannot be changed. */}}
{{- define "ao.selector" -}}
app.kubernetes.io/name: {{ include "ao.chart" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Between releases the version contains `+`, which is not allowed in values of labels and tags of images. */}}
{{- define "ao.labels" -}}
{{ include "ao.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | trimAll "-_." | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ao.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "ao.name" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: found none, want the name of an account, because serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* A pattern for the names of the plugins' accounts. If an FpgaDevicePlugin's name is long, only the beginning of the chart's
name fits: 53 of the 63 characters, and a dash, are already taken. */}}
{{- define "ao.pluginAccounts" -}}
(.*accelerator-device-plugin.*|.{38,53}-accelerat[-a-z]*|.{50,52}-bitstreams)
{{- end }}

{{- /* Images without a registry are never pulled, because the runtime's defaults would decide where they come from. */}}
{{- define "ao.pullPolicy" -}}
{{- with .Values.image }}
{{- $first := splitList "/" .repository | first }}
{{- $registry := and (contains "/" .repository) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) }}
{{- if not (or $registry (has .pullPolicy (list "" "Never"))) }}
{{- fail (printf "image.repository: found %q with pullPolicy %s, want a name with a registry (REGISTRY/%s), or pullPolicy Never if the image was imported on the nodes" .repository .pullPolicy .repository) }}
{{- end }}
{{- default (ternary "IfNotPresent" "Never" $registry) .pullPolicy }}
{{- end }}
{{- end }}

{{- define "ao.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag | replace "+" "_") }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Not empty if cert-manager issues the webhook's certificate. */}}
{{- define "ao.certManager" -}}
{{- if and .Values.mappings.enabled (eq .Values.certificates.source "certManager") }}true{{ end }}
{{- end }}

{{- /* Not empty if the operator issues the webhook's certificate. */}}
{{- define "ao.ownCertificates" -}}
{{- if and .Values.mappings.enabled (eq .Values.certificates.source "operator") }}true{{ end }}
{{- end }}

{{- /* Not empty if the webhook requires client certificates. */}}
{{- define "ao.clientCA" -}}
{{- if and .Values.mappings.enabled .Values.webhook.clientCA }}true{{ end }}
{{- end }}

{{- /* The namespaces whose pods the API server creates without calling the webhook, as JSON. */}}
{{- define "ao.excluded" -}}
{{ append (default list .Values.webhook.excludedNamespaces) .Release.Namespace | uniq | sortAlpha | toJson }}
{{- end }}

{{- /* Not empty if the chart includes a test pod. */}}
{{- define "ao.test" -}}
{{- if and .Values.mappings.enabled (not (has .Values.test.namespace (include "ao.excluded" . | fromJsonArray))) }}true{{ end }}
{{- end }}
