package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// everySetting is a workload with everything set that status shows.
func everySetting() *workload.Spec {
	spec := inContainer("full")
	spec.Transport, spec.TargetHost, spec.TargetPort, spec.TargetPath = workload.StreamableHTTP, "127.0.0.1", 8080, "/mcp"
	spec.Env = map[string]string{"REGION": "the-value-of-region", "ALSO": "b"}
	spec.SecretEnv = map[string]string{"TOKEN": "the-reference-of-token"}
	spec.Container = workload.Container{
		Labels:  map[string]string{"team": "x\ny"},
		Mounts:  []workload.Mount{{Host: "/h", Container: "/c", ReadOnly: true}, {Host: "/h2", Container: "/c2", Relabel: "z"}},
		Publish: []workload.Port{{Host: 9000, Container: 9001}, {Container: 9002}},
		Network: "mine",
		Permissions: workload.Permissions{Name: "file.json", Privileged: true, Network: &workload.Network{
			Outbound: &workload.Outbound{AllowHost: []string{"a.example"}, AllowPort: []int{443}}}},
	}
	spec.Proxy.EndpointPrefix, spec.Proxy.SessionTTL, spec.Proxy.Stateless = "/p", workload.Duration(90*time.Minute), true
	return spec
}

func TestStatus_Settings(t *testing.T) {
	a := clitest.App(t)
	keep(t, a, everySetting(), workload.Stopped, "")
	out := clitest.Must(t, a, "status", "full")
	_, setUp, _ := strings.Cut(out, "Created:")
	_, setUp, _ = strings.Cut(setUp, "\n")
	want := `Label:           team=x y
Server's port:   127.0.0.1:8080/mcp in the container
Environment:     ALSO
                 REGION
                 TOKEN (secret)
Volume:          /h at /c, read-only
                 /h2 at /c2, relabelled z
Published port:  9000 to 9001 in the container
                 a free port to 9002 in the container
Network:         mine
Permissions:     file.json; privileged; connects to a.example on ports 443 (requested, not enforced)
Endpoint prefix: /p
Session TTL:     1h30m0s
Stateless:       yes
Caution:         a limit of its permission profile is requested, not enforced: "connects to a.example on ports 443"; the server can connect to whatever the network mine reaches
`
	if diff := cmp.Diff(want, setUp); diff != "" {
		t.Error(diff)
	}
	asJSON := clitest.Must(t, a, "status", "full", "-o", "json")
	for _, text := range []string{out, asJSON} {
		if strings.Contains(text, "the-value") || strings.Contains(text, "the-reference") {
			t.Errorf("a value is shown: %s", text)
		}
	}
	var got struct {
		EnvNames, SecretEnvNames []string
		Proxy                    workload.Proxy
		Container                workload.Container
	}
	if err := json.Unmarshal([]byte(asJSON), &got); err != nil {
		t.Fatal(err)
	}
	spec := everySetting()
	if diff := cmp.Diff(spec.Container, got.Container); diff != "" {
		t.Error(diff)
	}
	if got.Proxy.EndpointPrefix != "/p" || got.Proxy.SessionTTL != spec.Proxy.SessionTTL || !got.Proxy.Stateless {
		t.Errorf("%+v", got.Proxy)
	}
	if diff := cmp.Diff([]string{"ALSO", "REGION", "TOKEN"}, append(got.EnvNames, got.SecretEnvNames...)); diff != "" {
		t.Error(diff)
	}
}

func TestStatus_LeavesOutDefaults(t *testing.T) {
	a := clitest.App(t)
	keep(t, a, inContainer("bare"), workload.Failed, "it said:\n  no")
	out := clitest.Must(t, a, "status", "bare")
	if !strings.Contains(out, "Reason:          it said:\n  no\n") {
		t.Errorf("the reason has lost its lines: %q", out)
	}
	for _, label := range []string{"Label", "Server's port", "Environment", "Volume", "Published", "Permissions", "Listens", "Endpoint", "Session TTL", "Stateless", "Trusts", "Allowed"} {
		if strings.Contains(out, label) {
			t.Errorf("%s is shown: %s", label, out)
		}
	}
}
