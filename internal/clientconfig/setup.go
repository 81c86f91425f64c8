package clientconfig

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Workload is a workload as clients see it. Its name is the name of its entries.
type Workload struct {
	Name, Group string
	URL         string
	SSE         bool // the URL is of the HTTP+SSE transport
	// Clients are the names of those that have it; nil for all that are set up.
	Clients []string
	// State is shown by [Setup.Status].
	State string
}

// Setup is the clients that are set up, and their files.
type Setup struct {
	system  System
	dir     string // of clients.json
	program string // the path of thv, for entries that start it
}

// Open returns the Setup of the record in dir. program is the path of thv.
func Open(system System, dir, program string) *Setup {
	return &Setup{system: system, dir: dir, program: program}
}

// Action is what happened to an entry.
type Action string

// The actions. After all but the first three the file is as it was.
const (
	Added   Action = "added"
	Changed Action = "changed"
	Removed Action = "removed"
	// Kept: the entry is there already.
	Kept Action = "kept"
	// Foreign: the entry of that name is not one of thv's.
	Foreign Action = "not ours"
	Failed  Action = "failed"
)

// Change is what happened to an entry of a client.
type Change struct {
	Client   string `json:"client"`
	Workload string `json:"workload,omitempty"` // "" if a whole file failed
	File     string `json:"file"`
	Action   Action `json:"action"`
	Reason   string `json:"reason,omitempty"`
}

// Problem returns why the file or the entry was left as it was, in one sentence; "" if it was
// not.
func (c Change) Problem() string {
	title := Find(c.Client).Title
	switch c.Action {
	case Foreign:
		return fmt.Sprintf("%s has an entry %q of its own in %s; it was not touched", title, c.Workload, c.File)
	case Failed:
		return fmt.Sprintf("%s of %s was left as it was: %s", c.File, title, c.Reason)
	}
	return ""
}

// Add sets up clients and writes their entries of the workloads. A client that is set up
// already gets the group in place of the one it had. group is "" for all workloads. A file
// that cannot be edited is reported also when there are no workloads.
func (s *Setup) Add(ctx context.Context, clients []string, group string, workloads []*Workload) (changes []Change, err error) {
	err = s.locked(ctx, func(r *record) error {
		for _, name := range clients {
			if r.Clients[name] == nil {
				r.Clients[name] = &clientRecord{Entries: map[string]*entryRecord{}}
			}
			r.Clients[name].Group = group
		}
		changes, err = s.update(r, clients, func(client string, c *clientRecord) []edit {
			edits := []edit{{}}
			for _, w := range workloads {
				if c.has(w, client) {
					edits = append(edits, s.write(client, w))
				}
			}
			for name := range c.Entries {
				if !slices.ContainsFunc(edits, func(e edit) bool { return e.name == name }) {
					edits = append(edits, edit{name: name})
				}
			}
			return edits
		})
		return err
	})
	return changes, err
}

// Sync writes the entries of a workload into the files of the clients that have it, and
// removes it from those of others.
func (s *Setup) Sync(ctx context.Context, w *Workload) ([]Change, error) {
	return s.each(ctx, func(client string, c *clientRecord) []edit {
		if c.has(w, client) {
			return []edit{s.write(client, w)}
		}
		return []edit{{name: w.Name}}
	})
}

// Forget removes the entries of a workload that is removed.
func (s *Setup) Forget(ctx context.Context, name string) ([]Change, error) {
	return s.each(ctx, func(string, *clientRecord) []edit { return []edit{{name: name}} })
}

// each applies edits to the clients that are set up. Without any it takes no lock.
func (s *Setup) each(ctx context.Context, edits func(string, *clientRecord) []edit) (changes []Change, err error) {
	if r, err := s.load(); err != nil || len(r.Clients) == 0 {
		return nil, err
	}
	err = s.locked(ctx, func(r *record) error {
		changes, err = s.update(r, slices.Sorted(maps.Keys(r.Clients)), edits)
		return err
	})
	return changes, err
}

// Remove removes the entries of clients, which are not set up after it. A client whose file
// cannot be edited stays set up.
func (s *Setup) Remove(ctx context.Context, clients []string) (changes []Change, err error) {
	err = s.locked(ctx, func(r *record) error {
		changes, err = s.update(r, clients, func(_ string, c *clientRecord) []edit {
			var edits []edit
			for name := range c.Entries {
				edits = append(edits, edit{name: name})
			}
			return edits
		})
		if err != nil {
			return err
		}
		for _, name := range clients {
			if !slices.ContainsFunc(changes, func(c Change) bool { return c.Client == name && c.Action == Failed }) {
				delete(r.Clients, name)
			}
		}
		return s.save(r)
	})
	return changes, err
}

// Enabled returns the names of the clients that are set up, sorted.
func (s *Setup) Enabled() ([]string, error) {
	r, err := s.load()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(r.Clients)), nil
}

// Installed returns the names of the clients that seem to be installed.
func (s *Setup) Installed() (names []string) {
	if s.system.Home() == "" {
		return nil
	}
	for _, c := range known {
		if c.Installed(s.system) {
			names = append(names, c.Name)
		}
	}
	return names
}

// File returns the path of a client's file.
func (s *Setup) File(c *Client) string { return c.File(s.system) }
