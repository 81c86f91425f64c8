package workload

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWhatNothingEnforcesIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		container string // of the Spec, as JSON
		network   string
		says      []string // in the one sentence; none: nothing is said
	}{
		"the profile network":       {`{"permissions":{"network":{"outbound":{"insecure_allow_all":true}}}}`, "thv", nil},
		"hosts beside everything":   {`{"permissions":{"network":{"outbound":{"insecure_allow_all":true,"allow_host":["a.test"]}}}}`, "thv", nil},
		"the profile none":          {`{"permissions":{"network":{"outbound":{}}}}`, "none", nil},
		"no network section":        {`{"permissions":{"name":"x"}}`, "none", nil},
		"hosts":                     {`{"permissions":{"network":{"outbound":{"allow_host":["a.test",".b.test"]}}}}`, "thv", []string{"the registry lists", "(a.test, .b.test)", "only with --isolate-network", "any address"}},
		"hosts and ports":           {`{"permissions":{"network":{"outbound":{"allow_host":["a.test"],"allow_port":[443,80]}}}}`, "thv", []string{"(a.test on ports 443, 80)"}},
		"ports":                     {`{"permissions":{"network":{"outbound":{"allow_port":[443]}}}}`, "thv", []string{"(any host on ports 443)"}},
		"hosts, no network":         {`{"network":"none","permissions":{"network":{"outbound":{"allow_host":["a.test"]}}}}`, "none", nil},
		"hosts, mode none":          {`{"permissions":{"network":{"mode":"none","outbound":{"allow_host":["a.test"]}}}}`, "none", nil},
		"hosts, the host's network": {`{"network":"host","permissions":{"network":{"outbound":{"allow_host":["a.test"]}}}}`, "host", []string{"(a.test)"}},
		"nothing, but a port":       {`{"publish":[{"host":0,"container":9000}],"permissions":{"network":{"outbound":{}}}}`, "thv", []string{"allows the server no connections", "-p gives", "any address"}},
		"nothing, but a network":    {`{"network":"mine","permissions":{"network":{"outbound":{}}}}`, "mine", []string{"no connections", "the network mine gives"}},
		"names to be reached under": {`{"permissions":{"network":{"outbound":{"insecure_allow_all":true},"inbound":{"allow_host":["c.test"]}}}}`, "thv", []string{"(c.test)", "local clients"}},
	} {
		t.Run(name, func(t *testing.T) {
			var s Spec
			if err := json.Unmarshal([]byte(c.container), &s.Container); err != nil {
				t.Fatal(err)
			}
			if got := s.NetworkName(); got != c.network {
				t.Errorf("on the network %q, want %q", got, c.network)
			}
			notes := s.Unenforced("the registry")
			if len(notes) != min(1, len(c.says)) {
				t.Fatalf("said: %q", notes)
			}
			for _, want := range c.says {
				if !strings.Contains(notes[0], want) {
					t.Errorf("%q does not say %q", notes[0], want)
				}
			}
		})
	}
	remote := &Spec{Remote: &Remote{URL: "https://x/"}}
	if notes := remote.Unenforced("the registry"); len(notes) > 0 {
		t.Errorf("of a remote server: %q", notes)
	}
}
