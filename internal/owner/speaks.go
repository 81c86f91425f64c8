package owner

import (
	"cmp"
	"strings"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// speaks is "name version" of the server, and the protocol versions it supports, as far
// as they were determined.
func speaks(backend exchange.Backend) (server string, _ *workload.Speaks) {
	s := exchange.ServerInfo{}
	if backend != nil {
		s = backend.ServerInfo()
	}
	out := &workload.Speaks{
		Session:   string(cmp.Or(s.Session, exchange.EraUnknown)),
		Stateless: string(cmp.Or(s.Stateless, exchange.EraUnknown)),
	}
	if s.SessionTranslated {
		out.Translated = append(out.Translated, "session")
	}
	if s.StatelessTranslated {
		out.Translated = append(out.Translated, "stateless")
	}
	return strings.TrimSpace(s.Name + " " + s.Version), out
}
