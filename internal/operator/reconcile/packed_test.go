package reconcile

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPackTemplate(t *testing.T) {
	t.Parallel()
	whole := func() *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "d", Annotations: map[string]string{annotationTemplate: "a stranger's", "a": "b"}},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "m"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi"), "cpu": resource.MustParse("250m")},
				}}}},
			}},
			Status: appsv1.DeploymentStatus{AvailableReplicas: 1},
		}
	}
	d := whole()
	for range 2 { // a cache may transform an object twice
		if _, err := packTemplate(d); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.Spec.Template.Spec.Containers) > 0 || d.Annotations["a"] != "b" || d.Status.AvailableReplicas != 1 {
		t.Errorf("packed: %+v", d)
	}
	if err := unpackTemplate(d); err != nil {
		t.Fatal(err)
	}
	want := whole()
	delete(want.Annotations, annotationTemplate)
	if !equality.Semantic.DeepEqual(d, want) {
		t.Errorf("%+v\nwant %+v", d, want)
	}
}
