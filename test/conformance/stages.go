package main

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// stages returns the flags that switch on the optional stages of a gateway so that they
// permit everything, and end, which ends what they need. The suite cannot send an access
// token, so authentication is left out. The files are in dir.
func stages(dir string) (flags []string, end func(), err error) {
	hooks := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the suite's client went away
		_, _ = io.WriteString(w, `{"allowed":true}`)
	}))
	authority := filepath.Join(dir, "ca.pem")
	for _, f := range []struct{ flag, name, content string }{
		{"", "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw}))},
		{"--tools-override", "override.json", `{"toolsOverride":{"test_simple_text":{"description":"Another description"}}}`},
		{"--authz-config", "authz.json", `{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal, action, resource);","forbid(principal, action, resource) when { resource has readOnlyHint && resource.readOnlyHint && resource has arg_never };"]}}`},
		{"--audit-config", "audit.json", `{"includeRequestData":true,"includeResponseData":true}`},
		{"--webhook-config", "hooks.yaml", "validating:\n  - {name: all, url: " + hooks.URL + ", failure_policy: fail, tls_config: {ca_bundle_path: " + authority + "}}\n"},
	} {
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, []byte(f.content), 0o600); err != nil {
			hooks.Close()
			return nil, nil, err
		}
		if f.flag != "" {
			flags = append(flags, f.flag, path)
		}
	}
	return flags, hooks.Close, nil
}
