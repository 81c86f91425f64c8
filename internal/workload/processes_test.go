package workload

import (
	"strings"
	"testing"
)

func TestValidateMaxProcesses(t *testing.T) {
	for _, tt := range []struct {
		transport Transport
		n         int
		want      string
	}{
		{Stdio, 0, ""}, {Stdio, 1, ""}, {Stdio, 1024, ""}, {StreamableHTTP, 0, ""},
		{Stdio, -1, "choose 1 to 1024"}, {Stdio, 1025, "choose 1 to 1024"}, {StreamableHTTP, 2, "only a stdio server"},
	} {
		s := &Spec{Schema: Schema, Name: "a", Image: "b", Transport: tt.transport, Proxy: Proxy{Host: "127.0.0.1", Port: 1, Mode: "streamable-http"}, Container: Container{MaxProcesses: tt.n}}
		if tt.transport != Stdio {
			s.TargetHost, s.TargetPort = "127.0.0.1", 1
		}
		err := Validate(s)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s with %d processes: %v, want %q", tt.transport, tt.n, err, tt.want)
		}
	}
}
