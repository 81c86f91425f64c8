package workload

import "time"

// State is what a workload is doing.
type State string

// The states of a workload. Running and Degraded have an owner that answers;
// Stopped and Failed have none.
const (
	Starting     State = "starting"     // owner alive, server has not answered yet
	Running      State = "running"      // the server has answered
	Degraded     State = "degraded"     // owner alive, server gone or failing; being retried
	NeedsLogin   State = "needs login"  // owner alive, the user has to log in at the remote server
	Stopping     State = "stopping"     // owner is ending
	Stopped      State = "stopped"      // ended on request
	Failed       State = "failed"       // ended by itself, for the Reason
	Unresponsive State = "unresponsive" // a process holds the workload but does not answer
	Removed      State = "removed"      // in the output of rm alone
)

// Status is what is true of a workload now. Its JSON form is what list and
// status print with -o json, and what an owner sends on its control socket.
type Status struct {
	Name      string            `json:"name"`
	Group     string            `json:"group"`
	State     State             `json:"state"`
	Reason    string            `json:"reason,omitempty"`
	URL       string            `json:"url"`
	Port      int               `json:"port"`
	Transport Transport         `json:"transport"`
	ProxyMode string            `json:"proxyMode"`
	Source    string            `json:"source"`
	Image     string            `json:"image,omitempty"`
	Version   string            `json:"version,omitempty"` // of a package, as resolved
	Digest    string            `json:"digest,omitempty"`  // of an image at its registry
	Remote    bool              `json:"remote,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Created   time.Time         `json:"created"`
	Started   *time.Time        `json:"started,omitempty"`
	Sessions  int               `json:"sessions"`
	// Processes is set for a stdio server that has an owner.
	Processes *Processes `json:"processes,omitempty"`
	Restarts  int        `json:"restarts,omitempty"`
	// Server is the name and version that the server reports.
	Server string `json:"server,omitempty"`
	// Speaks is set while the workload has an owner that answers.
	Speaks *Speaks `json:"speaks,omitempty"`
	// Exposed is an address at which programs on this machine reach the server
	// past its gateway; "" when none was found.
	Exposed string `json:"exposed,omitempty"`
	// Issuer is who issues the access tokens that the gateway requires of clients: its
	// URL, or that of the introspection endpoint; "" without authentication.
	Issuer string `json:"issuer,omitempty"`
	// Cautions are those of the Spec: limits that are not enforced, and a gateway that
	// others can reach. While the workload runs they include what of its tools
	// configuration does not fit the server's tools.
	Cautions []string `json:"cautions,omitempty"`
	// ToolChanges is the number of tools that differ from what is remembered of them.
	ToolChanges int `json:"toolChanges,omitempty"`
	// PID is the owner's process id while there is an owner.
	PID int `json:"pid,omitempty"`
	// Nonce is the owner's; it proves that the response is from the holder of the lock.
	Nonce string `json:"-"`
}

// Processes counts the processes of a stdio server: Running exist, at most Max, and
// Waiting callers need one more.
type Processes struct {
	Running int `json:"running"`
	Max     int `json:"max"`
	Waiting int `json:"waiting"`
}

// Speaks is the protocol versions that a workload's server supports, as its gateway
// determined them last: for each era, when its first client comes.
type Speaks struct {
	// Session and Stateless are the newest version of that era of MCP that server and
	// gateway both support, or "no", or "unknown".
	Session   string `json:"session"`
	Stateless string `json:"stateless"`
	// Translated names the eras, "session" or "stateless", whose clients the gateway
	// serves by translation.
	Translated []string `json:"translated,omitempty"`
}

// Status is the part of a workload's status that follows from its Spec: everything but
// the state.
func (s *Spec) Status() *Status {
	st := &Status{
		Name: s.Name, Group: s.Group, URL: s.URL(), Port: s.Proxy.Port,
		Transport: s.Transport, ProxyMode: s.Proxy.Mode, Source: s.Source.Ref,
		Image: s.Image, Remote: s.Remote != nil, Labels: s.Container.Labels,
		Issuer:   s.Issuer(),
		Cautions: s.Cautions("its permission profile"),
	}
	if s.Resolved != nil {
		st.Version, st.Digest = s.Resolved.Version, s.Resolved.Digest
	}
	return st
}
