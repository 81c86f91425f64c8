package owner

import (
	"cmp"
	"strings"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// speaks is "name version" of the server, and what it speaks, as far as is known of it.
func speaks(speaker gateway.Speaker) (server string, _ *workload.Speaks) {
	s := gateway.Speaks{}
	if speaker != nil {
		s = speaker.Speaks()
	}
	out := &workload.Speaks{
		Session:   string(cmp.Or(s.Session, gateway.SpeechUnknown)),
		Stateless: string(cmp.Or(s.Stateless, gateway.SpeechUnknown)),
	}
	if s.SessionTranslated {
		out.Translated = append(out.Translated, "session")
	}
	if s.StatelessTranslated {
		out.Translated = append(out.Translated, "stateless")
	}
	return strings.TrimSpace(s.Name + " " + s.Version), out
}
