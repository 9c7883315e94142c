{{- define "adp.chart" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of all objects: only the release's name, if that contains the chart's name. */}}
{{- define "adp.name" -}}
{{- $chart := include "adp.chart" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride }}
{{- else if contains $chart .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $chart | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* The labels of all objects. With api: devicePlugin they also select the pods, because a DaemonSet's selector cannot be changed. */}}
{{- define "adp.selector" -}}
app.kubernetes.io/name: {{ include "adp.chart" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The name of the DaemonSet. If it were the same for both APIs, changing api would be an upgrade with surge: the
new pod would wait for the old one to release the node, and the old one would wait for the new one to be ready. */}}
{{- define "adp.daemonSet" -}}
{{- if eq .Values.api "dra" -}}
{{ include "adp.name" . | trunc 59 | trimSuffix "-" }}-dra
{{- else -}}
{{ include "adp.name" . }}
{{- end }}
{{- end }}

{{- /* The labels that select the pods. They depend on api, so that a DaemonSet never selects the other one's pods. */}}
{{- define "adp.pods" -}}
{{- if eq .Values.api "dra" -}}
app.kubernetes.io/name: {{ include "adp.chart" . }}-dra
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- else -}}
{{ include "adp.selector" . }}
{{- end }}
{{- end }}

{{- /* Not empty if a second DaemonSet unprepares the claims from before a change to api: devicePlugin. */}}
{{- define "adp.finish" -}}
{{- if and (ne .Values.api "dra") .Values.dra.finishClaims }}true{{ end }}
{{- end }}

{{- /* Between releases the version contains `+`, which is not allowed in values of labels and tags of images. */}}
{{- define "adp.labels" -}}
{{ include "adp.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | trimAll "-_." | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The chart's labels merged with the labels in a value, which take precedence: (list . .Values.podMonitor.labels). */}}
{{- define "adp.labels.and" -}}
{{ merge (dict) (last .) (include "adp.labels" (first .) | fromYaml) | toYaml }}
{{- end }}

{{- define "adp.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "adp.name" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: found none, want the name of an account, because serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* The name of the driver in ResourceSlices, claims and DeviceClasses: package offer/draname. */}}
{{- define "adp.driver" -}}
accelerator.b-com.com
{{- end }}

{{- /* The directories of the driver's sockets. The kubelet connects to the sockets by the paths that the driver
reports, so the directories have the same paths in the container. */}}
{{- define "adp.pluginDir" -}}
{{ .Values.kubelet.rootDir }}/plugins/{{ include "adp.driver" . }}
{{- end }}

{{- define "adp.registryDir" -}}
{{ .Values.kubelet.rootDir }}/plugins_registry
{{- end }}

{{- /* Images without a registry are never pulled, because the runtime's defaults would decide where they come from. */}}
{{- define "adp.pullPolicy" -}}
{{- $dra := eq .Values.api "dra" }}
{{- include "adp.pullPolicyOf" (list (ternary "dra.image" "image" $dra) (ternary .Values.dra.image .Values.image $dra)) }}
{{- end }}

{{- /* The pull policy of an image: (list "image" .Values.image). */}}
{{- define "adp.pullPolicyOf" -}}
{{- $path := first . }}
{{- with last . }}
{{- $registry := eq (include "adp.inRegistry" .repository) "true" }}
{{- if not (or $registry (has .pullPolicy (list "" "Never"))) }}
{{- fail (printf "%s.repository: found %q with pullPolicy %s, want a name with a registry (REGISTRY/%s), or pullPolicy Never if the image was imported on the nodes" $path .repository .pullPolicy .repository) }}
{{- end }}
{{- default (ternary "IfNotPresent" "Never" $registry) .pullPolicy }}
{{- end }}
{{- end }}

{{- /* "true" if the name of an image begins with a registry. */}}
{{- define "adp.inRegistry" -}}
{{- $first := splitList "/" . | first }}
{{- and (contains "/" .) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) }}
{{- end }}

{{- /* The images in use other than .Values.image, by their paths. */}}
{{- define "adp.otherImages" -}}
{{- $all := dict }}
{{- if or (eq .Values.api "dra") (include "adp.finish" .) }}
{{- $_ := set $all "dra.image" .Values.dra.image }}
{{- end }}
{{- if .Values.bitstreams.references }}
{{- $_ := set $all "bitstreams.image" .Values.bitstreams.image }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- define "adp.image" -}}
{{- include "adp.imageOf" (list . (ternary .Values.dra.image .Values.image (eq .Values.api "dra"))) }}
{{- end }}

{{- /* The name of an image: (list . .Values.image). */}}
{{- define "adp.imageOf" -}}
{{- $root := first . }}
{{- with last . }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $root.Chart.AppVersion .tag | replace "+" "_") }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The port of config.httpAddress, or nothing if that is empty. */}}
{{- define "adp.port" -}}
{{- trimPrefix ":" .Values.config.httpAddress }}
{{- end }}

{{- /* Not empty if the daemon connects to the API server. */}}
{{- define "adp.api" -}}
{{- if or .Values.nodeAnnotation .Values.events .Values.nodeCondition.enabled (eq .Values.api "dra") }}true{{ end }}
{{- end }}

{{- /* The directory of the CDI spec, or nothing if CDI is off. */}}
{{- define "adp.cdiDir" -}}
{{- default (ternary "/var/run/cdi" "" (or .Values.programming.enabled (eq .Values.api "dra"))) .Values.config.cdiDir }}
{{- end }}

{{- /* The name of cluster-scoped objects. It contains the release's namespace. */}}
{{- define "adp.clusterName" -}}
{{ .Release.Namespace }}-{{ include "adp.name" . }}
{{- end }}

{{- define "adp.config" -}}
{{- $config := deepCopy .Values.config }}
{{- with .Values.programming }}
{{- if .enabled }}
{{- $args := list (print "--store=" .store) }}
{{- with $.Values.simulatedNode }}
{{- $args = concat $args (list (printf "--sysfs-root=%s/sys" .) (printf "--dev-root=%s/dev" .)) }}
{{- end }}
{{- if eq (toString .always) "" | ternary $.Values.nodeAnnotation .always }}
{{- $args = append $args "--always" }}
{{- end }}
{{- /* Without quotes, YAML reads the word off as false. */}}
{{- $hottest := toString .maxTemperature | replace "false" "off" }}
{{- if and (hasKey . "maxTemperature") (ne $hottest "board") }}
{{- $args = append $args (print "--max-temperature=" $hottest) }}
{{- end }}
{{- $_ := set $config "cdiDir" (include "adp.cdiDir" $) }}
{{- $_ := set $config "programmingHook" (print .hostDir "/accelerator-fpga") }}
{{- $_ := set $config "programmingHookArgs" (concat $args (default list $config.programmingHookArgs)) }}
{{- end }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* An interface or AFU ID in the format used by the hook and in resource names. */}}
{{- define "adp.id" -}}
{{ . | replace "-" "" | lower }}
{{- end }}

{{- define "adp.test.name" -}}
{{ include "adp.name" . | trunc 58 | trimSuffix "-" }}-test
{{- end }}

{{- /* Not empty if the mode does not determine any resource names: the families whose resources are named in another way. */}}
{{- define "adp.otherNames" -}}
{{- if ne (default "single" .Values.config.mode) "pool" }}
{{- with .Values.config.families }}
{{- if not (without . "vfio" "xrt") }}
{{- join " and " . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The resource that the helm test pod requests. It is empty in the other modes, where resource names
depend on the cards. */}}
{{- define "adp.test.resource" -}}
{{- if .Values.test.resource }}
{{- .Values.test.resource }}
{{- else if include "adp.otherNames" . }}
{{- else if and (has (default "single" .Values.config.mode) (list "single" "pool")) (not .Values.nodeAnnotation) }}
{{- default "b-com.com/accelerator" .Values.config.resourceName }}
{{- else if and (eq (default "single" .Values.config.mode) "region") .Values.test.interface (not .Values.nodeAnnotation) }}
{{- printf "%s/region-%s" (default "fpga.intel.com" .Values.config.resourceNamespace) (include "adp.id" .Values.test.interface) }}
{{- end }}
{{- end }}

{{- /* The error message of a test without a resource. It contains the missing value and the reason. */}}
{{- define "adp.test.refusal" -}}
{{- $mode := default "single" .Values.config.mode }}
{{- $why := .Values.nodeAnnotation | ternary "with nodeAnnotation, resource names depend on the node" (printf "in %s mode, resource names depend on the cards" $mode) }}
{{- with include "adp.otherNames" . }}
{{- $why = printf "the resource names of %s devices come from rules%s" . (contains "xrt" . | ternary " and the cards' shells" "") }}
{{- end }}
{{- $also := .Values.programming.enabled | ternary ", and test.interface and test.afu" "" }}
{{- printf "test.resource: found none, want a resource that the nodes advertise%s, because %s" $also $why }}
{{- end }}

{{- /* The test's labels. They differ from the labels of the daemon's pods, because the NetworkPolicy applies only to those. */}}
{{- define "adp.test.labels" -}}
app.kubernetes.io/name: {{ include "adp.chart" . | trunc 58 | trimSuffix "-" }}-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The nodes on which pods run, as fields of a pod. */}}
{{- define "adp.placement" }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if or .Values.nodeSelectorTerms .Values.nodeFeatureDiscovery.enabled }}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            {{- with .Values.nodeSelectorTerms }}
            {{- toYaml . | nindent 12 }}
            {{- else }}
            {{- range .Values.nodeFeatureDiscovery.labels }}
            - matchExpressions:
              - {key: {{ . | quote }}, operator: In, values: ["true"]}
            {{- end }}
            {{- end }}
      {{- end }}
{{- end }}

{{- /* The DaemonSet that keeps bitstreams, and its other objects in the namespace. */}}
{{- define "adp.bitstreams" -}}
{{ include "adp.name" . | trunc 52 | trimSuffix "-" }}-bitstreams
{{- end }}

{{- /* The labels that select its pods. They differ from the daemon's labels, because other policies apply to the daemon. */}}
{{- define "adp.bitstreams.pods" -}}
app.kubernetes.io/name: {{ include "adp.chart" . | trunc 52 | trimSuffix "-" }}-bitstreams
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The peers that can reach /metrics. Empty if there are none. */}}
{{- define "adp.scrapers" -}}
{{- $scrapers := .Values.scrapers }}
{{- if and .Values.podMonitor.enabled (not $scrapers) }}
{{- $scrapers = list (dict "namespaceSelector" dict "podSelector" (dict "matchLabels" (dict "app.kubernetes.io/name" "prometheus"))) }}
{{- end }}
{{- with $scrapers }}
{{- toYaml . }}
{{- end }}
{{- end }}
