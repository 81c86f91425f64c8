package workload

import (
	"strings"
	"testing"
)

func TestValidationReportsEverything(t *testing.T) {
	s := &Spec{Schema: "x", Name: "A b", Transport: "pigeon", Proxy: Proxy{Port: 0, Mode: "x", EndpointPrefix: "x/", AllowedHosts: []string{"fine.example:1", "*.example", "http://x"}}}
	err := Validate(s)
	for _, want := range []string{"schema", "A b", "pigeon", "neither an image nor", "proxy port", "proxy mode", "host", "endpoint prefix", `"*.example"`, `"http://x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
	if err := Validate(remoteSpec("a")); err != nil {
		t.Error(err)
	}
	own := &Spec{Schema: Schema, Name: "a", Image: "i", Transport: StreamableHTTP, TargetHost: "127.0.0.1", TargetPort: 8080,
		Proxy: remoteSpec("a").Proxy, Container: Container{Publish: []Port{{Host: 9, Container: 8080}}}}
	if err := Validate(own); err == nil || !strings.Contains(err.Error(), "through the gateway only") {
		t.Errorf("publishing the server's own port: %v", err)
	}
}

// What a file, rather than a flag, brought in is checked all the same.
func TestValidationLooksIntoEverything(t *testing.T) {
	good := func() *Spec {
		return &Spec{Schema: Schema, Name: "a", Image: "i", Transport: Stdio, Proxy: remoteSpec("a").Proxy,
			Env: map[string]string{"A": "1"}, SecretEnv: map[string]string{"B": "workload/a/B"},
			Container: Container{Mounts: []Mount{{Host: "/h", Container: "/c"}}, Publish: []Port{{Container: 80}}, Labels: map[string]string{"l": "v"}}}
	}
	if err := Validate(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Spec){
		"NUL byte":                      func(s *Spec) { s.Env["A"] = "\x00" },
		`"A-B"`:                         func(s *Spec) { s.SecretEnv["A-B"] = "workload/a/X" },
		"a value and as a secret":       func(s *Spec) { s.Env["B"] = "1" },
		"not a secret of workload":      func(s *Spec) { s.SecretEnv["B"] = "workload/b/B" },
		"the host path is not absolute": func(s *Spec) { s.Container.Mounts[0].Host = "h" },
		"/.thv in the container":        func(s *Spec) { s.Container.Mounts[0].Container = "/.thv/x" },
		"shortest form":                 func(s *Spec) { s.Container.Mounts[0].Container = "/c/../.thv" },
		"the container's root":          func(s *Spec) { s.Container.Mounts[0].Container = "/" },
		"relabel":                       func(s *Spec) { s.Container.Mounts[0].Relabel = "y" },
		"mounted twice":                 func(s *Spec) { s.Container.Mounts = append(s.Container.Mounts, s.Container.Mounts[0]) },
		"/proc in the container":        func(s *Spec) { s.Container.Mounts[0].Container = "/proc/sys" },
		"/sys in the container":         func(s *Spec) { s.Container.Mounts[0].Container = "/sys" },
		"/dev cannot be mounted over":   func(s *Spec) { s.Container.Mounts[0].Container = "/dev" },
		"--pids-limit":                  func(s *Spec) { s.Container.PIDsLimit = 1 },
		"not an IP address":             func(s *Spec) { s.Container.Publish[0].Address = "localhost" },
		"publish 0:0":                   func(s *Spec) { s.Container.Publish[0].Container = 0 },
		"are ours":                      func(s *Spec) { s.Container.Labels["dev.toolhaven.x"] = "y" },
		"one line":                      func(s *Spec) { s.Container.Labels["l"] = "a\nb" },
		"not a network's name":          func(s *Spec) { s.Container.Network = "a b" },
		"target port":                   func(s *Spec) { s.TargetPort = 1 },
		"target host":                   func(s *Spec) { s.TargetHost = "x" },
	} {
		s := good()
		spoil(s)
		if err := Validate(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
	remote := remoteSpec("a")
	remote.Remote.Headers = map[string]string{"X": "a\r\nb"}
	remote.Remote.SecretHeaders = map[string]string{"Y": "workload/b/Y", "bad name": "workload/a/Z"}
	err := Validate(remote)
	for _, want := range []string{`header "X"`, `header "bad name"`, "not a secret of workload"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}

func remoteSpec(name string) *Spec {
	return &Spec{
		Schema: Schema, Name: name,
		Source:    Source{Kind: "remote", Ref: "http://127.0.0.1:1/mcp"},
		Remote:    &Remote{URL: "http://127.0.0.1:1/mcp"},
		Transport: StreamableHTTP,
		Proxy:     Proxy{Host: "127.0.0.1", Port: 20001, Mode: "streamable-http"},
	}
}
