package runcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestComplete_AddsPackagesToTheRegistrys(t *testing.T) {
	o := &options{app: &base.App{}, given: func(string) bool { return false }, addPackages: []string{"curl"}}
	s, found := &workload.Spec{}, &workload.Spec{Transport: workload.Stdio, Package: &workload.Package{Scheme: "uvx", Name: "x", AddPackages: []string{"git"}}}
	o.complete(s, found)
	if d := cmp.Diff([]string{"git", "curl"}, s.Package.AddPackages); d != "" {
		t.Error(d)
	}
}
