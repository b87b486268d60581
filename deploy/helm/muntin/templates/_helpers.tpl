{{- define "muntin.name" -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{- end }}

{{- define "muntin.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "muntin.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}

{{- define "muntin.secret" -}}
{{ required "existingSecret: name a secret with the keys token and ledger-password" .Values.existingSecret }}
{{- end }}

{{- define "muntin.ledger" -}}
{{ required "ledger: name one that all pods reach, for example postgresql://muntin@postgres/muntin" .Values.ledger }}
{{- end }}

{{- define "muntin.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "muntin.container" -}}
image: {{ include "muntin.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "muntin.password" -}}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "muntin.secret" . | trim }}, key: ledger-password}}
{{- end }}
