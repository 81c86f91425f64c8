package externalauth

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/externalauth/externalauthtest"
)

// whole sets every field of the spec in at least one of its documents.
func whole(t *testing.T) []*Resource {
	t.Helper()
	content, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	resources, err := Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	return resources
}

// Each field that the specification has is set by a document that is valid.
func TestParse_EveryField(t *testing.T) {
	t.Parallel()
	set := map[string]bool{}
	for _, r := range whole(t) {
		collect(reflect.ValueOf(r.Spec), "spec", set)
	}
	all := map[string]bool{}
	fieldsOf(reflect.TypeFor[Spec](), "spec", all)
	for field := range all {
		if !set[field] {
			t.Errorf("no document sets %s", field)
		}
	}
}

func name(f reflect.StructField) string {
	n, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return n
}

func fieldsOf(t reflect.Type, path string, all map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		all[path] = true
		return
	}
	for i := range t.NumField() {
		fieldsOf(t.Field(i).Type, path+"."+name(t.Field(i)), all)
	}
}

func collect(v reflect.Value, path string, set map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			collect(v.Elem(), path, set)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), path, set)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			collect(v.Field(i), path+"."+name(v.Type().Field(i)), set)
		}
	default:
		if !v.IsZero() {
			set[path] = true
		}
	}
}

// Every rule: the document, and what is reported, "" for a document that is valid.
func TestParse_Rules(t *testing.T) {
	t.Parallel()
	for _, c := range externalauthtest.Rules() {
		_, err := Parse([]byte(c.Text))
		if c.Want == "" && err != nil || c.Want != "" && (err == nil || !strings.Contains(err.Error(), c.Want)) {
			t.Errorf("%s\n%v\nwant %s", c.Text, err, c.Want)
		}
	}
}

// All faults are reported at once, each with its field.
func TestValidate_AllFaults(t *testing.T) {
	t.Parallel()
	s := Spec{Type: TypeAWSSTS, AWSSTS: &AWSSTS{SessionDuration: new(int32)}, BearerToken: &BearerToken{}}
	var faults Faults
	if !errors.As(s.Validate(), &faults) {
		t.Fatal("it is valid")
	}
	var fields []string
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	if got, want := fmt.Sprint(fields), "[spec.bearerToken spec.bearerToken.tokenSecretRef spec.awsSts.region spec.awsSts spec.awsSts.sessionDuration]"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A resource that is accepted is valid; no text makes the reader fail otherwise.
func FuzzParse(f *testing.F) {
	content, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(content))
	f.Add(externalauthtest.Server())
	f.Fuzz(func(t *testing.T, text string) {
		resources, err := Parse([]byte(text))
		for _, r := range resources {
			if err == nil && r.Spec.Validate() != nil {
				t.Errorf("%q is accepted", text)
			}
		}
	})
}
