package base

import (
	"slices"

	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// speech says what a workload's server speaks itself, a line for each era; none when
// there is no gateway that could know.
func ServerVersions(s *workload.Speaks) []string {
	if s == nil {
		return nil
	}
	one := func(adjective, version, era string) string {
		switch {
		case version == "unknown":
			version = "not known, as no such client has come yet"
		case slices.Contains(s.Translated, era):
			version += " (the gateway translates for such clients)"
		}
		return adjective + ": " + version
	}
	return []string{one("with sessions", s.Session, "session"), one("stateless", s.Stateless, "stateless")}
}

// translated tells whether a client that speaks version is served by translation.
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
