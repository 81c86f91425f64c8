package registry

import "encoding/json"

// parseWrapped reads the wrapped format:
//
//	{$schema, version, meta: {last_updated}, data: {servers: [server.json], skills, plugins, groups}}
func parseWrapped(doc node) ([]*Entry, error) {
	root, err := doc.fields("a registry file", []string{"$schema", "version", "meta", "data"})
	if err != nil {
		return nil, err
	}
	if meta, ok := root["meta"]; ok {
		if _, err := meta.fields("meta", []string{"last_updated"}); err != nil {
			return nil, err
		}
	}
	data, err := root["data"].fields("data", []string{"servers", "skills", "plugins", "groups"})
	if err != nil {
		return nil, err
	}
	all := newEntries()
	if servers, ok := data["servers"]; ok {
		if err := all.addServers(servers); err != nil {
			return nil, err
		}
	}
	if groups, ok := data["groups"]; ok && !groups.isNull() {
		list, err := groups.elements("groups")
		if err != nil {
			return nil, err
		}
		for _, group := range list {
			g, err := group.fields("a group", []string{"name", "description", "servers"})
			if err != nil {
				return nil, err
			}
			if servers, ok := g["servers"]; ok && !servers.isNull() {
				// A group may repeat servers that stand outside it.
				all.repeats = true
				if err := all.addServers(servers); err != nil {
					return nil, err
				}
			}
		}
	}
	return all.list, nil
}

func (all *entries) addServers(list node) error {
	servers, err := list.elements("servers")
	if err != nil {
		return err
	}
	for _, n := range servers {
		e, err := parseServer(n)
		if err != nil {
			return err
		}
		if err := all.add(n, e); err != nil {
			return err
		}
	}
	return nil
}

// entries gathers what a file holds; a name has each version once.
type entries struct {
	list    []*Entry
	seen    map[[2]string]bool
	repeats bool // a second entry of the same name and version is no fault
}

func newEntries() *entries { return &entries{seen: map[[2]string]bool{}} }

func (all *entries) add(at node, e *Entry) error {
	key := [2]string{e.Name, e.Version}
	if all.seen[key] {
		if all.repeats {
			return nil
		}
		return at.fault("%s %s is there twice", e.Name, e.Version)
	}
	all.seen[key] = true
	all.list = append(all.list, e)
	return nil
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
