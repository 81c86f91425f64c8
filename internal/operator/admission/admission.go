// Package admission is the webhook that the API server asks before it stores a resource of
// toolhaven.dev. It refuses what the reconcilers and the gateway would refuse, by the same
// functions. It has no side effects, so a dry run is answered like any other request.
//
// [Certificates] keeps the server's certificate: in a Secret of the operator's own, or in
// files that another program, such as cert-manager, keeps.
package admission

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/toolhaven/toolhaven/api/v1beta1"
)

// Path is where the server answers.
const Path = "/validate"

// Handler answers the API server's questions. validate is an error for a resource that is not
// valid by itself; its text is shown to the person who applies the resource.
func Handler(scheme *runtime.Scheme, validate func(client.Object) error) http.Handler {
	return &admission.Webhook{Handler: &handler{decoder: admission.NewDecoder(scheme), scheme: scheme, validate: validate}}
}

// NewServer is the webhook's server, for a manager to run. It listens at port on all addresses.
func NewServer(port int, certificates *Certificates, scheme *runtime.Scheme, validate func(client.Object) error) webhook.Server {
	server := webhook.NewServer(webhook.Options{Port: port, TLSOpts: certificates.tlsOptions()})
	server.Register(Path, Handler(scheme, validate))
	return server
}

type handler struct {
	decoder  admission.Decoder
	scheme   *runtime.Scheme
	validate func(client.Object) error
}

// Handle admits a valid resource, and also
//   - a change that leaves the spec of a stored resource as it is, so that metadata of one
//     that a later version finds invalid can be changed;
//   - a change of one that is being deleted: its finalizer must go.
func (h *handler) Handle(_ context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	object, err := h.object(request.Kind)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if err := h.decoder.Decode(request, object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if request.Operation == admissionv1.Update {
		if !object.GetDeletionTimestamp().IsZero() {
			return admission.Allowed("")
		}
		old, err := h.object(request.Kind)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if h.decoder.DecodeRaw(request.OldObject, old) == nil && sameSpec(old, object) {
			return admission.Allowed("")
		}
	}
	if err := h.validate(object); err != nil {
		response := admission.Denied(err.Error())
		response.Result.Code, response.Result.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
		return response
	}
	return admission.Allowed("")
}

// object is an empty object of a kind.
func (h *handler) object(kind metav1.GroupVersionKind) (client.Object, error) {
	if kind.Group != v1beta1.GroupVersion.Group || kind.Version != v1beta1.GroupVersion.Version {
		return nil, fmt.Errorf("%s is not of %s", kind.Kind, v1beta1.GroupVersion)
	}
	empty, err := h.scheme.New(v1beta1.GroupVersion.WithKind(kind.Kind))
	if err != nil {
		return nil, err
	}
	object, ok := empty.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not a kind of an object", kind.Kind)
	}
	return object, nil
}

// sameSpec reports whether two objects of a kind have the same spec.
func sameSpec(a, b client.Object) bool {
	return equality.Semantic.DeepEqual(spec(a), spec(b))
}

func spec(o client.Object) any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	return content["spec"]
}
