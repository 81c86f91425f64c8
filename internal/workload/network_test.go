package workload

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNetworkRulesTellRequestsFromLimits(t *testing.T) {
	for name, c := range map[string]struct {
		container string // of the Spec, as JSON
		network   string
		enforced  string
		requested string // not enforced
		caution   []string
	}{
		"the profile network":       {`{"permissions":{"network":{"outbound":{"insecure_allow_all":true}}}}`, "thv", "connects to any address", "", nil},
		"hosts beside everything":   {`{"permissions":{"network":{"outbound":{"insecure_allow_all":true,"allow_host":["a.test"]}}}}`, "thv", "connects to any address", "", nil},
		"the profile none":          {`{"permissions":{"network":{"outbound":{}}}}`, "none", "connects to nothing", "", nil},
		"no network section":        {`{"permissions":{"name":"x"}}`, "none", "connects to nothing", "", nil},
		"hosts":                     {`{"permissions":{"network":{"outbound":{"allow_host":["a.test",".b.test"]}}}}`, "thv", "", "connects to a.test, .b.test", []string{"the registry", "requested, not enforced", "any address; --isolate-network enforces it"}},
		"hosts and ports":           {`{"permissions":{"network":{"outbound":{"allow_host":["a.test"],"allow_port":[443,80]}}}}`, "thv", "", "connects to a.test on ports 443, 80", []string{"requested, not enforced"}},
		"ports":                     {`{"permissions":{"network":{"outbound":{"allow_port":[443]}}}}`, "thv", "", "connects to any host on ports 443", []string{"requested, not enforced"}},
		"hosts, no network":         {`{"network":"none","permissions":{"network":{"outbound":{"allow_host":["a.test"]}}}}`, "none", "connects to nothing", "", nil},
		"hosts, mode none":          {`{"permissions":{"network":{"mode":"none","outbound":{"allow_host":["a.test"]}}}}`, "none", "connects to nothing", "", nil},
		"hosts, the host's network": {`{"network":"host","permissions":{"network":{"outbound":{"allow_host":["a.test"]}}}}`, "host", "", "connects to a.test", []string{"any address"}},
		"nothing, but a port":       {`{"publish":[{"host":0,"container":9000}],"permissions":{"network":{"outbound":{}}}}`, "thv", "", "connects to nothing", []string{"-p gives", "any address"}},
		"nothing, but a network":    {`{"network":"mine","permissions":{"network":{"outbound":{}}}}`, "mine", "", "connects to nothing", []string{"the network mine reaches"}},
		"names to be reached under": {`{"permissions":{"network":{"outbound":{"insecure_allow_all":true},"inbound":{"allow_host":["c.test"]}}}}`, "thv", "connects to any address", "reached as c.test", []string{"--allowed-hosts"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Spec{Proxy: Proxy{Host: "127.0.0.1"}}
			if err := json.Unmarshal([]byte(c.container), &s.Container); err != nil {
				t.Fatal(err)
			}
			if got := s.NetworkName(); got != c.network {
				t.Errorf("on the network %q, want %q", got, c.network)
			}
			var enforced, requested []string
			for _, rule := range s.NetworkRules() {
				if rule.Enforced {
					enforced = append(enforced, rule.Text)
				} else {
					requested = append(requested, rule.Text)
				}
			}
			if got := strings.Join(enforced, "; "); got != c.enforced {
				t.Errorf("enforced: %q, want %q", got, c.enforced)
			}
			if got := strings.Join(requested, "; "); got != c.requested {
				t.Errorf("requested: %q, want %q", got, c.requested)
			}
			cautions := s.Cautions("the registry")
			if len(cautions) != min(1, len(c.caution)) {
				t.Fatalf("cautions: %q", cautions)
			}
			for _, want := range c.caution {
				if !strings.Contains(cautions[0], want) {
					t.Errorf("%q does not contain %q", cautions[0], want)
				}
			}
		})
	}
	remote := &Spec{Remote: &Remote{URL: "https://x/"}, Proxy: Proxy{Host: "127.0.0.1"}}
	if got := remote.Cautions("the registry"); len(got) > 0 {
		t.Errorf("a remote server: %q", got)
	}
}

func TestNetworkRules_Isolated(t *testing.T) {
	for name, c := range map[string]struct{ container, network, enforced string }{
		"the profile network": {`{"permissions":{"network":{"outbound":{"insecure_allow_all":true}}}}`, "none", "connects to any public address"},
		"all, some ports":     {`{"permissions":{"network":{"outbound":{"insecure_allow_all":true,"allow_host":["10.0.0.1"],"allow_port":[443]}}}}`, "none", "connects to any public address, 10.0.0.1 on ports 443"},
		"the profile none":    {`{"permissions":{"network":{"outbound":{}}}}`, "none", "connects to nothing"},
		"no network section":  {`{}`, "none", "connects to nothing"},
		"an empty list":       {`{"permissions":{"network":{"outbound":{"allow_host":[],"allow_port":[443]}}}}`, "none", "connects to nothing"},
		"hosts and ports":     {`{"permissions":{"network":{"outbound":{"allow_host":["a.test",".b.test"],"allow_port":[443,80]}}}}`, "none", "connects to a.test, .b.test on ports 443, 80"},
		"a published port":    {`{"publish":[{"host":0,"container":9000}],"permissions":{"network":{"outbound":{"allow_host":["a.test"]}}}}`, "thv", "connects to a.test"},
		"the gateway":         {`{"allowDockerGateway":true,"permissions":{"network":{"outbound":{}}}}`, "none", "connects to nothing; connects to this machine, as host.docker.internal"},
		"the mode none":       {`{"network":"none","permissions":{"network":{"outbound":{"allow_host":["a.test"]}}}}`, "none", "connects to nothing"},
	} {
		s := &Spec{}
		if err := json.Unmarshal([]byte(c.container), &s.Container); err != nil {
			t.Fatal(err)
		}
		s.Container.IsolateNetwork = true
		var enforced []string
		for _, rule := range s.NetworkRules() {
			if !rule.Enforced {
				t.Errorf("%s: %q is not enforced", name, rule.Text)
			}
			enforced = append(enforced, rule.Text)
		}
		if got := strings.Join(enforced, "; "); got != c.enforced || s.NetworkName() != c.network {
			t.Errorf("%s: %q on the network %q", name, got, s.NetworkName())
		}
		if err := validateIsolation(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidate_Isolation(t *testing.T) {
	for container, want := range map[string]string{
		`{"allowDockerGateway":true}`:                                                                      "applies only with isolate-network",
		`{"isolateNetwork":true,"network":"host"}`:                                                         `the network "host" is not one that can be isolated`,
		`{"isolateNetwork":true,"permissions":{"network":{"mode":"mine"}}}`:                                `the network "mine"`,
		`{"isolateNetwork":true,"permissions":{"privileged":true}}`:                                        "privileged",
		`{"isolateNetwork":true,"permissions":{"network":{"outbound":{"allow_host":["https://a.test"]}}}}`: `host "https://a.test": not a`,
	} {
		s := &Spec{}
		if err := json.Unmarshal([]byte(container), &s.Container); err != nil {
			t.Fatal(err)
		}
		if err := validateIsolation(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", container, err)
		}
	}
}

func TestAGatewayThatIsNotOnLoopbackIsACaution(t *testing.T) {
	for host, open := range map[string]bool{
		"127.0.0.1": false, "127.0.0.2": false, "::1": false, "localhost": false,
		"0.0.0.0": true, "::": true, "192.0.2.1": true, "tools.example": true,
	} {
		s := &Spec{Remote: &Remote{URL: "https://x/"}, Proxy: Proxy{Host: host, Port: 24386}}
		got := strings.Join(s.Cautions(""), " ")
		if strings.Contains(got, "no authentication") != open || strings.Contains(got, "port 24386") != open {
			t.Errorf("--host %s: %q", host, got)
		}
	}
}
