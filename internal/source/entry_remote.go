package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// useRemote fills the Spec from a remote of an entry.
func (r *Resolution) useRemote(req Request, m *registry.Remote) error {
	if len(req.Args) > 0 {
		return errors.New("it runs elsewhere; arguments after -- are for servers that run here")
	}
	text, open := expand(m.URL, declared(m.Variables))
	if len(open) > 0 {
		return fmt.Errorf("its URL depends on %s; fill in the URL and run that: thv run '%s'", strings.Join(open, " and "), text)
	}
	u, err := remoteURL(text)
	if err != nil {
		return err
	}
	s := &r.Spec
	switch t := workload.Transport(m.Type); t {
	case workload.SSE, workload.StreamableHTTP:
		s.Transport = t
	default:
		return fmt.Errorf("its transport %.50q is not sse or streamable-http", t)
	}
	if req.Transport != "" {
		s.Transport = req.Transport
	}
	s.Remote = &workload.Remote{URL: u.String()}
	headers := map[string]string{}
	for _, kv := range m.Headers {
		r.take(kv, true, headers)
	}
	if len(headers) > 0 {
		s.Remote.Headers = headers
	}
	s.Proxy.Port, s.Proxy.Stateless = m.Hints.ProxyPort, m.Hints.Stateless
	r.notice("%s runs elsewhere: requests go to %s", r.Entry.Name, u.Redacted())
	if len(m.Hints.OAuth) > 0 {
		r.notice("by the registry, %s requires an OAuth sign-in", u.Host)
	}
	if len(m.Hints.Environment) > 0 {
		var names []string
		for _, kv := range m.Hints.Environment {
			names = append(names, kv.Name)
		}
		r.notice("the variables that the registry lists for it (%s) are not used: it does not run here", strings.Join(names, ", "))
	}
	return nil
}
