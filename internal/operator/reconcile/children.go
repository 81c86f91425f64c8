package reconcile

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/internal/operator/render"
	"github.com/toolhaven/toolhaven/internal/operator/translate"
)

// annotationApplied is the SHA-256 of what was applied last. With it, a field that is no
// longer wanted is noticed.
const annotationApplied = "toolhaven.dev/applied"

// children makes the objects of workloads.
type children struct {
	client client.Client // reads from the cache
	direct client.Reader // reads from the API server
}

// owned returns an empty object of each kind of child that is watched.
func owned() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}, &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{},
	}
}

// refused is an object that cannot be made as long as nothing but the operator changes.
type refused struct{ reason, message string }

func (r *refused) Error() string { return r.message }

// apply makes the object want, or changes the one that is there where it differs. It writes
// nothing when it does not. An object that nothing controls is adopted. The error is
// *refused when the object belongs to another one, or the API server does not accept it. The
// result is the object as the API server has it after a write; nil when nothing was written.
//
// The cache has the objects with our label only. One that is not there is applied without a
// look at the API server: of an object that has another controller, the API server refuses a
// second one (apimachinery, ValidateOwnerReferences), and changes nothing.
func (c *children) apply(ctx context.Context, owner types.UID, want client.Object) (*unstructured.Unstructured, error) {
	target, err := applied(want)
	if err != nil {
		return nil, err
	}
	live, err := empty(want)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKeyFromObject(want)
	err = c.client.Get(ctx, key, live)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("read %T %s: %w", want, key, err)
	default:
		if err := taken(live, owner, target.GetKind()); err != nil {
			return nil, err
		}
		if live.GetDeletionTimestamp() != nil {
			return nil, nil // its end is an event
		}
		if same, err := holds(live, target); err != nil || same {
			return nil, err
		}
	}
	err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(target), client.FieldOwner(FieldOwner), client.ForceOwnership)
	switch {
	case err == nil:
		return target, nil
	case apierrors.IsInvalid(err):
		return nil, c.invalid(ctx, owner, want, target.GetKind(), err)
	case permanent(err):
		return nil, notAccepted(target.GetKind(), want.GetName(), err)
	}
	return nil, fmt.Errorf("apply %s %s: %w", target.GetKind(), want.GetName(), err)
}

// invalid is why the API server refuses an object: that which is there is in the way, or ours is
// not valid.
func (c *children) invalid(ctx context.Context, owner types.UID, want client.Object, kind string, refusal error) error {
	live, err := empty(want)
	if err != nil {
		return err
	}
	err = c.direct.Get(ctx, client.ObjectKeyFromObject(want), live)
	if apierrors.IsNotFound(err) {
		return notAccepted(kind, want.GetName(), refusal)
	}
	if err != nil {
		return fmt.Errorf("read %s %s: %w", kind, want.GetName(), err)
	}
	if err := taken(live, owner, kind); err != nil {
		return err
	}
	if metav1.GetControllerOf(live) != nil {
		return notAccepted(kind, want.GetName(), refusal)
	}
	return &refused{translate.ReasonConflict, fmt.Sprintf("the %s %q that is there cannot become the wanted one; delete it: %v", kind, want.GetName(), refusal)}
}

func notAccepted(kind, name string, err error) error {
	return &refused{translate.ReasonRefused, fmt.Sprintf("the API server does not accept the %s %q: %v", kind, name, err)}
}

// taken is an error for an object that belongs to another owner.
func taken(live client.Object, owner types.UID, kind string) error {
	if ref := metav1.GetControllerOf(live); ref != nil && ref.UID != owner {
		return &refused{translate.ReasonConflict, fmt.Sprintf("there is a %s %q already, which belongs to %s %q; delete it, or choose another name", kind, live.GetName(), ref.Kind, ref.Name)}
	}
	return nil
}

// permanent reports whether the same request would fail again: it is too large, or a quota or an admission policy of the cluster forbids it.
func permanent(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), "etcdserver: request is too large")
}

// empty is an object of the same type.
func empty(like client.Object) (client.Object, error) {
	o, ok := reflect.New(reflect.TypeOf(like).Elem()).Interface().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", like)
	}
	return o, nil
}

// applied is what is sent: no nulls, nothing empty, no status.
func applied(want client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", want, err)
	}
	delete(content, "status")
	withoutEmpty(content)
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", want, err)
	}
	sum := sha256.Sum256(text)
	u := &unstructured.Unstructured{Object: content}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationApplied] = hex.EncodeToString(sum[:])
	u.SetAnnotations(annotations)
	return u, nil
}

// withoutEmpty removes nulls, and empty lists and objects but for an emptyDir: {}.
func withoutEmpty(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			withoutEmpty(v)
			if len(v) == 0 && k != "emptyDir" {
				delete(m, k)
			}
		case []any:
			for _, item := range v {
				if item, ok := item.(map[string]any); ok {
					withoutEmpty(item)
				}
			}
			if len(v) == 0 {
				delete(m, k)
			}
		}
	}
}

// holds reports whether live, which is of the cache, has everything that target has.
func holds(live client.Object, target *unstructured.Unstructured) (bool, error) {
	if d, ok := live.(*appsv1.Deployment); ok {
		if err := unpackTemplate(d); err != nil {
			return false, err
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, fmt.Errorf("convert %T: %w", live, err)
	}
	want := target.DeepCopy().Object
	delete(want, "apiVersion") // the cache's objects do not have them
	delete(want, "kind")
	return contains(content, want), nil
}

// contains reports whether live has what want has. Objects in lists are found by their name,
// and may have others beside them: admission adds some.
func contains(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return len(want) == 0 && live == nil
		}
		for k, v := range want {
			if !contains(l[k], v) {
				return false
			}
		}
		return true
	case []any:
		l, ok := live.([]any)
		if !ok {
			return false
		}
		for i, v := range want {
			if item, isObject := v.(map[string]any); isObject && item["name"] != nil {
				if !some(l, v) {
					return false
				}
			} else if len(l) != len(want) || !contains(l[i], v) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(live, want)
}

func some(live []any, want any) bool {
	for _, l := range live {
		if contains(l, want) {
			return true
		}
	}
	return false
}

// prune deletes the workload's objects that are no longer wanted.
func (c *children) prune(ctx context.Context, kind string, owner client.Object, wanted []client.Object) error {
	keep := map[string]bool{}
	for _, w := range wanted {
		keep[reflect.TypeOf(w).String()+w.GetName()] = true
	}
	lists := []client.ObjectList{&policyv1.PodDisruptionBudgetList{}, &corev1.ServiceAccountList{}}
	for _, list := range lists {
		if err := c.client.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.MatchingLabels(render.Selector(kind, owner.GetName()))); err != nil {
			return fmt.Errorf("list the objects of %s %s: %w", kind, owner.GetName(), err)
		}
		for _, o := range items(list) {
			if !metav1.IsControlledBy(o, owner) || keep[reflect.TypeOf(o).String()+o.GetName()] {
				continue
			}
			err := c.client.Delete(ctx, o, client.Preconditions{UID: ptr.To(o.GetUID())})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete %T %s: %w", o, o.GetName(), err)
			}
		}
	}
	return nil
}

func items(list client.ObjectList) []client.Object {
	var all []client.Object
	switch l := list.(type) {
	case *policyv1.PodDisruptionBudgetList:
		for i := range l.Items {
			all = append(all, &l.Items[i])
		}
	case *corev1.ServiceAccountList:
		for i := range l.Items {
			all = append(all, &l.Items[i])
		}
	}
	return all
}

// key makes the Secret with the key that the replicas share. One that is there is kept: the
// operator cannot read it.
func (c *children) key(ctx context.Context, owner metav1.OwnerReference, namespace string) error {
	value := make([]byte, 32)
	if _, err := rand.Read(value); err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	labels := render.Selector(owner.Kind, owner.Name)
	labels[render.LabelManagedBy] = render.Manager
	err := c.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: render.KeyName(owner.Kind, owner.Name), Namespace: namespace, Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}},
		Immutable:  ptr.To(true),
		Data:       map[string][]byte{render.KeyKey: value},
	}, client.FieldOwner(FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the Secret %s: %w", render.KeyName(owner.Kind, owner.Name), err)
	}
	return nil
}
