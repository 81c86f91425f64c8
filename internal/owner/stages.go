package owner

import "github.com/toolhaven/toolhaven/internal/gateway"

// stages are the gateway's stages that the Spec configures.
func (o *owner) stages() gateway.Stages {
	var s gateway.Stages
	if !o.spec.Tools.Config().IsZero() {
		s.Tools = o.tools.Stage
	}
	return s
}
