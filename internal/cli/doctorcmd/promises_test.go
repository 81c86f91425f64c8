package doctorcmd

import (
	"slices"
	"testing"

	"github.com/toolhaven/toolhaven/internal/container"
)

func TestPromisesThatTheEngineDoesNotEnforce(t *testing.T) {
	good := func() container.Info {
		return container.Info{
			OS: "linux", Socket: "unix:///run/docker.sock", Security: []string{"seccomp,profile=default"},
			LimitsMemory: true, LimitsProcesses: true, LimitsCPUs: true,
		}
	}
	for _, row := range []struct {
		name   string
		change func(*container.Info)
		want   []string // promises that are not enforced
	}{
		{"all are enforced", func(*container.Info) {}, nil},
		{"no system calls are filtered", func(i *container.Info) { i.Security = nil }, []string{"system calls"}},
		{"the filter is switched off", func(i *container.Info) { i.Security = []string{"seccomp,profile=unconfined"} }, []string{"system calls"}},
		{"no limits", func(i *container.Info) { i.LimitsMemory, i.LimitsProcesses = false, false }, []string{"limits"}},
		{"an engine elsewhere", func(i *container.Info) { i.Socket = "tcp://10.0.0.1:2376" }, []string{"hidden paths"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			info := good()
			row.change(&info)
			var got []string
			for _, c := range staticPromises(info) {
				if c.OK {
					continue
				}
				got = append(got, c.Name)
				if c.Advice == "" {
					t.Errorf("%s: no advice", c.Name)
				}
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestRootOutsideIsMentioned(t *testing.T) {
	for _, row := range []struct {
		info    container.Info
		mention bool
	}{
		{container.Info{}, true},
		{container.Info{Rootless: true}, false},
		{container.Info{Security: []string{"userns"}}, false},
	} {
		checks := staticPromises(row.info)
		i := slices.IndexFunc(checks, func(c check) bool { return c.Name == "user" })
		if mention := checks[i].Advice != ""; mention != row.mention {
			t.Errorf("%+v: %+v", row.info, checks[i])
		}
	}
}
