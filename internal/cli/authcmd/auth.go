// Package authcmd is `thv auth`: it checks and explains MCPExternalAuthConfig files, offline.
package authcmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/credential/aws"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/runflag"
)

// New is the command for files with MCPExternalAuthConfig resources.
func New(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Check and explain MCPExternalAuthConfig files",
	}
	cmd.AddCommand(newCheck(app), newExplain(app))
	return cmd
}

func newCheck(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Report everything that is wrong with MCPExternalAuthConfig resources",
		Long: `Check reads the MCPExternalAuthConfig resources of a YAML or JSON file and reports
everything that is wrong with them, each fault with its field, or with its line if the
text itself is wrong. It works offline: it sends no request, and reads no secret.`,
		Example: `  thv auth check github.yaml
  thv auth check github.yaml -o json | jq -r '.resources[].type'`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return checkAuth(app, args[0]) },
	}
	base.OutputFlag(cmd, app)
	return cmd
}

// maxAuthFile bounds the file, in bytes.
const maxAuthFile = 4 << 20

// readAuth returns the resources of a file. Its error has every fault, also those of matchers.
func readAuth(file string) ([]*externalauth.Resource, error) {
	content, err := runflag.ReadFile(file, maxAuthFile)
	if err != nil {
		return nil, base.AsUsage(err)
	}
	resources, err := externalauth.Parse(content)
	errs := []error{err}
	for _, r := range resources {
		if r.Spec.AWSSTS == nil {
			continue
		}
		var faults externalauth.Faults
		_, err := aws.Compile(r.Spec.AWSSTS)
		errors.As(err, &faults)
		for _, fault := range faults {
			if len(resources) > 1 {
				errs = append(errs, fmt.Errorf("%s: %w", r.Metadata.Name, fault))
			} else {
				errs = append(errs, fault)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		faults := strings.Split(err.Error(), "\n")
		if len(faults) == 1 {
			return nil, base.AsUsage(fmt.Errorf("%s: %w", file, err))
		}
		return nil, base.AsUsage(fmt.Errorf("%s has %d faults:\n  %s", file, len(faults), strings.Join(faults, "\n  ")))
	}
	return resources, nil
}

func checkAuth(app *base.App, file string) error {
	resources, err := readAuth(file)
	if err != nil {
		return err
	}
	type resource struct {
		Name string            `json:"name"`
		Type externalauth.Type `json:"type"`
	}
	out := struct {
		Valid     bool       `json:"valid"`
		Resources []resource `json:"resources"`
	}{Valid: true}
	for _, r := range resources {
		out.Resources = append(out.Resources, resource{r.Metadata.Name, r.Spec.Type})
	}
	if app.JSON {
		return render.JSON(app.Out, out)
	}
	for _, r := range out.Resources {
		if _, err := fmt.Fprintf(app.Out, "%s is valid: %s\n", r.Name, r.Type); err != nil {
			return err
		}
	}
	return nil
}
