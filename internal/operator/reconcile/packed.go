package reconcile

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// annotationTemplate is the template of a Deployment in the cache, as protobuf.
const annotationTemplate = "toolhaven.dev/packed-template"

// packTemplate replaces the template of a Deployment by an annotation, for the cache. Templates
// are most of what the cache has, and take several times as much memory as structures. An object
// that is packed already stays as it is (client-go, cache.TransformFunc).
func packTemplate(o any) (any, error) {
	d, ok := o.(*appsv1.Deployment)
	if !ok || len(d.Spec.Template.Spec.Containers) == 0 {
		return o, nil
	}
	d.ManagedFields = nil
	packed, err := d.Spec.Template.Marshal()
	if err != nil {
		return nil, fmt.Errorf("pack the template of Deployment %s: %w", d.Name, err)
	}
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[annotationTemplate], d.Spec.Template = string(packed), corev1.PodTemplateSpec{}
	return d, nil
}

// unpackTemplate is the reverse, for an object that the cache has returned.
func unpackTemplate(d *appsv1.Deployment) error {
	packed, ok := d.Annotations[annotationTemplate]
	if !ok {
		return nil
	}
	delete(d.Annotations, annotationTemplate)
	if err := d.Spec.Template.Unmarshal([]byte(packed)); err != nil {
		return fmt.Errorf("unpack the template of Deployment %s: %w", d.Name, err)
	}
	return nil
}
