package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// every calls visit for c and all below it.
func every(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		every(sub, visit)
	}
}

// A command line that a help text shows is one that the command takes.
func TestExamplesAreValidCommandLines(t *testing.T) {
	var lines []string
	every(cli.Root(clitest.App(t)), func(c *cobra.Command) {
		if c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion" {
			return // cobra's own
		}
		lines = append(lines, strings.Split(c.Example, "\n")...)
	})
	// A word: quoted, or without spaces; what follows thv until the shell's own signs.
	word := regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
	taken := 0
	for _, line := range lines {
		_, rest, found := strings.Cut(line, "thv ")
		if !found || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		var args []string
		for _, w := range word.FindAllString(rest, -1) {
			if strings.ContainsAny(w[:1], "|>;)") {
				break
			}
			args = append(args, strings.Trim(strings.TrimSuffix(w, ";"), `'"`))
		}
		cmd, rested, err := cli.Root(clitest.App(t)).Find(args)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err = cmd.ParseFlags(rested); err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		// $f stands for a file, and is no fault.
		if err != nil && !strings.Contains(line, "$") {
			t.Errorf("%s: %v", line, err)
		}
		taken++
	}
	if taken < 40 {
		t.Errorf("only %d examples were found", taken)
	}
}

// What one flag means in one command it means in the others.
func TestFlagsOfOneNameHaveOneType(t *testing.T) {
	type meaning struct{ Shorthand, Type string }
	seen := map[string]meaning{}
	every(cli.Root(clitest.App(t)), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if c.Name() == "run" && f.Name == "group" { // the specification gives it no shorthand there
				return
			}
			got := meaning{f.Shorthand, f.Value.Type()}
			if first, ok := seen[f.Name]; ok && first != got {
				t.Errorf("%s: --%s is %+v, elsewhere %+v", c.CommandPath(), f.Name, got, first)
			}
			seen[f.Name] = got
		})
	})
}

func TestUsageErrors_ArgumentCount(t *testing.T) {
	for line, want := range map[string]string{
		"list x":            `Error: thv list takes no arguments; "x" is one; see` + " `thv list --help`\n",
		"mcp call a":        "Error: too few arguments for thv mcp call NAME_OR_URL TOOL; see `thv mcp call --help`\n",
		"group rm":          "Error: too few arguments for thv group rm NAME...; see `thv group rm --help`\n",
		"group create a b":  `Error: "b" is one argument too many for thv group create NAME; see` + " `thv group create --help`\n",
		"stop --all one":    "Error: names, --all and --group exclude each other; see `thv stop --help`\n",
		"config get a b c ": `Error: "b" is one argument too many for thv config get SETTING; see` + " `thv config get --help`\n",
	} {
		if stdout, stderr, code := clitest.Run(t, clitest.App(t), strings.Fields(line)...); code != base.ExitUsage || stdout != "" || stderr != want {
			t.Errorf("%s: exit code %d, %q", line, code, stderr)
		}
	}
}
