package base

import (
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// ServerVersions describes the protocol versions of a workload's server, a line for each
// era; none when there is no gateway.
func ServerVersions(s *workload.Speaks) []string {
	if s == nil {
		return nil
	}
	one := func(adjective, version, era string) string {
		switch {
		case version == "unknown":
			version = "not known, as no such client has connected yet"
		case slices.Contains(s.Translated, era):
			version += " (the gateway translates for such clients)"
		}
		return adjective + ": " + version
	}
	return []string{one("with sessions", s.Session, "session"), one("stateless", s.Stateless, "stateless")}
}

// Translated reports whether the gateway translates for clients of a version: "yes, by the
// gateway", "no" or "unknown".
func Translated(s *workload.Speaks, version string) string {
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
