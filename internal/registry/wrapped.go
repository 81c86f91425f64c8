package registry

import "encoding/json"

// readWrapped reads the structure of the wrapped format:
//
//	{$schema, version, meta: {last_updated}, data: {servers: [server.json], skills, plugins, groups}}
func (f *File) readWrapped(members []member) error {
	root, err := onlyKnown("a registry file", members, []string{"$schema", "version", "meta", "data"})
	if err != nil {
		return err
	}
	if meta, ok := root["meta"]; ok {
		if _, err := meta.fields("meta", []string{"last_updated"}); err != nil {
			return err
		}
	}
	data, err := root["data"].fields("data", []string{"servers", "skills", "plugins", "groups"})
	if err != nil {
		return err
	}
	servers, hasServers := data["servers"]
	groups, hasGroups := data["groups"]
	hasGroups = hasGroups && !groups.isNull()
	if !hasServers && !hasGroups {
		return root["data"].fault(`data has no "servers"`)
	}
	for _, kind := range []string{"skills", "plugins"} {
		if err := f.countOthers(kind, data[kind]); err != nil {
			return err
		}
	}
	if hasServers {
		if err := f.addServers(servers, false); err != nil {
			return err
		}
	}
	if !hasGroups {
		return nil
	}
	list, err := groups.elements("groups")
	if err != nil {
		return err
	}
	for _, group := range list {
		g, err := group.fields("a group", []string{"name", "description", "servers"})
		if err != nil {
			return err
		}
		if servers, ok := g["servers"]; ok && !servers.isNull() {
			if err := f.addServers(servers, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// countOthers counts the entries of a list of something other than servers.
func (f *File) countOthers(kind string, list node) error {
	if list.doc == nil || list.isNull() {
		return nil
	}
	items, err := list.elements(kind)
	f.Others += len(items)
	return err
}

func (f *File) addServers(list node, inGroup bool) error {
	servers, err := list.elements("servers")
	for _, n := range servers {
		f.Entries = append(f.Entries, FileEntry{InGroup: inGroup, value: n})
	}
	return err
}

// server is server.json on the wire: what an Entry has in another form.
type server struct {
	Name        string    `json:"name"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Version     string    `json:"version"`
	Status      string    `json:"status"` // until schema 2025-09-16
	WebsiteURL  string    `json:"websiteUrl"`
	Packages    []Package `json:"packages"`
	Remotes     []Remote  `json:"remotes"`
	Repository  struct {
		URL string `json:"url"`
	} `json:"repository"`
	Meta map[string]json.RawMessage `json:"_meta"`
}

// parseServer reads an official server.json. Unknown keys are passed over: the
// format grows.
func parseServer(n node) (*Entry, error) {
	var s server
	if err := n.decode("a server", &s); err != nil {
		return nil, err
	}
	e := &Entry{
		Name: s.Name, Title: s.Title, Description: s.Description, Version: s.Version, Status: s.Status,
		Repository: s.Repository.URL, WebsiteURL: s.WebsiteURL, Packages: s.Packages, Remotes: s.Remotes,
	}
	// Hints are ours to fill; nothing on the wire is called that.
	for i := range e.Packages {
		e.Packages[i].Hints = Hints{}
	}
	for i := range e.Remotes {
		e.Remotes[i].Hints = Hints{}
	}
	err := e.extend(s.Meta[publisherProvided])
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return nil, n.fault("server %.100q: %w", s.Name, err)
	}
	return e, nil
}
