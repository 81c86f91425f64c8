package imagecmd

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/build"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/upgrade"
)

type pruneOptions struct {
	app         *base.App
	dryRun, yes bool
}

// prunedImage is an image that prune removes, as -o json shows it.
type prunedImage struct {
	Image   string `json:"image"`
	Package string `json:"package"`
	Version string `json:"version"`
	Bytes   int64  `json:"bytes"`
}

// Prune is the command prune.
func Prune(app *base.App) *cobra.Command {
	o := &pruneOptions{app: app}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove images that were built here and that no workload needs",
		Long: `Prune removes the images that run and build made of packages and that no workload runs
or goes back to (thv upgrade --rollback), and what builds left that were killed. Images
that were pulled, and images with a tag of yours (thv build --tag), stay. On a terminal it
prompts first; elsewhere it needs --yes or --dry-run.

An image that is needed again is built again. The size is what each image has beyond its
base image; layers that several share count for each.`,
		Example: `  thv prune --dry-run
  thv prune --yes -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPrune(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Show what would be removed, and remove nothing")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not prompt")
	base.OutputFlag(cmd, app)
	return cmd
}

func runPrune(ctx context.Context, o *pruneOptions) error {
	app := o.app
	store, err := app.Store()
	if err != nil {
		return err
	}
	builder, err := app.Builder(ctx)
	if err != nil {
		return err
	}
	if !o.dryRun {
		builder.Sweep(ctx)
	}
	unused, err := upgrade.Unused(ctx, store, builder)
	if err != nil {
		return err
	}
	if o.dryRun || len(unused) == 0 {
		return o.show(unused, "would be removed")
	}
	if !o.yes {
		if ok, err := o.confirm(ctx, unused); err != nil || !ok {
			return err
		}
	}
	removed, err := upgrade.Remove(ctx, builder, unused)
	if showErr := o.show(removed, "removed"); err == nil {
		err = showErr
	}
	return err
}

// confirm prompts on a terminal.
func (o *pruneOptions) confirm(ctx context.Context, images []build.Built) (bool, error) {
	tty, ok := o.app.In.(*os.File)
	if !ok || !render.IsTerminal(o.app.In) || !render.IsTerminal(o.app.Err) {
		return false, base.Usage("%s would be removed; add --yes, or --dry-run to see which", render.Counted(len(images), "image"))
	}
	for _, i := range images {
		fmt.Fprintln(o.app.Err, strings.Join(i.Tags, ", "))
	}
	return render.NewInput(tty).Confirm(ctx, o.app.Err, fmt.Sprintf("Remove %s, %s?", render.Counted(len(images), "image"), bytesText(total(images))))
}

func (o *pruneOptions) show(images []build.Built, what string) error {
	if o.app.JSON {
		list := []prunedImage{}
		for _, i := range images {
			name := i.ID
			if len(i.Tags) > 0 {
				name = i.Tags[0]
			}
			list = append(list, prunedImage{Image: name, Package: i.Package, Version: i.Version, Bytes: i.Size})
		}
		return render.JSON(o.app.Out, map[string]any{"images": list, "bytes": total(images), "removed": !o.dryRun})
	}
	rows := make([][]string, len(images))
	for i, image := range images {
		rows[i] = []string{image.Package, image.Version, bytesText(image.Size), strings.Join(image.Tags, ", ")}
	}
	if len(rows) > 0 {
		if err := render.Table(o.app.Out, []string{"PACKAGE", "VERSION", "SIZE", "IMAGE"}, rows, nil, 0); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.app.Err, "%s %s, %s\n", render.Counted(len(images), "image"), what, bytesText(total(images)))
	return nil
}

func total(images []build.Built) (sum int64) {
	for _, i := range images {
		sum += i.Size
	}
	return sum
}

// bytesText is a number of bytes in megabytes.
func bytesText(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
