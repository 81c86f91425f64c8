package runcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestPackagesOfTheFlagComeBesideTheRegistrys(t *testing.T) {
	o := &runOptions{given: func(string) bool { return false }, addPackages: []string{"curl"}}
	s := &workload.Spec{Transport: workload.Stdio, Package: &workload.Package{Scheme: "uvx", Name: "x", AddPackages: []string{"git"}}}
	if err := o.apply(s, &values{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"git", "curl"}, s.Package.AddPackages); d != "" {
		t.Error(d)
	}
}
