package owner

import (
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/policy"
)

// stages are the gateway's stages that the Spec configures. That for tools is always there:
// it observes the server's lists.
func (o *owner) stages() (gateway.Stages, error) {
	s := gateway.Stages{Tools: o.tools.stage}
	if o.spec.Policy != nil {
		p, err := policy.New(*o.spec.Policy, o.log)
		if err != nil {
			return s, err
		}
		s.Policy = p.Stage
	}
	return s, nil
}
