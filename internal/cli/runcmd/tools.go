package runcmd

import (
	"errors"
	"strings"

	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// parseTools reads --tools and --tools-override. An empty --tools is an error: it is mostly
// a variable without a value, and a filter without names would show all tools.
func (o *options) parseTools() (workload.Tools, error) {
	t := workload.Tools{Pin: o.pinTools}
	var errs []error
	for _, name := range o.tools {
		t.Filter = append(t.Filter, strings.TrimSpace(name))
	}
	if o.given("tools") && len(t.Filter) == 0 {
		errs = append(errs, errors.New("--tools names no tool; leave it out to show all of them"))
	}
	if o.given("tools-override") {
		var err error
		t.Override, err = runflag.LoadToolsOverride(o.toolsOverride)
		errs = append(errs, err)
	}
	return t, errors.Join(errs...)
}
