package runcmd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/clientconfig"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// checkClients checks --client: each name is of a client that is set up.
func (o *options) checkClients() error {
	if o.given("client") && len(o.clients) == 0 {
		return fmt.Errorf("--client names no client; %s writes to none", workload.NoClients)
	}
	if len(o.clients) == 0 || slices.Equal(o.clients, []string{workload.NoClients}) {
		return nil
	}
	clients, err := o.app.Clients()
	if err != nil {
		return err
	}
	enabled, err := clients.Enabled()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range o.clients {
		switch {
		case slices.Contains(enabled, name), name == workload.NoClients: // Validate reports the latter
		case clientconfig.Find(name) == nil:
			errs = append(errs, fmt.Errorf("--client: there is no client %q%s; `thv client list` shows them", name, base.DidYouMean(name, clientconfig.Names(), "")))
		default:
			errs = append(errs, fmt.Errorf("--client: %s is not set up; `thv client setup %s` does that", name, name))
		}
	}
	return errors.Join(errs...)
}
