package docker

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/jsonstream"

	"github.com/toolhaven/toolhaven/internal/container"
)

func TestAnEnginesMessagesAreBoundedAndTheirErrorsSurface(t *testing.T) {
	for name, c := range map[string]struct{ stream, want string }{
		"nothing":                   {"", ""},
		"progress":                  {`{"status":"a"}{"status":"b"}`, ""},
		"Docker's error":            {`{"stream":"Step 1\n"}{"error":"x","errorDetail":{"message":"it failed"}}`, "it failed"},
		"Podman's error":            {`{"status":"a"}` + "\n" + `{"error":"it failed"}`, "it failed"},
		"an error without words":    {`{"errorDetail":{"code":1},"error":"it failed"}`, "it failed"},
		"a failure without words":   {`{"errorDetail":{}}`, "without a reason"},
		"no JSON":                   {"not json", "cannot be read"},
		"a wrong type":              {`{"status":7}`, "cannot be read"},
		"a stream that is cut":      {`{"status":`, "cannot be read"},
		"a message without an end":  {`{"stream":"` + strings.Repeat("x", maxMessage+1<<20) + `"}`, "longer than"},
		"white space without end":   {strings.Repeat(" ", maxMessage+1<<20) + `{"error":"x"}`, "longer than"},
		"a bomb of nested brackets": {`{"aux":` + strings.Repeat("[", 1<<20), "cannot be read"},
	} {
		err := messages(strings.NewReader(c.stream), func(jsonstream.Message) {})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(`{"status":"Downloading","progressDetail":{"current":1,"total":2},"id":"a"}`)
	f.Add(`{"error":"x","errorDetail":{"message":"y"}}`)
	f.Fuzz(func(t *testing.T, stream string) {
		err := messages(strings.NewReader(stream), func(m jsonstream.Message) {
			p := progressOf(m)
			if p.Current < 0 || p.Total < 0 || strings.ContainsAny(p.Status+p.ID, "\x1b\x07\r") {
				t.Errorf("%+v", p)
			}
		})
		if err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}

func TestPullReportsWhatHappened(t *testing.T) {
	image := responds(200, `{"Id":"sha256:1"}`)
	for name, c := range map[string]struct {
		answer, image http.HandlerFunc
		want          string // of the error
		notFound      bool
	}{
		"it worked":                        {responds(200, `{"status":"Pulling"}{"status":"Downloading","id":"l1","progressDetail":{"current":5,"total":9}}`), image, "", false},
		"it reports success and has none":  {responds(200, `{"status":"Done"}`), responds(404, `{"message":"No such image"}`), "reported no error", true},
		"the registry has none":            {responds(404, `{"message":"manifest for r.example/a:1 not found: manifest unknown"}`), image, "docker login r.example", true},
		"the registry has none, on Podman": {responds(200, `{"status":"Trying"}{"error":"reading manifest: manifest unknown"}`), image, "check the name and tag", true},
		"a login is needed":                {responds(500, `{"message":"Head \"https://r.example/v2\": unauthorized: authentication required"}`), image, "log in with `docker login r.example`", false},
		"the stream breaks off":            {responds(200, `{"status":`), image, "cannot be read", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := connect(t, fakeEngine(map[string]http.HandlerFunc{"/images/create": c.answer, "/images/r.example/a:1/json": c.image}))
			var steps []container.Progress
			err := e.Pull(t.Context(), "r.example/a:1", func(p container.Progress) { steps = append(steps, p) })
			if c.want == "" {
				want := []container.Progress{{Status: "Pulling"}, {ID: "l1", Status: "Downloading", Current: 5, Total: 9}}
				if diff := cmp.Diff(want, steps); err != nil || diff != "" {
					t.Error(err, diff)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, container.ErrNotFound) != c.notFound {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLoadAndBuildBelieveNoSilence(t *testing.T) {
	e := connect(t, fakeEngine(map[string]http.HandlerFunc{
		"/images/load": responds(200, `{"error":"no space left"}`),
		"/build":       responds(200, `{"stream":"Step 1/1 : FROM \u001b[2Jx\n"}`),
	}))
	if err := e.Load(t.Context(), strings.NewReader("")); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("load: %v", err)
	}
	var log []string
	err := e.Build(t.Context(), container.Build{Context: strings.NewReader(""), Tags: []string{"a:1"}, Log: func(l string) { log = append(log, l) }})
	if err == nil || !strings.Contains(err.Error(), "without an image") || !strings.Contains(err.Error(), "FROM x") {
		t.Errorf("build: %v", err)
	}
	if diff := cmp.Diff([]string{"Step 1/1 : FROM x"}, log); diff != "" {
		t.Error(diff)
	}
}
