package base

import (
	"fmt"
	"slices"

	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// Serves reports whether clients can connect to a workload.
func Serves(st *workload.Status) bool {
	return st.State == workload.Running || st.State == workload.Degraded
}

// Condition returns a workload's state as it follows its name in a sentence.
func Condition(st *workload.Status) string {
	if st.State == workload.NeedsLogin {
		return "needs a login"
	}
	return "is " + string(st.State)
}

// Advice returns what to do so that a workload that does not serve comes to do so.
func Advice(st *workload.Status) string {
	switch st.State {
	case workload.Starting:
		return "wait until `thv status " + st.Name + "` says that it is running"
	case workload.Stopping:
		return "when it has stopped, start it with `thv start " + st.Name + "`"
	case workload.NeedsLogin:
		return "log in with `thv login " + st.Name + "`"
	case workload.Unresponsive:
		return "restart it with `thv restart " + st.Name + "`"
	}
	if Lost(st) {
		return st.Reason
	}
	return "start it with `thv start " + st.Name + "`"
}

// Lost reports whether a workload's configuration cannot be read. Its Reason then has
// the advice.
func Lost(st *workload.Status) bool { return st.State == workload.Failed && st.Port == 0 }

// Exposure describes what st.Exposed means and how to avoid it.
func Exposure(st *workload.Status) string {
	return "programs on this machine can reach the server at " + st.Exposed + ", past the gateway; have it listen on 127.0.0.1 in its container"
}

// GroupExists returns manager.ErrGroupNotFound when there is no such group.
func GroupExists(a *App, name string) error {
	store, err := a.Store()
	if err != nil {
		return err
	}
	groups, err := store.Groups()
	if err != nil {
		return err
	}
	if !slices.Contains(groups, name) {
		return fmt.Errorf("%w: %q%s", manager.ErrGroupNotFound, name, DidYouMean(name, groups, ""))
	}
	return nil
}

// PrintState writes a workload's state and its server's name to standard error, in one
// line.
func PrintState(a *App, st *workload.Status) {
	server := ""
	if st.Server != "" {
		server = ": " + plaintext.Line(st.Server)
	}
	if st.State == workload.Degraded {
		server += ": " + plaintext.Line(st.Reason)
	}
	fmt.Fprintf(a.Err, "%s %s%s\n", st.Name, Condition(st), server)
}

// PrintReady writes the URL of a workload that has started, or, with -o json, its
// status.
func PrintReady(a *App, st *workload.Status) error {
	if st.Exposed != "" {
		fmt.Fprintln(a.Err, "Note:", plaintext.Lines(Exposure(st)))
	}
	if a.JSON {
		return render.JSON(a.Out, st)
	}
	_, err := fmt.Fprintln(a.Out, st.URL)
	return err
}
