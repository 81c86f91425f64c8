package externalauth

import (
	"errors"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/strictyaml"
)

// The API version and kind of the resource.
const (
	APIVersion = "toolhaven.dev/v1beta1"
	Kind       = "MCPExternalAuthConfig"
)

// Resource is an MCPExternalAuthConfig as a file has it.
//
// +kubebuilder:object:generate=false
type Resource struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
	// Status is what a cluster adds. It is not read.
	Status any `json:"status,omitempty"`
}

// Metadata is that of any Kubernetes resource. Only Name counts here.
//
// +kubebuilder:object:generate=false
type Metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp string            `json:"creationTimestamp,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
	ManagedFields     any               `json:"managedFields,omitempty"`
}

// Parse reads the resources of a YAML or JSON file and validates them. The error has every
// fault, a line for each.
func Parse(content []byte) ([]*Resource, error) {
	docs, err := strictyaml.Documents(content)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, errors.New("it has no resource")
	}
	var resources []*Resource
	var errs []error
	for _, doc := range docs {
		r := &Resource{}
		if err := doc.Decode(r); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, fault := range r.faults() {
			errs = append(errs, r.name(doc.Line(), len(docs), fault))
		}
		resources = append(resources, r)
	}
	return resources, errors.Join(errs...)
}

// name says which of several resources has a fault.
func (r *Resource) name(line, resources int, fault Fault) error {
	switch {
	case resources == 1:
		return fault
	case r.Metadata.Name != "":
		return fmt.Errorf("%s: %w", r.Metadata.Name, fault)
	}
	return fmt.Errorf("the resource in line %d: %w", line, fault)
}

func (r *Resource) faults() Faults {
	c := &checker{}
	if r.APIVersion != APIVersion {
		c.add("apiVersion", "%.100q is not %s", r.APIVersion, APIVersion)
	}
	if r.Kind != Kind {
		c.add("kind", "%.100q is not %s", r.Kind, Kind)
	}
	c.required("metadata.name", r.Metadata.Name)
	var faults Faults
	if errors.As(r.Spec.Validate(), &faults) {
		c.faults = append(c.faults, faults...)
	}
	return c.faults
}
