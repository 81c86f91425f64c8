package web

import (
	"encoding/json"
	"strconv"
	"strings"
)

// profile is the part of a permission profile that a page shows.
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

// permissions describes in sentences what a server requests.
func permissions(raw json.RawMessage) []string {
	if len(raw) == 0 {
		return []string{"Its entry has no permissions: thv gives it network access, and none of your folders."}
	}
	var p profile
	if json.Unmarshal(raw, &p) != nil {
		return []string{"Its permission profile cannot be read, so thv will not run it without one of yours."}
	}
	var out []string
	switch n := p.Network; {
	case n == nil:
		out = append(out, "Network: the default of thv.")
	case n.Mode == "none":
		out = append(out, "Network: none.")
	case n.Mode != "" && n.Mode != "bridge" && n.Mode != "default":
		out = append(out, "Network: it joins "+clean(n.Mode, maxLabel)+", which you must grant.")
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
