package docker

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/container"
)

// createRequest is the part of a request to create a container that is tested.
type createRequest struct {
	OpenStdin, StdinOnce, Tty bool
	User                      string
	HostConfig                struct {
		CapDrop, CapAdd, SecurityOpt, Binds []string
		Memory                              int64
		PidsLimit                           *int64
		NanoCPUs                            int64 `json:"NanoCpus"`
		Privileged, AutoRemove              bool
		Init                                *bool
		NetworkMode                         string
		Sysctls                             map[string]string
		LogConfig                           struct{ Type string }
		RestartPolicy                       struct{ Name string }
		Mounts                              []struct {
			Type, Source, Target string
			ReadOnly             bool
		}
		StorageOpt   map[string]string
		PortBindings map[string][]struct{ HostIP, HostPort string }
	}
}

// creator records the requests it answers.
func creator(t *testing.T, answers ...http.HandlerFunc) (*Engine, *[]createRequest) {
	t.Helper()
	var got []createRequest
	e := connect(t, fakeEngine(map[string]http.HandlerFunc{
		"GET /version": responds(200, `{}`), "GET /info": responds(200, `{"MemoryLimit":true,"PidsLimit":true,"CpuCfsQuota":true}`), "POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
			var a createRequest
			if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			got = append(got, a)
			answers[min(len(got), len(answers))-1](w, r)
		}}))
	return e, &got
}

func TestEveryContainerIsHardened(t *testing.T) {
	dir := t.TempDir()
	e, got := creator(t, responds(201, `{"Id":"x"}`))
	plain := container.Config{
		Name: "a", Image: "i", Network: "none",
		Mounts:  []container.Mount{{Source: dir, Target: "/m", ReadOnly: true}, {Source: dir, Target: "/n", ReadOnly: true, Relabel: "Z"}, {Source: dir, Target: "/o", Relabel: "z"}},
		Publish: []container.Port{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 8081, HostIP: "::1"}},
	}
	if _, err := e.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	privileged := container.Config{Name: "a", Image: "i", Privileged: true, Memory: 1 << 20, Pids: 5, NanoCPUs: 5e8}
	if _, err := e.Create(t.Context(), privileged); err != nil {
		t.Fatal(err)
	}
	a := (*got)[0]
	h := a.HostConfig
	if !a.OpenStdin || !a.StdinOnce || a.Tty || a.User != "" || len(h.CapAdd) != 0 || h.Privileged || h.AutoRemove || *h.Init || h.NetworkMode != "none" || h.LogConfig.Type != "none" || h.RestartPolicy.Name != "no" ||
		h.Memory != 2<<30 || *h.PidsLimit != 1024 {
		t.Errorf("%+v", a)
	}
	if diff := cmp.Diff([][]string{{"ALL"}, {"no-new-privileges"}, {dir + ":/n:ro,Z", dir + ":/o:z"}}, [][]string{h.CapDrop, h.SecurityOpt, h.Binds}); diff != "" {
		t.Error(diff)
	}
	if len(h.Mounts) != 1 || h.Mounts[0].Type != "bind" || h.Mounts[0].Source != dir || !h.Mounts[0].ReadOnly {
		t.Errorf("mounts %+v", h.Mounts)
	}
	if diff := cmp.Diff(map[string][]struct{ HostIP, HostPort string }{"80/tcp": {{"127.0.0.1", ""}}, "81/tcp": {{"::1", "8081"}}}, h.PortBindings); diff != "" {
		t.Error(diff)
	}
	p := (*got)[1].HostConfig
	if !p.Privileged || len(p.CapDrop) != 0 || p.Memory != 1<<20 || *p.PidsLimit != 5 || p.NanoCPUs != 5e8 {
		t.Errorf("privileged: %+v", p)
	}
}

func TestAnEntryPointThatSetsUp(t *testing.T) {
	e, got := creator(t, responds(201, `{"Id":"x"}`))
	if _, err := e.Create(t.Context(), container.Config{Name: "a", Image: "i", Network: "n", SetUp: true}); err != nil {
		t.Fatal(err)
	}
	a := (*got)[0]
	h := a.HostConfig
	want := [][]string{{"0:0"}, {"ALL"}, {"CAP_CHOWN", "CAP_NET_ADMIN", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"}, {"no-new-privileges"}}
	if diff := cmp.Diff(want, [][]string{{a.User}, h.CapDrop, h.CapAdd, h.SecurityOpt}); diff != "" {
		t.Error(diff)
	}
	if _, err := e.Create(t.Context(), container.Config{Name: "a", Image: "i", Network: "none", SetUp: true, IPv6: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"net.ipv6.conf.all.disable_ipv6": "0"}, (*got)[1].HostConfig.Sysctls); h.Sysctls != nil || diff != "" {
		t.Error(diff)
	}
}

func TestWhatMustNotReachTheEngine(t *testing.T) {
	dir := t.TempDir()
	colon := filepath.Join(dir, "a:b")
	if err := os.Mkdir(colon, 0o700); err != nil {
		t.Fatal(err)
	}
	mount := func(m container.Mount) container.Config { return container.Config{Mounts: []container.Mount{m}} }
	port := func(p container.Port) container.Config { return container.Config{Publish: []container.Port{p}} }
	e, got := creator(t, responds(201, `{"Id":"x"}`))
	for name, c := range map[string]container.Config{
		"to set up another's network":   {Network: "container:other", SetUp: true},
		"a network that is no name":     {Network: "a b"},
		"to set up the host's network":  {Network: "host", SetUp: true},
		"to set up an unnamed network":  {SetUp: true},
		"to set up while privileged":    {Network: "n", SetUp: true, Privileged: true},
		"memory below zero":             {Memory: -1},
		"processes without limit":       {Pids: -1},
		"a mount of nothing":            mount(container.Mount{Source: filepath.Join(dir, "none"), Target: "/m"}),
		"a relative source":             mount(container.Mount{Source: "x", Target: "/m"}),
		"a relative target":             mount(container.Mount{Source: dir, Target: "m"}),
		"an option in place of a label": mount(container.Mount{Source: dir, Target: "/m", Relabel: "rw,shared"}),
		"a label and a colon":           mount(container.Mount{Source: colon, Target: "/m", Relabel: "z"}),
		"port 0":                        port(container.Port{}),
		"port 65536":                    port(container.Port{ContainerPort: 65536}),
		"a host port below zero":        port(container.Port{ContainerPort: 80, HostPort: -1}),
		"a host address that is none":   port(container.Port{ContainerPort: 80, HostIP: "localhost"}),
	} {
		c.Name, c.Image = "a", "i"
		if _, err := e.Create(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), "create container a: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(*got) != 0 {
		t.Errorf("the engine received %+v", *got)
	}
}

func TestCreateFailures(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"the name is taken, on Docker": {responds(409, `{"message":"Conflict. The container name \"/a\" is already in use"}`), container.ErrNameTaken},
		"the name is taken, on Podman": {responds(500, `{"message":"creating container storage: the container name is already in use by 1: that name is already in use"}`), container.ErrNameTaken},
		"no such image":                {responds(404, `{"message":"No such image: i"}`), container.ErrNotFound},
	} {
		e, _ := creator(t, c.answer)
		_, err := e.Create(t.Context(), container.Config{Name: "a", Image: "i"})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDefaultLimitsAreDroppedOnAnEngineWithoutCgroups(t *testing.T) {
	refuse := responds(500, `{"message":"resource limits are not supported on cgroups V1 rootless systems"}`)
	e, got := creator(t, refuse, responds(201, `{"Id":"x"}`))
	if _, err := e.Create(t.Context(), container.Config{Name: "a", Image: "i"}); err != nil {
		t.Fatal(err)
	}
	if len(*got) != 2 || (*got)[0].HostConfig.Memory == 0 || (*got)[1].HostConfig.Memory != 0 || len((*got)[1].HostConfig.CapDrop) != 1 {
		t.Errorf("%+v", *got)
	}
	e, got = creator(t, refuse)
	if _, err := e.Create(t.Context(), container.Config{Name: "a", Image: "i", Memory: 1 << 20}); err == nil || len(*got) != 1 {
		t.Errorf("a limit that was requested was dropped: %v", err)
	}
}

// Storage that has quotas bounds a container's layer; where that fails (XFS without project
// quotas) the container is made without.
func TestDiskQuota(t *testing.T) {
	for name, row := range map[string]struct {
		info   string
		disk   int64
		refuse bool
		want   []string // the size of each request
	}{
		"overlay on ext4":     {`{"Driver":"overlay2","DriverStatus":[["Backing Filesystem","extfs"]]}`, 50 << 20, false, []string{""}},
		"overlay on XFS":      {`{"Driver":"overlay2","DriverStatus":[["Backing Filesystem","xfs"]]}`, 50 << 20, false, []string{"52428800"}},
		"XFS without quotas":  {`{"Driver":"overlay2","DriverStatus":[["Backing Filesystem","xfs"]]}`, 50 << 20, true, []string{"52428800", ""}},
		"btrfs":               {`{"Driver":"btrfs"}`, 50 << 20, false, []string{"52428800"}},
		"the default, on ZFS": {`{"Driver":"zfs"}`, 0, false, []string{""}},
	} {
		var sizes []string
		e := connect(t, fakeEngine(map[string]http.HandlerFunc{
			"GET /version": responds(200, `{}`), "GET /info": responds(200, row.info),
			"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
				var a createRequest
				if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
					t.Error(err)
				}
				size := a.HostConfig.StorageOpt["size"]
				if sizes = append(sizes, size); size != "" && row.refuse {
					responds(500, `{"message":"--storage-opt is supported only for overlay over xfs with 'pquota' mount option"}`)(w, r)
					return
				}
				responds(201, `{"Id":"x"}`)(w, r)
			},
		}))
		if _, err := e.Create(t.Context(), container.Config{Name: "c", Image: "i", Network: "none", Disk: row.disk}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(row.want, sizes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
