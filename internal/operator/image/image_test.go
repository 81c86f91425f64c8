package image

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// served is a registry with images, and how many requests it received.
func served(t *testing.T, images map[string]v1.Config) (host string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	handler := registry.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if strings.Contains(r.URL.Path, "/private/") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	for path, config := range images {
		img, err := mutate.Config(empty.Image, config)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img); err != nil {
			t.Fatal(err)
		}
	}
	return host, requests
}

func TestEntryPoint(t *testing.T) {
	t.Parallel()
	host, _ := served(t, map[string]v1.Config{
		"both:1":  {Entrypoint: []string{"/server"}, Cmd: []string{"--serve"}},
		"cmd:1":   {Cmd: []string{"node", "index.js"}},
		"none:1":  {},
		"entry:1": {Entrypoint: []string{"/server"}},
	})
	r, err := New(Options{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		image   string
		hasArgs bool
		want    []string
		err     string
	}{
		{"both:1", false, []string{"/server", "--serve"}, ""},
		{"both:1", true, []string{"/server"}, ""}, // arguments of one's own replace the image's
		{"entry:1", true, []string{"/server"}, ""},
		{"cmd:1", false, []string{"node", "index.js"}, ""},
		{"cmd:1", true, []string{"node", "index.js"}, ""},
		{"none:1", false, nil, "names no program"},
		{"missing:1", false, nil, "status 404"},
		{"private/x:1", false, nil, "requires a login"},
	} {
		got, err := r.EntryPoint(t.Context(), host+"/"+row.image, row.hasArgs)
		if !slices.Equal(got, row.want) || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("EntryPoint(%s, %t) = %q, %v", row.image, row.hasArgs, got, err)
		}
	}
	if _, err := r.EntryPoint(t.Context(), "A B", false); err == nil {
		t.Error("a reference that is none is looked up")
	}
}

// A result is used again for an hour, an error for a minute.
func TestEntryPoint_Kept(t *testing.T) {
	t.Parallel()
	host, requests := served(t, map[string]v1.Config{"a:1": {Entrypoint: []string{"/a"}}})
	r, err := New(Options{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.now = func() time.Time { return now }
	ask := func(image string) int64 {
		before := requests.Load()
		_, _ = r.EntryPoint(t.Context(), host+"/"+image, false)
		return requests.Load() - before
	}
	for _, row := range []struct {
		image  string
		after  time.Duration
		asking bool
	}{{"a:1", 0, true}, {"a:1", 59 * time.Minute, false}, {"a:1", 2 * time.Minute, true}, {"b:1", 0, true}, {"b:1", 59 * time.Second, false}, {"b:1", 2 * time.Second, true}} {
		now = now.Add(row.after)
		if n := ask(row.image); (n > 0) != row.asking {
			t.Errorf("%s, %s later: %d requests", row.image, row.after, n)
		}
	}
}

// A user of the cluster must not make the operator connect to this machine.
func TestEntryPoint_Private(t *testing.T) {
	t.Parallel()
	host, requests := served(t, nil)
	r, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := requests.Load()
	_, err = r.EntryPoint(t.Context(), host+"/a:1", false)
	if err == nil || errors.Is(err, ErrNoProgram) || requests.Load() != before {
		t.Errorf("the operator connects to a loopback address: %v", err)
	}
}
