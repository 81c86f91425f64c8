package owner

import (
	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/policy"
)

// stages are the gateway's stages that the Spec configures.
func (o *owner) stages() (gateway.Stages, error) {
	var s gateway.Stages
	if !o.spec.Tools.Config().IsZero() {
		s.Tools = o.tools.set.Stage
	}
	if o.spec.Policy != nil {
		p, err := policy.New(*o.spec.Policy, o.log)
		if err != nil {
			return s, err
		}
		s.Policy = p.Stage
	}
	return s, nil
}
