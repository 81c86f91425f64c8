package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// JSON writes v as indented JSON.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Table writes rows: on a terminal aligned, with a header and cut to the terminal's
// width; else separated by tabs and without a header, for programs. The first column,
// which identifies a row, and the columns in whole are never cut.
//
// paint, which may be nil, colours a cell on a terminal.
func Table(w io.Writer, header []string, rows [][]string, paint func(column int, cell string) string, whole ...int) error {
	if !IsTerminal(w) {
		for _, row := range rows {
			if _, err := fmt.Fprintln(w, strings.Join(clean(row), "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	all := [][]string{header}
	for _, row := range rows {
		all = append(all, clean(row))
	}
	sizes := make([]int, len(header))
	for _, row := range all {
		for i, cell := range row {
			sizes[i] = max(sizes[i], width(cell))
		}
	}
	gap := fit(sizes, columns(w), whole)
	for n, row := range all {
		var line strings.Builder
		for i, cell := range row {
			cell = cut(cell, sizes[i])
			rest := padded(cell, sizes[i]+gap)[len(cell):]
			if i == len(row)-1 {
				rest = ""
			}
			if paint != nil && n > 0 {
				cell = paint(i, cell)
			}
			line.WriteString(cell + rest)
		}
		if _, err := fmt.Fprintln(w, line.String()); err != nil {
			return err
		}
	}
	return nil
}

// clean removes control sequences and line breaks from cells: they hold texts of servers
// and registries.
func clean(cells []string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = plaintext.Line(c)
	}
	return out
}

// PaintState colours a workload's state, if w is a terminal with colours.
func PaintState(w io.Writer, env func(string) string, s string) string {
	if !IsTerminal(w) || env("NO_COLOR") != "" || isDumb(env) {
		return s
	}
	colour := "39"
	switch workload.State(s) {
	case workload.Running:
		colour = "32"
	case workload.Starting, workload.Degraded, workload.NeedsLogin, workload.Stopping:
		colour = "33"
	case workload.Failed, workload.Unresponsive:
		colour = "31"
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// Ago returns the time since t in one unit; "" for the zero time.
func Ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := time.Since(t)
	for _, u := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := int(d / u.length); n > 0 {
			return Counted(n, u.name) + " ago"
		}
	}
	return "just now"
}

// Counted returns "1 workload", "2 workloads".
func Counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// FirstLine returns the first line of s, in at most 100 characters.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > 100 {
		line = string(r[:97]) + "..."
	}
	return line
}
