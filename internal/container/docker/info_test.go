package docker

import (
	"net/http"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
)

// Podman reports in its own API only what it can enforce without privileges.
func TestALimitThatTheEngineWouldLeaveOutIsRefused(t *testing.T) {
	const limited = `{"MemoryLimit":true,"PidsLimit":true,"CpuCfsQuota":true,"CgroupVersion":"1"}`
	podman := func(host string) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{
			"GET /version": responds(200, `{"Components":[{"Name":"Podman Engine","Version":"4.3.1"}]}`), "GET /info": responds(200, limited),
			"GET /v4.0.0/libpod/info": responds(200, `{"host":`+host+`}`),
		}
	}
	all := container.Config{Name: "a", Image: "i", Network: "none", Memory: 1 << 30, Pids: 100, NanoCPUs: 1e9}
	for name, c := range map[string]struct {
		routes   map[string]http.HandlerFunc
		cfg      container.Config
		rootless bool
		want     string
	}{
		"Docker":                {map[string]http.HandlerFunc{"GET /version": responds(200, `{}`), "GET /info": responds(200, limited)}, all, false, ""},
		"Docker without limits": {map[string]http.HandlerFunc{"GET /version": responds(200, `{}`), "GET /info": responds(200, `{"SecurityOptions":["name=rootless"]}`)}, all, true, "cannot limit memory, processes, processors"},
		"Podman":                {podman(`{"cgroupControllers":["cpu","memory","pids"]}`), all, false, ""},
		"rootless Podman":       {podman(`{"security":{"rootless":true},"cgroupControllers":["memory","pids"]}`), all, true, "cannot limit processors"},
		"with cgroup 1":         {podman(`{"security":{"rootless":true},"cgroupControllers":[]}`), container.Config{Name: "a", Image: "i", Network: "none", Pids: 100}, true, "cannot limit processes (cgroup 1, rootless: true)"},
		"with the defaults":     {podman(`{"security":{"rootless":true}}`), container.Config{Name: "a", Image: "i", Network: "none"}, true, ""},
	} {
		c.routes["POST /containers/create"] = responds(201, `{"Id":"x"}`)
		e := connect(t, fakeEngine(c.routes))
		if info, err := e.Info(t.Context()); err != nil || info.Rootless != c.rootless {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		_, err := e.Create(t.Context(), c.cfg)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
