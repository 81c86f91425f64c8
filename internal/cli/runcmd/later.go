package runcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// laterFlag is a flag of the specification whose feature does not exist yet. It is
// declared with its name, type and default, hidden from the help, and refused when it is
// given: a flag is never ignored.
type laterFlag struct {
	name, kind, def, meaning string
	// off is the value that turns the feature off, and is accepted; "" is none.
	off string
}

// laterFlags returns all of them. A change that adds a feature moves its flags from here
// to addFlags.
func laterFlags() []laterFlag {
	return []laterFlag{
		{"image-verification", "string", "warn", "`warn`, `enabled` or `disabled`", "disabled"},
	}
}

// addLaterFlags declares the flags of laterFlags.
func addLaterFlags(flags *pflag.FlagSet) {
	for _, f := range laterFlags() {
		meaning := strings.ReplaceAll(f.meaning, "`", "")
		switch f.kind {
		case "bool":
			flags.Bool(f.name, f.def == "true", meaning)
		case "string":
			flags.String(f.name, f.def, meaning)
		}
		flags.Lookup(f.name).Hidden = true
	}
}

// refuseLaterFlags reports every flag of laterFlags that was given, but for its off value.
func refuseLaterFlags(flags *pflag.FlagSet) []error {
	var errs []error
	for _, f := range laterFlags() {
		given := flags.Lookup(f.name)
		if !given.Changed || f.off != "" && given.Value.String() == f.off {
			continue
		}
		hint := "leave it out"
		if f.off != "" {
			hint += fmt.Sprintf(", or write --%s=%s", f.name, f.off)
		}
		errs = append(errs, fmt.Errorf("--%s is not available in this version of thv; %s", f.name, hint))
	}
	return errs
}
