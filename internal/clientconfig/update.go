package clientconfig

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/toolhaven/toolhaven/internal/clientconfig/entries"
)

// edit is what is to become of the entry of a workload in one client's file.
type edit struct {
	name    string          // "" changes nothing: a file that cannot be edited is reported
	fields  []entries.Field // nil removes the entry
	address string
}

// write returns the edit that writes the entry of a workload.
func (s *Setup) write(client string, w *Workload) edit {
	fields, address := Find(client).entryOf(w, s.program)
	return edit{w.Name, fields, address}
}

// job is the edits of one file.
type job struct {
	client *Client
	record *clientRecord
	path   string
	edits  []edit

	file    *file
	ready   bool   // the file could be read
	content []byte // after the edits
	changes []Change
}

// update applies the edits of each client and saves the record: before the files are
// written, with the entries as they may be then, and after it. So an entry in a file is
// recorded at every moment at which the process may be killed.
func (s *Setup) update(r *record, clients []string, edits func(string, *clientRecord) []edit) ([]Change, error) {
	var jobs []*job
	for _, name := range clients {
		client, c := Find(name), r.Clients[name]
		if client == nil || c == nil {
			continue // of another version of thv
		}
		jobs = append(jobs, jobsOf(client, c, client.File(s.system), edits(name, c))...)
	}
	for _, j := range jobs {
		j.prepare(s.system.Home())
		j.intend()
	}
	if err := s.save(r); err != nil {
		return nil, err
	}
	// Most of the time is spent waiting for the disk. Jobs of one client share a record.
	var all sync.WaitGroup
	for i := 0; i < len(jobs); {
		first := i
		for i++; i < len(jobs) && jobs[i].client == jobs[first].client; i++ {
		}
		ofClient := jobs[first:i]
		all.Go(func() {
			for _, j := range ofClient {
				j.commit(s.system.Home())
			}
		})
	}
	all.Wait()
	var changes []Change
	for _, j := range jobs {
		changes = append(changes, j.changes...)
	}
	return changes, s.save(r)
}

// jobsOf sorts the edits of a client by file: an entry is removed from the file where it was
// written.
func jobsOf(client *Client, c *clientRecord, current string, edits []edit) []*job {
	byFile := map[string]*job{}
	in := func(path string) *job {
		if byFile[path] == nil {
			byFile[path] = &job{client: client, record: c, path: path}
		}
		return byFile[path]
	}
	add := func(path string, e edit) { in(path).edits = append(in(path).edits, e) }
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.name, b.name) })
	for _, e := range edits {
		old := c.Entries[e.name]
		switch {
		case e.name == "":
			in(current)
		case e.fields != nil:
			add(current, e)
		case old != nil:
			add(old.File, e)
		}
	}
	jobs := make([]*job, 0, len(byFile))
	for _, path := range slices.Sorted(maps.Keys(byFile)) {
		jobs = append(jobs, byFile[path])
	}
	return jobs
}

// prepare reads the file and determines its content after the edits.
func (j *job) prepare(homeDir string) {
	j.changes, j.ready = nil, false
	var err error
	if j.file, err = openFile(j.path, homeDir); err != nil {
		j.fail("", err)
		return
	}
	all, err := entries.List(j.file.content, j.client.place)
	if err != nil {
		j.fail("", err)
		return
	}
	content := j.file.content
	for _, e := range j.edits {
		action, err := Kept, error(nil)
		entry, exists := all[e.name]
		old := j.record.Entries[e.name]
		ours := old != nil && old.File == j.path && slices.Contains(old.Addresses, j.client.addressOf(entry))
		next := content
		switch {
		case e.fields == nil && !exists: // removed already
		case e.fields == nil && !ours:
			action = Foreign
		case e.fields == nil:
			action = Removed
			next, err = entries.Remove(content, j.client.place, e.name)
		case !exists:
			action = Added
			next, err = entries.Put(content, j.client.place, e.name, e.fields, nil)
		case ours:
			if next, err = entries.Put(content, j.client.place, e.name, e.fields, old.Members); string(next) != string(content) {
				action = Changed
			}
		case j.client.addressOf(entry) != e.address:
			action = Foreign
		}
		if err != nil {
			j.fail(e.name, err)
			continue
		}
		content = next
		j.changes = append(j.changes, Change{Client: j.client.Name, Workload: e.name, File: j.path, Action: action})
	}
	j.ready, j.content = true, content
}

// fail records that the entry name, or with "" every edit, is not possible.
func (j *job) fail(name string, err error) {
	j.changes = append(j.changes, Change{Client: j.client.Name, Workload: name, File: j.path, Action: Failed, Reason: err.Error()})
}

// intend records the entries that are about to be written.
func (j *job) intend() {
	for _, c := range j.changes {
		if c.Action != Added && c.Action != Changed {
			continue
		}
		e := j.edits[slices.IndexFunc(j.edits, func(e edit) bool { return e.name == c.Workload })]
		old := j.record.Entries[e.name]
		if old == nil || old.File != j.path {
			old = &entryRecord{File: j.path}
			j.record.Entries[e.name] = old
		}
		if !slices.Contains(old.Addresses, e.address) {
			old.Addresses = append(old.Addresses, e.address)
		}
		for _, f := range e.fields {
			if !slices.Contains(old.Members, f.Name) {
				old.Members = append(old.Members, f.Name)
			}
		}
	}
}

// attempts bounds how often a file is read again that has changed meanwhile.
const attempts = 5

// commit writes the file and records the result.
func (j *job) commit(homeDir string) {
	for n := 1; j.ready && string(j.content) != string(j.file.content); n++ {
		err := j.file.write(j.content)
		if err == nil {
			break
		}
		if errors.Is(err, errChanged) && n < attempts {
			j.prepare(homeDir)
			j.intend()
			continue
		}
		j.changes = nil
		j.fail("", err)
		return
	}
	for _, c := range j.changes {
		i := slices.IndexFunc(j.edits, func(e edit) bool { return e.name == c.Workload })
		switch c.Action {
		case Added, Changed:
			e := j.edits[i]
			members := make([]string, len(e.fields))
			for k, f := range e.fields {
				members[k] = f.Name
			}
			j.record.Entries[e.name] = &entryRecord{File: j.path, Addresses: []string{e.address}, Members: members}
		case Removed, Foreign:
			delete(j.record.Entries, c.Workload)
		case Kept:
			if i >= 0 && j.edits[i].fields == nil {
				delete(j.record.Entries, c.Workload)
			}
		}
	}
}
