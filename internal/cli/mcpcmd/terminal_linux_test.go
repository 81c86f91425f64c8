package mcpcmd_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/cli"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
	"github.com/toolhaven/toolhaven/internal/cli/ptytest"
)

func TestElicitationAtATerminal(t *testing.T) {
	const schema = `{"type":"object","required":["name"],"properties":{
		"name":{"type":"string"},"age":{"type":"integer","description":"in years"},"colour":{"type":"string","enum":["red","blue"],"default":"blue"},
		"sizes":{"type":"array","items":{"type":"string","enum":["s","m"]}},"sure":{"type":"boolean"}}}`
	for _, protocol := range []string{"session", "stateless"} {
		at := askingServer(t, protocol == "stateless", schema)
		for name, c := range map[string]struct {
			dialogue [][2]string // shown, typed
			want     string
		}{
			"accepted": {[][2]string{
				{"The server asks: Who are you?", ""}, {"Answer it? [y/N]: ", "y\n"},
				{"age (integer; optional) in years: ", "x\n"}, {"write it as JSON", "7\n"}, {"colour (string of red, blue; optional; default \"blue\"): ", "\n"},
				{"name (string): ", "\n"}, {"\r\nname (string): ", "Ann\n"}, {"sizes (array of s, m; optional): ", "[\"s\"]\n"}, {"sure (boolean; optional): ", "true\n"},
			}, `accept {"age":7,"colour":"blue","name":"Ann","sizes":["s"],"sure":true}` + "\n"},
			"declined":         {[][2]string{{"[y/N]: ", "n\n"}}, "decline null\n"},
			"the input ended":  {[][2]string{{"[y/N]: ", "\x04"}}, "cancel null\n"},
			"ended in a field": {[][2]string{{"[y/N]: ", "y\n"}, {"age (integer; optional) in years: ", "\x04"}}, "cancel null\n"},
		} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				s := ptytest.New(t)
				app := clitest.App(t)
				var out bytes.Buffer
				app.In, app.Err, app.Out = s.TTY, s.TTY, &out
				root := cli.Root(app)
				root.SetArgs([]string{"mcp", "call", at, "form", "--protocol", protocol})
				done := make(chan error, 1)
				go func() { done <- root.ExecuteContext(t.Context()) }()
				for _, step := range c.dialogue {
					s.Shows(t, step[0])
					io.WriteString(s.Person, step[1])
				}
				if err := <-done; err != nil || out.String() != c.want {
					t.Errorf("%v: %q, want %q", err, out.String(), c.want)
				}
			})
		}
	}
}

func TestElicitation_Interrupt(t *testing.T) {
	for _, protocol := range []string{"session", "stateless"} {
		at := askingServer(t, protocol == "stateless", `{"type":"object"}`)
		s := ptytest.New(t)
		app := clitest.App(t)
		app.In, app.Err, app.Out = s.TTY, s.TTY, io.Discard
		ctx, cancel := context.WithCancel(t.Context())
		root := cli.Root(app)
		root.SetArgs([]string{"mcp", "call", at, "form", "--protocol", protocol})
		done := make(chan error, 1)
		go func() { done <- root.ExecuteContext(ctx) }()
		s.Shows(t, "[y/N]: ")
		cancel()
		if err := <-done; base.ExitCode(err) != base.ExitInterrupted {
			t.Errorf("--protocol %s: %v", protocol, err)
		}
		io.WriteString(s.Person, "\n") // lets the read end
	}
}

func TestContentOnATerminal(t *testing.T) {
	at := storyServer(t)
	for _, c := range [][3]string{
		{"read", "story://made/text", "a\nbc\n"}, {"read", "story://made/bytes", "[image/png, 5 bytes; not shown on a terminal, write it to a file]\n"},
		{"call", "text", "a\nb\n"}, {"call", "image", "[image, image/png, 3 bytes]\n"},
	} {
		s := ptytest.New(t)
		app := clitest.App(t)
		app.Err, app.Out = s.TTY, s.TTY
		root := cli.Root(app)
		root.SetArgs([]string{"mcp", c[0], at, c[1]})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.Shows(t, strings.ReplaceAll(c[2], "\n", "\r\n")); got != c[2] {
			t.Errorf("mcp %s %s shows %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestInfo_InstructionsOnATerminal(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "wordy", Version: "1"}, &sdk.ServerOptions{Instructions: "First.\n\nSecond."})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer h.Close()
	defer h.CloseClientConnections()
	s := ptytest.New(t)
	app := clitest.App(t)
	app.Out = s.TTY
	root := cli.Root(app)
	root.SetArgs([]string{"mcp", "info", h.URL})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Shows(t, "Second.\r\n"); !strings.HasSuffix(got, "\n\nINSTRUCTIONS\nFirst.\n\nSecond.\n") {
		t.Errorf("info shows %q", got)
	}
}
