package runcmd_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// The specification's table of flags is the contract.
func TestRunHasTheFlagsOfTheSpecification(t *testing.T) {
	content, err := os.ReadFile("testdata/run-flags.tsv")
	if err != nil {
		t.Fatal(err)
	}
	cmd := runCommand(t)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")[1:]
	if len(lines) != 85 {
		t.Fatalf("the table has %d flags", len(lines))
	}
	types := map[string][]string{
		"string": {"string"}, "bool": {"bool"}, "int": {"int"}, "float": {"float64"}, "duration": {"duration"},
		"string[]": {"stringArray", "stringSlice"}, "strings": {"stringSlice"},
	}
	// Values of these may hold commas; the others are comma-separated too.
	whole := []string{"env", "secret", "label", "volume", "publish", "webhook-config", "remote-forward-headers", "remote-forward-headers-secret", "otel-headers"}
	// Defaults that the table gives in words.
	words := map[string]string{
		"auto-generated from image": "", "registry's profile, or `network` if the registry gives none": "", "2h when zero or unset": "0s",
		"OIDC: openid,profile,email": "[]", "replaces Authorization header": "", "<tool>-<workload-name>": "", "openid": "[openid]",
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		name, short, kind, def := strings.TrimPrefix(f[1], "--"), strings.TrimPrefix(f[2], "-"), f[3], f[4]
		flag := cmd.Flags().Lookup(name)
		if flag == nil {
			t.Errorf("--%s is missing", name)
			continue
		}
		if flag.Shorthand != short {
			t.Errorf("--%s has the short form %q, want %q", name, flag.Shorthand, short)
		}
		if !strings.Contains(strings.Join(types[kind], " "), flag.Value.Type()) {
			t.Errorf("--%s is of type %s, want %s", name, flag.Value.Type(), kind)
		}
		want, inWords := words[def]
		switch {
		case inWords:
		case def == "-" && (kind == "string[]" || kind == "strings"):
			want = "[]"
		case def == "-" && kind == "int":
			want = "0"
		case def == "-":
		default:
			want = def
		}
		if flag.DefValue != want {
			t.Errorf("--%s has the default %q, want %q", name, flag.DefValue, want)
		}
		if kind == "string[]" && slices.Contains(whole, name) != (flag.Value.Type() == "stringArray") {
			t.Errorf("--%s is a %s", name, flag.Value.Type())
		}
		if meaning := strings.ReplaceAll(f[5], "`", ""); !strings.HasPrefix(flag.Usage, meaning) {
			t.Errorf("--%s is described by %q, want %q", name, flag.Usage, meaning)
		}
	}
	if testFlag := cli.Root(clitest.App(t)).PersistentFlags().Lookup("debug"); testFlag == nil {
		t.Error("--debug is missing")
	}
}

// runCommand returns the command run.
func runCommand(t *testing.T) *cobra.Command {
	t.Helper()
	cmd, _, err := cli.Root(clitest.App(t)).Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestHelpShowsEveryFlag(t *testing.T) {
	help, stderr, code := clitest.Run(t, clitest.App(t), "run", "--help")
	if code != base.ExitOK || stderr != "" {
		t.Fatalf("exit code %d: %s%s", code, help, stderr)
	}
	runCommand(t).Flags().VisitAll(func(f *pflag.Flag) {
		line := "      --" + f.Name + " "
		if f.Shorthand != "" {
			line = "  -" + f.Shorthand + ", --" + f.Name + " "
		}
		if f.Hidden || !strings.Contains(help, line) {
			t.Errorf("--%s is hidden: %t, and the help is:\n%s", f.Name, f.Hidden, help)
		}
	})
	for _, want := range []string{"thv run npx://", "Global Flags:", "--debug"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}
