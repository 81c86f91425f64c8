package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nameFaults are names that Kubernetes does not accept in the objects. Without them the API
// server would refuse an object that the user did not write.
func (w *Workload) nameFaults() Faults {
	var faults Faults
	add := func(where string, problems []string) {
		if len(problems) > 0 {
			faults = append(faults, Fault{where, strings.Join(problems, "; ")})
		}
	}
	name := func(where, value string) {
		add(where, quoted(value, validation.IsDNS1123Subdomain(value)))
	}
	for path, m := range map[string]Metadata{
		"spec.resourceOverrides.proxyDeployment":                              w.DeploymentMeta,
		"spec.resourceOverrides.proxyDeployment.podTemplateMetadataOverrides": w.PodMeta,
		"spec.resourceOverrides.proxyService":                                 w.ServiceMeta,
	} {
		add(path+".labels", details(metavalidation.ValidateLabels(m.Labels, nil)))
		add(path+".annotations", details(apivalidation.ValidateAnnotations(m.Annotations, nil)))
	}
	if w.ServiceAccount != "" {
		name("spec.serviceAccount", w.ServiceAccount)
	}
	for _, s := range w.ImagePullSecrets {
		name("spec.resourceOverrides.proxyDeployment.imagePullSecrets", s.Name)
	}
	for secret, keys := range w.Secrets {
		name("the name of a Secret", secret)
		for _, key := range keys {
			add("the key of the Secret "+secret, quoted(key, validation.IsConfigMapKey(key)))
		}
	}
	if s := w.Server; s != nil {
		if strings.TrimSpace(s.Image) != s.Image || s.Image == "" {
			add("spec.image", []string{fmt.Sprintf("%.200q is not the reference of an image", s.Image)})
		}
		for _, v := range s.Volumes {
			add("spec.volumes["+strings.TrimPrefix(v.Name, VolumePrefix)+"].name", validation.IsDNS1123Label(v.Name))
			if v.HostPath != nil && slices.Contains(strings.Split(v.HostPath.Path, "/"), "..") {
				add("spec.volumes["+strings.TrimPrefix(v.Name, VolumePrefix)+"].hostPath", []string{"it must not have the element \"..\""})
			}
		}
		faults = append(faults, w.mountFaults()...)
		faults = append(faults, resourceFaults(s.Resources)...)
	}
	faults = append(faults, resourceFaults(w.GatewayResources)...)
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Field, b.Field) })
	return faults
}

// mountFaults are paths of the server's container that are mounted twice.
func (w *Workload) mountFaults() Faults {
	server := w.server()
	seen := map[string][]corev1.VolumeMount{}
	for _, m := range server.VolumeMounts {
		path := strings.TrimRight(m.MountPath, "/")
		seen[path] = append(seen[path], m)
	}
	var faults Faults
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		if mounts := seen[path]; len(mounts) > 1 {
			faults = append(faults, Fault{"spec.volumes", fmt.Sprintf("%s is mounted twice; choose another mountPath", path)})
		}
	}
	return faults
}

// resourceFaults are requests and limits that no container can have.
func resourceFaults(r corev1.ResourceRequirements) Faults {
	var faults Faults
	for part, list := range map[string]corev1.ResourceList{"limits": r.Limits, "requests": r.Requests} {
		for name, quantity := range list {
			if quantity.Sign() < 0 {
				faults = append(faults, Fault{fmt.Sprintf("spec.resources.%s.%s", part, name), fmt.Sprintf("%s is less than 0", &quantity)})
			}
		}
	}
	for name, request := range r.Requests {
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			faults = append(faults, Fault{"spec.resources.requests." + string(name), fmt.Sprintf("%s is more than the limit %s", &request, &limit)})
		}
	}
	return faults
}

func quoted(value string, problems []string) []string {
	for i, p := range problems {
		problems[i] = fmt.Sprintf("%.100q: %s", value, p)
	}
	return problems
}

// details are messages without paths of fields.
func details(errs field.ErrorList) []string {
	var messages []string
	for _, e := range errs {
		messages = append(messages, fmt.Sprintf("%.100q: %s", fmt.Sprint(e.BadValue), e.Detail))
	}
	return messages
}
