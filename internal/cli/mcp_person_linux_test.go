package cli

import (
	"bytes"
	"io"
	"testing"
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
				{"The server asks: Who[2J are you?", ""}, {"[c]ancel: ", "what\n"}, {"what\r\nAnswer it?", "y\n"},
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
