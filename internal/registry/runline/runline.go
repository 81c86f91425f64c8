// Package runline makes the command line that runs an entry of a registry, for the
// registry's page and for thv itself. What a person must fill in is in angle
// brackets. The line runs as printed once these are replaced.
//
// The entry's texts were written by others: a line is quoted for a shell, and there
// is none where that would not make it safe to paste.
package runline

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// Command is the line that runs a server, with notes for the person.
type Command struct {
	Line  string
	Notes []string
	// Reason is why there is no Line.
	Reason string
}

// runnable are the registry types that thv can run, as package source has it.
var runnable = [...]string{"npm", "pypi", "oci", "go"}

// Chosen is what thv runs of an entry without flags: the first package of a type
// that it runs, because that can be isolated, or else the first remote.
func Chosen(e *registry.Entry) (*registry.Package, *registry.Remote) {
	for i := range e.Packages {
		if slices.Contains(runnable[:], e.Packages[i].RegistryType) {
			return &e.Packages[i], nil
		}
	}
	if len(e.Remotes) > 0 {
		return nil, &e.Remotes[0]
	}
	return nil, nil
}

// line is a command line being put together.
type line struct {
	flags, args []string
	secrets     []string
	notes       []string
}

// For makes the line that runs an entry by its name (with @version for
// one that is not the latest). What is required is in it, with angle brackets
// where a person puts a value; secrets are not, since thv prompts for them.
func For(e *registry.Entry, name string) Command {
	var l line
	p, m := Chosen(e)
	switch {
	case p != nil:
		l.usePackage(p)
	case m != nil:
		if open := openVariables(m.URL, m.Variables); len(open) > 0 {
			// thv needs the whole URL then.
			name = fillIn(m.URL, m.Variables)
			l.note("Its address depends on " + strings.Join(open, " and ") + ": put it in the place of the angle brackets.")
		}
		for _, kv := range m.Headers {
			l.take(strings.ToUpper(strings.ReplaceAll(kv.Name, "-", "_")), kv.Input, false)
		}
	case len(e.Packages) > 0:
		return Command{Reason: "It comes in a form that thv cannot run. thv runs npm, PyPI, Go and container packages, and remote servers."}
	default:
		return Command{Reason: "Its entry has neither a way to run it nor a URL."}
	}
	words := append([]string{"thv", "run", name}, l.flags...)
	if len(l.args) > 0 {
		words = append(append(words, "--"), l.args...)
	}
	if len(l.secrets) > 0 {
		names := strings.Join(l.secrets, ", ")
		l.note("thv asks for " + names + " without showing it. In a script, put it in the environment and add -e " + strings.Join(l.secrets, " -e ") + ".")
	}
	text, ok := Quote(words)
	if !ok {
		return Command{Reason: "Its entry holds characters that would not be safe to paste."}
	}
	return Command{Line: text, Notes: l.notes}
}

func (l *line) note(text string) { l.notes = append(l.notes, Clean(text, maxProse)) }

func (l *line) usePackage(p *registry.Package) {
	for _, kv := range p.Environment {
		l.take(kv.Name, kv.Input, true)
	}
	if p.RegistryType == "oci" {
		l.useRuntime(p.RuntimeArguments)
	}
	l.usePermissions(p.Hints.Permissions)
	var args []string
	complete := true
	for _, a := range p.PackageArguments {
		if a.Format == "filepath" && a.IsRequired && a.Value == "" && a.Default == "" {
			a.Default = l.folder(a)
			complete = false // it replaces the entry's
		}
		words, whole := argument(a)
		args = append(args, words...)
		complete = complete && whole
	}
	if !complete { // those given replace all of the entry's
		l.args = args
	}
}

// folder mounts a file or folder of the person's for an argument, and returns where
// the server finds it.
func (l *line) folder(a registry.Argument) string {
	name := plainName.ReplaceAllString(strings.Trim(argumentHint(a), "<>"), "-")
	inside := path.Join("/data", name)
	l.flags = append(l.flags, "-v", "<path>:"+inside)
	l.note("Put the path of your " + name + " in the place of <path>.")
	return inside
}

// plainName are the characters that a name in a path is not made of.
var plainName = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// variableName is a name that -e takes.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`)

// take adds a variable that is required and has no value yet. mounts: its file can
// be mounted.
func (l *line) take(name string, in registry.Input, mounts bool) {
	value, required, isSecret := needed(in)
	if !required {
		return
	}
	switch {
	case !variableName.MatchString(name):
		l.note("It needs the variable " + Clean(name, maxLabel) + ", whose name cannot be written here.")
	case in.Format == "filepath" && mounts && !isSecret:
		inside := path.Join("/data", strings.ToLower(name))
		l.flags = append(l.flags, "-v", "<path>:"+inside, "-e", name+"="+inside)
		l.note("Put the path of the file for " + name + " in the place of <path>.")
	case isSecret || secret.Looks(name, ""):
		if !slices.Contains(l.secrets, name) {
			l.secrets = append(l.secrets, name)
		}
	default:
		l.flags = append(l.flags, "-e", name+"="+value)
	}
}

// needed is what a person must fill in for an input, if anything.
func needed(in registry.Input) (value string, required, isSecret bool) {
	if in.Value == "" {
		return hint(in), in.IsRequired && in.Default == "", in.IsSecret
	}
	required, isSecret = in.IsRequired, in.IsSecret
	open := openVariables(in.Value, in.Variables)
	for _, name := range open {
		required = required || in.Variables[name].IsRequired
		isSecret = isSecret || in.Variables[name].IsSecret
	}
	return fillIn(in.Value, in.Variables), required && len(open) > 0, isSecret
}

// hint is the placeholder of a value that a person gives.
func hint(in registry.Input) string {
	switch {
	case len(in.Choices) > 0:
		choices, _ := Some(in.Choices, 8)
		return "<" + Clean(strings.Join(choices, "|"), maxLabel) + ">"
	case in.Placeholder != "":
		return "<" + Clean(in.Placeholder, 80) + ">"
	}
	return "<value>"
}

// variable is a {name} in a value or URL (server.json).
var variable = regexp.MustCompile(`\{([^{}\s]+)\}`)

// openVariables are those in a template that are declared and have no value.
func openVariables(template string, declared map[string]registry.Input) []string {
	var open []string
	for _, match := range variable.FindAllStringSubmatch(template, -1) {
		v, ok := declared[match[1]]
		if ok && v.Value == "" && v.Default == "" && !slices.Contains(open, match[1]) {
			open = append(open, match[1])
		}
	}
	return open
}

// fillIn puts values in the place of variables, and what to fill in where there
// are none.
func fillIn(template string, declared map[string]registry.Input) string {
	return variable.ReplaceAllStringFunc(template, func(match string) string {
		name := strings.Trim(match, "{}")
		v, ok := declared[name]
		switch {
		case !ok: // braces may be part of a value
			return match
		case v.Value != "":
			return v.Value
		case v.Default != "":
			return v.Default
		}
		return "<" + Clean(name, 80) + ">"
	})
}

// argument is what one argument comes to, and whether nothing of it is left to
// the person.
func argument(a registry.Argument) (words []string, whole bool) {
	open := openVariables(a.Value, a.Variables)
	required := a.IsRequired
	for _, name := range open {
		required = required || a.Variables[name].IsRequired
	}
	value := a.Default
	if a.Value != "" {
		value = fillIn(a.Value, a.Variables)
	}
	if len(open) > 0 && !required {
		return nil, true
	}
	whole = len(open) == 0
	takesValue := a.ValueHint != "" || a.Placeholder != "" || a.Format != "" || len(a.Choices) > 0
	named := a.Type == "named"
	switch {
	case named && a.Format == "boolean":
		if value == "true" || value == "" && required {
			return []string{a.Name}, true
		}
		return nil, true
	case value == "" && !required:
		return nil, true
	case value == "" && named && !takesValue:
		return []string{a.Name}, true
	case value == "":
		value, whole = argumentHint(a), false
	}
	switch {
	case !named:
		return []string{value}, whole
	case strings.HasSuffix(a.Name, "="):
		return []string{a.Name + value}, whole
	}
	return []string{a.Name, value}, whole
}

func argumentHint(a registry.Argument) string {
	for _, text := range []string{a.ValueHint, a.Placeholder, strings.TrimLeft(a.Name, "-"), a.Description} {
		if text = Clean(text, 80); text != "" {
			return "<" + text + ">"
		}
	}
	return "<value>"
}

// plainWord needs no quoting in any shell that people paste into.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-][A-Za-z0-9_./:@%+,=-]*$`)

// quote makes one word of a POSIX shell of text. ok is false when the text holds
// what is not safe to paste whatever the quotes: a terminal acts on control
// characters before a shell does, and invisible ones are not noticed.
func quote(text string) (word string, ok bool) {
	if !Legible(text) {
		return "", false
	}
	if plainWord.MatchString(text) {
		return text, true
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", true
}

// maxLine bounds a command, in bytes.
const maxLine = 4 << 10

// Quote makes a command line of words, each quoted for a POSIX shell. ok is false
// when a word or the line is not safe to paste.
func Quote(words []string) (string, bool) {
	quoted := make([]string, len(words))
	for i, w := range words {
		var ok bool
		if quoted[i], ok = quote(w); !ok {
			return "", false
		}
	}
	text := strings.Join(quoted, " ")
	return text, len(text) <= maxLine
}

// usePermissions adds the flags without which thv rejects what an entry requests:
// thv mounts no folder and joins no network because of an entry alone.
func (l *line) usePermissions(raw json.RawMessage) {
	var p struct {
		Read, Write []string
		Privileged  bool
		Network     *struct{ Mode string }
	}
	if len(raw) == 0 || json.Unmarshal(raw, &p) != nil {
		return
	}
	for _, mount := range p.Read {
		l.mount(mount, ":ro")
	}
	for _, mount := range p.Write {
		l.mount(mount, "")
	}
	if p.Network != nil {
		l.network(p.Network.Mode)
	}
	if p.Privileged {
		l.privileged()
	}
}

func (l *line) mount(text, mode string) {
	inside := text
	if _, target, ok := strings.Cut(text, ":"); ok && strings.HasPrefix(target, "/") {
		inside, _, _ = strings.Cut(target, ":")
	}
	l.flags = append(l.flags, "-v", "<folder>:"+inside+mode)
	l.note("It works on a folder that you choose: put it in the place of <folder>.")
}

func (l *line) network(name string) {
	switch name {
	case "", "bridge", "default", "none":
		return
	}
	l.flags = append(l.flags, "--network", name)
	l.note("It joins the network " + name + ", beyond its own. Remove the flag to prevent that.")
}

func (l *line) privileged() {
	l.flags = append(l.flags, "--permission-profile", "<file>")
	l.note(`It needs a privileged container. If you trust it with your machine, give a file that holds {"privileged": true}.`)
}

// useRuntime reads the flags of docker run that an entry gives for its image:
// those that open something are the person's to give.
func (l *line) useRuntime(args []registry.Argument) {
	for _, a := range args {
		if a.Type != "named" {
			continue
		}
		text := a.Value
		if text == "" {
			text = a.Default
		}
		switch a.Name {
		case "-e", "--env":
			name, template, found := strings.Cut(text, "=")
			in := a.Input
			in.Value, in.Default = template, ""
			if found {
				l.take(name, in, true)
			}
		case "-v", "--volume":
			l.mount(text, "")
		case "--mount":
			for part := range strings.SplitSeq(text, ",") {
				if key, target, _ := strings.Cut(part, "="); key == "target" || key == "dst" || key == "destination" {
					l.mount(target, "")
				}
			}
		case "--network", "--net":
			l.network(text)
		case "--privileged":
			l.privileged()
		}
	}
}
