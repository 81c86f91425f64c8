package cli

import (
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// speech says what a workload's server speaks itself, a line for each era; none when
// there is no gateway that could know.
func speech(s *workload.Speaks) []string {
	if s == nil {
		return nil
	}
	one := func(version, era, adjective string) string {
		switch version {
		case "unknown":
			return "unknown " + adjective + ", as no client has asked for that yet"
		case "no":
			version = "nothing"
		}
		text := version + " " + adjective
		if slices.Contains(s.Translated, era) {
			text += " (the gateway translates for such clients)"
		}
		return text
	}
	return []string{one(s.Session, "session", "with sessions"), one(s.Stateless, "stateless", "without sessions")}
}

// translated tells whether a client that speaks version is served by translation.
func translated(s *workload.Speaks, version string) string {
	era, own := "session", s.Session
	if mcp.Version(version).IsStateless() {
		era, own = "stateless", s.Stateless
	}
	switch {
	case slices.Contains(s.Translated, era):
		return "yes, by the gateway"
	case own == "unknown":
		return "unknown"
	}
	return "no"
}
