package workload

import (
	"fmt"
	"slices"
)

// NoClients, as the only element of Spec.Clients, stands for no client.
const NoClients = "none"

// validateClients checks the form of the names: a configuration may come from a version of
// thv that knows more clients.
func validateClients(s *Spec) error {
	for _, name := range s.Clients {
		if err := ValidName(name); err != nil {
			return fmt.Errorf("clients: %w", err)
		}
	}
	if len(s.Clients) > 1 && slices.Contains(s.Clients, NoClients) {
		return fmt.Errorf("clients: %q stands alone", NoClients)
	}
	return nil
}
