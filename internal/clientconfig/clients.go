// Package clientconfig writes workloads into the configuration files of MCP clients:
// editors, desktop apps and agents.
//
// A [Client] is one of a table: where its file is, and how an entry looks in it. A [Setup]
// is which of them are set up, with a record of the entries that were written, in
// clients.json of the tool's configuration. An entry belongs to thv if that record has it
// and it still has the address that thv wrote; no other entry is changed or removed.
//
// Package entries edits the files. One lock, beside the record, orders all edits of all
// processes of thv; file.go has the rules for a file that something else uses.
package clientconfig

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/clientconfig/entries"
)

// Client is an MCP client of the table.
type Client struct {
	Name  string // on the command line
	Title string // its own name
	// place is where its file has the entries.
	place entries.Place
	// files are the places where the file may be. The first that exists counts; without
	// one, the first is made.
	files []location
	// marks are files and directories that show that the client is installed; without
	// any, it is the directory of the file.
	marks []location
	// homeVar is a variable that names the directory of the file instead.
	homeVar string
	// How an entry looks, by what the client connects to. Without http or sse, the
	// entry is of the form stdio.
	http, sse, stdio form
}

// form is how an entry looks.
type form struct {
	url string // the member with the URL; "" for a program
	// command and args are the members with the program and its arguments; without args,
	// command is a list of both.
	command, args string
	// named: the member "name" repeats the entry's name.
	named bool
	more  []entries.Field // further members
}

// base is a directory of the user.
type base int

const (
	home      base = iota
	dotConfig      // $XDG_CONFIG_HOME or ~/.config, on every system
	appData        // where desktop programs keep their settings
)

// location is a file or a directory of a client.
type location struct {
	base base
	path string
	// windows is the path below %APPDATA% if it is another one there.
	windows string
}

// System is what the places of files depend on.
type System struct {
	OS  string // as runtime.GOOS
	Env func(string) string
}

// This returns the System of this process.
func This(env func(string) string) System { return System{OS: runtime.GOOS, Env: env} }

// Home returns the home directory of the user, "" without one.
func (s System) Home() string {
	dir := s.Env("HOME")
	if s.OS == "windows" {
		if profile := s.Env("USERPROFILE"); profile != "" {
			dir = profile
		}
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

func (s System) dir(b base) string {
	switch {
	case b == appData && s.OS == "windows":
		if dir := s.Env("APPDATA"); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(s.Home(), "AppData", "Roaming")
	case b == appData && s.OS == "darwin":
		return filepath.Join(s.Home(), "Library", "Application Support")
	case b == appData || b == dotConfig:
		if dir := s.Env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(s.Home(), ".config")
	}
	return s.Home()
}

func (s System) path(l location) string {
	if s.OS == "windows" && l.windows != "" {
		return filepath.Join(s.dir(appData), filepath.FromSlash(l.windows))
	}
	return filepath.Join(s.dir(l.base), filepath.FromSlash(l.path))
}

// File returns the path of the client's file, which may not exist.
func (c *Client) File(s System) string {
	if dir := s.Env(c.homeVar); c.homeVar != "" && filepath.IsAbs(dir) {
		return filepath.Join(dir, filepath.Base(c.files[0].path))
	}
	for _, l := range c.files {
		if path := s.path(l); exists(path) {
			return path
		}
	}
	return s.path(c.files[0])
}

// Installed reports whether the client seems to be installed.
func (c *Client) Installed(s System) bool {
	if exists(c.File(s)) {
		return true
	}
	for _, l := range c.marks {
		if exists(s.path(l)) {
			return true
		}
	}
	return len(c.marks) == 0 && exists(filepath.Dir(c.File(s)))
}

// entryOf returns the members of the entry of a workload, and its address.
func (c *Client) entryOf(w *Workload, program string) (fields []entries.Field, address string) {
	f := c.http
	if w.SSE {
		f = c.sse
	}
	if f.url == "" {
		f = c.stdio
	}
	if f.named {
		fields = append(fields, entries.Field{Name: "name", Value: w.Name})
	}
	fields = append(fields, f.more...)
	if f.url != "" {
		return append(fields, entries.Field{Name: f.url, Value: w.URL}), w.URL
	}
	argv := []string{program, "connect", w.Name}
	if f.args == "" {
		fields = append(fields, entries.Field{Name: f.command, Value: argv})
	} else {
		fields = append(fields, entries.Field{Name: f.command, Value: program}, entries.Field{Name: f.args, Value: argv[1:]})
	}
	return fields, strings.Join(argv, " ")
}

// addressOf returns what an entry of the client points to: a URL, or a command line.
func (c *Client) addressOf(e entries.Entry) string {
	for _, f := range []form{c.http, c.sse} {
		if url := e.String(f.url); f.url != "" && url != "" {
			return url
		}
	}
	if c.stdio.args == "" {
		return strings.Join(e.Strings(c.stdio.command), " ")
	}
	command := e.String(c.stdio.command)
	if command == "" {
		return ""
	}
	return strings.Join(append([]string{command}, e.Strings(c.stdio.args)...), " ")
}

// Clients returns the clients of the table, by name.
func Clients() []*Client { return slices.Clone(known) }

// Names returns the names of the clients of the table, sorted.
func Names() []string {
	names := make([]string, len(known))
	for i, c := range known {
		names[i] = c.Name
	}
	return names
}

// Find returns the client of that name; nil for none.
func Find(name string) *Client {
	for _, c := range known {
		if c.Name == name {
			return c
		}
	}
	return nil
}
