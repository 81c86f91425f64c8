package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestAPersonFillsInAServersForm(t *testing.T) {
	const schema = `{"type":"object","required":["name"],"properties":{
		"name":{"type":"string"},"age":{"type":"integer","description":"in years"},"colour":{"type":"string","enum":["red","blue"],"default":"blue"}}}`
	for _, protocol := range []string{"session", "stateless"} {
		at := askingServer(t, protocol == "stateless", schema)
		for name, c := range map[string]struct {
			dialogue [][2]string // what the screen shows, what is typed
			want     string
		}{
			"accepted": {[][2]string{
				{"The server asks: Who are you?", ""}, {"[c]ancel: ", "what\n"}, {"what\r\nAnswer it?", "y\n"},
				{"  name (string): ", "\n"}, {"this is required", "Ann\n"}, {"  age (integer, optional) in years: ", "x\n"}, {"write a whole number", "7\n"},
				{"  colour (one of the choices, optional)\r\n    1) red\r\n    2) blue\r\n    [\"blue\"]: ", "\n"},
			}, `accept {"age":7,"colour":"blue","name":"Ann"}` + "\n"},
			"declined":           {[][2]string{{"[c]ancel: ", "n\n"}}, "decline null\n"},
			"cancelled":          {[][2]string{{"[c]ancel: ", "c\n"}}, "cancel null\n"},
			"the input ended":    {[][2]string{{"[c]ancel: ", "\x04"}}, "cancel null\n"},
			"ended in its midst": {[][2]string{{"[c]ancel: ", "y\n"}, {"name (string): ", "\x04"}}, "cancel null\n"},
		} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				s := newScreen(t)
				app := testApp(t)
				var out bytes.Buffer
				app.In, app.Err, app.Out = s.tty, s.tty, &out
				root := Root(app)
				root.SetArgs([]string{"mcp", "call", at, "form", "--protocol", protocol})
				done := make(chan error, 1)
				go func() { done <- root.ExecuteContext(t.Context()) }()
				for _, step := range c.dialogue {
					s.shows(t, step[0])
					io.WriteString(s.person, step[1])
				}
				if err := <-done; err != nil || out.String() != c.want {
					t.Errorf("%v: %q, want %q", err, out.String(), c.want)
				}
			})
		}
	}
}

func TestCtrlCAtAServersFormEndsTheCall(t *testing.T) {
	for _, protocol := range []string{"session", "stateless"} {
		at := askingServer(t, protocol == "stateless", `{"type":"object"}`)
		s := newScreen(t)
		app := testApp(t)
		app.In, app.Err, app.Out = s.tty, s.tty, io.Discard
		ctx, cancel := context.WithCancel(t.Context())
		root := Root(app)
		root.SetArgs([]string{"mcp", "call", at, "form", "--protocol", protocol})
		done := make(chan error, 1)
		go func() { done <- root.ExecuteContext(ctx) }()
		s.shows(t, "[c]ancel: ")
		cancel()
		if err := <-done; exitCode(err) != exitInterrupted {
			t.Errorf("--protocol %s: %v", protocol, err)
		}
		io.WriteString(s.person, "\n") // lets the read end
	}
}

func TestAQuestionThatTheServerTakesBackLeavesTheNextOneItsAnswer(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "hasty", Version: "1"}, nil)
	back := make(chan struct{})
	sdk.AddTool(server, &sdk.Tool{Name: "form"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		first, cancel := context.WithCancel(ctx)
		go func() { <-back; cancel() }()
		_, _ = r.Session.Elicit(first, &sdk.ElicitParams{Message: "the first"}) // it is taken back
		answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "the second"})
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer.Action}}}, nil, nil
	})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer h.Close()
	defer h.CloseClientConnections()
	s := newScreen(t)
	app := testApp(t)
	var out bytes.Buffer
	app.In, app.Err, app.Out = s.tty, s.tty, &out
	root := Root(app)
	root.SetArgs([]string{"mcp", "call", h.URL, "form", "--protocol", "session"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(t.Context()) }()
	s.shows(t, "asks: the first\r\nAnswer it? [y]es, [n]o, [c]ancel: ")
	close(back)
	s.shows(t, "asks: the second\r\nAnswer it? [y]es, [n]o, [c]ancel: ")
	io.WriteString(s.person, "n\n")
	select {
	case err := <-done:
		if err != nil || out.String() != "decline\n" {
			t.Errorf("%v: %q", err, out.String())
		}
	case <-time.After(longEnough):
		t.Error("the answer to the second went to the first")
	}
}

func TestProgressAndLogOfACallAreShownToAPerson(t *testing.T) {
	for _, protocol := range []string{"session", "stateless"} {
		server := sdk.NewServer(&sdk.Implementation{Name: "busy", Version: "1"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}}})
		sdk.AddTool(server, &sdk.Tool{Name: "work"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			token := r.Params.GetProgressToken()
			if token == nil {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "unseen"}}}, nil, nil
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, errors.Join(
				r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2.5, Message: "half\x1b[2J"}),
				r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 2}),
				r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: "l", Data: map[string]any{"a": 1}}),
				r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "debug", Data: "not asked for"}),
				r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "two\nlines"}))
		})
		h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: protocol == "stateless"}))
		s := newScreen(t)
		app := testApp(t)
		if out, _, code := thv(t, app, "mcp", "call", h.URL, "work", "--protocol", protocol); code != exitOK || out != "unseen\n" {
			t.Errorf("without a terminal: exit code %d, %q", code, out)
		}
		app.Err, app.Out = s.tty, s.tty
		root := Root(app)
		root.SetArgs([]string{"mcp", "call", h.URL, "work", "--protocol", protocol})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := strings.Split(s.shows(t, "done\r\n"), "\n")
		slices.Sort(got[:len(got)-2]) // a server may send them in any order, and before the answer
		if diff := cmp.Diff([]string{"info: two lines", "progress: 1 of 2.5 half", "progress: 2", `warning: l {"a":1}`, "done", ""}, got); diff != "" {
			t.Errorf("--protocol %s: %s", protocol, diff)
		}
		h.CloseClientConnections()
		h.Close()
	}
}

func TestWhatAServerSendsDoesNotSteerATerminal(t *testing.T) {
	at := storyServer(t)
	for _, c := range [][3]string{
		{"read", "story://made/text", "a\nbc\n"}, {"read", "story://made/bytes", "[image/png, 5 bytes; not shown on a terminal, write it to a file]\n"},
		{"call", "text", "a\nb\n"}, {"call", "image", "[image, image/png, 3 bytes]\n"},
	} {
		s := newScreen(t)
		app := testApp(t)
		app.Err, app.Out = s.tty, s.tty
		root := Root(app)
		root.SetArgs([]string{"mcp", c[0], at, c[1]})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.shows(t, strings.ReplaceAll(c[2], "\n", "\r\n")); got != c[2] {
			t.Errorf("mcp %s %s shows %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestInfoShowsInstructionsOnATerminalInTheirLines(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "wordy", Version: "1"}, &sdk.ServerOptions{Instructions: "First.\n\nSecond."})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer h.Close()
	defer h.CloseClientConnections()
	s := newScreen(t)
	app := testApp(t)
	app.Out = s.tty
	root := Root(app)
	root.SetArgs([]string{"mcp", "info", h.URL})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.shows(t, "Second.\r\n"); !strings.HasSuffix(got, "\n\nINSTRUCTIONS\nFirst.\n\nSecond.\n") {
		t.Errorf("info shows %q", got)
	}
}
