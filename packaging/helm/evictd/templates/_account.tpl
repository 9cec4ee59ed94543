{{/* The objects in a file of packaging/kubernetes, for the service account of this release. */}}
{{- define "evictd.objects" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- .root.Files.Get (printf "kubernetes/%s" .file)
  | replace "namespace: evictd" (printf "namespace: %s" $namespace)
  | replace "system:serviceaccount:evictd:evictd" (printf "system:serviceaccount:%s:evictd" $namespace) -}}
{{- end -}}

{{/* evictd.yaml as it is shipped, or with what the values change. */}}
{{- define "evictd.config" -}}
{{- $overlay := ternary "beside-kubelet" "without-kubelet-eviction" .Values.besideKubelet -}}
{{- $shipped := .Files.Get (printf "kubernetes/overlays/%s/evictd.yaml" $overlay) -}}
{{- $changes := deepCopy .Values.config -}}
{{- if ne .Values.images "/var/lib/containerd" -}}
{{- $changes = merge $changes (dict "filesystems" (dict "imagefs" .Values.images)) -}}
{{- end -}}
{{- if $changes -}}
{{- toYaml (mergeOverwrite (fromYaml $shipped) $changes) -}}
{{- else -}}
{{- $shipped -}}
{{- end -}}
{{- end -}}
