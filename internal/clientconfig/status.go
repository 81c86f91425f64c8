package clientconfig

import (
	"maps"
	"slices"

	"github.com/toolhaven/toolhaven/internal/clientconfig/entries"
)

// EntryState is what an entry is beside the workload of its name.
type EntryState string

// The states of an entry.
const (
	// Good: it points to the workload.
	Good EntryState = "ok"
	// Stale: thv wrote it, and it points to something else than a workload of now.
	Stale EntryState = "stale"
	// Missing: it should be in the file and is not.
	Missing EntryState = "missing"
	// Taken: an entry that thv did not write, or that was changed, has the name.
	Taken EntryState = "not ours"
)

// EntryStatus is an entry in a client's file, or one that should be there.
type EntryStatus struct {
	Name    string     `json:"name"`
	State   EntryState `json:"state"`
	Address string     `json:"address,omitempty"` // in the file
	// Workload is the state of the workload of that name; "" for none.
	Workload string `json:"workload,omitempty"`
}

// ClientStatus is what is true of a client now.
type ClientStatus struct {
	Name      string        `json:"name"`
	Title     string        `json:"title"`
	File      string        `json:"file"`
	Installed bool          `json:"installed"`
	SetUp     bool          `json:"setUp"`
	Group     string        `json:"group,omitempty"` // "" for all
	Problem   string        `json:"problem,omitempty"`
	Entries   []EntryStatus `json:"entries,omitempty"`
}

// Status returns all clients with their entries. An entry of the user's own is among
// them only if it has the name of a workload that the client should have.
func (s *Setup) Status(workloads []*Workload) ([]ClientStatus, error) {
	r, err := s.load()
	if err != nil {
		return nil, err
	}
	all := make([]ClientStatus, 0, len(known))
	for _, c := range known {
		st := ClientStatus{Name: c.Name, Title: c.Title, File: c.File(s.system), Installed: c.Installed(s.system)}
		if rec := r.Clients[c.Name]; rec != nil {
			st.SetUp, st.Group = true, rec.Group
			s.entriesOf(c, rec, workloads, &st)
		}
		all = append(all, st)
	}
	return all, nil
}

func (s *Setup) entriesOf(c *Client, rec *clientRecord, workloads []*Workload, st *ClientStatus) {
	f, err := openFile(st.File, s.system.Home())
	var inFile map[string]entries.Entry
	if err == nil {
		inFile, err = entries.List(f.content, c.place)
	}
	if err != nil {
		st.Problem = err.Error()
		return
	}
	names := map[string]*Workload{}
	for name := range rec.Entries {
		names[name] = nil
	}
	states := map[string]string{}
	for _, w := range workloads {
		states[w.Name] = w.State
		if rec.has(w, c.Name) {
			names[w.Name] = w
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		e := EntryStatus{Name: name, Workload: states[name]}
		entry, exists := inFile[name]
		e.Address = c.addressOf(entry)
		written, w := rec.Entries[name], names[name]
		want := ""
		if w != nil {
			_, want = c.entryOf(w, s.program)
		}
		switch {
		case !exists && w == nil:
			continue
		case !exists:
			e.State = Missing
		case e.Address == want:
			e.State = Good
		case written != nil && slices.Contains(written.Addresses, e.Address):
			e.State = Stale
		case w == nil:
			continue
		default:
			e.State = Taken
		}
		st.Entries = append(st.Entries, e)
	}
}
