package externalauth

import (
	"errors"
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a Spec.
//
// +kubebuilder:object:generate=false
type Fault struct {
	Field   string // such as spec.awsSts.region
	Message string
}

func (f Fault) Error() string { return f.Field + ": " + f.Message }

// Faults is everything that is wrong with a Spec, a line for each.
//
// +kubebuilder:object:generate=false
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// checker gathers faults.
//
// +kubebuilder:object:generate=false
type checker struct{ faults Faults }

func (c *checker) add(field, format string, args ...any) {
	c.faults = append(c.faults, Fault{field, fmt.Sprintf(format, args...)})
}

// check adds err, if there is one, as the fault of a field.
func (c *checker) check(field string, err error) {
	if err != nil {
		c.add(field, "%s", err)
	}
}

var errRequired = errors.New("is required")

// required reports whether there is a value.
func (c *checker) required(field, value string) bool {
	if value == "" {
		c.check(field, errRequired)
	}
	return value != ""
}

// secret checks a reference; nil is missing.
func (c *checker) secret(field string, ref *SecretRef) {
	if ref == nil {
		c.check(field, errRequired)
		return
	}
	c.required(field+".name", ref.Name)
	c.required(field+".key", ref.Key)
}

// optionalSecret checks a reference that may be missing.
func (c *checker) optionalSecret(field string, ref *SecretRef) {
	if ref != nil {
		c.secret(field, ref)
	}
}

// atMost checks the number of items, or of bytes.
func (c *checker) atMost(field string, n, most int, what string) {
	if n > most {
		c.add(field, "has %d %s; at most %d are possible", n, what, most)
	}
}

// exactlyOne checks that one of two members is set.
func (c *checker) exactlyOne(field, first string, hasFirst bool, second string, hasSecond bool) {
	switch {
	case hasFirst && hasSecond:
		c.add(field, "%s and %s exclude each other", first, second)
	case !hasFirst && !hasSecond:
		c.add(field, "one of %s and %s is required", first, second)
	}
}
