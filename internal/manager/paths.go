package manager

import "path/filepath"

// paths are where a store keeps its files.
type paths struct {
	state   string // $XDG_STATE_HOME/thv
	runtime string // where control sockets go
}

// Dir is the directory of a workload.
func (p paths) Dir(name string) string { return filepath.Join(p.state, "workloads", name) }

// ServerLog is the log of a workload's server.
func (p paths) ServerLog(name string) string { return filepath.Join(p.Dir(name), "server.log") }

// ProxyLog is the log of a workload's gateway.
func (p paths) ProxyLog(name string) string { return filepath.Join(p.Dir(name), "proxy.log") }

// AuditLog is the record of requests to a workload (package audit).
func (p paths) AuditLog(name string) string { return filepath.Join(p.Dir(name), "audit.log") }

func (p paths) specPath(name string) string { return filepath.Join(p.Dir(name), "spec.json") }
func (p paths) lastPath(name string) string { return filepath.Join(p.Dir(name), "last.json") }
func (p paths) pinsPath(name string) string { return filepath.Join(p.Dir(name), "tools.json") }
func (p paths) stopPath(name string) string { return filepath.Join(p.Dir(name), "stop") }
func (p paths) runDir() string              { return filepath.Join(p.state, "run") }
func (p paths) lockPath(name string) string { return filepath.Join(p.runDir(), name+".lock") }
func (p paths) infoPath(name string) string { return filepath.Join(p.runDir(), name+".json") }

// maxSocketPath is the shortest limit of the systems we run on (macOS: 104
// bytes with the final NUL).
const maxSocketPath = 103

// socketPath is the path of a workload's control socket: short enough for the operating
// system, and in a directory that only this user can enter.
func (p paths) socketPath(name, nonce string) string {
	if path := filepath.Join(p.runDir(), name+".sock"); len(path) <= maxSocketPath {
		return path
	}
	return filepath.Join(p.runtime, nonce+".sock")
}

// LineDir is where the holder of a workload may keep a socket that its container
// reaches; empty when the operating system has no path for it.
func (p paths) LineDir(name string) string {
	dir := filepath.Join(p.runDir(), name+".line")
	if len(dir)+len("/s") > maxSocketPath {
		return ""
	}
	return dir
}
