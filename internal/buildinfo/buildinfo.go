// Package buildinfo says which build of the programs this is. The linker fills
// it in (see the Makefile).
package buildinfo

import "runtime"

// Set by the linker.
var (
	version   = "dev"
	commit    = "unknown"
	buildDate = "unknown"
)

// Info describes a build.
type Info struct {
	Version   string
	Commit    string
	BuildDate string
	GoVersion string
	Platform  string // linux/amd64
}

// Get describes this one.
func Get() Info {
	return Info{Version: version, Commit: commit, BuildDate: buildDate, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}
