//go:build linux

package pod

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/internal/credential/aws"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/externalauth/externalauthtest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// The operator's ConfigMaps, as its own tests expect them, are run configurations for a pod.
func TestLoad_WhatTheOperatorRenders(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../operator/render/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, after, ok := strings.Cut(string(text), "  workload.json: |-\n")
			if !ok {
				t.Fatal("there is no workload.json")
			}
			var config strings.Builder
			for line := range strings.Lines(after) {
				inner, ok := strings.CutPrefix(line, "    ")
				if !ok {
					break
				}
				config.WriteString(inner)
			}
			if _, err := Load(writeFile(t, filepath.Join(t.TempDir(), "workload.json"), config.String())); err != nil {
				t.Error(err)
			}
		})
	}
}

// A gateway refuses at its start what thv, the API server, the webhook and the reconciler refuse,
// with the same messages, and nothing else.
func TestLoad_Rules(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(externalauthtest.Rules(), externalauthtest.Matchers()) {
		var resource externalauth.Resource
		if strings.Contains(c.Text, "---") || yaml.UnmarshalStrict([]byte(c.Text), &resource) != nil || resource.Kind != externalauth.Kind {
			continue // about files
		}
		x := &resource.Spec
		var faults externalauth.Faults
		_ = errors.As(aws.Validate(x), &faults)
		if x.EmbeddedAuthServer == nil && x.Type == externalauth.TypeEmbeddedAuthServer || x.Type == "" {
			continue // there is nothing that a run configuration could have
		}
		_, err := Load(writeSpec(t, withAuth(x)))
		if (err == nil) != (c.Want == "") {
			t.Errorf("%.3000s\nthe gateway: %v\nwant %q", c.Text, err, c.Want)
		}
		for _, fault := range faults {
			if err != nil && !strings.Contains(err.Error(), fault.Error()) {
				t.Errorf("%.3000s\nthe gateway: %v\nwant %q", c.Text, err, fault)
			}
		}
	}
}

// withAuth is a remote server with a resource, as the operator writes it.
func withAuth(x *externalauth.Spec) *workload.Spec {
	spec := remoteSpec("https://mcp.example/mcp")
	signIn := &externalauth.EmbeddedAuthServer{Issuer: "https://a.example", UpstreamProviders: []externalauth.UpstreamProvider{
		{Name: "a", Type: externalauth.UpstreamOIDC, OIDC: &externalauth.OIDC{IssuerURL: "https://i.example", ClientID: "c"}},
	}}
	if x.Type == externalauth.TypeEmbeddedAuthServer {
		signIn = x.EmbeddedAuthServer
		if st := signIn.Storage; st != nil && st.Redis != nil && st.Redis.SentinelConfig != nil && aws.Validate(x) == nil && st.Redis.SentinelConfig.Service != nil {
			st.Redis.SentinelConfig.Addrs, st.Redis.SentinelConfig.Service = []string{"s.n.svc:26379"}, nil
		}
		rest := *x
		rest.EmbeddedAuthServer = nil
		if rest != (externalauth.Spec{Type: x.Type}) {
			spec.ExternalAuth = x // its union is not valid
		}
	} else {
		spec.ExternalAuth = x
	}
	spec.SetAuthServer(signIn, "", nil)
	return spec
}
