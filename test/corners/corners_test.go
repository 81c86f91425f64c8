//go:build integration

package corners

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// era is whether requests need a session.
type era string

const (
	sessions  era = "sessions"
	stateless era = "stateless"
	both      era = "both"
)

// server is a kind of server.
type server struct {
	name  string
	maker string   // whose SDK it is
	eras  era      // what it speaks
	argv  []string // starts it on the host; without it only thv can start it
	image string   // which thv runs in a container instead
	args  []string // of what is in the image
	flags []string // of thv run
}

const (
	goSDK       = "Go"
	python2     = "Python 2"
	typescript1 = "TypeScript 1"
	typescript2 = "TypeScript 2"
)

func makers() []string { return []string{goSDK, python2, typescript1, typescript2} }

func servers() []server {
	return []server{
		{name: "sessions", maker: goSDK, eras: sessions, argv: []string{goServer(), "-http", "127.0.0.1:0"}},
		{name: "stateless", maker: goSDK, eras: stateless, argv: []string{goServer(), "-http", "127.0.0.1:0", "-stateless"}},
		{name: "sse", maker: goSDK, eras: sessions, argv: []string{goServer(), "-http", "127.0.0.1:0", "-sse"}, flags: []string{"--transport", "sse"}},
		{name: "container", maker: goSDK, eras: both, image: image, flags: []string{"--transport", "stdio"}},
		{name: "python", maker: python2, eras: both, argv: []string{python("2"), "pyserver/server.py", "-http"}},
		{name: "python container", maker: python2, eras: both, image: pythonImage, flags: []string{"--transport", "stdio"}},
		{name: "typescript", maker: typescript1, eras: sessions, argv: nodeServer("sdk1.mjs", "-http")},
		{name: "typescript sse", maker: typescript1, eras: sessions, argv: nodeServer("sdk1.mjs", "-http", "-sse"), flags: []string{"--transport", "sse"}},
		{name: "typescript container", maker: typescript1, eras: sessions, image: nodeImage, args: inNodeImage("sdk1.mjs"), flags: nodeFlags()},
		{name: "typescript2", maker: typescript2, eras: both, argv: nodeServer("sdk2.mjs", "-http")},
		{name: "typescript2 container", maker: typescript2, eras: both, image: nodeImage, args: inNodeImage("sdk2.mjs"), flags: nodeFlags()},
	}
}

// own is the maker's server that speaks as a client does, "" for none.
func (c client) own(maker string) string {
	type way struct {
		maker, transport string
		stateless        bool
	}
	return map[way]string{
		{goSDK, "streamable", false}:       "sessions",
		{goSDK, "streamable", true}:        "stateless",
		{goSDK, "sse", false}:              "sse",
		{python2, "streamable", false}:     "python",
		{python2, "streamable", true}:      "python",
		{typescript1, "streamable", false}: "typescript",
		{typescript1, "sse", false}:        "typescript sse",
		{typescript2, "streamable", false}: "typescript2",
		{typescript2, "streamable", true}:  "typescript2",
	}[way{maker, c.transport, c.version >= statelessVersion}]
}

// sight is a client with the maker of the server that it sees.
type sight struct{ client, maker string }

// step is what a client saw in one step.
type step struct {
	Step string `json:"step"`
	Got  any    `json:"got"`
}

// lines decodes what a client printed, with KEY in place of the run's key.
func lines(out []byte, key string) ([]step, error) {
	var all []step
	for line := range bytes.Lines(bytes.ReplaceAll(out, []byte(key), []byte("KEY"))) {
		var s step
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("%q is no step: %w", line, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// walk does the steps with a client at a URL.
func walk(ctx context.Context, c client, url, key string) ([]step, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], append(c.argv[1:len(c.argv):len(c.argv)], url, c.transport, c.version, key)...)
	cmd.Env = append(os.Environ(), "CLIENTS_DIR="+cache("clients"), "NO_COLOR=1", "PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", c.name, err, out, stderr.Bytes())
	}
	return lines(out, key)
}

func TestEveryClientWithEveryServer(t *testing.T) {
	if err := prepare(); err != nil {
		t.Fatalf("%v; test/setup/all.sh prepares everything", err)
	}
	p, leave, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := leave(); err != nil {
			t.Error(err)
		}
	})

	direct := map[string]string{} // URLs of servers
	for _, s := range servers() {
		if s.argv != nil {
			direct[s.name] = serve(t, s.argv)
		}
	}
	seen := references(t, direct)

	for _, mode := range []string{"streamable", "sse"} {
		for _, s := range servers() {
			t.Run("at "+mode+" before "+s.name, func(t *testing.T) {
				t.Parallel()
				what := s.image
				if what == "" {
					what = direct[s.name]
				}
				flags := s.flags
				if mode == "sse" {
					flags = append(flags[:len(flags):len(flags)], "--proxy-mode", "sse")
				}
				if s.args != nil {
					flags = append(append(flags[:len(flags):len(flags)], "--"), s.args...)
				}
				url := p.gateway(t, mode+"-"+strings.ReplaceAll(s.name, " ", "-"), what, flags...)
				for _, c := range clients() {
					if c.transport != mode {
						continue
					}
					t.Run(c.name, func(t *testing.T) {
						got, err := walk(t.Context(), c, url, keyOf(t))
						if err != nil {
							t.Fatal(err)
						}
						got = s.spoken(t, got)
						before, ok := seen[sight{c.name, s.maker}]
						switch d := cmp.Diff(before, got); {
						case c.own(s.maker) == "":
							for _, fault := range c.check(s.maker, withoutSpoken(want(c, s.maker)), got) {
								t.Error(fault)
							}
						case !ok:
							t.Error("it was not tried directly")
						case d != "":
							t.Errorf("what it saw directly (-), and through thv (+):\n%s", d)
						}
					})
				}
			})
		}
	}
}

// keyOf returns a short key that is unique to the run.
func keyOf(t *testing.T) string {
	return "k-" + strings.NewReplacer("/", "-", " ", "-", "_", "-", ".", "-").Replace(strings.TrimPrefix(t.Name(), "TestEveryClientWithEveryServer/"))
}

// references has each client do the steps directly at the server that speaks as
// it does, two at a time, and compares that with what is expected.
func references(t *testing.T, direct map[string]string) map[sight][]step {
	seen := map[sight][]step{}
	var mu sync.Mutex
	t.Run("directly", func(t *testing.T) {
		for _, maker := range makers() {
			for _, c := range clients() {
				own := c.own(maker)
				if own == "" {
					continue
				}
				t.Run(own+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					got, err := walk(t.Context(), c, direct[own], keyOf(t))
					if err != nil {
						t.Fatal(err)
					}
					mu.Lock()
					seen[sight{c.name, maker}] = withoutSpoken(got)
					mu.Unlock()
					for _, fault := range c.check(maker, want(c, maker), got) {
						t.Error(fault)
					}
				})
			}
		}
	})
	if t.Failed() {
		t.FailNow() // the rest would fail alike
	}
	return seen
}
