package base

import (
	"fmt"
	"slices"

	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// serves tells whether a client can connect to a workload.
func Serves(st *workload.Status) bool {
	return st.State == workload.Running || st.State == workload.Degraded
}

// advice is how a workload that does not serve comes to do so, from the state that
// it is in.
func Advice(st *workload.Status) string {
	switch st.State {
	case workload.Starting:
		return "wait until `thv status " + st.Name + "` says that it is running"
	case workload.Stopping:
		return "when it has stopped, start it with `thv start " + st.Name + "`"
	case workload.Unresponsive:
		return "restart it with `thv restart " + st.Name + "`"
	}
	if Lost(st) {
		return st.Reason
	}
	return "start it with `thv start " + st.Name + "`"
}

// lost tells whether a workload has no configuration that can be read; its reason then
// says what is left to do.
func Lost(st *workload.Status) bool { return st.State == workload.Failed && st.Port == 0 }

// exposure says what it means that a server is exposed.
func Exposure(st *workload.Status) string {
	return "programs on this machine can reach the server at " + st.Exposed + ", past the gateway; have it listen on 127.0.0.1 in its container"
}

// groupExists says that there is no such group, if so.
func GroupExists(app *App, name string) error {
	store, err := app.Store()
	if err != nil {
		return err
	}
	groups, err := store.Groups()
	if err != nil {
		return err
	}
	if !slices.Contains(groups, name) {
		return fmt.Errorf("%w: %q%s", workload.ErrGroupNotFound, name, DidYouMean(name, groups, ""))
	}
	return nil
}

// sayState is one line, whatever the server calls itself.
func (a *App) PrintState(st *workload.Status) {
	who := ""
	if st.Server != "" {
		who = ": " + plaintext.Line(st.Server)
	}
	fmt.Fprintf(a.Err, "%s is %s%s\n", st.Name, st.State, who)
}

// showReady is what run was asked for: where the workload is reached, or, for a
// program, all that status knows of it.
func (a *App) PrintReady(st *workload.Status) error {
	if st.Exposed != "" {
		fmt.Fprintln(a.Err, "Note:", plaintext.Lines(Exposure(st)))
	}
	if a.JSON {
		return render.JSON(a.Out, st)
	}
	_, err := fmt.Fprintln(a.Out, st.URL)
	return err
}
