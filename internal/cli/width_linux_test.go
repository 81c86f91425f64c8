package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhaven/toolhaven/internal/workload"
)

func TestATableIsCutToTheTerminalAndNowhereElse(t *testing.T) {
	header := []string{"TOOL", "ARGUMENTS", "DESCRIPTION"}
	rows := [][]string{
		{"weather", "city, days, unit", "Tells what the weather will be like, and why"},
		{"天気", "都市", "天気を教えてくれる便利な道具です"},
		{"e\u0301", "👩‍👩‍👧", "x"},
	}
	for _, c := range []struct {
		what    string
		columns uint16
		whole   []int
		want    string
	}{
		{"wide enough", 120, nil, `TOOL      ARGUMENTS          DESCRIPTION
weather   city, days, unit   Tells what the weather will be like, and why
天気      都市               天気を教えてくれる便利な道具です
é         👩‍👩‍👧                 x
`},
		{"the widest column is cut", 50, nil, `TOOL     ARGUMENTS         DESCRIPTION
weather  city, days, unit  Tells what the weather…
天気     都市              天気を教えてくれる便利…
é        👩‍👩‍👧                x
`},
		{"one that is to be copied is not", 50, []int{2}, `TOOL     ARGUMEN…  DESCRIPTION
weather  city, d…  Tells what the weather will be like, and why
天気     都市      天気を教えてくれる便利な道具です
é        👩‍👩‍👧        x
`},
		{"too narrow for any of it", 10, nil, `TOOL     ARGUMEN…  DESCRIP…
weather  city, d…  Tells w…
天気     都市      天気を…
é        👩‍👩‍👧        x
`},
	} {
		s := screenOf(t, c.columns)
		if err := table(s.tty, header, rows, nil, c.whole...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(c.want, "é", "e\u0301"), s.shows(t, " x\r\n")); diff != "" {
			t.Errorf("%s:\n%s", c.what, diff)
		}
	}
	s := screenOf(t, 40)
	if err := table(s.tty, header, [][]string{{"a_tool_with_a_name_that_is_long", "x", "what it does"}}, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.shows(t, "what it"); !strings.Contains(got, "a_tool_with_a_name_that_is_long") {
		t.Errorf("what tells the rows apart is cut: %q", got)
	}
	var plain bytes.Buffer
	if err := table(&plain, header, rows, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plain.String(), "and why\n") {
		t.Errorf("into a pipe: %q", plain.String())
	}
}

func TestATextIsCutToColumns(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 5, "short"}, {"longer", 5, "long…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"},
		{"日本語", 4, "日…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"ab", 1, "…"}, {"", 0, ""},
	} {
		if got := cut(c.in, c.n); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestTheSpinnersLineNeverWraps(t *testing.T) {
	const columns = 80
	for what, c := range map[string]struct {
		event workload.Event
		end   string // of the text
	}{
		"a long text":  {workload.Event{Message: "building " + strings.Repeat("github.com/x/", 20)}, "…"},
		"a wide text":  {workload.Event{Message: strings.Repeat("日本語", 40)}, "…"},
		"with a size":  {workload.Event{Message: strings.Repeat("layer ", 40), Current: 5e6, Total: 10e6}, "… 5.0 of 10.0 MB"},
		"a short text": {workload.Event{Message: "waiting"}, "waiting"},
	} {
		s := screenOf(t, columns)
		p := newProgress(s.tty)
		p.event(c.event)
		s.shows(t, c.end)
		// Several turns, and a clearing.
		for deadline := time.Now().Add(longEnough); strings.Count(s.shows(t, c.end), c.end) < 3; {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it does not turn", what)
			}
			p.event(c.event)
		}
		p.done()
		io.WriteString(s.tty, "END")
		for _, line := range strings.Split(s.shows(t, "END"), "\r") {
			if n := width(line); n >= columns {
				t.Errorf("%s: a line of %d columns: %q", what, n, line)
			}
		}
	}
}
