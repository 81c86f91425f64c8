package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/container"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// plan is what --dry-run shows. It has names of secrets, and no values.
type plan struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Remote  string `json:"remote,omitempty"` // URL
	Image   string `json:"image,omitempty"`
	ImageID string `json:"imageId,omitempty"` // of an image that the engine has
	Digest  string `json:"digest,omitempty"`  // of such an image at its registry
	// Verification is what of the image's signatures is checked before it runs.
	Verification string             `json:"verification,omitempty"`
	Package      string             `json:"package,omitempty"` // that an image is built from
	Args         []string           `json:"args,omitempty"`
	Transport    workload.Transport `json:"transport,omitempty"`
	Address      string             `json:"address,omitempty"` // of the gateway
	Issuer       string             `json:"issuer,omitempty"`
	Env          []string           `json:"env,omitempty"`     // names
	Secrets      []string           `json:"secrets,omitempty"` // names of variables that are secrets
	Mounts       []workload.Mount   `json:"mounts,omitempty"`
	Hidden       []hiddenPath       `json:"hidden,omitempty"`
	Ports        []workload.Port    `json:"ports,omitempty"`
	Network      []plannedRule      `json:"network,omitempty"`
	Limits       []string           `json:"limits,omitempty"`
	Asked        []string           `json:"asked,omitempty"` // what run would prompt for
	// Requested is what the registry's entry requests and a registry may not decide.
	Requested []string `json:"requested,omitempty"`
	Notices   []string `json:"notices,omitempty"`
}

type hiddenPath struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
}

type plannedRule struct {
	Text     string `json:"text"`
	Enforced bool   `json:"enforced"`
}

// dryRun prints the plan. Nothing is stored, downloaded or started.
func dryRun(ctx context.Context, o *options) error {
	d, err := read(ctx, o)
	if err != nil {
		return err
	}
	p, err := newPlan(ctx, o, d)
	if err != nil {
		return err
	}
	if o.app.JSON {
		return render.JSON(o.app.Out, p)
	}
	for _, line := range p.lines() {
		fmt.Fprintln(o.app.Out, plaintext.Line(line))
	}
	return nil
}

func newPlan(ctx context.Context, o *options, d *draft) (*plan, error) {
	s := d.spec
	p := &plan{
		Name: s.Name, Source: s.Source.Ref, Image: s.Image, Args: s.Args, Transport: s.Transport, Issuer: s.Issuer(),
		Env: slices.Sorted(maps.Keys(s.Env)), Secrets: slices.Sorted(maps.Keys(s.SecretEnv)),
		Mounts: s.Container.Mounts, Ports: s.Container.Publish, Asked: d.asked, Requested: o.requested,
	}
	if s.Proxy.Port != 0 {
		p.Address = net.JoinHostPort(s.Proxy.Host, strconv.Itoa(s.Proxy.Port))
	}
	d.notices = append(d.notices, s.Cautions(d.origin)...)
	if s.Remote != nil {
		p.Remote, p.Notices = s.Remote.URL, d.notices
		return p, nil
	}
	p.Limits = limits(&s.Container)
	found, err := resolveOverlays(ctx, o, d)
	if err != nil {
		return nil, err
	}
	for _, h := range found.Hidden {
		p.Hidden = append(p.Hidden, hiddenPath{h.Path, h.Rule})
	}
	for _, rule := range s.NetworkRules() {
		p.Network = append(p.Network, plannedRule(rule))
	}
	if s.Package != nil {
		p.Package = s.Source.Ref
	} else {
		engine, err := o.app.Engine(ctx)
		if err != nil {
			return nil, err
		}
		image, err := engine.Image(ctx, s.Image)
		if err != nil && !errors.Is(err, container.ErrNotFound) {
			return nil, err
		}
		p.ImageID, p.Digest = image.ID, workload.DigestFor(s.Image, image.Digests)
	}
	if p.Verification, err = o.app.PlannedVerification(s); err != nil {
		return nil, err
	}
	p.Notices = d.notices
	return p, nil
}

// limits are those of a container, for a person.
func limits(c *workload.Container) []string {
	all := []string{
		workload.Bytes(cmp.Or(c.Memory, container.DefaultMemory)) + " of memory",
		strconv.FormatInt(cmp.Or(c.PIDsLimit, container.DefaultPids), 10) + " processes and threads",
	}
	if c.CPUs > 0 {
		all = append(all, strconv.FormatFloat(c.CPUs, 'g', -1, 64)+" processors")
	}
	if disk := c.Disk(); disk > 0 {
		all = append(all, workload.Bytes(disk)+" of disk, beside its mounts")
	}
	return all
}

// lines are the plan for a person.
func (p *plan) lines() []string {
	var lines []string
	add := func(what, format string, args ...any) {
		lines = append(lines, what+": "+fmt.Sprintf(format, args...))
	}
	add("Name", "%s", p.Name)
	switch {
	case p.Remote != "":
		add("Remote", "%s", p.Remote)
	case p.Package != "":
		add("Package", "%s (its image is built if it is not there)", p.Package)
	case p.Digest != "":
		add("Image", "%s (%s)", p.Image, p.Digest)
	case p.ImageID != "":
		add("Image", "%s (%s)", p.Image, p.ImageID)
	default:
		add("Image", "%s (not on this machine; it is pulled)", p.Image)
	}
	if p.Verification != "" {
		add("Verification", "%s", p.Verification)
	}
	if len(p.Args) > 0 {
		add("Arguments", "%s", strings.Join(p.Args, " "))
	}
	unknown := "that of the image"
	if p.Remote != "" {
		unknown = "detected at the server"
	}
	add("Transport", "%s", cmp.Or(string(p.Transport), unknown))
	add("Address", "%s", cmp.Or(p.Address, "a free port of this machine"))
	if p.Issuer != "" {
		add("Tokens of", "%s", p.Issuer)
	}
	for _, name := range p.Env {
		add("Variable", "%s", name)
	}
	for _, name := range p.Secrets {
		add("Secret", "%s", name)
	}
	for _, name := range p.Asked {
		add("Missing", "%s; run prompts for it, or add -e %s=...", name, name)
	}
	for _, what := range p.Requested {
		add("Requested", "%s, by the registry's entry; run prompts for your approval, and is refused without a terminal", what)
	}
	for _, m := range p.Mounts {
		access := "read and write"
		if m.ReadOnly {
			access = "read only"
		}
		add("Mount", "%s at %s (%s)", m.Host, m.Container, access)
	}
	for _, h := range p.Hidden {
		add("Hidden", "%s (%s)", h.Path, h.Rule)
	}
	for _, port := range p.Ports {
		add("Port", "%s", port)
	}
	for _, rule := range p.Network {
		if rule.Enforced {
			add("Network", "%s", rule.Text)
		} else {
			add("Network", "%s; requested, not enforced", rule.Text)
		}
	}
	for _, limit := range p.Limits {
		add("Limit", "%s", limit)
	}
	for _, n := range p.Notices {
		add("Note", "%s", n)
	}
	return lines
}
