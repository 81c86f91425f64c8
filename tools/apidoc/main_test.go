package main

import (
	"os"
	"strings"
	"testing"
)

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../docs/kubernetes-api.md")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Error("docs/kubernetes-api.md differs from deploy/crds; run make generate-api")
	}
}
