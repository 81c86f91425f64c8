package web

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
)

// profile is a permission profile, as far as a page tells of it.
type profile struct {
	Read       []string `json:"read"`
	Write      []string `json:"write"`
	Privileged bool     `json:"privileged"`
	Network    *struct {
		Mode     string `json:"mode"`
		Outbound *struct {
			All   bool     `json:"insecure_allow_all"`
			Hosts []string `json:"allow_host"`
			Ports []int    `json:"allow_port"`
		} `json:"outbound"`
	} `json:"network"`
}

// permissions says in sentences what a server asks for.
func permissions(raw json.RawMessage) []string {
	if len(raw) == 0 {
		return []string{"Its entry asks for nothing in particular: thv gives it network access, and none of your folders."}
	}
	var p profile
	if json.Unmarshal(raw, &p) != nil {
		return []string{"Its permission profile cannot be read, so thv will not run it without one of yours."}
	}
	var out []string
	switch n := p.Network; {
	case n == nil:
		out = append(out, "Network: what thv gives without being told.")
	case n.Mode == "none":
		out = append(out, "Network: none.")
	case n.Mode != "" && n.Mode != "bridge" && n.Mode != "default":
		out = append(out, "Network: it wants to join "+clean(n.Mode, maxLabel)+", which you must grant.")
	case n.Outbound == nil || n.Outbound.All:
		out = append(out, "Network: connections to anywhere.")
	case len(n.Outbound.Hosts) == 0 && len(n.Outbound.Ports) == 0:
		out = append(out, "Network: no connections.")
	default:
		out = append(out, "Network: connections to "+outbound(n.Outbound.Hosts, n.Outbound.Ports)+".")
	}
	if folders := labels(p.Read); len(folders) > 0 {
		out = append(out, "Reads folders of yours: "+strings.Join(folders, ", ")+". You choose them with -v.")
	}
	if folders := labels(p.Write); len(folders) > 0 {
		out = append(out, "Reads and writes folders of yours: "+strings.Join(folders, ", ")+". You choose them with -v.")
	}
	if len(p.Read)+len(p.Write) == 0 {
		out = append(out, "Folders: none.")
	}
	if p.Privileged {
		out = append(out, "A privileged container, which is as good as your whole machine. You must grant it.")
	}
	return out
}

func outbound(hosts []string, ports []int) string {
	text := "any host"
	if names := labels(hosts); len(names) > 0 {
		text = strings.Join(names, ", ")
	}
	numbers := make([]string, 0, len(ports))
	for _, port := range ports[:min(len(ports), maxListed)] {
		numbers = append(numbers, strconv.Itoa(port))
	}
	if len(numbers) > 0 {
		word := ", ports "
		if len(numbers) == 1 {
			word = ", port "
		}
		text += word + strings.Join(numbers, ", ")
	}
	return text
}

// usePermissions adds the flags without which thv refuses what an entry asks
// for: it makes no mount and joins no network on a registry's word.
func (l *line) usePermissions(raw json.RawMessage) {
	var p profile
	if len(raw) == 0 || json.Unmarshal(raw, &p) != nil {
		return
	}
	for _, mount := range p.Read {
		l.mount(mount, ":ro")
	}
	for _, mount := range p.Write {
		l.mount(mount, "")
	}
	if p.Network != nil {
		l.network(p.Network.Mode)
	}
	if p.Privileged {
		l.privileged()
	}
}

func (l *line) mount(text, mode string) {
	inside := text
	if _, target, ok := strings.Cut(text, ":"); ok && strings.HasPrefix(target, "/") {
		inside, _, _ = strings.Cut(target, ":")
	}
	l.flags = append(l.flags, "-v", "<folder>:"+inside+mode)
	l.note("It works on a folder that you choose: put it in the place of <folder>.")
}

func (l *line) network(name string) {
	switch name {
	case "", "bridge", "default", "none":
		return
	}
	l.flags = append(l.flags, "--network", name)
	l.note("It wants to join the network " + name + ", beyond its own. Leave it if you do not want that.")
}

func (l *line) privileged() {
	l.flags = append(l.flags, "--permission-profile", "<file>")
	l.note(`It wants a privileged container. If you trust it with your machine, give a file that holds {"privileged": true}.`)
}

// useRuntime reads the flags of docker run that an entry gives for its image:
// those that open something are the person's to give.
func (l *line) useRuntime(args []registry.Argument) {
	for _, a := range args {
		if a.Type != "named" {
			continue
		}
		text := a.Value
		if text == "" {
			text = a.Default
		}
		switch a.Name {
		case "-e", "--env":
			name, template, found := strings.Cut(text, "=")
			in := a.Input
			in.Value, in.Default = template, ""
			if found {
				l.take(name, in)
			}
		case "-v", "--volume":
			l.mount(text, "")
		case "--mount":
			for part := range strings.SplitSeq(text, ",") {
				if key, target, _ := strings.Cut(part, "="); key == "target" || key == "dst" || key == "destination" {
					l.mount(target, "")
				}
			}
		case "--network", "--net":
			l.network(text)
		case "--privileged":
			l.privileged()
		}
	}
}
