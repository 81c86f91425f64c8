package owner

import (
	"fmt"

	"github.com/toolhaven/toolhaven/internal/gateway"
	"github.com/toolhaven/toolhaven/internal/gateway/authn"
	"github.com/toolhaven/toolhaven/internal/policy"
)

// stages are the gateway's stages that the Spec configures. That for tools is always there:
// it observes the server's lists. closeStages ends them.
func (o *owner) stages() (gateway.Stages, error) {
	s := gateway.Stages{Tools: o.tools.stage}
	if o.spec.Auth != nil {
		var err error
		if o.authn, err = o.authenticate(); err != nil {
			return s, err
		}
		s.Authenticate = o.authn.Wrap
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

// authenticate makes the stage that authenticates clients.
func (o *owner) authenticate() (*authn.Stage, error) {
	stage, err := authn.New(authn.Config{
		Provider: o.spec.Provider(o.cfg.Secrets), Resource: o.spec.Resource(),
		Endpoint: o.spec.Endpoint(), TrustProxyHeaders: o.spec.Proxy.TrustProxyHeaders, Log: o.log,
	})
	if err != nil {
		return nil, fmt.Errorf("authentication of clients: %w", err)
	}
	return stage, nil
}

// closeStages ends what the stages run in the background, after the gateway.
func (o *owner) closeStages() {
	if o.authn != nil {
		o.authn.Close()
	}
}
