package base

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/toolhaven/toolhaven/internal/clientconfig"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Clients opens the clients that are set up, and their files.
func (a *App) Clients() (*clientconfig.Setup, error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the executable of thv: %w", err)
	}
	return clientconfig.Open(clientconfig.This(a.Env), dirs.Config, exe), nil
}

// ClientWorkload returns a workload as clients see it.
func ClientWorkload(s *workload.Spec) *clientconfig.Workload {
	return &clientconfig.Workload{
		Name: s.Name, Group: s.Group, URL: s.URL(), SSE: s.Proxy.Mode == string(workload.SSE), Clients: s.Clients,
	}
}

// SyncClients writes the entry of a workload that has started into the files of the clients
// that are set up. The workload runs in any case, so an error is a note.
func (a *App) SyncClients(ctx context.Context, name string) {
	clients, err := a.Clients()
	if err != nil {
		note(a, err)
		return
	}
	store, err := a.Store()
	if err != nil {
		note(a, err)
		return
	}
	spec, err := store.Get(name)
	if err != nil {
		note(a, err)
		return
	}
	changes, err := clients.Sync(ctx, ClientWorkload(spec))
	if err != nil {
		note(a, err)
	}
	PrintChanges(a, changes)
}

// ForgetClients removes the entries of a workload that was removed.
func (a *App) ForgetClients(ctx context.Context, name string) {
	clients, err := a.Clients()
	if err != nil {
		note(a, err)
		return
	}
	changes, err := clients.Forget(context.WithoutCancel(ctx), name)
	if err != nil {
		note(a, err)
	}
	PrintChanges(a, changes)
}

func note(a *App, err error) {
	fmt.Fprintln(a.Err, "Note: the files of clients were not changed:", plaintext.Lines(err.Error()))
}

// PrintChanges writes to standard error what happened to the entries of workloads: one
// line for each workload and action, and a note for each file that was left as it was.
func PrintChanges(a *App, changes []clientconfig.Change) {
	words := map[clientconfig.Action]string{
		clientconfig.Added: "added to", clientconfig.Changed: "changed in", clientconfig.Removed: "removed from",
	}
	titles := map[string][]string{}
	var order []string
	for _, c := range changes {
		word := words[c.Action]
		if word == "" {
			continue
		}
		line := c.Workload + " " + word
		if titles[line] == nil {
			order = append(order, line)
		}
		titles[line] = append(titles[line], clientconfig.Find(c.Client).Title)
	}
	for _, line := range order {
		fmt.Fprintf(a.Err, "%s %s\n", line, strings.Join(titles[line], ", "))
	}
	for _, c := range changes {
		if problem := c.Problem(); problem != "" {
			fmt.Fprintln(a.Err, "Note:", plaintext.Line(problem))
		}
	}
}
